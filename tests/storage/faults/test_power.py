"""The model of power cuts loses what a careless program loses, and nothing that was made durable."""

import os
import random

import pytest

from storage.disk import Disk, make_folder, using, write_whole
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk
from tests.storage.faults.power import File, PowerDisk, Volume, lay_out

OLD, NEW = b"old" * 1000, b"new" * 2000


def outcomes(disk, name, cuts=60):
    """What the file `name` may hold after a power cut behind the last call; None: no such file."""
    volume, rng = Volume(0), random.Random(1)
    for call in disk.calls:
        volume.play(call)
    return {volume.cut(rng).get(name) for _ in range(cuts)}


def at_any_time(disk, name, cuts=20):
    """The same, behind each call."""
    volume, rng, found = Volume(0), random.Random(1), set()
    for call in disk.calls:
        volume.play(call)
        found |= {volume.cut(rng).get(name) for _ in range(cuts)}
    return found


def put(disk, path, data, *, sync=True):
    handle = disk.open(path, os.O_WRONLY | os.O_CREAT)
    disk.pwrite(handle, data, 0)
    if sync:
        disk.sync(handle)
    disk.close(handle)


def replace(disk, path, data, *, sync=True, sync_folder=True):
    """A file replaced as `whole` does it, unless told to be careless."""
    put(disk, path.with_name("temporary"), data, sync=sync)
    disk.rename(path.with_name("temporary"), path)
    if sync_folder:
        disk.sync_folder(path.parent)


@pytest.fixture
def disk(tmp_path):
    """With a durable file `a`."""
    disk = PowerDisk(tmp_path)
    replace(disk, tmp_path / "a", OLD)
    return disk


def test_a_file_replaced_with_care_is_the_old_or_the_new_at_any_time_in_the_end_new(disk, tmp_path):
    replace(disk, tmp_path / "a", NEW)
    assert at_any_time(disk, "a") == {None, OLD, NEW}
    assert outcomes(disk, "a") == {NEW}


def test_storages_own_write_whole_is_such_a_replacement(disk, tmp_path):
    with using(disk):
        make_folder(tmp_path / "folder")
        write_whole(tmp_path / "folder" / "b", [OLD])
        assert outcomes(disk, "folder/b") == {OLD}
        write_whole(tmp_path / "folder" / "b", [NEW, NEW])
    assert at_any_time(disk, "folder/b") == {None, OLD, NEW + NEW}
    assert outcomes(disk, "folder/b") == {NEW + NEW}


def test_a_rename_without_a_sync_of_the_file_may_show_it_empty_or_in_part(disk, tmp_path):
    replace(disk, tmp_path / "a", NEW, sync=False)
    found = outcomes(disk, "a")
    assert {b"", NEW} < found
    assert any(data not in (b"", NEW) for data in found)


def test_a_rename_without_a_sync_of_the_folder_may_be_undone(disk, tmp_path):
    replace(disk, tmp_path / "a", NEW, sync_folder=False)
    assert outcomes(disk, "a") == {OLD, NEW}


def test_a_new_file_without_a_sync_of_its_folder_may_be_gone(disk, tmp_path):
    put(disk, tmp_path / "b", NEW)
    assert outcomes(disk, "b") == {None, NEW}


def test_a_new_folder_without_a_sync_of_its_parent_may_be_gone_with_all_in_it(disk, tmp_path):
    disk.mkdir(tmp_path / "folder")
    replace(disk, tmp_path / "folder" / "b", NEW)
    assert outcomes(disk, "folder/b") == {None, NEW}
    disk.sync_folder(tmp_path)
    assert outcomes(disk, "folder/b") == {NEW}


def test_a_renamed_folder_keeps_what_is_durable_in_it(disk, tmp_path):
    disk.mkdir(tmp_path / "folder")
    replace(disk, tmp_path / "folder" / "b", NEW)
    put(disk, tmp_path / "folder" / "c", NEW)
    disk.rename(tmp_path / "folder", tmp_path / "other")
    disk.sync_folder(tmp_path)
    assert outcomes(disk, "other/b") == {NEW}
    assert outcomes(disk, "other/c") == {None, NEW}
    assert outcomes(disk, "folder/b") == {None}


def test_an_unlink_may_be_undone_until_the_folder_is_synced(disk, tmp_path):
    disk.unlink(tmp_path / "a")
    assert outcomes(disk, "a") == {None, OLD}
    disk.sync_folder(tmp_path)
    assert outcomes(disk, "a") == {None}


def test_changes_of_a_folder_may_arrive_in_another_order(disk, tmp_path):
    put(disk, tmp_path / "b", NEW)
    disk.unlink(tmp_path / "a")
    volume, rng = Volume(0), random.Random(1)
    for call in disk.calls:
        volume.play(call)
    assert {frozenset(volume.cut(rng)) for _ in range(60)} == {
        frozenset(names) for names in (["a"], ["a", "b"], ["b"], [])
    }


@pytest.mark.parametrize("sector", [512, 4096])
def test_an_unsynced_write_over_old_bytes_is_kept_lost_or_torn_at_sectors(sector):
    old, new = bytes(3 * 4096), b"x" * (3 * 4096 - 200)
    file, rng = File(old, [(100, new)]), random.Random(2)
    found = {file.cut(rng) for _ in range(300)}
    assert {old, old[:100] + new + old[-100:]} < found
    for data in found:
        assert len(data) == len(old), "its size was durable"
        assert data[:100] == old[:100]
    torn = [data for data in found if len({data[at + 100] for at in range(0, len(old), sector)}) > 1]
    assert torn, "some but not all sectors arrived"


def test_an_unsynced_append_may_leave_zeros_rubbish_or_any_size_between():
    file, rng = File(OLD, [(len(OLD), NEW)]), random.Random(3)
    found = {file.cut(rng) for _ in range(300)}
    assert all(data.startswith(OLD) and len(data) <= len(OLD + NEW) for data in found)
    assert {OLD, OLD + NEW, OLD + bytes(len(NEW))} < found
    assert len({len(data) for data in found}) > 50
    assert any(data[len(OLD) :].strip(b"new\0") for data in found), "rubbish"


def test_a_shortened_file_has_any_size_between_and_none_below():
    file, rng = File(OLD, [100]), random.Random(4)
    found = {file.cut(rng) for _ in range(100)}
    assert {OLD[:100], OLD} < found
    assert all(data.startswith(OLD[:100]) and len(data) <= len(OLD) for data in found)


def test_a_failed_sync_forgets_and_a_later_one_does_not_bring_it_back(tmp_path):
    disk = PowerDisk(tmp_path)
    faulty = FaultyDisk(disk)
    put(disk, tmp_path / "a", OLD)
    disk.sync_folder(tmp_path)
    handle = faulty.open(tmp_path / "a", os.O_RDWR)
    faulty.pwrite(handle, NEW, len(OLD))
    faulty.plan(Fault(0, Effect.EIO, "sync"))
    with pytest.raises(OSError, match="error"):
        faulty.sync(handle)
    faulty.sync(handle)
    faulty.close(handle)
    assert (tmp_path / "a").read_bytes() == OLD + NEW, "to whoever reads, all is well"
    found = set()
    for seed in range(100):
        volume = Volume(seed)
        for call in disk.calls:
            volume.play(call)
        found |= {volume.cut(random.Random(seed))["a"] for _ in range(3)}
    assert {OLD, OLD + NEW} < found


def test_two_cuts_of_one_seed_are_equal_and_can_be_laid_out(disk, tmp_path):
    put(disk, tmp_path / "b", NEW)
    disk.mkdir(tmp_path / "folder")
    first, second = Volume(0), Volume(0)
    for call in disk.calls:
        first.play(call)
        second.play(call)
    cut = first.cut(random.Random(8))
    assert cut == second.cut(random.Random(8))
    folder = lay_out(cut, tmp_path / "after")
    assert {path.name: None if path.is_dir() else path.read_bytes() for path in folder.iterdir()} == cut


def test_the_disk_does_for_real_what_it_remembers(disk, tmp_path):
    """Played to the end with everything kept, a volume holds what the folder holds."""
    write = [(tmp_path / "folder" / "x", OLD), (tmp_path / "y", NEW)]
    with using(disk):
        make_folder(tmp_path / "folder")
        for path, data in write:
            write_whole(path, [data])
        disk.rename(tmp_path / "folder", tmp_path / "moved")
        disk.unlink(tmp_path / "y")
    disk.sync_folder(tmp_path)
    volume = Volume(0)
    for call in disk.calls:
        volume.play(call)
    assert volume.cut(random.Random(0)) == {"a": OLD, "moved": None, "moved/x": OLD}
    assert (tmp_path / "moved" / "x").read_bytes() == OLD
    assert isinstance(disk, Disk)
