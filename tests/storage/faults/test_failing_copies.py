"""Calls fail in turn, or the process dies at them, where blobs and runs are copied: all is whole."""

import itertools
import shutil

import pytest

import storage.archive
from storage.cache.node_cache import NodeCache
from storage.disk import using
from storage.errors import Mistake, StorageError
from storage.remote.restore import restore
from storage.remote.uploader import Uploader
from storage.snapshots import blobs
from tests.storage.faults.checks import Promises, assert_one_sentence, check, check_opening
from tests.storage.faults.counts import LONG
from tests.storage.faults.faulty_disk import DEATHS, FAILURES, Fault, FaultyDisk, FullDisk, Killed
from tests.storage.faults.workload import KINDS, CompactionInStep, create, small_ledger, weights, write

BLOBS = [blobs.encode(weights(number)) for number in range(4)]
ROOM = 2 * len(BLOBS[0]) + 100  # bytes: for two of them
EFFECTS = (*FAILURES, *DEATHS)


def leased(cache, data):
    """Whether a lease gives these bytes; False when it is refused in one sentence."""
    try:
        with cache.lease(blobs.hash_of(data), fetch=lambda take: take(data)) as blob:
            assert blobs.encode(blob.tensors()) == data
    except (StorageError, Mistake) as error:
        assert_one_sentence(error)
        return False
    return True


def look(folder):
    """The node's files are whole, and no more than the cache says it has; it works."""
    cache = NodeCache(folder, ROOM)
    files = [path for path in (folder / "objects").glob("*/*") if path.is_file()]
    for path in files:
        if not path.name.startswith("."):
            blobs.verify(path)
    assert sum(path.stat().st_size for path in files) <= max(cache.room.used().bytes, 0)
    for data in BLOBS:
        assert leased(cache, data)
    whole = [path for path in (folder / "objects").glob("*/*") if not path.name.startswith(".")]
    assert sum(path.stat().st_size for path in whole) <= ROOM


@pytest.mark.long
@pytest.mark.parametrize("first", range(len(EFFECTS) if LONG else 1))
def test_a_node_cache_gives_the_right_bytes_or_refuses_whichever_call_fails(scratch, first):
    """Each call fails in one of the ways in turn; in the long form in all."""
    served = 0
    for call in itertools.count():
        folder, disk = scratch / f"{call}", FaultyDisk()
        disk.plan(Fault(call, EFFECTS[(first + call) % len(EFFECTS)]))
        with using(disk):
            cache = NodeCache(folder, ROOM)
            for data in BLOBS:
                try:
                    served += leased(cache, data)
                except Killed:
                    disk.revive()
                    cache = NodeCache(folder, ROOM)
        if disk.happened is None:
            break
        look(folder)
    assert call > 40
    assert served > 3 * call, "at most one lease suffers"


def test_a_node_cache_on_a_full_disk_still_gives_what_was_fetched(scratch):
    disk = FullDisk(len(BLOBS[0]) // 2)
    (scratch / "cache").mkdir(mode=0o700)
    with using(disk):
        cache = NodeCache(scratch / "cache", ROOM)
        outcomes = [leased(cache, data) for data in BLOBS]
        disk.room = 10**6
        outcomes += [leased(cache, data) for data in BLOBS]
    assert outcomes[-len(BLOBS) :] == [True] * len(BLOBS)
    look(scratch / "cache")


@pytest.fixture
def remote(scratch, monkeypatch):
    """The URL of a run's copy, and what was promised of the run."""
    monkeypatch.setattr(storage.archive, "Ledger", small_ledger)
    monkeypatch.setattr(storage.archive, "Compaction", CompactionInStep)
    promises = Promises()
    with create(scratch / "run", promises.hear) as archive:
        uploader = Uploader(archive, f"file://{scratch}/remote", seconds=0.05)
        for number, kind in enumerate([*KINDS, *KINDS, *KINDS], start=1):
            write(archive, kind, number, promises.hear)
        uploader.close()
    return f"file://{scratch}/remote", promises


@pytest.mark.long
def test_a_run_is_restored_whole_or_not_at_all_whichever_call_fails(scratch, remote):
    url, promises = remote
    effects, refused, back = itertools.cycle(EFFECTS), 0, scratch / "back"
    for call in itertools.count():
        disk, effect = FaultyDisk(), next(effects)
        disk.plan(Fault(call, effect))
        try:
            with using(disk):
                restore(url, back)
        except (StorageError, Mistake, Killed) as error:
            refused += 1
            assert_one_sentence(error)
        assert back.exists() or disk.happened
        if disk.happened is None:
            break
        if back.exists():
            check(back, promises)
            shutil.rmtree(back)
        left = [path for path in scratch.iterdir() if path.name.endswith(".creating")]
        assert not left or effect in DEATHS, disk.happened
        for path in left:
            shutil.rmtree(path)
    check_opening(back, promises)
    assert refused > 0.5 * call > 20
