"""The index: the ledger's facts as DuckDB tables. Derived, disposable, never trusted without a look.

One process may hold a DuckDB file, readers included. So the writer of a run has `league.duckdb` to
itself (`Database`), and everybody else a DuckDB of their own (`connect`): filled from the ledger, or,
when nobody writes, from a copy of the file.
"""

from __future__ import annotations

import functools
import logging
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from blake3 import blake3

from storage.errors import BadQuery, RunLocked, StorageError
from storage.layout import INDEX, LEDGER, require_run
from storage.ledger import Frame, Ledger, is_written, last_frame, read_frames

MAX_ROWS = 100_000  # per insert: larger ones bypass the write-ahead log
FLUSH_SECONDS = 1.0
LOCK_WAIT_SECONDS = 5.0

_SCHEMA = (Path(__file__).parent / "schema.sql").read_text()
_SCHEMA_HASH = blake3(_SCHEMA.encode()).hexdigest()[:16]
_CONFIG: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}
_WRITER_CONFIG: dict[str, Any] = {**_CONFIG, "threads": 1, "memory_limit": "1GB"}
_log = logging.getLogger(__name__)

Connection = duckdb.DuckDBPyConnection


class Damaged(StorageError):
    """An index that cannot be used; its ledger has everything."""


class Database:
    """The writer's index. What it is given waits, at most FLUSH_SECONDS or MAX_ROWS, to be folded in
    at once: a crash costs nothing, the next `open` fetches what is missing from the ledger."""

    def __init__(self, connection: Connection, path: Path) -> None:
        self.path = path
        self._connection: Connection | None = connection
        self._waiting: list[Frame] = []
        self._rows = 0
        self._since = 0.0

    @classmethod
    def open(cls, path: Path, ledger: Ledger) -> Database:
        """The index at `path`, level with `ledger`: as it lies there, completed, or built anew (what
        lay there is then kept as `<name>.damaged-<n>`). Raises RunLocked when another process has it.
        """
        if path.exists():
            try:
                return cls._open_existing(path, ledger)
            except (duckdb.Error, Damaged) as error:
                _log.warning("%s: %s; rebuilding it from the ledger", path, _one_line(error))
        _move_aside(path)
        try:
            connection = _connect_file(path)
            connection.execute(_SCHEMA)
            connection.execute("INSERT INTO ingest_state VALUES (0, ''::BLOB, ?)", [_SCHEMA_HASH])
            database = cls(connection, path)
            database._catch_up(ledger, 0)
        except duckdb.Error as error:
            raise StorageError(f"{path}: building the index failed: {_one_line(error)}") from error
        return database

    @classmethod
    def _open_existing(cls, path: Path, ledger: Ledger) -> Database:
        connection = _connect_file(path)
        try:
            sequence, batch_id = _check(connection)
            if sequence and ledger.batch_id(sequence) != batch_id:
                raise Damaged(f"it has frame {sequence}, which is not the ledger's")
            database = cls(connection, path)
            database._catch_up(ledger, sequence)
        except BaseException:
            connection.close()
            raise
        return database

    def _catch_up(self, ledger: Ledger, after: int) -> None:
        for frame in ledger.frames(after):
            self._take(frame)
            if self._rows >= MAX_ROWS:
                self._fold()
        self._fold()

    @property
    def connection(self) -> Connection:
        """For questions about everything flushed. Raises StorageError once the index has failed."""
        if self._connection is None:
            raise StorageError(f"{self.path}: the index is closed, or failed; open the run again")
        return self._connection

    def ingest(self, frame: Frame) -> None:
        """Take in a frame that the ledger has acknowledged, now or shortly."""
        if self._connection is None:
            return
        self._take(frame)
        if self._rows >= MAX_ROWS or time.monotonic() - self._since >= FLUSH_SECONDS:
            self.flush()

    def flush(self) -> None:
        """Fold in what waits. A failure costs no fact: the index is closed, and caught up or rebuilt
        when the run is opened next."""
        try:
            self._fold()
        except duckdb.Error as error:
            _log.warning("%s: %s; it stays behind until the run is next opened", self.path, _one_line(error))
            self._waiting.clear()
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def close(self) -> None:
        """Flush and let go of the file."""
        self.flush()
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _take(self, frame: Frame) -> None:
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(frame)
        self._rows += sum(len(table) for table in frame.tables.values())

    def _fold(self) -> None:
        if not self._waiting or self._connection is None:
            return
        last = self._waiting[-1]
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")
            _insert(cursor, self._waiting)
            cursor.execute(
                "UPDATE ingest_state SET sequence = ?, batch_id = ?", [last.sequence, last.batch_id]
            )
            cursor.execute("COMMIT")
        self._waiting.clear()
        self._rows = 0


def connect(run: str | Path) -> Connection:
    """All tables and views of `run`, as they are now, in a DuckDB of the caller's own.

    Works beside a writer and never disturbs it. To be read only, but for TEMP tables. Raises NotARun,
    CorruptLedger.
    """
    run = Path(run)
    require_run(run)
    return _connect_copy(run) or _connect_ledger(run)


def query(
    run: str | Path, sql: str, *, timeout_seconds: float = 60.0, max_rows: int | None = None
) -> pa.Table:
    """The answer to `sql`, at most `max_rows` of it. The statement can reach no file and no setting.

    Raises BadQuery for SQL that DuckDB refuses or that takes longer than `timeout_seconds`; NotARun.
    """
    connection = connect(run)
    for setting in (
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        connection.execute(f"SET {setting}")
    timer = threading.Timer(timeout_seconds, connection.interrupt)
    timer.start()
    try:
        relation = connection.sql(sql)
        if relation is None:  # a statement without an answer
            return pa.table({})
        return (relation if max_rows is None else relation.limit(max_rows)).to_arrow_table()
    except duckdb.InterruptException:
        raise BadQuery(f"the query took longer than {timeout_seconds:g} seconds") from None
    except duckdb.Error as error:
        raise BadQuery(_one_line(error)) from None
    finally:
        timer.cancel()
        connection.close()


def _connect_ledger(run: Path) -> Connection:
    connection = duckdb.connect(":memory:", config=_CONFIG)
    connection.execute(_SCHEMA)
    waiting: list[Frame] = []
    rows = 0
    for frame in read_frames(run / LEDGER):
        waiting.append(frame)
        rows += sum(len(table) for table in frame.tables.values())
        if rows >= MAX_ROWS:
            _insert(connection, waiting)
            waiting, rows = [], 0
    _insert(connection, waiting)
    return connection


def _connect_copy(run: Path) -> Connection | None:
    """A copy of the index, if nobody writes and it is level with the ledger; else None.

    A copy, because an open index would keep out a run that is resumed; its name is unlinked at once.
    """
    index, wal = run / INDEX, run / f"{INDEX}.wal"
    if is_written(run / LEDGER) or not index.exists() or wal.exists():
        return None
    try:
        with tempfile.TemporaryDirectory(prefix="league-") as folder:
            copy, before = Path(folder) / INDEX, index.stat()
            shutil.copyfile(index, copy)
            after = index.stat()
            if (before.st_mtime_ns, before.st_size, before.st_ino) != (
                after.st_mtime_ns,
                after.st_size,
                after.st_ino,
            ):
                return None
            connection = duckdb.connect(str(copy), read_only=True, config=_CONFIG)
            try:
                if _check(connection) == last_frame(run / LEDGER):
                    return connection
            except (duckdb.Error, Damaged) as error:
                _log.info("%s: %s; reading the ledger instead", index, _one_line(error))
            connection.close()
    except (duckdb.Error, OSError) as error:
        _log.info("%s: %s; reading the ledger instead", index, _one_line(error))
    return None


def _connect_file(path: Path) -> Connection:
    """The file at `path`, writable. Waits a moment for a passing holder; raises RunLocked."""
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            return duckdb.connect(str(path), config=_WRITER_CONFIG)
        except duckdb.IOException as error:
            if "Could not set lock" not in str(error):
                raise
            if time.monotonic() > deadline:
                raise RunLocked(
                    f"{path}: another process has it open; close that, or copy the file"
                ) from None
            time.sleep(0.1)


def _check(connection: Connection) -> tuple[int, bytes]:
    """The (sequence, batch id) that the index has come to. Reads every block, so that DuckDB compares
    its checksums: a damaged file opens without complaint. Raises Damaged or duckdb.Error."""
    if _columns_of(connection) != _columns():
        raise Damaged("its tables and views are not those of this version")
    state = connection.execute("SELECT sequence, batch_id, schema FROM ingest_state").fetchall()
    if len(state) != 1 or state[0][2] != _SCHEMA_HASH:
        raise Damaged("it was made by another version")
    for (table,) in connection.execute(
        "SELECT table_name FROM duckdb_tables() WHERE NOT internal"
    ).fetchall():
        connection.execute(f"SELECT bit_xor(hash(whole)) FROM {table} whole").fetchall()
    return state[0][0], state[0][1]


def _insert(connection: Connection, frames: Iterable[Frame]) -> None:
    """Append the rows of `frames` to the tables of their names; what this schema lacks is left out."""
    gathered: dict[str, list[pa.Table]] = {}
    for frame in frames:
        for name, table in frame.tables.items():
            if name in _columns():
                gathered.setdefault(name, []).append(table)
    for name, parts in gathered.items():
        rows = pa.concat_tables(parts, promote_options="default")
        present = [column for column in _columns()[name] if column in rows.column_names]
        chosen = ", ".join(
            f"make_timestamp(CAST(round(1e6 * {c}) AS BIGINT)) AS {c}" if c.endswith("_at") else f'"{c}"'
            for c in present
        )
        for start in range(0, len(rows), MAX_ROWS):
            connection.register("fresh", rows.slice(start, MAX_ROWS))
            connection.execute(f"INSERT INTO {name} BY NAME SELECT {chosen} FROM fresh")
            connection.unregister("fresh")


@functools.cache
def _columns() -> Mapping[str, tuple[str, ...]]:
    """table or view -> columns, as schema.sql has them."""
    with duckdb.connect(":memory:", config=_CONFIG) as connection:
        connection.execute(_SCHEMA)
        return _columns_of(connection)


def _columns_of(connection: Connection) -> Mapping[str, tuple[str, ...]]:
    rows = connection.execute(
        "SELECT table_name, list(column_name ORDER BY column_index) FROM duckdb_columns() "
        "WHERE NOT internal AND database_name = current_database() GROUP BY table_name ORDER BY table_name"
    ).fetchall()
    return {table: tuple(columns) for table, columns in rows}


def _move_aside(path: Path) -> None:
    """Free the name `path`; what lies there, and its write-ahead log, are kept for a look."""
    wal = path.with_name(f"{path.name}.wal")
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    if path.exists():
        path.rename(aside)
    if wal.exists():  # also one without its file: DuckDB would replay it into the new one
        wal.rename(aside.with_name(f"{aside.name}.wal"))


def _one_line(error: Exception) -> str:
    """DuckDB's message without the picture of the place."""
    return " ".join(str(error).split("\n\nLINE")[0].split())
