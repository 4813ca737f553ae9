"""Blobs are verified once, fetched once, held once per node; what is leased stays; budgets hold."""

import contextlib
import fcntl
import multiprocessing
import os
import random
import threading
import time

import pytest
import torch

from storage.cache.node_cache import NodeCache
from storage.errors import CorruptBlob, Mistake
from storage.layout import blob_path
from storage.snapshots import blobs
from storage.snapshots.blobs import encode, hash_of, publish
from tests.steps import flip_bit

torch.set_num_threads(1)


@pytest.fixture
def cache(tmp_path):
    return NodeCache(tmp_path / "cache", 100_000)


@pytest.fixture
def hashed(monkeypatch):
    """The files that were hashed to verify them, in order."""
    found = []
    verify = blobs.verify
    monkeypatch.setattr(blobs, "verify", lambda path, *rest: (found.append(path), verify(path, *rest))[1])
    return found


def tensors(number, size=100):
    return {"w": torch.full((size,), float(number))}


def published(folder, number, size=100):
    """Hash and file of a blob in a run's folder."""
    blob_hash, _ = publish(folder / "run", tensors(number, size))
    return blob_hash, blob_path(folder / "run", blob_hash)


def remote(number, size=100, pieces=3, calls=None):
    """Hash of a blob that lies elsewhere, and what fetches it."""
    data = encode(tensors(number, size))

    def fetch(write):
        if calls is not None:
            calls.append(number)
        step = -(-len(data) // pieces)
        for start in range(0, len(data), step):
            write(data[start : start + step])

    return hash_of(data), fetch


def disk(cache):
    return cache.info()[0]


def flip(path):
    """One bit of the last byte, nothing else: neither size nor time of change."""
    status = path.stat()
    flip_bit(path)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


# ---------------------------------------------------------------- files of a run


def test_a_blob_of_the_run_is_mapped_where_it_lies_and_copied_nowhere(cache, tmp_path):
    blob_hash, path = published(tmp_path, 1)
    with cache.lease(blob_hash, path) as blob:
        assert blob.path == path
        assert blob.bytes == path.stat().st_size
        assert torch.equal(blob.tensors()["w"], tensors(1)["w"])
    assert (disk(cache).hits, disk(cache).misses, disk(cache).resident) == (1, 0, 0)


def test_a_leased_blob_of_the_run_is_locked_for_whoever_would_remove_it(cache, tmp_path):
    blob_hash, path = published(tmp_path, 1)
    with open(path, "rb") as remover:
        with cache.lease(blob_hash, path), pytest.raises(BlockingIOError):
            fcntl.flock(remover, fcntl.LOCK_EX | fcntl.LOCK_NB)
        fcntl.flock(remover, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_one_process_of_the_node_hashes_a_blob_and_the_others_take_its_word(cache, tmp_path, hashed):
    blob_hash, path = published(tmp_path, 1)
    other = NodeCache(tmp_path / "cache", 100_000)
    hashed.clear()
    for each in (cache, cache, other):
        each.lease(blob_hash, path).close()
    assert hashed == [path]


@pytest.mark.parametrize(
    "change",
    [
        lambda path: path.write_bytes(path.read_bytes() + b"x"),
        lambda path: os.utime(path, ns=(1, 1)),
        lambda path: (path.rename(path.with_suffix(".old")), path.write_bytes(b"another file")),
    ],
    ids=["size", "time", "inode"],
)
def test_a_file_that_was_changed_since_is_hashed_again(cache, tmp_path, hashed, change):
    blob_hash, path = published(tmp_path, 1)
    cache.lease(blob_hash, path).close()
    hashed.clear()
    path.chmod(0o644)
    change(path)
    with contextlib.suppress(CorruptBlob):
        cache.lease(blob_hash, path).close()
    assert hashed == [path]


def test_a_damaged_blob_of_the_run_is_refused_at_every_lease(cache, tmp_path):
    blob_hash, path = published(tmp_path, 1)
    flip(path)
    for _ in range(2):
        with pytest.raises(CorruptBlob, match="restore it from a copy"):
            cache.lease(blob_hash, path)


def test_always_means_at_each_lease_and_never_means_never(tmp_path, hashed):
    blob_hash, path = published(tmp_path, 1)
    hashed.clear()
    always, never = (NodeCache(tmp_path / verify, verify=verify) for verify in ("always", "never"))
    for _ in range(3):
        always.lease(blob_hash, path).close()
    assert hashed == [path] * 3
    flip(path)
    with pytest.raises(CorruptBlob):
        always.lease(blob_hash, path)
    hashed.clear()
    never.lease(blob_hash, path).close()
    assert hashed == []
    assert not (tmp_path / "never").exists()  # nor is a cache folder needed
    with pytest.raises(ValueError, match="verify is 'sometimes', expected admission, always or never"):
        NodeCache(tmp_path, verify="sometimes")


def test_blobs_whose_records_share_a_place_are_hashed_more_often_and_never_mixed_up(
    cache, tmp_path, hashed, monkeypatch
):
    monkeypatch.setattr("storage.cache.node_cache._place", lambda blob_hash: 0)
    first, second = published(tmp_path, 1), published(tmp_path, 2)
    hashed.clear()
    for blob_hash, path in (first, second, second, first):
        cache.lease(blob_hash, path).close()
    assert hashed == [first[1], second[1], first[1]]


def test_a_blob_that_is_nowhere_is_said_to_be_nowhere(cache, tmp_path):
    with pytest.raises(CorruptBlob, match=r"x\.safetensors: the blob is not on this node.*storage\.remote"):
        cache.lease("0" * 64, tmp_path / "x.safetensors")


@pytest.mark.parametrize("name", ["", "../../etc/passwd", "A" * 64, "0" * 63, "0" * 64 + "\n"])
def test_what_is_no_hash_never_becomes_a_path(cache, tmp_path, name):
    with pytest.raises(CorruptBlob, match="is no blob's hash, expected 64"):
        cache.lease(name, None, lambda write: write(b""))
    assert not (tmp_path / "cache").exists()


def test_a_cache_folder_of_somebody_else_is_refused_when_it_is_needed(tmp_path):
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache").chmod(0o777)
    blob_hash, path = published(tmp_path, 1)
    with pytest.raises(Mistake, match=r"set storage\.cache_folder to another"):
        NodeCache(tmp_path / "cache").lease(blob_hash, path)


# ---------------------------------------------------------------- copies of what was fetched


def test_a_blob_is_fetched_once_for_all_processes_and_found_from_then_on(cache, tmp_path):
    calls = []
    blob_hash, fetch = remote(1, calls=calls)
    other = NodeCache(tmp_path / "cache", 100_000)
    for each in (cache, other, cache):
        with each.lease(blob_hash, tmp_path / "not here", fetch) as blob:
            assert blob.path.is_relative_to(tmp_path / "cache/objects")
            assert torch.equal(blob.tensors()["w"], tensors(1)["w"])
    assert calls == [1]
    on_disk, fetched = cache.info()
    assert (on_disk.tier, on_disk.hits, on_disk.misses, on_disk.resident) == ("disk", 1, 1, 1)
    assert (fetched.tier, fetched.hits, fetched.misses) == ("remote", 1, 0)
    assert on_disk.bytes == fetched.bytes == blob.bytes > 0


def test_threads_that_want_one_blob_fetch_it_once_and_others_side_by_side(cache):
    calls, together = [], threading.Barrier(2, timeout=60)
    wanted, more = remote(1, calls=calls), remote(2)

    def slowly(write):
        together.wait()  # with the fetch of another blob, which must not wait for this one
        wanted[1](write)

    def other(write):
        together.wait()
        more[1](write)

    threads = [threading.Thread(target=cache.lease, args=(wanted[0], None, slowly)) for _ in range(4)]
    threads.append(threading.Thread(target=cache.lease, args=(more[0], None, other)))
    assert wanted[0][:2] != more[0][:2]  # else they would share a lock
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert calls == [1]
    assert (disk(cache).hits, disk(cache).misses) == (3, 2)


def test_bytes_that_do_not_fit_the_hash_are_refused_and_not_kept(cache, tmp_path):
    blob_hash, _ = remote(1)
    _, wrong = remote(2)
    with pytest.raises(CorruptBlob, match=f"blob {blob_hash}: what was fetched hashes to"):
        cache.lease(blob_hash, None, wrong)
    assert (cache.info()[1].misses, disk(cache).resident) == (1, 0)
    assert not [path for path in (tmp_path / "cache/objects").rglob("*") if path.is_file()]


def test_a_fetch_that_fails_is_reported_and_tried_again_by_the_next(cache):
    blob_hash, fetch = remote(1)

    def broken(write):
        write(b"half of")
        raise ConnectionError("the network is down")

    with pytest.raises(ConnectionError):
        cache.lease(blob_hash, None, broken)
    cache.lease(blob_hash, None, fetch).close()
    assert (cache.info()[1].hits, cache.info()[1].misses) == (1, 1)


def test_a_copy_that_was_damaged_is_fetched_again(tmp_path):
    cache, calls = NodeCache(tmp_path / "cache", verify="always"), []
    blob_hash, fetch = remote(1, calls=calls)
    with cache.lease(blob_hash, None, fetch) as blob:
        flip(blob.path)
        with cache.lease(blob_hash, None, fetch) as again:
            assert torch.equal(again.tensors()["w"], tensors(1)["w"])
    assert calls == [1, 1]
    assert (disk(cache).evictions["damaged"], disk(cache).resident) == (1, 1)


def test_copies_that_were_used_least_recently_make_way(cache):
    blob_hashes = []
    for number in range(8):
        blob_hash, fetch = remote(number, 5000)  # 20 kB: four have room, and a tenth is left free
        cache.lease(blob_hash, None, fetch).close()
        blob_hashes.append(blob_hash)
        if number:
            cache.lease(blob_hashes[0]).close()
    here = {path.stem for path in (cache.room.folder / "objects").rglob("*.safetensors")}
    assert {blob_hashes[0], blob_hashes[7]} <= here
    assert disk(cache).bytes <= 100_000
    assert disk(cache).evictions["bytes"] == 8 - len(here) > 0


def test_a_copy_that_is_removed_while_a_lease_waits_for_it_is_fetched_again(cache):
    calls, leased = [], []
    blob_hash, fetch = remote(1, calls=calls)
    cache.lease(blob_hash, None, fetch).close()
    path = cache.room.path(blob_hash)
    with open(path, "rb") as remover:
        fcntl.flock(remover, fcntl.LOCK_EX)
        thread = threading.Thread(target=lambda: leased.append(cache.lease(blob_hash, None, fetch)))
        thread.start()
        thread.join(timeout=0.2)
        assert thread.is_alive()
        path.unlink()
    thread.join(timeout=60)
    assert calls == [1, 1]
    assert torch.equal(leased[0].tensors()["w"], tensors(1)["w"])


def test_when_all_room_is_leased_a_blob_is_read_into_private_memory(cache):
    wanted = [remote(number, 5000) for number in range(6)]
    with contextlib.ExitStack() as leases:
        held = [leases.enter_context(cache.lease(name, None, fetch)) for name, fetch in wanted]
        assert [blob.path is None for blob in held] == [False] * 4 + [True] * 2
        for number, blob in enumerate(held):
            assert torch.equal(blob.tensors()["w"], tensors(number, 5000)["w"])
        assert disk(cache).evictions == {"bytes": 0, "damaged": 0, "unkept": 2}
        assert disk(cache).bytes <= 100_000


@pytest.mark.parametrize("max_bytes", [100_000, 1], ids=["on disk", "in private memory"])
def test_bytes_that_fit_their_hash_but_are_no_safetensors_are_refused_when_used(tmp_path, max_bytes):
    data = b"\xff" * 100
    cache = NodeCache(tmp_path / "cache", max_bytes)
    with cache.lease(hash_of(data), None, lambda write: write(data)) as blob:
        assert (blob.path is None) == (max_bytes == 1)
        with pytest.raises(CorruptBlob, match="no safetensors"):
            blob.tensors()


def test_tensors_stay_what_they_are_when_their_lease_ends_and_the_file_goes(cache):
    blob_hash, fetch = remote(1, 5000)
    blob = cache.lease(blob_hash, None, fetch)
    mapped = blob.tensors()["w"]
    assert not cache.drop(blob_hash)
    blob.close()
    blob.close()
    assert cache.drop(blob_hash)
    assert not cache.drop(blob_hash)
    for number in range(2, 12):
        cache.lease(*(remote(number, 5000)[0], None, remote(number, 5000)[1])).close()
    assert torch.equal(mapped, tensors(1, 5000)["w"])


def test_a_cache_folder_that_somebody_removes_is_made_anew(cache, tmp_path):
    blob_hash, fetch = remote(1)
    cache.lease(blob_hash, None, fetch).close()
    (tmp_path / "cache").rename(tmp_path / "gone")
    with cache.lease(blob_hash, None, fetch) as blob:
        assert blob.path.exists()


# ---------------------------------------------------------------- many processes

SPAWN = multiprocessing.get_context("forkserver")
BLOBS, BUDGET = 40, 250_000


# ------------------------------------------------------------------ what is computed from blobs


def computed(calls, number=1):
    return lambda: (calls.append(number), encode(tensors(number)))[1]


def test_what_is_computed_from_a_blob_is_made_once_for_all_processes(cache, tmp_path):
    blob_hash, _ = published(tmp_path, 0)
    calls = []
    with cache.derived(blob_hash, "half", computed(calls)) as first:
        with NodeCache(tmp_path / "cache").derived(blob_hash, "half", computed(calls)) as second:
            assert first.path == second.path
            assert torch.equal(second.tensors()["w"], tensors(1)["w"])
        with cache.derived(blob_hash, "third", computed(calls, 3)) as other:
            assert torch.equal(other.tensors()["w"], tensors(3)["w"])
    assert calls == [1, 3]


def test_what_was_computed_is_counted_in_the_budget_and_makes_way(cache, tmp_path):
    calls = []
    hashes = [published(tmp_path, number, 5_000)[0] for number in range(8)]
    for number, blob_hash in enumerate(hashes):
        cache.derived(blob_hash, "half", lambda n=number: encode(tensors(n, 5_000))).close()
        assert cache.info()[0].bytes == bytes_in(tmp_path / "cache") <= 100_000
    cache.derived(hashes[0], "half", computed(calls)).close()
    assert calls == [1]  # it had made way, and is made again


def test_without_room_nothing_that_is_computed_is_kept(tmp_path):
    cache = NodeCache(tmp_path / "cache", 100)
    assert cache.derived(published(tmp_path, 0)[0], "half", computed([])) is None
    assert cache.info()[0].evictions["unkept"] == 1


def test_a_computed_file_that_was_changed_is_made_again(cache, tmp_path):
    blob_hash, _ = published(tmp_path, 0)
    calls = []
    with cache.derived(blob_hash, "half", computed(calls)) as made:
        path = made.path
    flip(path)
    os.utime(path)
    with cache.derived(blob_hash, "half", computed(calls)) as again:
        assert torch.equal(again.tensors()["w"], tensors(1)["w"])
    assert calls == [1, 1]
    assert cache.info()[0].evictions["damaged"] == 1
    assert cache.info()[0].resident == 1


def test_a_computed_file_without_a_record_is_compared_and_kept(cache, tmp_path):
    blob_hash, _ = published(tmp_path, 0)
    calls = []
    with cache.derived(blob_hash, "half", computed(calls)) as made:
        (tmp_path / "cache" / "verified").unlink()
        inode = made.path.stat().st_ino
        for _ in range(2):
            cache.derived(blob_hash, "half", computed(calls)).close()
        assert made.path.stat().st_ino == inode
        assert calls == [1, 1]


def test_who_trusts_no_file_computes_for_itself(tmp_path):
    cache = NodeCache(tmp_path / "cache", verify="always")
    assert cache.derived(published(tmp_path, 0)[0], "half", computed([])) is None
    assert not (tmp_path / "cache").exists()


def blob_tensors(number):
    """Of blobs of 2 to 25 kB."""
    return {"w": torch.full((500 + (number * 977) % 6000,), float(number)), "n": torch.tensor([number])}


def blob_data(number):
    return encode(blob_tensors(number))


def whole(blob, number):
    """Whether the tensors of a lease are those of blob `number`, every byte of them."""
    return encode(blob.tensors()) == blob_data(number)


def hold(folder, blob_hash, path, ready):
    """Lease a blob and wait to be killed."""
    cache = NodeCache(folder, BUDGET)
    cache.lease(blob_hash, path, lambda write: write(blob_data(0)))
    ready.set()
    time.sleep(60)


@pytest.mark.slow
def test_a_process_that_is_killed_leaves_no_lease(tmp_path):
    cache, ready, name = NodeCache(tmp_path / "cache", BUDGET), SPAWN.Event(), hash_of(blob_data(0))
    process = SPAWN.Process(target=hold, args=(tmp_path / "cache", name, None, ready))
    process.start()
    assert ready.wait(60)
    assert not cache.drop(name)
    process.kill()
    process.join()
    assert cache.drop(name)


def play(folder, run, seed, steps, reports):
    """Do anything to one cache that a process may do, and check what comes back against the model: a
    lease holds the bytes of its name, whatever became of the file since."""
    rng = random.Random(seed)
    torch.set_num_threads(1)
    verify = rng.choice(["admission", "always"])
    cache, names = NodeCache(folder, BUDGET, verify), [hash_of(blob_data(n)) for n in range(BLOBS)]
    held, failures = [], []
    for step in range(steps):
        number, deed = rng.randrange(BLOBS), rng.random()
        if deed < 0.1 and held:  # get what is computed from a blob: here another blob
            made = cache.derived(names[number], "other", lambda n=number: blob_data(BLOBS + n))
            held += [] if made is None else [(BLOBS + number, made)]
        elif deed < 0.3 or not held:  # get, and put if it was not there
            path = blob_path(run, names[number]) if number % 4 == 0 else None
            blob = cache.lease(names[number], path, lambda write, n=number: write(blob_data(n)))
            held.append((number, blob))
        elif deed < 0.5:
            number, blob = held.pop(rng.randrange(len(held)))
            if not whole(blob, number):
                failures.append(f"seed {seed}, step {step}: blob {number} changed while it was leased")
            blob.close()
        elif deed < 0.58:
            leased = [blob for n, blob in held if n == number and blob.path and "cache" in str(blob.path)]
            if cache.drop(names[number]) and leased:
                failures.append(f"seed {seed}, step {step}: blob {number} was removed while it was leased")
        elif deed < 0.62:
            with contextlib.suppress(CorruptBlob):
                wrong = cache.lease(hash_of(b"%d" % seed), None, lambda write: write(b"other bytes"))
                failures.append(f"seed {seed}, step {step}: wrong bytes were taken: {wrong}")
        elif not whole(held[0][1], held[0][0]):
            failures.append(f"seed {seed}, step {step}: blob {held[0][0]} is not what it was")
        while len(held) > 4:
            held.pop(0)[1].close()
    reports.put((failures, cache.info()))


def bytes_in(folder):
    """Of all files in a cache's folder, at one instant: nobody makes, renames or removes any meanwhile."""
    with open(folder / "used", "ab") as used:
        fcntl.flock(used, fcntl.LOCK_SH)
        return sum(path.stat().st_size for path in (folder / "objects").rglob("*") if path.is_file())


@pytest.mark.long
def test_eight_processes_that_get_put_evict_and_lease_see_right_bytes_in_the_budget(tmp_path):
    SPAWN.set_forkserver_preload(["storage.cache.node_cache"])
    folder, run, reports = tmp_path / "cache", tmp_path / "run", SPAWN.Queue()
    for number in range(0, BLOBS, 4):
        publish(run, blob_tensors(number))
    players = [SPAWN.Process(target=play, args=(folder, run, seed, 700, reports)) for seed in range(8)]
    folder.mkdir(mode=0o700)
    for player in players:
        player.start()
    largest = samples = 0
    while any(player.is_alive() for player in players):
        largest, samples = max(largest, bytes_in(folder)), samples + 1
        time.sleep(0.005)
    assert [player.exitcode for player in players] == [0] * 8  # -7 would be SIGBUS
    told = [reports.get(timeout=60) for _ in players]
    assert [failure for failures, _ in told for failure in failures] == []
    assert samples > 50
    assert BUDGET / 2 < largest <= BUDGET
    for on_disk, fetched in (info for _, info in told):  # everything happened, in every process
        assert min(on_disk.hits, on_disk.misses, fetched.hits, fetched.misses) > 0
        assert on_disk.evictions["bytes"] > 0
    assert sum(on_disk.evictions["unkept"] for _, (on_disk, _) in told) > 0
    cache = NodeCache(folder, BUDGET)
    for path in (folder / "objects").glob("*/*"):  # nobody leases anything any more
        cache.drop(path.stem)
    assert bytes_in(folder) == cache.room.used().bytes == 0
