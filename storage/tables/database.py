"""The index: the ledger's facts as DuckDB tables. Derived, disposable, always checked before use.

One process may hold a DuckDB file, readers included. So the writer of a run has `league.duckdb` to itself
until it closes it; then any DuckDB opens it. Readers beside a writer use `live`.
"""

from __future__ import annotations

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from storage.disk import Progress, disk, remove_tree, write_whole
from storage.errors import DiskFailed, RunLocked, StorageError
from storage.ledger.ledger import Frame, Ledger
from storage.ledger.segments import Segment
from storage.tables import migrations
from storage.tables.migrations import Connection, Damaged, newest

if TYPE_CHECKING:
    from pyarrow.dataset import Dataset

MAX_ROWS = 100_000  # per insert: larger ones bypass the write-ahead log
MOST_WAITING = 1_000_000  # rows in memory; the index fetches what is beyond from the ledger
FLUSH_SECONDS = 1.0
LOCK_WAIT_SECONDS = 5.0
_PIECE_BYTES = 2**22
SUMS = ("summed_matches", "summed_seats", "summed_opponents")
DAMAGED_COPIES = 3  # that are kept for a look

_WRITER_CONFIG: dict[str, Any] = {**migrations.CONFIG, "threads": 1, "memory_limit": "1GB"}
_log = logging.getLogger(__name__)


class Database:
    """The writer's index.

    Frames wait, at most FLUSH_SECONDS or MAX_ROWS, and are then folded in together, in a thread beside what
    comes next. Recording never waits for it: where facts come faster than they are folded in, frames are left
    out, and the thread fetches them from the ledger, whole segments at once. A crash costs nothing: the next
    `open` fetches what is missing.
    """

    def __init__(self, connection: Connection, path: Path, ledger: Ledger) -> None:
        self.path = path
        self._connection: Connection | None = connection
        self._ledger = ledger
        self._reached = 0  # sequence of the last frame that is folded in, or is being folded in
        self._waiting: list[Frame] = []  # frames without a gap
        self._rows = 0
        self._since = 0.0
        self._thread = ThreadPoolExecutor(1, "index")  # begins with its first task
        self._folding: Future[int] | None = None  # to the sequence that the index then has reached
        self._leaving = False

    @classmethod
    def open(cls, path: Path, ledger: Ledger, progress: Progress | None = None) -> Database:
        """Open the index at `path`, level with `ledger`: as it is, completed, or rebuilt.

        A file that is rebuilt is kept as `<name>.damaged-<n>`. `progress` receives ("index", frames, total)
        while they are folded in. Raise RunLocked if another process has it; CorruptLedger.
        """
        if os.path.lexists(path):
            try:
                return cls._level(path, ledger, _check, progress)
            except StorageError:
                raise  # another process has it open, or the ledger is damaged
            except Exception as error:  # DuckDB raises many kinds, also from under its Python layer
                _log.warning("%s: %s; rebuilding it from the ledger", path, one_line(error))
        _set_aside(path)
        try:
            return cls._level(path, ledger, _create, progress)
        except StorageError:
            raise
        except Exception as error:
            raise StorageError(f"{path}: building the index failed: {one_line(error)}") from error

    @classmethod
    def _level(
        cls,
        path: Path,
        ledger: Ledger,
        prepare: Callable[[Connection], tuple[int, bytes]],
        progress: Progress | None,
    ) -> Database:
        """Open the index at `path` and complete it behind the frame that `prepare` finds it at."""
        connection = _connect_file(path)
        try:
            start, batch_id = prepare(connection)
            if start and ledger.batch_id(start) != batch_id:
                raise Damaged(f"it has frame {start}, which is not the ledger's")
            database = cls(connection, path, ledger)
            for segment in ledger.compacted:
                if segment.summed is not None and start >= segment.first:
                    if start < segment.last:
                        raise Damaged(f"it ends within segment {segment.number}, which was summed up since")
                    _replace(connection, segment)
            database._reached = start
            for sequence in database._catch_up(start):
                database._reached = sequence
                if progress is not None:
                    progress("index", sequence - start, ledger.last_sequence - start)
        except BaseException:
            connection.close()
            raise
        return database

    def _catch_up(self, after: int) -> Iterator[int]:
        """Fold in the frames behind sequence `after`, and yield each sequence that the index reaches.

        Whole segments come from their Parquet files, all else frame by frame.
        """
        for segment in self._ledger.compacted:
            if after < segment.first:
                self._fold_segment(segment, self._ledger.batch_id(segment.last) or b"")
                yield segment.last
            elif after < segment.last:
                yield from self._fold_frames(islice(self._ledger.frames(after), segment.last - after))
            after = max(after, segment.last)
        yield from self._fold_frames(self._ledger.frames(after))

    def _fold_frames(self, frames: Iterable[Frame]) -> Iterator[int]:
        assert self._connection is not None
        gathered: list[Frame] = []
        rows = 0
        for frame in frames:
            gathered.append(frame)
            rows += _rows_of(frame)
            if rows >= MAX_ROWS:
                _fold(self._connection, gathered)
                yield frame.sequence
                gathered, rows = [], 0
        if gathered:
            _fold(self._connection, gathered)
            yield gathered[-1].sequence

    @property
    def connection(self) -> Connection:
        """A connection to everything flushed. Raises StorageError once the index has failed."""
        self._settle()
        if self._connection is None:
            raise StorageError(f"{self.path}: the index is closed, or failed; open the run again")
        return self._connection

    def ingest(self, frame: Frame) -> None:
        """Take in a frame that the ledger has acknowledged, now or shortly."""
        if self._connection is None:
            return
        self._take(frame)
        if self._folding is not None and not self._folding.done():
            return
        if self._rows >= MAX_ROWS or time.monotonic() - self._since >= FLUSH_SECONDS:
            self._settle()
            if self._connection is not None:
                self._folding = self._thread.submit(self._next_fold())

    def _next_fold(self) -> Callable[[], int]:
        """Return what the thread is to fold in: what waits, or what is missing before it."""
        connection, after = self._connection, self._reached
        assert connection is not None
        if self._waiting and self._waiting[0].sequence != after + 1:
            return lambda: self._fetch(after)
        frames, self._waiting, self._rows = self._waiting, [], 0

        def fold() -> int:
            _fold(connection, frames)
            return frames[-1].sequence

        return fold

    def _fetch(self, after: int) -> int:
        """Fold in what the ledger has behind sequence `after`; return the sequence that was reached."""
        for sequence in self._catch_up(after):
            after = sequence
            if self._leaving:
                break
        return after

    def flush(self) -> None:
        """Fold in what waits.

        A failure costs no fact: the index is closed, and completed or rebuilt when the run is opened next.
        """
        self._settle()
        try:
            while self._waiting and self._connection is not None:
                self._note_reached(self._next_fold()())
        except Exception as error:  # as in `open`
            self._fail(error)

    def replace(self, segment: Segment) -> None:
        """Replace the matches of a segment that was summed up; any thread may ask.

        An index that has failed is completed or rebuilt when the run is opened next.
        """
        connection = self._connection
        if connection is not None:
            try:
                self._thread.submit(_replace, connection, segment).result()
            except (duckdb.Error, RuntimeError) as error:  # or it was closed meanwhile
                _log.info("%s: %s; segment %d is replaced later", self.path, one_line(error), segment.number)

    def reached(self) -> int | None:
        """Return the last frame that is folded in; `None` if the index has failed. Any thread may ask."""
        connection = self._connection
        if connection is None:
            return None
        try:
            return self._thread.submit(_sequence_of, connection).result()
        except (duckdb.Error, RuntimeError):
            return None

    def _settle(self) -> None:
        """Wait for the fold that is under way."""
        if self._folding is None:
            return
        folding, self._folding = self._folding, None
        try:
            self._note_reached(folding.result())
        except Exception as error:  # as in `open`
            self._fail(error)

    def _note_reached(self, sequence: int) -> None:
        """Note the frame that the index has reached, and forget those that wait and are in it."""
        self._reached = sequence
        self._waiting = [frame for frame in self._waiting if frame.sequence > sequence]
        self._rows = sum(map(_rows_of, self._waiting))

    def _fail(self, error: Exception) -> None:
        _log.info("%s: %s; it stays behind until the run is next opened", self.path, one_line(error))
        self._waiting.clear()
        self._let_go()

    def close(self) -> None:
        """Flush, then close the file."""
        self.flush()
        self._let_go()

    def abandon(self) -> None:
        """Close without writing: the file's name is another process's by now."""
        self._leaving = True
        self._settle()
        self._waiting.clear()
        if self._connection is not None:
            with contextlib.suppress(duckdb.Error):
                self._connection.execute("PRAGMA disable_checkpoint_on_shutdown")
        self._let_go()

    def _let_go(self) -> None:
        self._thread.shutdown(wait=False)
        if self._connection is not None:
            with contextlib.suppress(duckdb.Error):  # of a failed index, whose failure is logged
                self._connection.close()
            self._connection = None

    def _take(self, frame: Frame) -> None:
        if self._rows >= MOST_WAITING:
            self._waiting.clear()
            self._rows = 0
        if not self._waiting:
            self._since = time.monotonic()
        self._waiting.append(frame)
        self._rows += _rows_of(frame)

    def _fold_segment(self, segment: Segment, batch_id: bytes) -> None:
        """Fold in a whole segment, past the write-ahead log; `batch_id` is that of its last frame."""
        assert self._connection is not None
        with self._connection.cursor() as cursor:
            cursor.execute("BEGIN")
            for name in newest().tables:
                path = segment.path(name)
                if path is not None:
                    _insert(cursor, name, _dataset(name, path))
            _come_to(cursor, segment.last, batch_id)
            if segment.summed is not None:
                cursor.execute(_SUMMED, [segment.number])
            cursor.execute("COMMIT")


def _rows_of(frame: Frame) -> int:
    return sum(map(len, frame.tables.values()))


def _fold(connection: Connection, frames: Sequence[Frame]) -> None:
    """Fold in these frames, one or more, as one transaction."""
    with connection.cursor() as cursor:
        cursor.execute("BEGIN")
        for name, rows in _gathered(frames).items():
            for start in range(0, len(rows), MAX_ROWS):
                _insert(cursor, name, rows.slice(start, MAX_ROWS))
        _come_to(cursor, frames[-1].sequence, frames[-1].batch_id)
        cursor.execute("COMMIT")


def _sequence_of(connection: Connection) -> int:
    with connection.cursor() as cursor:
        ((sequence,),) = cursor.execute("SELECT sequence FROM ingest_state").fetchall()
    return int(sequence)


def _replace(connection: Connection, segment: Segment) -> None:
    """Put the sums of a segment in the place of its matches, unless they are there already.

    Segments are summed up in order, so the number of the last one says of all whether they are.
    """
    assert segment.summed is not None
    frames, seqs = [segment.first, segment.last], [segment.summed["first_seq"], segment.summed["last_seq"]]
    with connection.cursor() as cursor:
        if cursor.execute("SELECT summed >= ? FROM ingest_state", [segment.number]).fetchall() == [(True,)]:
            return
        cursor.execute("BEGIN")
        if seqs[0]:
            for name in ("matches", "seats", "recordings", "meetings"):
                cursor.execute(f"DELETE FROM {name} WHERE seq BETWEEN ? AND ?", seqs)
        cursor.execute("DELETE FROM ratings WHERE batch BETWEEN ? AND ?", frames)
        for name in _REPLACED:
            path = segment.path(name)
            if path is not None:
                _insert(cursor, name, _dataset(name, path))
        cursor.execute(_SUMMED, [segment.number])
        cursor.execute("COMMIT")


_SUMMED = "UPDATE ingest_state SET summed = ?"
_REPLACED = ("matches", "seats", "meetings", "ratings", *SUMS)


def _dataset(table: str, path: Path) -> Dataset:
    import pyarrow.dataset  # imports pandas, a third of a second: readers that only ask need neither

    return pyarrow.dataset.dataset(path, migrations.arrow_schema(table))


def _connect_file(path: Path) -> Connection:
    """Open the file at `path` for writing, waiting a moment for a passing holder.

    Raise RunLocked, Damaged.
    """
    if os.path.lexists(path) and (path.is_symlink() or not path.is_file()):
        raise Damaged("it is no file of this folder")  # DuckDB would follow a link, and wait for a pipe
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


def _create(connection: Connection) -> tuple[int, bytes]:
    migrations.create(connection)
    return 0, b""


def _check(connection: Connection) -> tuple[int, bytes]:
    """Return the (sequence, batch id) that the index has reached.

    Every block is read, so that DuckDB compares its checksums: a damaged file opens without complaint. Raise
    Damaged or duckdb.Error.
    """
    migrations.bring_forward(connection)
    state = connection.execute("SELECT sequence, batch_id FROM ingest_state").fetchall()
    if len(state) != 1:
        raise Damaged("its last frame is not recorded")
    for table in newest().tables:
        connection.execute(f"SELECT bit_xor(hash(whole)) FROM {table} whole").fetchall()
    return state[0][0], state[0][1]


def _gathered(frames: Iterable[Frame]) -> dict[str, pa.Table]:
    """Return the rows of `frames`, table by table; tables that this schema lacks are left out."""
    parts: dict[str, list[pa.Table]] = {}
    for frame in frames:
        for name, table in frame.tables.items():
            if name in newest().tables:
                parts.setdefault(name, []).append(table)
    return {name: pa.concat_tables(tables, promote_options="default") for name, tables in parts.items()}


def _insert(connection: Connection, name: str, rows: pa.Table | Dataset) -> None:
    """Append `rows` to the table `name`; columns that this schema lacks are left out."""
    chosen = ", ".join(
        utc(f'"{column}"') + f' AS "{column}"' if column.endswith("_at") else f'"{column}"'
        for column in newest().tables[name]
        if column in rows.schema.names
    )
    connection.register("fresh", rows)
    connection.execute(f"INSERT INTO {name} BY NAME SELECT {chosen} FROM fresh")
    connection.unregister("fresh")


def utc(seconds: str) -> str:
    """Return SQL for the TIMESTAMP of an expression in seconds since the epoch."""
    return f"make_timestamp(CAST(round(1e6 * {seconds}) AS BIGINT))"


def _come_to(connection: Connection, sequence: int, batch_id: bytes) -> None:
    connection.execute("UPDATE ingest_state SET sequence = ?, batch_id = ?", [sequence, batch_id])


def renew(path: Path) -> None:
    """Give the index at `path` new files with the same bytes: a writer that was cut off may have it open.

    Bytes that it was just changing are found when the index is opened, which then rebuilds it. Raise
    DiskFailed.
    """
    for file in (path, path.with_name(f"{path.name}.wal")):
        if file.is_file() and not file.is_symlink():
            with open(file, "rb") as old:
                write_whole(file, iter(lambda: old.read(_PIECE_BYTES), b""))


def _set_aside(path: Path) -> None:
    """Free the name `path`: keep the file there and its write-ahead log as a copy to look at.

    Of earlier copies only the newest are kept. Raise DiskFailed.
    """
    wal = path.with_name(f"{path.name}.wal")  # also one without its file: DuckDB would replay it
    if not os.path.lexists(path) and not os.path.lexists(wal):
        return
    prefix = f"{path.name}.damaged-"
    numbers = {p.name.removeprefix(prefix).removesuffix(".wal") for p in path.parent.glob(f"{prefix}*")}
    earlier = sorted(int(number) for number in numbers if number.isdecimal())
    aside = path.with_name(f"{prefix}{earlier[-1] + 1 if earlier else 1}")
    try:
        for lying, target in ((path, aside), (wal, aside.with_name(f"{aside.name}.wal"))):
            if os.path.lexists(lying):
                disk().rename(lying, target)
    except OSError as error:
        raise DiskFailed(f"{path}: cannot be set aside: {error.strerror or error}") from error
    for number in earlier[: len(earlier) + 1 - DAMAGED_COPIES]:
        for name in (f"{prefix}{number}", f"{prefix}{number}.wal"):
            _remove(path.with_name(name))


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        remove_tree(path)
        return
    with contextlib.suppress(OSError):  # not there, or it stays: a copy too many harms nothing
        disk().unlink(path)


def one_line(error: Exception) -> str:
    """Return DuckDB's message in one line, without the picture of the place."""
    return " ".join(str(error).split("\n\nLINE")[0].split()) or type(error).__name__
