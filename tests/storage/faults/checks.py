"""What must be left of a league's writing, whatever happened to the disk or the process."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path

import numpy as np
import pyarrow as pa

import storage
from storage.archive import Archive, open_reader
from storage.layout import LEARNERS, LEDGER, MANIFESTS, OBJECTS, file_name
from storage.ledger.ledger import read_frames
from storage.ledger.lock import LOCK
from storage.records import MatchBatch, ResultBatch
from storage.snapshots import blobs, learner_states
from storage.tables import columns
from storage.tables.live import LiveConnection
from tests.storage.faults.faulty_disk import Killed
from tests.storage.faults.workload import PLAYER, SPEC, Item, blob_hash, results


class Promises:
    """What a writer has begun, and what it was told is done."""

    def __init__(self, said: Iterable[tuple[str, str, int]] = ()) -> None:
        self.begun: set[Item] = set()
        self.done: set[Item] = set()
        for phase, kind, number in said:
            self.hear(phase, kind, number)

    def hear(self, phase: str, kind: str, number: int) -> None:
        {"begun": self.begun, "done": self.done}[phase].add((kind, number))

    def numbers(self, kind: str, items: set[Item]) -> list[int]:
        return sorted(number for of, number in items if of == kind)


def check(run: Path, promises: Promises) -> None:
    """What was acknowledged is there, once and whole; what was begun is there whole, or not at all; nothing
    else is. Changes nothing. Raises AssertionError, or what reading raises."""
    if not run.exists():
        assert not promises.done, "the whole run is gone"
        return
    frames = list(read_frames(run / LEDGER))
    found = [_item(frame.tables) for frame in frames]
    _compare(found, promises)
    assert [frame.sequence for frame in frames] == list(range(1, len(frames) + 1))
    numbered = [
        seq
        for frame in frames
        for table in ("matches", "decisions", "updates")
        if table in frame.tables
        for seq in frame.tables[table]["seq"].to_pylist()
    ]
    assert numbered == list(range(1, len(numbered) + 1)), "rows are missing or there twice"
    _check_files(run, [number for kind, number in found if kind == "snapshot"])
    _check_learner(run, promises)


def check_opening(run: Path, promises: Promises) -> None:
    """As `check`, by asking the run as it lies there and by opening it for writing; a second opening changes
    nothing."""
    rows = storage.query(run, "SELECT DISTINCT match_id // 10 AS number FROM matches ORDER BY ALL")
    asked = rows["number"].to_pylist()
    with Archive.open(run) as archive:
        found = items_of(archive)
        _compare(found, promises)
        assert asked == sorted(number for kind, number in found if kind == "results")
        check_tables(run, found)
    before = listing(run / LEDGER)
    Archive.open(run).close()
    assert listing(run / LEDGER) == before


def _compare(found: list[Item], promises: Promises) -> None:
    there = set(found)
    assert len(there) == len(found), f"twice: {sorted(item for item in there if found.count(item) > 1)}"
    lost = {item for item in promises.done - there if item[0] != "learner"}
    assert not lost, f"acknowledged and lost: {sorted(lost)}"
    assert not there - promises.begun, f"never written: {sorted(there - promises.begun)}"


def _item(tables: dict[str, pa.Table]) -> Item:
    """Which item a frame holds. Raises AssertionError unless it is that item, whole."""
    match sorted(set(tables) - {"meetings"}):
        case ["matches", "ratings", "seats"]:
            found = columns.results_of(tables)
            number = int(found.matches.match_id[0]) // 10
            expected = results(number)
            assert _bytes_of(found) == _bytes_of(expected)
            assert _bytes_of(found.matches) == _bytes_of(expected.matches)
            assert tables["ratings"]["games"].to_pylist() == [number]
            return "results", number
        case ["competitors", "decisions", "snapshots"]:
            number = tables["snapshots"]["env_steps"][0].as_py()
            assert tables["snapshots"]["blob_hash"].to_pylist() == [blob_hash(number)]
            assert tables["decisions"]["reason"].to_pylist() == [str(number)]
            assert tables["competitors"]["competitor"].to_pylist() == [f"{PLAYER}@{number}"]
            return "snapshot", number
        case ["decisions"]:
            first, second = tables["decisions"]["reason"].to_pylist()
            assert first == second
            return "decision", int(first)
        case ["updates"]:
            ((number, loss),) = zip(
                *(tables["updates"][name].to_pylist() for name in ("updates", "policy_loss")), strict=True
            )
            assert number == loss
            return "update", number
        case ["competitors"]:
            (name,) = tables["competitors"]["competitor"].to_pylist()
            return "bot", int(name.removeprefix("bot-"))
        case ["competitors", "players"]:
            assert tables["players"]["player"].to_pylist() == [PLAYER]
            return "player", 0
        case ["runs"]:
            return "session", tables["runs"]["seed"][0].as_py()
        case names:
            raise AssertionError(f"no item has the tables {names}")


def _bytes_of(batch: ResultBatch | MatchBatch) -> list:
    values = [getattr(batch, field.name) for field in fields(batch) if field.name != "matches"]
    return [(v.dtype, v.shape, v.tobytes()) if isinstance(v, np.ndarray) else v for v in values]


def _check_files(run: Path, snapshots: list[int]) -> None:
    """Each snapshot has its blob and manifest; and no file under its own name is less than whole."""
    reader = open_reader(run)
    assert [snapshot.env_steps for snapshot in reader.snapshots()] == snapshots
    for snapshot in reader.snapshots():
        manifest = reader.manifest(snapshot.snapshot_id)
        assert (manifest["snapshot_id"], manifest["spec"]) == (snapshot.snapshot_id, SPEC)
        assert reader.blob_path(snapshot).is_file()
    for blob in (run / OBJECTS).glob("*/[!.]*"):
        blobs.verify(blob)
    for path in (run / MANIFESTS).glob("[!.]*"):
        number = int(path.stem.split("@")[1])
        assert path.stem == file_name(f"{PLAYER}@{number}")
        assert reader.manifest(f"{PLAYER}@{number}")["blob_hash"] == blob_hash(number)


def _check_learner(run: Path, promises: Promises) -> None:
    done, begun = (promises.numbers("learner", items) for items in (promises.done, promises.begun))
    saved = learner_states.load(run / LEARNERS, PLAYER)
    if saved is None:
        assert not done, "the learner's state is gone"
        return
    tensors, meta = saved
    number = meta["number"]
    assert number in begun, f"state {number} was never written"
    assert number >= max(done, default=0), f"state {number} is older than what was acknowledged"
    assert blobs.hash_of(blobs.encode(tensors)) == blob_hash(number)


def check_tables(run: Path, found: list[Item]) -> None:
    """The tables have the rows of the ledger, no more and no less."""
    with storage.connect(run) as live:
        _check_rows(live.execute, found)


def _check_rows(ask: Callable[[str], LiveConnection], found: list[Item]) -> None:
    for kind, sql in (
        ("results", "SELECT DISTINCT match_id // 10 FROM matches ORDER BY ALL"),
        ("snapshot", "SELECT env_steps FROM snapshots ORDER BY ALL"),
        ("update", "SELECT updates FROM updates ORDER BY ALL"),
        ("session", "SELECT seed FROM runs ORDER BY ALL"),
    ):
        rows = [number for (number,) in ask(sql).fetchall()]
        assert rows == sorted(number for of, number in found if of == kind), f"the tables differ in {kind}"
    for table, column in (("matches", "match_id"), ("seats", "(seq, seat)"), ("decisions", "seq")):
        ((rows, different),) = ask(f"SELECT count(*), count(DISTINCT {column}) FROM {table}").fetchall()
        assert rows == different, f"rows of {table} are there twice"
    matches = sum(1 + number % 5 for kind, number in found if kind == "results")
    assert ask("SELECT count(*), (SELECT count(*) // 2 FROM seats) FROM matches").fetchall() == [
        (matches, matches)
    ]


def assert_one_sentence(error: BaseException) -> None:
    """What a user is told is one line; of a death nothing is told."""
    assert str(error) or isinstance(error, Killed), repr(error)
    assert "\n" not in str(error), str(error)


def listing(ledger: Path) -> dict[str, bytes]:
    """The ledger's files, but for the lock, which tells who held it last, and for what is being written."""
    files = (path for path in sorted(ledger.iterdir()) if path.name != LOCK and path.name[0] != ".")
    return {path.name: path.read_bytes() for path in files}


def items_of(archive: Archive) -> list[Item]:
    """What the archive holds, in order."""
    return [_item(frame.tables) for frame in archive._ledger.frames()]
