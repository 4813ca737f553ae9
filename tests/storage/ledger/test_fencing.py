"""Writers that were cut off: another goes on in their place, and they write nothing more."""

import contextlib
import json
import os

import pyarrow as pa
import pytest

from storage import disk
from storage.disk import Disk, using, write_whole
from storage.errors import DiskFailed, RunLocked, RunTaken
from storage.ledger import lock
from storage.ledger.ledger import Ledger, is_written, read_frames


@pytest.fixture
def silent(monkeypatch):
    """Writers of this test show no sign of life, and are cut off after an instant."""
    monkeypatch.setattr(lock, "BEAT_SECONDS", 1000.0)
    monkeypatch.setattr(lock, "CUT_OFF_SECONDS", 0.05)
    monkeypatch.setattr(lock, "FOREIGN_SECONDS", 0.05)


def table(*numbers):
    return pa.table({"n": list(numbers)})


def written(folder):
    return [frame.tables["rows"]["n"].to_pylist() for frame in read_frames(folder)]


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


class TakenOver(Disk):
    """A disk on which another writer takes over just before the k-th write or sync of a frame."""

    def __init__(self, folder, when):
        self.folder, self.when, self.newcomer = folder, when, None

    def _cut_off(self, call):
        if call == self.when and self.newcomer is None:
            self.newcomer = True  # not again by its own calls
            self.newcomer = Ledger(self.folder, "newcomer")

    def pwrite(self, handle, data, offset):
        self._cut_off("write")
        return super().pwrite(handle, data, offset)

    def sync_data(self, handle):
        self._cut_off("sync")
        super().sync_data(handle)


def test_a_writer_that_comes_back_after_another_went_on_writes_nothing(tmp_path, silent):
    with Ledger(tmp_path, "first") as first:
        first.append({"rows": table(1)})
        with Ledger(tmp_path, "second") as second:
            assert second.append({"rows": table(2)}) == 2
            before = contents(tmp_path)
            with pytest.raises(
                RunTaken, match=r"second, pid \d+ on .* writes it now; this process was cut off"
            ):
                first.append({"rows": table(3)})
            with pytest.raises(RunTaken):
                first.extent()
            first.close()
            assert contents(tmp_path) == before
            assert is_written(tmp_path), "the old writer must not give back the lock of the new one"
            assert second.append({"rows": table(4)}) == 3
    assert written(tmp_path) == [[1], [2], [4]]


@pytest.mark.parametrize("when", ["write", "sync"])
def test_a_frame_under_way_when_its_writer_is_cut_off_is_unacknowledged_and_harmless(tmp_path, silent, when):
    with Ledger(tmp_path, "first") as first:
        first.append({"rows": table(1)})
        taken = TakenOver(tmp_path, when)
        with using(taken), pytest.raises(RunTaken):
            first.append({"rows": table(2)})
        with taken.newcomer as second:
            second.append({"rows": table(3)})
            expected = (
                [[1], [2], [3]] if when == "sync" else [[1], [3]]
            )  # as after a crash: it is there or not
            assert [frame.tables["rows"]["n"].to_pylist() for frame in second.frames()] == expected
        assert written(tmp_path) == expected


def test_each_writer_has_the_next_generation(tmp_path, silent):
    with Ledger(tmp_path, "first") as first, Ledger(tmp_path, "second") as second:
        assert (first._lock.generation, second._lock.generation) == (1, 2)
        assert (first._lock.in_doubt, second._lock.in_doubt) == (False, True)
    with Ledger(tmp_path, "third") as third:
        assert third._lock.generation == 3
        assert not third._lock.in_doubt


@pytest.mark.slow
def test_a_writer_that_shows_signs_of_life_is_not_taken_over(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "BEAT_SECONDS", 0.1)
    monkeypatch.setattr(lock, "CUT_OFF_SECONDS", 0.5)
    monkeypatch.setattr(lock, "LOCK_WAIT_SECONDS", 0.8)
    with Ledger(tmp_path, "first") as first:
        with pytest.raises(RunLocked, match="first"):
            Ledger(tmp_path, "second")
        first.append({"rows": table(1)})


def signed_on_another_machine(folder):
    """Change the lock as if its holder were on another machine, whose lock does not hold here."""
    fields = json.loads((folder / lock.LOCK).read_bytes())
    (folder / lock.LOCK).write_text(json.dumps(fields | {"machine": "another", "host": "node-7"}))


def test_a_free_lock_of_another_machine_is_taken_once_its_holder_shows_no_life(tmp_path, silent):
    Ledger(tmp_path, "first").close()
    signed_on_another_machine(tmp_path)
    with Ledger(tmp_path, "second") as second:
        assert second._lock.in_doubt, "its holder may still write"


def test_a_free_lock_of_another_machine_whose_holder_is_alive_is_refused(tmp_path, silent, monkeypatch):
    monkeypatch.setattr(lock, "FOREIGN_SECONDS", 5.0)
    Ledger(tmp_path, "first").close()
    signed_on_another_machine(tmp_path)
    looks = lock._Watch.look

    def look(watch, handle, owner):
        with contextlib.suppress(RunLocked):
            return looks(watch, handle, owner)
        raise RunLocked("alive") from None

    ticks = iter(range(1, 100))
    monkeypatch.setattr(lock.time, "sleep", lambda seconds: os.utime(tmp_path / lock.LOCK, (0, next(ticks))))
    monkeypatch.setattr(lock._Watch, "look", look)
    with pytest.raises(RunLocked, match="alive"):
        Ledger(tmp_path, "second")


def test_a_lock_that_was_given_back_on_another_machine_is_taken_at_once(tmp_path, monkeypatch):
    monkeypatch.setattr(lock, "FOREIGN_SECONDS", 1000.0)
    Ledger(tmp_path, "first").close()
    signed_on_another_machine(tmp_path)
    os.utime(tmp_path / lock.LOCK, ns=(0, 0))
    with Ledger(tmp_path, "second") as second:
        assert not second._lock.in_doubt


def test_a_lock_whose_file_is_gone_ends_its_writer(tmp_path):
    with Ledger(tmp_path, "first") as first:
        (tmp_path / lock.LOCK).unlink()
        with pytest.raises(RunTaken, match="its file LOCK was removed or emptied"):
            first.append({"rows": table(1)})


def test_a_lock_that_cannot_be_read_is_no_proof_of_anything(tmp_path, monkeypatch):
    def refuse(path):
        raise OSError(5, "Input/output error")

    with Ledger(tmp_path, "first") as first:
        with monkeypatch.context() as patched:
            patched.setattr(lock, "_read", refuse)
            with pytest.raises(DiskFailed, match="LOCK: cannot be read: Input/output error"):
                first.append({"rows": table(1)})
        first.append({"rows": table(2)})
    assert written(tmp_path) == [[2]]


def test_a_guarded_folder_is_written_only_while_its_guard_allows(tmp_path):
    allowed = True

    def check():
        if not allowed:
            raise RunTaken("another process")

    end = disk.guard(tmp_path / "run", check)
    (tmp_path / "run").mkdir()
    write_whole(tmp_path / "run" / "file", [b"old"])
    allowed = False
    with pytest.raises(RunTaken):
        write_whole(tmp_path / "run" / "file", [b"new"])
    assert contents(tmp_path / "run") == {"file": b"old"}, "nothing is left of the attempt"
    write_whole(tmp_path / "run2", [b"beside it"])
    end()
    write_whole(tmp_path / "run" / "file", [b"new"])


def test_a_file_is_not_replaced_when_the_guard_closes_while_it_is_written(tmp_path):
    answers = iter([None, RunTaken("another process")])

    def check():
        answer = next(answers)
        if answer is not None:
            raise answer

    (tmp_path / "file").write_bytes(b"old")
    end = disk.guard(tmp_path, check)
    try:
        with pytest.raises(RunTaken):
            write_whole(tmp_path / "file", [b"new"])
    finally:
        end()
    assert contents(tmp_path) == {"file": b"old"}
