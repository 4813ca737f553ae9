"""An object store that loses requests and replies is still one where each name is published once."""

import sys
import threading

import numpy as np
import pytest
from blake3 import blake3

from storage.errors import CorruptBlob, Mistake, NotARun
from storage.remote.remote import (
    Remote,
    RemoteFailed,
    RemoteMissing,
    check_url,
    fetch_blob,
    holds_run,
    is_url,
    object_name,
)
from tests.storage.object_store import BUCKET, Fault, clean_proxy, from_seed, shared_server  # noqa: F401  # fixtures


@pytest.fixture(params=["file", "s3"])
def url(request, tmp_path):
    """An empty remote of each kind."""
    if request.param == "file":
        return f"file://{tmp_path}/remote"
    request.getfixturevalue("proxy")
    return f"s3://{BUCKET}/{tmp_path.name}"


def make(url, **options):
    return Remote(url, make=True, **options)


@pytest.mark.slow
def test_objects_are_written_listed_and_read_by_name(url):
    remote = make(url)
    assert remote.get("manifests/a%2Fb@1.json") is None
    assert remote.size("manifests/a%2Fb@1.json") is None
    assert remote.list("manifests") == {}
    remote.put("manifests/a%2Fb@1.json", b"one")
    remote.put("manifests/a%2Fb@1.json", b"three")
    remote.put("manifests/empty", b"")
    remote.put("manifests2/other", b"x")
    assert remote.get("manifests/a%2Fb@1.json") == b"three"
    assert remote.get("manifests/empty") == b""
    assert remote.list("manifests") == {"manifests/a%2Fb@1.json": 5, "manifests/empty": 0}
    remote.delete("manifests/empty")
    remote.delete("manifests/empty")
    assert remote.list("manifests") == {"manifests/a%2Fb@1.json": 5}


@pytest.mark.slow
def test_a_name_is_created_once_and_the_same_bytes_again_are_no_conflict(url):
    remote = make(url)
    assert remote.create("ledger/x", b"mine")
    assert remote.create("ledger/x", b"mine")
    assert not remote.create("ledger/x", b"yours")
    assert remote.get("ledger/x") == b"mine"


@pytest.mark.slow
def test_a_large_file_goes_and_comes_in_pieces(url, tmp_path):
    data = np.random.default_rng(0).bytes(12_000_000)
    path = tmp_path / "large"
    path.write_bytes(data)
    remote, blob_hash = make(url), blake3(data).hexdigest()
    remote.put(object_name(blob_hash), path)
    pieces = []
    fetch_blob(url, blob_hash, pieces.append)
    assert b"".join(pieces) == data
    assert max(map(len, pieces)) <= 5_000_000


def test_a_blob_with_other_bytes_and_one_that_is_not_there_are_told(url):
    wrong = blake3(b"right").hexdigest()
    with pytest.raises(RemoteMissing, match="is not there"):
        make(url).fetch(object_name(wrong), wrong, lambda piece: None)
    make(url).put(object_name(wrong), b"wrong")
    with pytest.raises(CorruptBlob, match=f"expected {wrong}"):
        fetch_blob(url, wrong, lambda piece: None)


def test_a_hash_that_is_a_path_is_refused_before_anything_is_asked_for(url):
    with pytest.raises(CorruptBlob, match="64 hexadecimal digits"):
        fetch_blob(url, "../../etc/passwd", lambda piece: None)


@pytest.mark.slow
def test_every_kind_of_fault_is_outlived(proxy):
    remote = Remote(f"s3://{BUCKET}/outlived", timeout_seconds=0.4)
    proxy.late_seconds = 0.6
    for fault in Fault:
        proxy.fault = strikes(fault, times=1)
        assert remote.create(f"ledger/{fault.name}", b"mine"), fault
        proxy.fault = strikes(fault, times=1)
        remote.put(f"learners/{fault.name}", b"mine")
        proxy.fault = strikes(fault, times=1)
        assert remote.get(f"ledger/{fault.name}") == b"mine"
        proxy.fault = strikes(fault, times=1)
        assert f"ledger/{fault.name}" in remote.list("ledger")


@pytest.mark.slow
def test_a_store_that_stays_away_is_one_sentence_after_a_bounded_time(proxy):
    proxy.fault = lambda method, path: Fault.BUSY
    with pytest.raises(RemoteFailed, match=r"^s3://leagues/away: creating ledger/x failed: .*503") as told:
        Remote("s3://leagues/away", timeout_seconds=0.5).create("ledger/x", b"mine")
    assert "\n" not in str(told.value)
    with pytest.raises(RemoteFailed) as again:
        Remote("s3://leagues/away", timeout_seconds=0.5).create("ledger/x", b"mine")
    assert str(again.value) == str(told.value), "what is told once must read the same"
    proxy.fault = lambda method, path: Fault.NONE
    assert Remote("s3://leagues/away").get("ledger/x") is None


def test_a_bucket_that_is_not_there_is_one_sentence(proxy):
    with pytest.raises(RemoteFailed, match=r"^s3://nowhere/x: writing FORMAT failed: "):
        Remote("s3://nowhere/x").put("FORMAT", b"1")


@pytest.mark.parametrize(
    "url",
    ["s4://b/c", "s3://", "file://host/folder", "file:///", "gs:///x", "s3://b/c?d=e", "https://x.org/y"],
)
def test_a_url_that_names_no_remote_is_refused_with_those_that_do(url):
    with pytest.raises(Mistake, match="expected s3://bucket/prefix, gs://bucket/prefix or file:///folder"):
        check_url(url)


def test_without_the_package_one_sentence_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "obstore", None)
    with pytest.raises(Mistake, match=r"the package obstore is missing; pip install '\.\[remote\]'"):
        Remote(f"file://{tmp_path}")


def test_urls_are_told_from_folders():
    assert is_url("s3://bucket/x")
    assert is_url("file:///tmp/x")
    assert not is_url("runs/main:0")
    for url in ("s3://bucket", "gs://bucket/a/b", "file:///tmp/remote"):
        check_url(url)


def test_a_folder_that_is_not_there_holds_no_run_and_is_not_made_by_looking(tmp_path):
    url = f"file://{tmp_path}/not%20there"
    assert not holds_run(url)
    with pytest.raises(NotARun, match="no such folder"):
        Remote(url)
    assert list(tmp_path.iterdir()) == []
    Remote(url, make=True).put("config.yaml", b"env: {}")
    assert holds_run(url)
    assert (tmp_path / "not there" / "config.yaml").exists()


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1))
def test_of_racing_publishers_one_wins_others_are_told_readers_see_all_or_nothing(request, url, seed):
    """16 publish a manifest of their own under one name, each behind its blob, through a store that
    answers 500 and 503, times out, and loses requests and replies."""
    if url.startswith("s3"):
        proxy = request.getfixturevalue("proxy")
        proxy.late_seconds = 0.6
        proxy.fault = from_seed(seed, rate=0.25)
    names = [f"manifests/main@{n}.json" for n in range(3)]
    results = {name: [] for name in names}
    seen, over, failures = [], threading.Event(), []
    make(url)

    def publish(number):
        remote = Remote(url, timeout_seconds=0.4)
        for name in names:
            blob = np.random.default_rng([seed, number]).bytes(20_000)
            digest = blake3(blob).hexdigest()
            outcome = until_done(lambda d=digest, b=blob: remote.put(object_name(d), b))
            outcome = until_done(lambda n=name, d=digest: remote.create(n, d.encode()))
            results[name].append((outcome, digest))

    def read():
        remote = Remote(url, timeout_seconds=0.4)
        while not over.is_set():
            for name in names:
                manifest = until_done(lambda n=name: remote.get(n))
                if manifest is not None:
                    digest = manifest.decode()
                    blob = until_done(lambda d=digest: remote.get(object_name(d)))
                    seen.append((name, digest))
                    if blob is None or blake3(blob).hexdigest() != digest:
                        failures.append((name, digest))

    publishers = [threading.Thread(target=publish, args=(number,)) for number in range(16)]
    reader = threading.Thread(target=read)
    for thread in (reader, *publishers):
        thread.start()
    for thread in publishers:
        thread.join()
    over.set()
    reader.join()
    assert failures == []
    for name in names:
        winners = [digest for won, digest in results[name] if won]
        assert len(results[name]) == 16
        assert len(winners) == 1, name
        assert {digest for seen_name, digest in seen if seen_name == name} <= set(winners)
        if url.startswith("s3"):
            proxy.fault = lambda method, path: Fault.NONE
        assert Remote(url).get(name) == winners[0].encode()


def until_done(call):
    """What a publisher does whose request failed for longer than a request is tried."""
    while True:
        try:
            return call()
        except RemoteFailed:
            continue


def strikes(fault, times):
    """The first `times` requests meet `fault`."""
    left = [times]

    def choose(method, path):
        left[0] -= 1
        return fault if left[0] >= 0 else Fault.NONE

    return choose
