"""The DuckDB index of a ledger: derived, disposable, rebuilt when it is lost, damaged or of another time.

One process holds a DuckDB file, so readers beside a writer fold the ledger into a DuckDB of their
own (`connect`): same tables, same views, as fresh as the last acknowledged batch.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from pathlib import Path

import duckdb
import pyarrow as pa

from storage.errors import BadQuery, NotARun
from storage.ledger import is_locked, last_sequence, read_frames

SCHEMA = (Path(__file__).parent / "schema.sql").read_text()
SCHEMA_VERSION = 1
TABLES = (
    "runs", "players", "snapshots", "competitors", "matches", "seats", "ratings", "decisions", "updates"
)  # fmt: skip
MAX_ROWS = 100_000  # of one insert: larger ones bypass DuckDB's write-ahead log
FLUSH_SECONDS = 1.0
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}


class Database:
    """The index file of one run, kept by the process that writes the run."""

    def __init__(self, path: Path, ledger: Path) -> None:
        self._path = path
        self._waiting: dict[str, list[pa.Table]] = {}
        self._waiting_rows = 0
        self._flushed_at = time.monotonic()
        self.sequence = 0
        connection = _open_sound(path, last_sequence(ledger))
        self.rebuilt = connection is None
        if connection is None:
            _set_aside(path)
            connection = duckdb.connect(str(path), config={**CONFIG, "threads": "1"})
            _create(connection)
        self._connection = connection
        self.sequence = _sequence(connection)
        for frame in read_frames(ledger, after=self.sequence):
            self.ingest(frame.sequence, frame.tables)
        self.flush()

    def ingest(self, sequence: int, tables: Mapping[str, pa.Table]) -> None:
        """Take in one acknowledged batch; it reaches the file within a second or so, or at `flush`."""
        for name, table in tables.items():
            self._waiting.setdefault(name, []).append(table)
            self._waiting_rows += table.num_rows
        self.sequence = sequence
        if self._waiting_rows >= MAX_ROWS or time.monotonic() - self._flushed_at > FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Write what waits, and how far in the ledger that is, in one transaction."""
        if self._waiting:
            self._connection.begin()
            for name, parts in self._waiting.items():
                _insert(self._connection, name, parts)
            self._connection.execute("UPDATE ingest_state SET sequence = ?", [self.sequence])
            self._connection.commit()
        self._waiting, self._waiting_rows = {}, 0
        self._flushed_at = time.monotonic()

    def close(self) -> None:
        self.flush()
        self._connection.close()


def connect(run: str | Path) -> duckdb.DuckDBPyConnection:
    """A connection to a run's tables and views as they are now, whether or not a writer is at work.

    The writer is not disturbed and nothing of the run is changed: what is done to these tables is
    done to a copy in memory. Raises NotARun for a folder that holds no run.
    """
    run = Path(run)
    ledger = run / "ledger"
    if not ledger.is_dir():
        raise NotARun(f"{run}: no run is here (there is no ledger), expected a run folder")
    connection = duckdb.connect(":memory:", config=CONFIG)
    if not is_locked(ledger) and _copy_index(connection, run / "league.duckdb", last_sequence(ledger)):
        return connection
    _create(connection)
    waiting: dict[str, list[pa.Table]] = {}
    for frame in read_frames(ledger):
        for name, table in frame.tables.items():
            waiting.setdefault(name, []).append(table)
    for name, parts in waiting.items():
        _insert(connection, name, parts)
    return connection


def query(run: str | Path, sql: str, *, timeout_seconds: float = 60.0) -> pa.Table:
    """The answer to a user's SQL, which can read nothing but the run's tables.

    Raises BadQuery, in one sentence, for SQL that DuckDB refuses or that takes too long.
    """
    connection = connect(run)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    timer = threading.Timer(timeout_seconds, connection.interrupt)
    timer.start()
    try:
        answer = connection.sql(sql)
        return pa.table({}) if answer is None else answer.to_arrow_table()
    except duckdb.InterruptException as error:
        raise BadQuery(
            f"sql: took longer than {timeout_seconds:g} s and was stopped; ask for less"
        ) from error
    except duckdb.Error as error:
        message = " ".join(line.strip() for line in str(error).splitlines() if line.strip())
        raise BadQuery(f"sql: {message}") from error
    finally:
        timer.cancel()
        connection.close()


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    connection.begin()
    connection.execute(SCHEMA)
    connection.execute("INSERT INTO ingest_state VALUES (0, ?)", [SCHEMA_VERSION])
    connection.commit()


def _sequence(connection: duckdb.DuckDBPyConnection) -> int:
    """How much of the ledger is in the index, -1 if it was made by another version."""
    row = connection.execute(
        "SELECT sequence FROM ingest_state WHERE schema_version = ?", [SCHEMA_VERSION]
    ).fetchone()
    return -1 if row is None else int(row[0])


def _insert(connection: duckdb.DuckDBPyConnection, name: str, parts: list[pa.Table]) -> None:
    if name not in TABLES:
        return  # written by a later version: this one has no place for it
    rows = pa.concat_tables([_plain(part) for part in parts], promote_options="default")
    for start in range(0, rows.num_rows, MAX_ROWS):
        chunk = rows.slice(start, MAX_ROWS)
        connection.register("arriving", chunk)
        connection.execute(f"INSERT INTO {name} BY NAME SELECT * FROM arriving")
        connection.unregister("arriving")


def _plain(table: pa.Table) -> pa.Table:
    """Dictionary columns as strings: parts of different batches have different dictionaries."""
    fields = [
        field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _open_sound(path: Path, ledger_sequence: int) -> duckdb.DuckDBPyConnection | None:
    """The index, if it opens, is whole, of this version and not ahead of its ledger."""
    if not path.exists():
        return None
    try:
        connection = duckdb.connect(str(path), config={**CONFIG, "threads": "1"})
    except duckdb.Error:
        return None
    try:
        sound = 0 <= _sequence(connection) <= ledger_sequence
        for name in TABLES:
            connection.execute(f"SELECT count(*) FROM {name}").fetchone()
    except duckdb.Error:
        sound = False
    if not sound:
        connection.close()
        return None
    return connection


def _set_aside(path: Path) -> None:
    """Move a damaged index and its write-ahead log out of the way, so that it can be looked into."""
    number = 0
    while path.exists() and path.with_name(f"{path.name}.damaged-{number}").exists():
        number += 1
    for each in (path, path.with_name(path.name + ".wal")):
        if each.exists():
            each.rename(each.with_name(f"{each.name}.damaged-{number}"))


def _copy_index(connection: duckdb.DuckDBPyConnection, path: Path, ledger_sequence: int) -> bool:
    """Fill an empty connection from an index file that is up to date; False if there is none."""
    if not path.exists() or path.with_name(path.name + ".wal").exists():
        return False
    try:
        connection.execute(f"ATTACH '{str(path).replace(chr(39), chr(39) * 2)}' AS disk (READ_ONLY)")
    except duckdb.Error:
        return False
    try:
        row = connection.execute("SELECT sequence, schema_version FROM disk.ingest_state").fetchone()
        if row != (ledger_sequence, SCHEMA_VERSION):
            return False
        connection.execute(SCHEMA)
        for name in (*TABLES, "ingest_state"):
            connection.execute(f"INSERT INTO {name} SELECT * FROM disk.{name}")
    except duckdb.Error:
        for name in TABLES:
            connection.execute(f"DROP TABLE IF EXISTS {name} CASCADE")
        return False
    finally:
        connection.execute("DETACH disk")
    return True
