"""The disks that fail do so as planned, and do catch who believes them."""

import errno
import os

import pytest

from storage.disk import using, write_whole
from storage.errors import DiskFailed
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk, FullDisk, Killed


def written(disk, path, data):
    """Write `data` to a new file as carelessly as can be: errors are raised, short writes ignored."""
    handle = disk.open(path, os.O_WRONLY | os.O_CREAT)
    try:
        disk.pwrite(handle, data, 0)
        disk.sync(handle)
    finally:
        disk.close(handle)
    return path.read_bytes()


def test_without_a_plan_nothing_fails_and_calls_are_counted(tmp_path):
    disk = FaultyDisk()
    assert written(disk, tmp_path / "a", b"12345678") == b"12345678"
    assert disk.calls == 4


@pytest.mark.parametrize(("call", "there"), [(0, False), (1, True), (2, True), (3, True)])
@pytest.mark.parametrize("effect", [Effect.EIO, Effect.ENOSPC])
def test_the_kth_call_fails_and_the_next_does_not(tmp_path, call, there, effect):
    disk = FaultyDisk()
    disk.plan(Fault(call, effect))
    with pytest.raises(OSError, match=r"error|space") as caught:
        written(disk, tmp_path / "a", b"1234")
    assert caught.value.errno == getattr(errno, effect)
    assert (tmp_path / "a").exists() == there
    assert disk.happened.startswith(effect)
    assert written(disk, tmp_path / "b", b"1234") == b"1234"


def test_a_call_can_be_done_and_yet_fail(tmp_path):
    (tmp_path / "a").write_bytes(b"1")
    disk = FaultyDisk()
    disk.plan(Fault(0, Effect.UNSURE, "rename"))
    with pytest.raises(OSError, match="error"):
        disk.rename(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "b").exists()


def test_a_short_write_says_what_it_wrote_and_who_does_not_look_loses_the_rest(tmp_path):
    disk = FaultyDisk()
    disk.plan(Fault(0, Effect.SHORT, "pwrite"))
    assert written(disk, tmp_path / "careless", b"12345678") == b"1234"
    disk.plan(Fault(0, Effect.SHORT, "pwrite"))
    with using(disk):
        write_whole(tmp_path / "careful", [b"12345678"])
    assert (tmp_path / "careful").read_bytes() == b"12345678"


def test_a_torn_write_is_a_short_one_with_an_error_behind_it(tmp_path):
    disk = FaultyDisk()
    disk.plan(Fault(0, Effect.TORN, "pwrite"))
    with using(disk), pytest.raises(DiskFailed, match="No space left"):
        write_whole(tmp_path / "a", [b"12345678"])
    assert not (tmp_path / "a").exists()


@pytest.mark.parametrize(
    ("effect", "left"),
    [(Effect.DIE_BEFORE, b""), (Effect.DIE_HALFWAY, b"1234"), (Effect.DIE_AFTER, b"12345678")],
)
def test_a_dead_process_writes_no_more_until_it_is_started_again(tmp_path, effect, left):
    disk = FaultyDisk()
    disk.plan(Fault(0, effect, "pwrite"))
    with pytest.raises(Killed):
        written(disk, tmp_path / "a", b"12345678")
    assert (tmp_path / "a").read_bytes() == left
    with pytest.raises(Killed):
        disk.unlink(tmp_path / "a")
    disk.revive()
    disk.unlink(tmp_path / "a")
    assert not (tmp_path / "a").exists()


def test_a_full_disk_writes_what_fits_and_has_room_again_when_something_goes(tmp_path):
    disk = FullDisk(room=10)
    with using(disk):
        write_whole(tmp_path / "a", [b"12345678"])
        with pytest.raises(DiskFailed, match="No space left"):
            write_whole(tmp_path / "b", [b"12345678"])
        assert disk.room == 2, "what was begun has been removed"
        disk.unlink(tmp_path / "a")
        write_whole(tmp_path / "b", [b"12345678"])
    assert [path.name for path in tmp_path.iterdir()] == ["b"]
