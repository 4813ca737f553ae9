import contextlib
import itertools
import os
import shutil
import threading

import pyarrow as pa
import pytest

from storage.disk import Disk, using
from storage.errors import CorruptLedger, DiskFailed, StorageError
from storage.ledger.ledger import TORN_KEPT, Ledger, is_written, last_frame, read_frames
from tests.steps import flip_bit
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk, Killed


def table(*numbers):
    return pa.table({"n": list(numbers)})


def written(folder):
    return [frame.tables["rows"]["n"].to_pylist() for frame in read_frames(folder)]


def test_appended_batches_come_back_in_order_with_all_their_tables(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        names = pa.table({"who": pa.array(["a", "b", "a"]).dictionary_encode()})
        assert ledger.append({"rows": table(1, 2), "names": names}) == 1
        assert ledger.append({"rows": table()}) == 2
        (first, second) = ledger.frames()
    assert (first.sequence, second.sequence) == (1, 2)
    assert first.tables["names"]["who"].to_pylist() == ["a", "b", "a"]
    assert written(tmp_path) == [[1, 2], []]


def test_frames_can_be_asked_for_from_a_sequence_on_and_by_table(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        for n in range(5):
            ledger.append({"rows": table(n), **({"even": table(n)} if n % 2 == 0 else {})})
        assert [frame.sequence for frame in ledger.frames(after=3)] == [4, 5]
        (last,) = ledger.frames(after=3, tables=["even"])
        assert list(last.tables) == ["even"]
        assert ledger.last_with(["even"]).sequence == 5
        assert ledger.last_with(["never"]) is None
    assert [f.sequence for f in read_frames(tmp_path, after=1, tables=["even"])] == [3, 5]


def test_the_same_batch_id_is_written_once_also_after_reopening(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        assert ledger.append({"rows": table(1)}, b"a" * 16) == 1
        assert ledger.append({"rows": table(2)}, b"b" * 16) == 2
        assert ledger.append({"rows": table(9)}, b"a" * 16) == 1
    with Ledger(tmp_path, "test") as ledger:
        assert ledger.append({"rows": table(9)}, b"b" * 16) == 2
    assert written(tmp_path) == [[1], [2]]


def ids(*numbers):
    return [number.to_bytes(16) for number in numbers]


def test_batches_that_are_appended_together_are_frames_of_their_own_and_synced_once(tmp_path):
    class Counting(Disk):
        syncs = 0

        def sync_data(self, handle):
            self.syncs += 1
            super().sync_data(handle)

    disk = Counting()
    with using(disk), Ledger(tmp_path, "tests") as ledger:
        tables = [{"rows": table(n)} for n in range(5)]
        before = disk.syncs
        assert ledger.append_all(list(zip(tables, ids(*range(5)), strict=True))) == [1, 2, 3, 4, 5]
        assert disk.syncs == before + 1
        again = [(tables[3], *ids(3)), ({"rows": table(9)}, *ids(9))]
        assert ledger.append_all(again) == [4, 6]
        assert ledger.append_all([]) == []
    assert written(tmp_path) == [[0], [1], [2], [3], [4], [9]]


def test_a_segment_that_is_full_amid_batches_is_synced_before_the_next_one_begins(tmp_path):
    calls = []

    class Noting(Disk):
        def sync_data(self, handle):
            calls.append("sync")
            super().sync_data(handle)

        def open(self, path, flags, *more):
            calls.append(f"open {path.name}")
            return super().open(path, flags, *more)

    with using(Noting()), Ledger(tmp_path, "tests", segment_frames=2) as ledger:
        calls.clear()
        ledger.append_all([({"rows": table(n)}, *ids(n)) for n in range(5)])
        kept = [call for call in calls if call == "sync" or call.endswith(".journal")]
        assert kept == ["sync", "open 00000002.journal", "sync", "open 00000003.journal", "sync"]
        assert ledger.last_sequence == 5
    assert written(tmp_path) == [[n] for n in range(5)]


@pytest.mark.parametrize("kept", [0, 1, 40, 71, 72, 200])
def test_a_torn_tail_is_cut_by_the_writer_and_skipped_by_readers(tmp_path, kept):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(1)})
        whole = (tmp_path / "00000001.journal").stat().st_size
        ledger.append({"rows": table(2)})
    os.truncate(tmp_path / "00000001.journal", whole + kept)
    assert written(tmp_path) == [[1]]
    assert (tmp_path / "00000001.journal").stat().st_size == whole + kept, "a reader changes nothing"
    with Ledger(tmp_path, "test") as ledger:
        assert ledger.append({"rows": table(3)}) == 2
    assert written(tmp_path) == [[1], [3]]
    torn = tmp_path / f"00000001.journal.torn-{whole}"
    assert torn.exists() == (kept > 0)
    assert not kept or torn.stat().st_size == kept


def test_damage_with_whole_frames_behind_it_is_refused_with_file_and_offset(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(1)})
        second = (tmp_path / "00000001.journal").stat().st_size
        ledger.append({"rows": table(2)})
        ledger.append({"rows": table(3)})
    flip_bit(tmp_path / "00000001.journal", second + 100)
    with pytest.raises(CorruptLedger, match=rf"00000001\.journal: damaged frame at offset {second}"):
        Ledger(tmp_path, "test")
    with pytest.raises(CorruptLedger):
        written(tmp_path)
    assert not is_written(tmp_path), "a refused writer must let go of the lock"


def test_a_missing_segment_and_missing_frames_are_refused(tmp_path):
    with Ledger(tmp_path, "test", segment_bytes=1000) as ledger:
        for n in range(12):
            ledger.append({"rows": table(n)})
    third = tmp_path / "00000003.journal"
    aside = third.read_bytes()
    third.unlink()
    with pytest.raises(CorruptLedger, match=r"expected 00000003\.journal"):
        Ledger(tmp_path, "test")
    third.write_bytes(b"")
    with pytest.raises(CorruptLedger, match="frames are missing"):
        Ledger(tmp_path, "test")
    third.write_bytes(aside)
    Ledger(tmp_path, "test").close()


# ---------------------------------------------------------------------- compacting


def fill(folder, frames=10):
    """Segments of three frames, the last one open."""
    with Ledger(folder, "test", segment_frames=3) as ledger:
        for n in range(frames):
            who = pa.DictionaryArray.from_arrays([0, 1], ["a", "b", f"unused {n}"])
            ledger.append({"rows": table(n), "names": pa.table({"who": who})}, bytes([n]) * 16)


def names(folder):
    return sorted(path.name for path in folder.iterdir() if path.name != "LOCK")


@pytest.mark.parametrize("compacted", [0, 2, 9])
def test_the_highest_number_is_found_in_files_and_journals(tmp_path, compacted):
    with Ledger(tmp_path, "test", segment_frames=1) as ledger:
        assert ledger.highest({"rows": "n"}) == -1
        for numbers in ([3, 5], [], [9, 1], [4]):
            ledger.append({"rows": pa.table({"m": [[0]] * len(numbers), "n": pa.array(numbers, pa.int64())})})
        ledger.append({"sums": pa.table({"last": [7]})})
        ledger.compact(compacted)
        for columns, expected in (({"rows": "n"}, 9), ({"sums": "last"}, 7), ({"none": "n"}, -1)):
            assert ledger.highest(columns) == expected
        assert ledger.highest({"sums": "last", "rows": "n"}) == 9


def test_compacting_replaces_closed_journals_and_changes_no_frame(tmp_path):
    fill(tmp_path)
    before = list(read_frames(tmp_path))
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        assert ledger.num_closed == 3
        assert ledger.compact() == 3
        assert (ledger.compact(), ledger.num_closed) == (0, 0)
        assert list(ledger.frames()) == before
        assert [frame.sequence for frame in ledger.frames(after=4, tables=["rows"])] == [5, 6, 7, 8, 9, 10]
        assert ledger.last_with(["names", "rows"]) == before[-1]
    files = [
        f"{n:08d}.{kind}"
        for n in (1, 2, 3)
        for kind in ("frames.arrow", "json", "names.parquet", "rows.parquet")
    ]
    assert names(tmp_path) == [*files, "00000004.journal"]
    assert list(read_frames(tmp_path)) == before
    assert last_frame(tmp_path) == (10, bytes([9]) * 16)
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        assert list(ledger.frames()) == before
        assert ledger.append({"rows": table(10)}) == 11


def test_some_at_a_time_are_compacted_oldest_first(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path, "test") as ledger:
        assert ledger.compact(most=2) == 2
        assert [path.name for path in tmp_path.glob("*.journal")] == ["00000003.journal", "00000004.journal"]
        assert (ledger.compact(most=0), ledger.compact(most=5)) == (0, 1)


def test_a_batch_id_in_a_compacted_segment_is_still_known_after_reopening(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path, "test") as ledger:
        ledger.compact()
        assert ledger.append({"rows": table(99)}, bytes([1]) * 16) == 2
    with Ledger(tmp_path, "test") as ledger:
        assert ledger.append({"rows": table(99)}, bytes([4]) * 16) == 5
        assert ledger.last_sequence == 10
    assert len(written(tmp_path)) == 10


def test_a_column_that_changes_its_type_begins_a_new_segment_also_after_reopening(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(1)})
        ledger.append({"rows": pa.table({"n": ["one"]})})
        assert ledger.num_closed == 1
        ledger.append({"rows": pa.table({"n": pa.array(["two"]).dictionary_encode()})})
        assert ledger.num_closed == 1
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(3)})
        assert ledger.compact() == 2
    assert written(tmp_path) == [[1], ["one"], ["two"], [3]]


@pytest.mark.long
def test_compacting_that_dies_or_fails_at_any_call_loses_nothing_and_is_finished_later(tmp_path):
    fill(tmp_path / make(tmp_path, "before"), frames=7)
    before = list(read_frames(tmp_path / "before"))
    for call in itertools.count():
        folder, disk, effect = tmp_path / f"{call}", FaultyDisk(), (Effect.DIE_BEFORE, Effect.EIO)[call % 2]
        shutil.copytree(tmp_path / "before", folder)
        disk.plan(Fault(call, effect))
        with Ledger(folder, "test", segment_frames=3) as ledger:
            with using(disk):
                try:
                    ledger.compact()
                except (Killed, DiskFailed) as error:
                    assert effect is Effect.DIE_BEFORE or str(folder) in str(error)  # noqa: PT017  # or none
            assert list(read_frames(folder)) == before, f"a reader after call {call}"
            if effect is Effect.EIO:  # it goes on
                assert list(ledger.frames()) == before
                assert ledger.append({"rows": table(7)}) == 8
                ledger.compact()
                assert ledger.num_closed == 0
        with Ledger(folder, "test", segment_frames=3) as again:
            assert list(again.frames())[:7] == before, f"the next writer after call {call}"
            forms = [[(folder / f"{n:08d}.{form}").exists() for form in ("json", "journal")] for n in (1, 2)]
            assert all(there != journal for there, journal in forms)
            again.compact()
            assert list(again.frames())[:7] == before
        assert written(folder) == [[n] for n in range(8 if effect is Effect.EIO else 7)]
        assert [path.name for path in folder.glob("*.journal")] == ["00000003.journal"]
        shutil.rmtree(folder)
        if disk.happened is None:
            break
    assert call > 60


def test_a_damaged_segment_whose_journal_is_there_still_is_made_again_from_it(tmp_path):
    fill(tmp_path)
    before, journal = list(read_frames(tmp_path)), (tmp_path / "00000002.journal").read_bytes()
    with Ledger(tmp_path, "test") as ledger:
        ledger.compact()
    (tmp_path / "00000002.journal").write_bytes(journal)
    (tmp_path / "00000002.rows.parquet").unlink()
    with Ledger(tmp_path, "test") as ledger:
        assert list(ledger.frames()) == before
        assert [segment.number for segment in ledger.compacted] == [1, 2, 3]
    assert list(read_frames(tmp_path)) == before
    assert not (tmp_path / "00000002.journal").exists()


def test_a_missing_or_exchanged_compacted_segment_is_refused(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path, "test") as ledger:
        ledger.compact()
    manifest = tmp_path / "00000002.json"
    aside = manifest.read_bytes()
    manifest.unlink()
    with pytest.raises(CorruptLedger, match=r"expected 00000002\.journal or 00000002\.json: it is missing"):
        Ledger(tmp_path, "test")
    with pytest.raises(CorruptLedger, match="missing"):
        written(tmp_path)
    manifest.write_bytes(aside)
    for path in tmp_path.glob("00000003.*"):
        path.rename(path.with_name(path.name.replace("00000003", "00000005")))
    with pytest.raises(CorruptLedger, match="00000003"):
        Ledger(tmp_path, "test")


def test_a_ledger_whose_last_journal_is_missing_behind_compacted_segments_is_refused(tmp_path):
    fill(tmp_path)
    with Ledger(tmp_path, "test") as ledger:
        ledger.compact()
    (tmp_path / "00000004.journal").unlink()
    with pytest.raises(CorruptLedger, match=r"expected 00000004\.journal"):
        Ledger(tmp_path, "test")
    assert not is_written(tmp_path)


@pytest.mark.parametrize("step", [0, 3, 9])
def test_frames_can_be_iterated_while_segments_are_closed_and_compacted(tmp_path, step):
    fill(tmp_path)
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        found = []
        frames = ledger.frames()
        for n in range(10):
            if n == step:
                for m in range(10, 17):
                    ledger.append({"rows": table(m)})
                assert ledger.compact() == 5
            found += next(frames).tables["rows"]["n"].to_pylist()
        assert found == list(range(10))
        assert next(frames, None) is None or step == 0
        assert [frame.tables["rows"]["n"].to_pylist() for frame in ledger.frames()] == [
            [n] for n in range(17)
        ]


@pytest.mark.long
def test_another_thread_compacts_while_the_owner_appends_and_reads(tmp_path):
    done = threading.Event()
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:

        def compact():
            while not done.is_set():
                ledger.compact()

        thread = threading.Thread(target=compact)
        thread.start()
        try:
            for n in range(60):
                ledger.append({"rows": table(n)})
                if n % 10 == 0:
                    assert [f.sequence for f in ledger.frames()] == list(range(1, n + 2))
                    assert [f.sequence for f in read_frames(tmp_path)] == list(range(1, n + 2))
        finally:
            done.set()
            thread.join()
        assert ledger.last_sequence == 60
    assert written(tmp_path) == [[n] for n in range(60)]


def test_a_copy_of_the_extent_has_everything_acknowledged_and_nothing_else(tmp_path):
    fill(tmp_path / make(tmp_path, "run"))
    with Ledger(tmp_path / "run", "test", segment_frames=3) as ledger:
        for compacted in (0, 2, 3):
            ledger.compact(most=compacted)
            with open(tmp_path / "run" / "00000004.journal", "ab") as file:
                file.write(b"LGFRAME1 written, but not acknowledged")
            copy = tmp_path / make(tmp_path, f"copy-{compacted}")
            for path, size in ledger.extent():
                (copy / path.name).write_bytes(path.read_bytes()[:size])
            assert written(copy) == [[n] for n in range(10)]
            with Ledger(copy, "test") as other:
                assert other.append({"rows": table(99)}, bytes([5]) * 16) == 6
            assert not list(copy.glob("*.torn-*"))


# ---------------------------------------------------------------------- opening


def test_only_the_newest_torn_tails_are_kept(tmp_path):
    for n in range(2 * TORN_KEPT):
        with Ledger(tmp_path, "test", segment_frames=3) as ledger:
            ledger.append({"rows": table(n)})
            path, _ = ledger.extent()[-1]
        with open(path, "ab") as file:
            file.write(b"torn" * 20 + bytes([n]))
    Ledger(tmp_path, "test").close()
    torn = {path.read_bytes()[-1] for path in tmp_path.glob("*.torn-*")}
    assert torn == set(range(TORN_KEPT, 2 * TORN_KEPT))
    assert written(tmp_path) == [[n] for n in range(2 * TORN_KEPT)]


def test_files_that_a_killed_writer_left_half_written_are_removed(tmp_path):
    fill(tmp_path)
    disk = FaultyDisk()
    disk.plan(Fault(4, Effect.DIE_BEFORE))
    with Ledger(tmp_path, "test") as ledger, using(disk), pytest.raises(Killed):
        ledger.compact()
    assert list(tmp_path.glob(".*.tmp"))
    Ledger(tmp_path, "test").close()
    assert names(tmp_path) == [f"{n:08d}.journal" for n in range(1, 5)]


def test_the_last_frame_is_written_again_and_synced_before_anything_is_acknowledged(tmp_path):
    """Its writer may have been killed, or been told that it could not be synced."""

    class Watching(Disk):
        def __init__(self):
            self.written, self.synced = [], []

        def pwrite(self, handle, data, offset):
            if os.readlink(f"/proc/self/fd/{handle}") == str(journal):
                self.written.append((offset, bytes(data)))
            return super().pwrite(handle, data, offset)

        def sync(self, handle):
            self.synced.append((os.readlink(f"/proc/self/fd/{handle}"), len(self.written)))
            super().sync(handle)

    fill(tmp_path, frames=6)
    journal, disk = tmp_path / "00000002.journal", Watching()
    with using(disk), Ledger(tmp_path, "test") as ledger:
        ((offset, last),) = disk.written
        assert journal.read_bytes()[offset:] == last
        assert disk.synced == [(str(journal), 1)]
        assert ledger.append({"rows": table(0)}, bytes([5]) * 16) == 6


@pytest.mark.slow
def test_a_disk_failing_at_any_call_of_opening_or_append_loses_nothing_acknowledged(tmp_path):
    for call in itertools.count():
        folder, disk, ledger, acknowledged = tmp_path / make(tmp_path, f"{call}"), FaultyDisk(), None, 4
        fill(folder, frames=4)
        with open(folder / "00000002.journal", "ab") as file:
            file.write(b"torn")
        disk.plan(Fault(call, Effect.ENOSPC))
        with using(disk), contextlib.suppress(DiskFailed):
            ledger = Ledger(folder, "test", segment_frames=3)
            for n in range(4, 12):
                ledger.append({"rows": table(n)})
                acknowledged = n + 1
        if disk.happened is None:
            break
        if ledger is not None and acknowledged < 12:
            with pytest.raises(StorageError, match="open the run again to go on"):
                ledger.append({"rows": table(99)})
        if ledger is not None:
            ledger.close()
        assert len(written(folder)) in (acknowledged, acknowledged + 1)
        with Ledger(folder, "test", segment_frames=3) as again:
            assert again.last_sequence in (acknowledged, acknowledged + 1)
            assert again.append({"rows": table(again.last_sequence)}) == again.last_sequence
        assert written(folder) == [[n] for n in range(len(written(folder)))]
    ledger.close()
    assert call > 30


def make(parent, name):
    (parent / name).mkdir()
    return name
