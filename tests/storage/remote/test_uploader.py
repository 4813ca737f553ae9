"""A run while it trains and a remote that follows it."""

import functools
import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from storage.archive import Archive, open_reader
from storage.errors import Mistake, StorageError
from storage.layout import LEDGER
from storage.ledger.ledger import Ledger
from storage.records import MAIN, RatingChange
from storage.remote.remote import Remote, RemoteFailed, RemoteTaken, holds_run
from storage.remote.restore import restore
from storage.remote.uploader import Uploader
from storage.snapshots.blobs import verify
from tests.steps import wait_for
from tests.storage.conftest import SPEC, frames
from tests.storage.object_store import (  # noqa: F401  # fixtures
    BUCKET,
    Fault,
    clean_proxy,
    from_seed,
    shared_server,
)

WRITER = """
import functools, sys
import numpy as np
import storage.archive
from storage.ledger.ledger import Ledger
from storage.records import MAIN, Bot
from storage.remote.uploader import Uploader

storage.archive.Ledger = functools.partial(Ledger, segment_frames=5)
with storage.archive.Archive.open(sys.argv[1]) as archive:
    uploader = Uploader(archive, sys.argv[2], seconds=0.01)
    print("writing", flush=True)
    step = len(archive.bots())
    while True:
        step += 1
        archive.add_bot(Bot(f"bot-{step}"))
        if step % 5 == 0:
            weights = {"w": np.full(50_000, step, np.float32)}
            archive.save_learner("main-0", weights, {"env_steps": step})
            archive.add_snapshot("main-0", MAIN, step, 1, "main-0@0", weights, {}, "mlp", "due")
"""


@pytest.fixture
def url(proxy, tmp_path):
    return f"s3://{BUCKET}/{tmp_path.name}"


@pytest.fixture
def short_segments(monkeypatch):
    """Segments of five frames, so that closing and compacting them is soon seen."""
    monkeypatch.setattr("storage.archive.Ledger", functools.partial(Ledger, segment_frames=5))


def freeze(archive, env_steps):
    weights = {"w": np.full(100, env_steps, np.float32)}
    archive.save_learner("main-0", weights, {"env_steps": env_steps})
    return archive.add_snapshot("main-0", MAIN, env_steps, 1, "main-0@0", weights, SPEC, "mlp", "due")


def is_level(uploader):
    status = uploader.status()
    return (status.behind_snapshots, status.behind_bytes, status.last_error) == (0, 0, "") and (
        status.last_success is not None
    )


@pytest.mark.slow
def test_a_remote_follows_its_run_and_a_fresh_machine_goes_on_from_it(run, url, tmp_path, make_results):
    assert not holds_run(url)
    with Archive.open(run) as archive:
        uploader = Uploader(archive, url, seconds=0.05)
        archive.append_results(make_results(50), [RatingChange("main-0", 25.0, 8.0, 50)])
        freeze(archive, 10)
        uploader.close()
        assert is_level(uploader)
        expected = frames(run)
    assert holds_run(url)
    elsewhere = tmp_path / "elsewhere"
    restore(url, elsewhere)
    assert frames(elsewhere) == expected
    with Archive.open(elsewhere) as archive:
        assert archive.next_seq == 51
        tensors, meta = archive.load_learner("main-0")
        assert (float(tensors["w"][0]), meta) == (10.0, {"env_steps": 10})
        uploader = Uploader(archive, url, seconds=0.05)
        archive.append_results(make_results(7, 50), [])
        freeze(archive, 20)
        uploader.close()
        expected = frames(elsewhere)
    restore(url, tmp_path / "third")
    assert frames(tmp_path / "third") == expected
    reader = open_reader(tmp_path / "third")
    assert [s.snapshot_id for s in reader.snapshots()] == ["main-0@0", "main-0@10", "main-0@20"]
    for snapshot in reader.snapshots():
        verify(reader.blob_path(snapshot))


@pytest.mark.slow
def test_it_keeps_up_without_being_told(run, url, make_results):
    with Archive.open(run) as archive:
        uploader = Uploader(archive, url, seconds=0.05)
        for n in range(3):
            sent = uploader.status().uploaded_bytes
            archive.append_results(make_results(5, 5 * n), [])
            wait_for(lambda sent=sent: uploader.status().uploaded_bytes > sent)
        wait_for(lambda: is_level(uploader))
        uploader.close()


@pytest.mark.long
def test_a_remote_that_loses_and_refuses_ends_up_complete(run, url, proxy, tmp_path, make_results):
    proxy.late_seconds = 0.6
    proxy.fault = from_seed(0, rate=0.3)
    with Archive.open(run) as archive:
        uploader = None
        while uploader is None:
            try:
                uploader = Uploader(archive, url, 0.05, Remote(url, timeout_seconds=0.4))
            except RemoteFailed:
                continue
        for n in range(15):
            archive.append_results(make_results(20, 20 * n), [])
            if n % 3 == 0:
                freeze(archive, n + 1)
            time.sleep(0.05)
        uploader.close()
        assert is_level(uploader)
        assert uploader.status().retries > 0
        expected = frames(run)
    proxy.fault = lambda method, path: Fault.NONE
    restore(url, tmp_path / "back")
    assert frames(tmp_path / "back") == expected
    reader = open_reader(tmp_path / "back")
    assert len(reader.snapshots()) == 6
    for snapshot in reader.snapshots():
        verify(reader.blob_path(snapshot))


@pytest.mark.long
def test_killed_again_and_again_it_goes_on_and_what_it_left_can_be_restored(run, tmp_path):
    url = f"file://{tmp_path}/remote"
    with Archive.open(run) as archive:
        Uploader(archive, url).close()
    rng, reached = np.random.default_rng(0), []
    for life in range(4):
        writer = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(run), url], stdout=subprocess.PIPE, text=True
        )
        try:
            assert writer.stdout.readline() == "writing\n"
            time.sleep(rng.uniform(0.1, 0.8))
        finally:
            writer.kill()
            writer.communicate()
        restore(url, tmp_path / f"after-{life}")
        found = frames(tmp_path / f"after-{life}")
        assert found == frames(run)[: len(found)]
        reached.append(len(found))
        with Archive.open(tmp_path / f"after-{life}") as archive:
            snapshots = archive.snapshots()
            for snapshot in snapshots:
                verify(archive.blob_path(snapshot))
            if len(snapshots) > 1:
                assert archive.load_learner("main-0")[1]["env_steps"] >= snapshots[-1].env_steps
    assert reached == sorted(reached)
    assert reached[-1] > reached[0]
    with Archive.open(run) as archive:
        Uploader(archive, url).close()
        expected = frames(run)
    restore(url, tmp_path / "complete")
    assert frames(tmp_path / "complete") == expected


@pytest.mark.long
def test_a_remote_that_is_away_delays_nothing_and_is_told_of(run, url, proxy, make_results):
    with Archive.open(run) as archive:
        uploader = Uploader(archive, url, 0.05, Remote(url, timeout_seconds=0.2))
        wait_for(lambda: is_level(uploader))
        proxy.fault = lambda method, path: Fault.BUSY
        archive.append_results(make_results(5), [])
        freeze(archive, 10)
        wait_for(lambda: uploader.status().last_error)
        status = uploader.status()
        assert "503" in status.last_error
        assert status.behind_snapshots == 1
        assert status.behind_bytes > 0
        with pytest.raises(RemoteFailed, match=r"1 snapshots and \d+ bytes of the ledger are not there yet"):
            uploader.close(timeout_seconds=0.5)
        proxy.fault = lambda method, path: Fault.NONE
        uploader = Uploader(archive, url, 0.05)
        uploader.close()
        assert is_level(uploader)


@pytest.mark.slow
def test_a_writer_that_meets_another_ones_facts_stops_and_says_so(run, url, make_results):
    with Archive.open(run) as archive:
        uploader = Uploader(archive, url, seconds=0.05)
        wait_for(lambda: is_level(uploader))
        (last,) = [p.stat().st_size for p in (run / LEDGER).glob("*.journal")]
        Remote(url).put(f"ledger/00000001.journal.{last:020d}", b"not ours")
        before = frames(run)
        archive.append_results(make_results(5), [])
        uploader._thread.join(30.0)
        with pytest.raises(RemoteTaken, match="something else is there"):
            uploader.check()
        with pytest.raises(RemoteTaken):
            uploader.close()
        assert len(frames(run)) == len(before) + 1, "the run itself goes on"


@pytest.mark.slow
def test_another_runs_remote_is_refused_and_left_as_it_was(run, url, tmp_path):
    row = {"name": "other", "env": "connect_four", "seed": 4}
    with Archive.create(tmp_path / "other", "env: {id: leduc_poker}\n", row) as other:
        Uploader(other, url).close()
    before = {name: Remote(url).get(name) for name in Remote(url).list("")}
    with Archive.open(run) as archive, pytest.raises(Mistake, match="holds another run"):
        Uploader(archive, url)
    assert {name: Remote(url).get(name) for name in Remote(url).list("")} == before


@pytest.mark.long
def test_who_restores_while_it_is_written_gets_a_state_that_was(
    run, url, tmp_path, make_results, short_segments
):
    states, failures = [], []

    def read():
        while len(states) < 4 or len(states[-1]) < len(states[0]) + 12:
            folder = tmp_path / f"read-{len(states)}"
            restore(url, folder)
            reader = open_reader(folder)
            for snapshot in reader.snapshots():
                verify(reader.blob_path(snapshot))
            states.append(frames(folder))

    def keep_reading():
        try:
            read()
        except StorageError as error:
            failures.append(error)

    with Archive.open(run) as archive:
        uploader = Uploader(archive, url, seconds=0.01)
        wait_for(lambda: is_level(uploader))
        reader = threading.Thread(target=keep_reading)
        reader.start()
        step = 0
        while reader.is_alive():
            step += 1
            archive.append_results(make_results(3, 3 * step), [])
            if step % 10 == 0:
                freeze(archive, step)
            time.sleep(0.3)  # restoring shall be faster than writing
        uploader.close()
        acknowledged = frames(run)
    assert failures == []
    assert all(state == acknowledged[: len(state)] for state in states)
