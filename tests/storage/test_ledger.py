import os
import signal
import subprocess
import sys

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from storage.errors import CorruptLedger, RunLocked, StorageError
from storage.ledger import Ledger, is_written, last_frame, read_frames

WRITER = """
import sys
import pyarrow as pa
from pathlib import Path
from storage.ledger import Ledger

ledger = Ledger(Path(sys.argv[1]), "the child", segment_bytes=20_000)
number = ledger.last_sequence
while True:
    rows = pa.table({"n": [number] * (1 + number % 700), "text": [str(number) * 5] * (1 + number % 700)})
    number = ledger.append({"rows": rows})
    print(number, flush=True)
"""


def table(*numbers):
    return pa.table({"n": list(numbers)})


def written(folder):
    return [frame.tables["rows"]["n"].to_pylist() for frame in read_frames(folder)]


def start_writer(folder):
    return subprocess.Popen([sys.executable, "-c", WRITER, str(folder)], stdout=subprocess.PIPE, text=True)


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


def test_segments_are_rolled_and_read_as_one(tmp_path):
    with Ledger(tmp_path, "test", segment_bytes=1000) as ledger:
        for n in range(20):
            ledger.append({"rows": table(n)})
    assert len(list(tmp_path.glob("*.journal"))) > 3
    with Ledger(tmp_path, "test", segment_bytes=1000) as ledger:
        ledger.append({"rows": table(20)})
    assert written(tmp_path) == [[n] for n in range(21)]
    assert last_frame(tmp_path)[0] == 21


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


def test_a_tail_of_zeros_is_torn_too(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(1)})
    with open(tmp_path / "00000001.journal", "ab") as file:
        file.write(bytes(5000))
    with Ledger(tmp_path, "test") as ledger:
        assert ledger.last_sequence == 1


def test_damage_with_whole_frames_behind_it_is_refused_with_file_and_offset(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(1)})
        second = (tmp_path / "00000001.journal").stat().st_size
        ledger.append({"rows": table(2)})
        ledger.append({"rows": table(3)})
    flip(tmp_path / "00000001.journal", second + 100)
    with pytest.raises(CorruptLedger, match=rf"00000001\.journal: damaged frame at offset {second}"):
        Ledger(tmp_path, "test")
    with pytest.raises(CorruptLedger):
        written(tmp_path)
    assert not is_written(tmp_path), "a refused writer must let go of the lock"


def test_a_torn_tail_in_an_earlier_segment_is_refused(tmp_path):
    with Ledger(tmp_path, "test", segment_bytes=1000) as ledger:
        for n in range(10):
            ledger.append({"rows": table(n)})
    first = tmp_path / "00000001.journal"
    os.truncate(first, first.stat().st_size - 1)
    with pytest.raises(CorruptLedger, match=r"00000001\.journal"):
        Ledger(tmp_path, "test")


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


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), bit=st.integers(0, 7))
def test_no_flipped_bit_before_the_last_frame_goes_unnoticed(tmp_path, where, bit):
    folder = tmp_path / f"{where}-{bit}"
    folder.mkdir(exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    with Ledger(folder, "test") as ledger:
        for n in range(3):
            before_last = (folder / "00000001.journal").stat().st_size
            ledger.append({"rows": table(n)})
    flip(folder / "00000001.journal", int(where * before_last), bit)
    with pytest.raises(CorruptLedger):
        written(folder)


def test_a_second_writer_is_told_who_writes(tmp_path):
    child = start_writer(tmp_path)
    try:
        child.stdout.readline()
        assert is_written(tmp_path)
        with pytest.raises(RunLocked, match=rf"the child, pid {child.pid} on"):
            Ledger(tmp_path, "test")
    finally:
        child.kill()
        child.communicate()
    assert not is_written(tmp_path)
    Ledger(tmp_path, "test").close()


def test_a_second_writer_of_the_same_process_is_refused_too(tmp_path):
    with Ledger(tmp_path, "first"), pytest.raises(RunLocked, match="first"):
        Ledger(tmp_path, "second")


def test_a_reader_sees_what_a_living_writer_has_acknowledged(tmp_path):
    child = start_writer(tmp_path)
    try:
        for _ in range(5):
            acknowledged = int(child.stdout.readline())
            assert last_frame(tmp_path)[0] >= acknowledged
            assert len(written(tmp_path)) >= acknowledged
    finally:
        child.kill()
        child.communicate()


def test_no_acknowledged_batch_is_lost_to_kill_9(tmp_path):
    acknowledged = 0
    for life in range(10):
        child = start_writer(tmp_path)
        for _ in range(3 + 4 * life):
            acknowledged = int(child.stdout.readline())
        os.kill(child.pid, signal.SIGKILL)
        rest, _ = child.communicate()
        acknowledged = max([acknowledged, *(int(line) for line in rest.split("\n")[:-1])])
        found = written(tmp_path)
        assert len(found) >= acknowledged
        assert [batch[0] for batch in found] == list(range(len(found)))
        assert [len(batch) for batch in found] == [1 + n % 700 for n in range(len(found))]
    assert acknowledged > 100


def test_after_a_failed_write_everything_is_refused_until_reopened(tmp_path):
    ledger = Ledger(tmp_path, "test")
    ledger.append({"rows": table(1)})
    os.close(ledger._file)  # the next write fails for real: EBADF
    with pytest.raises(StorageError, match="writing frame 2 failed"):
        ledger.append({"rows": table(2)})
    with pytest.raises(StorageError, match="failed to write before; open the run again"):
        ledger.append({"rows": table(2)})
    ledger._file = -1
    ledger.close()
    with Ledger(tmp_path, "test") as again:
        assert again.append({"rows": table(2)}) == 2


def flip(path, offset, bit=3):
    data = bytearray(path.read_bytes())
    data[offset] ^= 1 << bit
    path.write_bytes(data)
