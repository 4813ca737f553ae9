import shutil
import subprocess
import sys
import threading

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from storage.errors import CorruptLedger, StorageError
from storage.ledger import follower
from storage.ledger.frames import decode
from storage.ledger.ledger import Follower, Ledger, last_frame, read_frames, read_tables
from tests.parameters import mostly_long
from tests.steps import flip_bit

WRITER = """
import sys
import pyarrow as pa
from pathlib import Path
from storage.ledger.ledger import Ledger

with Ledger(Path(sys.argv[1]), "the child", segment_frames=5) as ledger:
    for n in range(1, 201):
        ledger.append({"rows": pa.table({"n": [n]})})
        print(n, flush=True)
        if n % 7 == 0:
            ledger.compact()
"""


def table(*numbers):
    return pa.table({"n": numbers})


def poll(follower):
    """What a follower's `look` gives, with its segments verified and its frames decoded."""
    segments, payloads = follower.look()
    for segment in segments:
        segment.verify()
    return segments, [decode(place, payload) for place, payload in payloads]


class Consumer:
    """Keeps what a follower gives, as its docstring says: frames until their segment is compacted."""

    def __init__(self, folder):
        self.follower = Follower(folder)
        self.segments = []
        self.frames = []

    def poll(self):
        """The numbers in the rows seen so far."""
        segments, frames = poll(self.follower)
        self.segments += segments
        covered = self.segments[-1].last if self.segments else 0
        self.frames = [frame for frame in self.frames + frames if frame.sequence > covered]
        found = [n for segment in self.segments for n in pq.read_table(segment.path("rows"))["n"].to_pylist()]
        return found + [n for frame in self.frames for n in frame.tables["rows"]["n"].to_pylist()]


def test_a_follower_gives_each_frame_once_and_nothing_when_nothing_is_new(tmp_path):
    follower = Follower(tmp_path)
    assert poll(follower) == ([], [])
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        assert poll(follower) == ([], [])
        for n in range(1, 5):
            ledger.append({"rows": table(n)})
        segments, frames = poll(follower)
        assert (segments, [frame.sequence for frame in frames], follower.last) == ([], [1, 2, 3, 4], 4)
        assert poll(follower) == ([], [])
        ledger.append({"rows": table(5)})
        assert [frame.sequence for frame in poll(follower)[1]] == [5]


def test_a_segment_compacted_after_its_frames_were_given_is_reported_without_them(tmp_path):
    follower = Follower(tmp_path)
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        for n in range(1, 8):
            ledger.append({"rows": table(n)})
        assert len(poll(follower)[1]) == 7
        ledger.compact()
        (first, second), frames = poll(follower)
        assert (first.number, first.first, first.last, first.rows("rows")) == (1, 1, 3, 3)
        assert (second.number, second.first, second.last) == (2, 4, 6)
        assert (frames, follower.last) == ([], 7)
        ledger.append({"rows": table(8)})
        assert [frame.sequence for frame in poll(follower)[1]] == [8]


@pytest.mark.slow
@pytest.mark.parametrize("seed", mostly_long(range(5), 3, variant=True))
def test_a_follower_has_every_row_once_across_closing_compaction_and_restart(tmp_path, seed):
    rng = np.random.default_rng(seed)
    consumer, written = Consumer(tmp_path), 0
    ledger = Ledger(tmp_path, "test", segment_frames=4)
    try:
        for _ in range(60):
            action = rng.choice(["append", "append", "compact", "restart", "torn", "poll", "poll"])
            if action == "append":
                for _ in range(rng.integers(1, 9)):
                    written = ledger.append({"rows": table(written + 1)})
            elif action == "compact":
                ledger.compact(most=int(rng.integers(1, 4)))
            elif action == "poll":
                assert consumer.poll() == list(range(1, written + 1))
            else:
                path, _ = ledger.extent()[-1]
                ledger.close()
                if action == "torn":
                    with open(path, "ab") as file:
                        file.write(b"LGFRAME1 torn")
                    assert consumer.poll() == list(range(1, written + 1))
                ledger = Ledger(tmp_path, "test", segment_frames=4)
        assert consumer.poll() == Consumer(tmp_path).poll() == list(range(1, written + 1))
    finally:
        ledger.close()


@pytest.mark.slow
def test_readers_of_a_writing_process_are_never_behind_what_it_acknowledged(tmp_path):
    early = Consumer(tmp_path)
    child = subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
    try:
        for line in child.stdout:
            acknowledged = int(line)
            found = early.poll()
            assert found == list(range(1, len(found) + 1))
            assert len(found) >= acknowledged
            if acknowledged % 50 == 0:
                assert len(Consumer(tmp_path).poll()) >= acknowledged
                assert len(list(read_frames(tmp_path))) >= acknowledged
                assert len(read_tables(tmp_path, ["rows"])["rows"]) >= acknowledged
                assert last_frame(tmp_path)[0] >= acknowledged
    finally:
        child.kill()
        child.communicate()
    assert early.poll() == list(range(1, 201))


def test_a_journal_replaced_between_looking_and_opening_is_looked_for_again(tmp_path, monkeypatch):
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        for n in range(1, 11):
            ledger.append({"rows": table(n)})
        compacting = threading.Lock()

        def late(path, mode):
            if compacting.acquire(blocking=False):
                ledger.compact()
            return open(path, mode)

        for read in (
            lambda: [frame.sequence for frame in read_frames(tmp_path)],
            lambda: read_tables(tmp_path, ["rows"])["rows"]["n"].to_pylist(),
            lambda: Consumer(tmp_path).poll(),
            lambda: list(range(1, last_frame(tmp_path)[0] + 1)),
        ):
            monkeypatch.setattr(follower, "open", late, raising=False)
            assert read() == list(range(1, ledger.last_sequence + 1))
            monkeypatch.undo()
            assert compacting.locked()
            assert ledger.num_closed == 0
            compacting.release()
            for _ in range(4):
                ledger.append({"rows": table(ledger.last_sequence + 1)})


def test_a_follower_whose_journal_shrinks_or_is_lost_says_so(tmp_path):
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        for n in range(1, 6):
            ledger.append({"rows": table(n)})
    follower = Follower(tmp_path)
    poll(follower)
    journal = tmp_path / "00000002.journal"
    journal.write_bytes(journal.read_bytes()[:-1])
    with pytest.raises(CorruptLedger, match=r"00000002\.journal: found \d+ bytes where \d+ were before"):
        poll(follower)
    journal.unlink()
    with pytest.raises(CorruptLedger, match=r"expected 00000002\.journal or 00000002\.json: it is missing"):
        poll(follower)


def test_a_follower_refuses_damage(tmp_path):
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        for n in range(1, 9):
            ledger.append({"rows": table(n)})
        ledger.compact(most=1)
    for name in ("00000001.rows.parquet", "00000001.json", "00000002.journal"):
        folder = tmp_path / "copies" / name
        folder.parent.mkdir(exist_ok=True)
        shutil.copytree(tmp_path, folder, ignore=shutil.ignore_patterns("copies"))
        flip_bit(folder / name, 0.5)
        with pytest.raises(CorruptLedger, match=name):
            poll(Follower(folder))
        with pytest.raises(CorruptLedger, match=name):
            read_tables(folder, ["rows"])


def test_a_journal_that_cannot_be_read_is_one_sentence(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": table(1)})
    (tmp_path / "00000001.journal").unlink()
    (tmp_path / "00000001.journal").mkdir()
    for read in (lambda: poll(Follower(tmp_path)), lambda: list(read_frames(tmp_path))):
        with pytest.raises(StorageError, match=r"00000001\.journal: cannot be read: Is a directory"):
            read()


def test_tables_are_read_in_order_as_plain_text_from_segments_and_tail(tmp_path):
    with Ledger(tmp_path, "test", segment_frames=3) as ledger:
        for n in range(1, 8):
            who = pa.DictionaryArray.from_arrays(pa.array([1, None], pa.int8()), ["unused", f"p{n}"])
            tables = {"rows": pa.table({"who": who} | ({"late": [n, n]} if n > 5 else {})), "empty": table()}
            ledger.append(tables | ({"tail": table(n)} if n == 7 else {}))
        ledger.compact()
    found = read_tables(tmp_path, ["rows", "empty", "tail", "never"])
    assert list(found) == ["rows", "tail"]
    assert found["rows"]["who"].to_pylist() == [name for n in range(1, 8) for name in (f"p{n}", None)]
    assert found["rows"]["late"].to_pylist() == [None] * 10 + [6, 6, 7, 7]
    assert found["rows"].schema.field("who").type == pa.string()


def test_a_column_that_widened_between_segments_is_read_wide(tmp_path):
    with Ledger(tmp_path, "test") as ledger:
        ledger.append({"rows": pa.table({"n": pa.array([1], pa.int8())})})
        ledger.append({"rows": table(1000)})
    assert read_tables(tmp_path, ["rows"])["rows"]["n"].to_pylist() == [1, 1000]
