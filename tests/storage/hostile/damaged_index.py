"""What becomes of an index that was damaged between two sessions; run by `limited`."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np

import storage
from storage.archive import Archive
from storage.layout import INDEX, LEDGER
from storage.ledger.ledger import Frame, Ledger
from storage.records import MAIN, Bot, LivePlayer, RatingChange
from storage.tables.columns import result_tables
from storage.tables.database import Database
from tests.bench.storage_results import random_results
from tests.storage.hostile.mutations import mutant

TABLES = ("runs", "players", "snapshots", "competitors", "matches", "seats", "meetings", "ratings")
VIEWS = ("payoff", "leaderboard", "match_mix")
SECTOR, PAGE, BLOCK = 512, 4096, 2**18  # bytes; DuckDB's file is of blocks behind three pages of heads
TORN_AT = 12_288  # where DuckDB rewrites its first block in place

Files = dict[str, bytes]  # the index, and its write-ahead log where there is one


def index_damages(folder: str, first_seed: int, count: int) -> dict[str, int]:
    """Each damage is followed by a session: it must open, and its tables must be the ledger's. What is not
    used any more must lie aside."""
    logging.disable(logging.WARNING)  # every rebuild says so
    run, found = Path(folder) / "run", Counter[str]()
    older, unclosed, newest = _sessions(run)
    _put_back(run, {})
    expected = _of_a_session(run)
    assert expected == _of_a_reader(run)
    for seed in range(first_seed, first_seed + count):
        rng, damage = Random(seed), DAMAGES[seed % len(DAMAGES)]
        files = damage(dict(rng.choice((newest, newest, unclosed))), older, rng)
        name = damage.__name__.lstrip("_")
        print(seed, name, flush=True)  # when the process crashes, the last line tells what did it
        _put_back(run, files)
        if seed % 5 == 0:
            assert _of_a_reader(run) == expected, (seed, name)
        before = (run / INDEX).stat().st_ino if (run / INDEX).exists() else None
        assert _of_a_session(run) == expected, (seed, name)
        rebuilt = (run / INDEX).stat().st_ino != before
        aside = [path for path in run.glob(f"{INDEX}.damaged-*") if path.suffix != ".wal"]
        assert [path.stat().st_ino for path in aside] == ([before] if rebuilt and before else []), (
            seed,
            name,
        )
        found[f"{name}, {'rebuilt' if rebuilt else 'went on'}"] += 1
    return dict(found)


def _deleted(files: Files, older: Files, rng: Random) -> Files:
    del files[rng.choice(sorted(files))]
    return files


def _truncated(files: Files, older: Files, rng: Random) -> Files:
    name = rng.choice(sorted(files))
    return files | {name: files[name][: rng.randrange(len(files[name]))]}


def _zeroed(files: Files, older: Files, rng: Random) -> Files:
    size = rng.choice((PAGE, BLOCK))
    return files | {INDEX: _overlaid(files[INDEX], _aligned(files[INDEX], size, rng), bytes(size))}


def _torn(files: Files, older: Files, rng: Random) -> Files:
    """Some sectors of a block, mostly the one that is rewritten in place, are from before."""
    block = TORN_AT if rng.random() < 0.7 else _aligned(older[INDEX], PAGE, rng)
    data = files[INDEX]
    for at in range(block, min(block + BLOCK, len(older[INDEX])), SECTOR):
        if rng.random() < 0.5:
            data = _overlaid(data, at, older[INDEX][at : at + SECTOR])
    return files | {INDEX: data}


def _older_copy(files: Files, older: Files, rng: Random) -> Files:
    """The file of before: beside whatever log is there, with a log of its time, or alone."""
    file = {INDEX: older[INDEX]}
    return rng.choice((files | file, older, file))


def _flipped(files: Files, older: Files, rng: Random) -> Files:
    name = rng.choice(sorted(files))
    data = bytearray(files[name])
    for _ in range(rng.choice((1, 3, 100))):
        data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return files | {name: bytes(data)}


def _mutated(files: Files, older: Files, rng: Random) -> Files:
    name = rng.choice(sorted(files))
    return files | {name: mutant(files[name], rng.randrange(2**32))}


def _foreign_log(files: Files, older: Files, rng: Random) -> Files:
    """A write-ahead log of noise, of another time, or the right one with a part of it."""
    logs = [rng.randbytes(rng.randrange(1, 10_000)), older[WAL]]
    if WAL in files:
        logs += [files[WAL][: rng.randrange(len(files[WAL]))]]
    return files | {WAL: rng.choice(logs)}


WAL = f"{INDEX}.wal"
DAMAGES = (_deleted, _truncated, _zeroed, _torn, _older_copy, _flipped, _mutated, _foreign_log)


def _aligned(data: bytes, size: int, rng: Random) -> int:
    return rng.randrange(max(len(data) // size, 1)) * size


def _overlaid(data: bytes, at: int, piece: bytes) -> bytes:
    return data[:at] + piece[: len(data) - at] + data[at + len(piece) :]


def _sessions(run: Path) -> tuple[Files, Files, Files]:
    """The index after a session (with a log of its midst), and of the next one before and after its end.

    The first segments of the ledger are Parquet then, the last is a journal."""
    rng = np.random.default_rng(0)
    with Archive.create(run, "{}", {"name": "x", "env": "connect_four", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
    with _session(run) as (ledger, database):
        _play(ledger, database, rng)
        log = _files(run)[WAL]
    older = _files(run) | {WAL: log}
    with _session(run) as (ledger, database):
        _play(ledger, database, rng)
        unclosed = _files(run)
    newest = _files(run)
    with _session(run) as (ledger, _):
        assert ledger.compact() > 1
    assert WAL in unclosed
    assert len(newest[INDEX]) > len(older[INDEX]) > TORN_AT + 2 * BLOCK
    return older, unclosed, newest


@contextmanager
def _session(run: Path) -> Iterator[tuple[Ledger, Database]]:
    with Ledger(run / LEDGER, "a session", segment_frames=4) as ledger:
        database = Database.open(run / INDEX, ledger)
        try:
            yield ledger, database
        finally:
            database.close()


def _play(ledger: Ledger, database: Database, rng: np.random.Generator) -> None:
    for _ in range(5):
        number, results = ledger.last_sequence + 1, random_results(rng, 1000, ("main-0", "random"))
        changes = [RatingChange("main-0", rng.normal(), 1.0, 1)]
        tables, batch_id = result_tables(results, changes, 1000 * number, number), rng.bytes(16)
        database.ingest(Frame(ledger.append(tables, batch_id), batch_id, tables))
    database.flush()


def _files(run: Path) -> Files:
    return {name: (run / name).read_bytes() for name in (INDEX, WAL) if (run / name).exists()}


def _put_back(run: Path, files: Files) -> None:
    for path in run.glob(f"{INDEX}*"):
        path.unlink()
    for name, data in files.items():
        (run / name).write_bytes(data)


def _of_a_session(run: Path) -> dict[str, Any]:
    with _session(run) as (_, database):
        return _sums(database.connection)


def _of_a_reader(run: Path) -> dict[str, Any]:
    with storage.connect(run) as connection:
        return _sums(connection)


def _sums(connection: duckdb.DuckDBPyConnection) -> dict[str, Any]:
    """(rows, a sum over them that no order changes) of every table and of some views."""
    question = "SELECT count(*), sum(hash(row)::HUGEINT) FROM (SELECT COLUMNS(*)::VARCHAR FROM {}) row"
    return {name: connection.execute(question.format(name)).fetchone() for name in (*TABLES, *VIEWS)}
