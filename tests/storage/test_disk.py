"""What is written through the disk is there whole, or not at all."""

import errno
import threading

import pytest

from storage.disk import Disk, using, whole_folder
from storage.errors import DiskFailed, Mistake


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_a_whole_folder_is_seen_only_when_it_is_filled(tmp_path):
    with whole_folder(tmp_path / "deep" / "folder") as fresh:
        (fresh / "file").write_text("all of it")
        assert not (tmp_path / "deep" / "folder").exists()
    assert names(tmp_path / "deep") == ["folder"]
    assert (tmp_path / "deep" / "folder" / "file").read_text() == "all of it"


def test_an_error_while_a_folder_is_filled_leaves_nothing(tmp_path):
    def fail_half_way():
        with whole_folder(tmp_path / "folder") as fresh:
            (fresh / "inner").mkdir()
            (fresh / "inner" / "file").write_text("half of it")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail_half_way()
    assert names(tmp_path) == []


def test_of_two_who_make_one_folder_the_second_is_told_and_the_first_keeps_it(tmp_path):
    filled, first_done = threading.Barrier(2), threading.Event()
    told = []

    def second():
        try:
            with whole_folder(tmp_path / "folder") as fresh:
                (fresh / "file").write_text("second")
                filled.wait()
                first_done.wait()
        except Mistake as mistake:
            told.append(str(mistake))

    other = threading.Thread(target=second)
    other.start()
    with whole_folder(tmp_path / "folder") as fresh:
        (fresh / "file").write_text("first")
        filled.wait()
    first_done.set()
    other.join()
    assert told == [f"{tmp_path}/folder: cannot be made: Directory not empty; choose another folder"]
    assert (tmp_path / "folder" / "file").read_text() == "first"
    assert names(tmp_path) == ["folder"]


def test_an_empty_folder_is_replaced_and_a_place_that_holds_none_is_a_users_mistake(tmp_path):
    (tmp_path / "empty").mkdir()
    with whole_folder(tmp_path / "empty") as fresh:
        (fresh / "file").write_text("x")
    assert names(tmp_path / "empty") == ["file"]
    with (
        pytest.raises(Mistake, match="File name too long; choose another folder"),
        whole_folder(tmp_path / ("x" * 300)),
    ):
        pass
    with (
        pytest.raises(Mistake, match="Not a directory; choose another folder"),
        whole_folder(tmp_path / "empty" / "file" / "folder"),
    ):
        pass
    assert names(tmp_path) == ["empty"]


def test_a_disk_without_room_for_a_folder_is_no_mistake_of_the_user(tmp_path):
    class Full(Disk):
        def rename(self, source, target):
            raise OSError(errno.ENOSPC, "No space left on device")

    with (
        using(Full()),
        pytest.raises(DiskFailed, match="folder: cannot be made: No space left on device; make room"),
        whole_folder(tmp_path / "folder"),
    ):
        pass
    assert names(tmp_path) == []
