"""A room never holds more than its budget, whatever dies or fails in it."""

import contextlib
import fcntl
import os
import stat

import pytest

from storage.cache.disk_budget import DiskBudget, Used
from storage.disk import using
from storage.snapshots.blobs import hash_of
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk, Killed

SIZE = 1000


@pytest.fixture
def room(tmp_path):
    return DiskBudget(tmp_path / "room", 10 * SIZE)


def blob(number, size=SIZE):
    return bytes([number]) * size


def put(room, number, size=SIZE):
    """Keep a blob that nobody leases; returns its hash, None if there was no room."""
    data = blob(number, size)
    handle = room.keep(hash_of(data), data)
    if handle is None:
        return None
    os.close(handle)
    path = room.path(hash_of(data))
    os.utime(path, (number, path.stat().st_mtime))  # as if used in the order of their numbers
    return hash_of(data)


def files(room):
    return sorted(path for path in (room.folder / "objects").rglob("*") if path.is_file())


def numbers(room):
    """Of the blobs that are kept, by their names: reading them would be using them."""
    by_name = {hash_of(blob(n, size)): n for n in range(100) for size in (SIZE, 10 * SIZE)}
    return sorted(by_name[path.stem] for path in files(room))


def test_what_is_kept_is_whole_read_only_and_counted(room):
    blob_hash = put(room, 7)
    assert room.path(blob_hash).read_bytes() == blob(7)
    assert stat.S_IMODE(room.path(blob_hash).stat().st_mode) == 0o444
    assert files(room) == [room.path(blob_hash)]
    assert room.used() == DiskBudget(room.folder, 1).used() == Used(SIZE, 1)


def test_what_was_used_least_recently_makes_way_and_a_tenth_more(room):
    for number in range(1, 11):
        put(room, number)
    assert numbers(room) == list(range(1, 11))
    put(room, 11)
    assert numbers(room) == list(range(3, 12))
    assert (room.used(), room.evicted) == (Used(9 * SIZE, 9), 2)


def test_what_is_leased_stays_and_what_finds_no_room_is_not_kept(room):
    data = [blob(number) for number in range(10)]
    leases = [room.keep(hash_of(each), each) for each in data]
    assert None not in leases
    assert put(room, 99) is None
    assert numbers(room) == list(range(10))
    os.close(leases.pop(4))
    assert put(room, 99) is not None
    assert numbers(room) == [0, 1, 2, 3, 5, 6, 7, 8, 9, 99]
    for handle in leases:
        os.close(handle)


def test_a_blob_larger_than_the_room_drives_nobody_out(room):
    for number in range(10):
        put(room, number)
    assert put(room, 50, 10 * SIZE + 1) is None
    assert len(files(room)) == 10
    assert put(room, 51, 10 * SIZE) is not None
    assert numbers(room) == [51]


def test_a_lower_budget_than_before_is_kept_from_the_next_newcomer_on(room):
    for number in range(10):
        put(room, number)
    smaller = DiskBudget(room.folder, 4 * SIZE)
    put(smaller, 77)
    assert smaller.used().bytes <= 4 * SIZE
    assert numbers(smaller) == [8, 9, 77]


def test_a_blob_that_is_leased_is_dropped_only_if_that_is_meant(room):
    data = blob(1)
    handle = room.keep(hash_of(data), data)
    assert not room.drop(hash_of(data))
    assert room.drop(hash_of(data), leased=True)
    assert not room.drop(hash_of(data))
    assert room.used() == Used(0, 0)
    os.close(handle)


@pytest.mark.parametrize(
    "torn", [b"", b"\0" * 47, b"%020d %012d" % (5, 1), b"%020d %012d %012d\n" % (5, 1, 7)]
)
def test_a_number_that_was_lost_or_torn_or_is_of_before_a_reboot_is_counted_anew(room, torn):
    for number in range(9):
        put(room, number)
    (room.folder / "used").write_bytes(torn)
    put(room, 9)
    assert room.used() == Used(10 * SIZE, 10)
    put(room, 10)
    assert room.used() == Used(9 * SIZE, 9)
    assert len(files(room)) == 9


def test_files_that_somebody_removed_by_hand_are_noticed_when_room_runs_out(room):
    for number in range(10):
        put(room, number)
    for path in files(room)[:5]:
        path.unlink()
    assert room.used() == Used(10 * SIZE, 10)
    put(room, 10)
    assert (room.used(), room.evicted) == (Used(6 * SIZE, 6), 0)


@pytest.mark.parametrize(
    ("call", "effect", "kind"),
    [
        (1, Effect.DIE_AFTER, "pwrite"),  # the first one counts
        (0, Effect.DIE_BEFORE, "truncate"),
        (0, Effect.DIE_AFTER, "truncate"),
        (0, Effect.DIE_BEFORE, "rename"),
        (0, Effect.DIE_AFTER, "rename"),
    ],
)
def test_a_writer_that_dies_leaves_a_whole_blob_or_what_the_next_removes(room, call, effect, kind):
    disk, data = FaultyDisk(), b"x" * 4000
    disk.plan(Fault(call, effect, kind))
    with using(disk), pytest.raises(Killed):
        room.keep(hash_of(data), data)
    disk.revive()
    assert room.used().bytes >= sum(path.stat().st_size for path in files(room))
    whole = [path for path in files(room) if not path.name.startswith(".")]
    assert len(whole) == ((effect, kind) == (Effect.DIE_AFTER, "rename"))
    for number in range(1, 8):  # 4000 bytes of the dead, or the blob that it finished, make way
        assert put(room, number, 1400) is not None
        assert sum(path.stat().st_size for path in files(room)) <= 10_000
    assert not [path for path in files(room) if path.name.startswith(".")]
    assert room.used().bytes == sum(path.stat().st_size for path in files(room))


@pytest.mark.parametrize("kind", ["open", "pwrite", "truncate", "sync", "chmod", "rename", "mkdir"])
def test_a_disk_that_fails_keeps_nothing_and_is_used_again_when_it_works(room, kind):
    disk = FaultyDisk()
    disk.plan(Fault(0, Effect.ENOSPC, kind))
    with using(disk):
        assert room.keep(hash_of(blob(1)), blob(1)) is None
    assert not (room.folder / "objects").exists() or files(room) == []
    for number in range(1, 11):
        assert put(room, number) is not None
    assert len(files(room)) == 10


def test_a_lock_that_is_held_says_whom_eviction_spares(room):
    """What counts is the lock, not the process: two handles of one process are two."""
    blob_hash = put(room, 1)
    with contextlib.closing(open(room.path(blob_hash), "rb")) as reader:
        fcntl.flock(reader, fcntl.LOCK_SH)
        assert not room.drop(blob_hash)
    assert room.drop(blob_hash)
