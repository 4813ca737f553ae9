"""The tables of one run for a live reader: compacted rows in their files, newer ones in memory.

Nothing is read before it is needed: `show` gives DuckDB the tables that a statement names, compares only
their files with their hashes, and decodes only their columns of the journal. Of other tables DuckDB has the
columns alone; reading them is an error, never an empty answer.
"""

from __future__ import annotations

import functools
import itertools
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import CorruptLedger, Mistake
from storage.layout import LEDGER
from storage.ledger.frames import FrameOffset, open_stream, streams
from storage.ledger.ledger import Follower
from storage.ledger.segments import Segment
from storage.snapshots import figures
from storage.tables import schema
from storage.tables.schema import Connection, arrow_schema, utc

PARTS = "ledger"
"""Schema of DuckDB with the parts that the tables are made of, out of the user's sight."""

_CODED = ("matches", "seats", "meetings")  # their texts repeat: read as dictionaries, a third of the time
_MANY = 64  # frames that are worth several threads
_UNREAD = "a table that the statement does not name; name it, as in SELECT ... FROM matches"
_PORTIONS = 16  # of the work that threads share
_T = TypeVar("_T")
_R = TypeVar("_R")
_Section: TypeAlias = pa.Buffer | pa.Table  # rows of a frame, as they lie in it or decoded


class LiveRun:
    """All tables of the run in `folder`, in a schema `home` of DuckDB.

    `last` limits them to frames up to that one. `until` returns the time, in seconds since the epoch, up to
    which figures count that were measured beside the writer; it is called when there are any. With `native`
    DuckDB opens the Parquet files, which is fastest; else pyarrow does.
    """

    def __init__(
        self, folder: Path, home: str, last: int | None, native: bool, until: Callable[[], float]
    ) -> None:
        self.home = home
        self.restarts = 0  # how often rows became sums: what was derived from them is to be derived again
        self._last = last
        self._folder = folder
        self._until = functools.cache(until)
        self._figures: set[Path] = set()  # files with figures that were taken in
        self._follower = Follower(folder / LEDGER)
        self._tables = {
            table: LiveTable(table, types, f"{table}_{home}", native)
            for table, types in schema.TABLES.items()
        }

    def create(self, connection: Connection, shelf: Connection) -> None:
        """Make the tables and views, still empty; `shelf` is a connection whose schema is PARTS."""
        for table in self._tables.values():
            table.show(shelf)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS \"{self.home}\"; SET schema = '{self.home}'")
        for table in self._tables.values():
            connection.execute(table.view)
        schema.create(connection, tables=())
        connection.execute("SET schema = 'main'")

    def look(self) -> None:
        """Take in what was acknowledged since the last look. Raise CorruptLedger."""
        if self._last is not None and self._follower.last >= self._last:
            return  # rows of then, which no sum replaces
        if self._follower.stale():
            self._start_again()
        segments, payloads = self._follower.look()
        for segment in segments:
            self._take_segment(segment)
        for place, payload in payloads:
            if self._last is None or place.sequence <= self._last:
                self._take_frame(place, payload)

    def _start_again(self) -> None:
        """Forget all rows: some of them are sums now, in other files."""
        self.restarts += 1
        self._follower, self._figures = Follower(self._folder / LEDGER), set()
        self._tables = {name: table.empty() for name, table in self._tables.items()}

    def show(self, shelf: Connection, wanted: Iterable[str]) -> None:
        """Show DuckDB all rows of the tables `wanted`, and of those that were wanted before."""
        for name in wanted:
            self._tables[name].wanted = True
        if figures.TABLE in self._tables and self._tables[figures.TABLE].wanted:
            self._take_figures()
        for table in self._tables.values():
            table.show(shelf)

    def newest(self, table: str) -> pa.Table:
        """Return some of the newest rows of `table`, those of the last match among them; none: no rows.

        At most one frame is decoded, or two row groups of a file are read. Raise CorruptLedger.
        """
        return self._tables[table].newest()

    def close(self) -> None:
        """Free the memory."""
        self._tables.clear()

    def _take_segment(self, segment: Segment) -> None:
        if self._last is not None and self._last < segment.first:
            return
        whole = self._last is None or segment.last <= self._last
        if not whole and segment.summed is not None:
            raise Mistake(
                f"{self._folder}: matches around the moment asked for are being summed up "
                "(storage.retention): ask again, for a later one"
            )
        rows = None if whole else segment.rows_until(self._last or 0)
        for name, table in self._tables.items():
            table.take_segment(segment, None if rows is None else rows.get(name, 0))

    def _take_frame(self, place: FrameOffset, payload: bytes) -> None:
        sections: Mapping[str, _Section] = dict(streams(payload))
        for name, section in sections.items():
            if name in self._tables:
                self._tables[name].take(place.sequence, section)

    def _take_figures(self) -> None:
        """Take in the figures that were measured beside the writer, and are in no frame."""
        for path in figures.files(self._folder):
            if path not in self._figures:
                self._figures.add(path)
                rows = figures.rows(path)
                if len(rows) and rows["created_at"][0].as_py() <= self._until():
                    self._tables[figures.TABLE].take_lasting(rows)


class LiveTable:
    """The rows of one table: those of compacted segments in their files, those behind in memory."""

    def __init__(self, name: str, types: Mapping[str, str], key: str, native: bool) -> None:
        self.wanted = False
        self._arguments = name, types, key, native
        self._name, self._key, self._native = name, key, native
        self._types = {column: "DOUBLE" if kind == "TIMESTAMP" else kind for column, kind in types.items()}
        text = pa.dictionary(pa.int32(), pa.string()) if name in _CODED else pa.string()
        self._schema = pa.schema(
            [(field.name, text if field.type == pa.string() else field.type) for field in arrow_schema(name)]
        )
        self._unverified: list[Segment] = []
        self._partial: list[tuple[Path, int]] = []  # a file of which only so many rows count
        self._files: list[Path] = []
        self._lasting: list[pa.Table] = []
        self._waiting: list[tuple[int, _Section]] = []  # (sequence, rows) of frames, not decoded yet
        self._recent: list[pa.Table] = []
        self._ends: list[tuple[int, int]] = []  # (sequence, rows of _recent up to its end) of each frame
        self._changed = self._unshown = True
        chosen = ", ".join(
            f"{utc(column)} AS {column}" if kind == "TIMESTAMP" else f'"{column}"'
            for column, kind in types.items()
        )
        self.view = (
            f"CREATE VIEW {name} AS SELECT {chosen} "
            f"FROM (FROM {PARTS}.stored_{key} UNION ALL FROM {PARTS}.recent_{key})"
        )

    def empty(self) -> LiveTable:
        """Return the same table without rows."""
        other = LiveTable(*self._arguments)
        other.wanted = self.wanted
        return other

    def take_segment(self, segment: Segment, rows: int | None) -> None:
        """Take in a segment: rows up to its last frame are in its file and are held no longer.

        With `rows`, only so many of them count.
        """
        path = segment.path(self._name)
        if path is not None and rows != 0:
            self._unverified.append(segment)
            if rows is None:
                self._files.append(path)
            else:
                self._partial.append((path, rows))
            self._changed = True
        self._waiting = [part for part in self._waiting if part[0] > segment.last]
        gone = bisect_right(self._ends, segment.last, key=lambda end: end[0])
        if gone:
            before = self._ends[gone - 1][1]
            whole = _merged(self._recent)
            kept = whole.take(np.arange(before, len(whole)))  # a copy: a slice would hold on to all of it
            self._recent = [kept] if len(kept) else []
            self._ends = [(sequence, end - before) for sequence, end in self._ends[gone:]]
            self._changed = True

    def take_lasting(self, rows: pa.Table) -> None:
        """Take in rows that are in no file, and stay."""
        self._lasting.append(_fitted([rows], self._schema))
        self._changed = True

    def take(self, sequence: int, section: _Section) -> None:
        """Take in the rows of a frame that is in no file yet."""
        self._waiting.append((sequence, section))
        self._changed = True

    def show(self, shelf: Connection) -> None:
        """Show DuckDB the rows if the table is wanted; else only the columns."""
        stored, recent = f"stored_{self._key}", f"recent_{self._key}"
        if self.wanted and (self._changed or self._unshown):
            self._read()
            if self._files and self._native:
                shelf.execute(f"CREATE OR REPLACE VIEW {stored} AS {self._union()}")
            else:
                files = _files(self._files, self._schema) if self._files else _no_rows(self._schema)
                shelf.from_arrow(files).create_view(stored)
            parts = [*self._lasting, *self._recent]
            rows = pa.concat_tables(parts) if parts else _no_rows(self._schema)
            shelf.from_arrow(rows).create_view(recent)
            self._changed = self._unshown = False
        elif self._unshown:
            shelf.execute(f"CREATE OR REPLACE VIEW {stored} AS {schema.refusing(self._types, _UNREAD)}")
            shelf.execute(f"CREATE OR REPLACE VIEW {recent} AS FROM {stored}")
            self._unshown = False

    def newest(self) -> pa.Table:
        """Return some of the newest rows, without reading the others. Raise CorruptLedger."""
        for part in reversed(self._waiting):
            rows = _fitted(_decoded(self._name, [part]), self._schema)
            if len(rows):
                return rows
        if self._recent:
            return self._recent[-1]
        for segment in self._unverified[-1:]:
            segment.verify(self._name)
        if self._partial:
            return _fitted([_last_rows(*self._partial[-1])], self._schema)
        if self._lasting:
            return self._lasting[-1]
        if self._files:
            return _fitted([_last_rows(self._files[-1])], self._schema)
        return _no_rows(self._schema)

    def _union(self) -> str:
        """Return SQL for the rows of all files; files of an older version may lack columns."""
        parts = []
        for there, files in itertools.groupby(self._files, key=lambda path: pq.read_schema(path).names):
            chosen = ", ".join(
                f'"{column}"' if column in there else f'CAST(NULL AS {kind}) AS "{column}"'
                for column, kind in self._types.items()
            )
            listed = ", ".join("'" + str(path).replace("'", "''") + "'" for path in files)
            parts.append(f"SELECT {chosen} FROM read_parquet([{listed}])")
        return " UNION ALL ".join(parts)

    def _read(self) -> None:
        for segment in self._unverified:
            segment.verify(self._name)
        self._unverified.clear()
        for path, rows in self._partial:
            self.take_lasting(_first_rows(path, rows))
        self._partial.clear()
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        tables = _decoded(self._name, waiting)
        end = self._ends[-1][1] if self._ends else 0
        for (sequence, _), rows in zip(waiting, tables, strict=True):
            end += len(rows)
            self._ends.append((sequence, end))
        self._recent.append(_fitted(tables, self._schema))
        # Few parts, and each row moved but a few times: every part is over twice as large as the next.
        while len(self._recent) > 1 and len(self._recent[-2]) <= 2 * len(self._recent[-1]):
            self._recent[-2:] = [_merged(self._recent[-2:])]


def _files(paths: list[Path], schema: pa.Schema) -> Any:
    """Return Parquet files as one dataset; a column that one lacks is NULL."""
    import pyarrow.dataset  # imports pandas, a third of a second

    coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    options = pyarrow.dataset.ParquetReadOptions(dictionary_columns=coded)
    return pyarrow.dataset.dataset(
        [str(path) for path in paths], schema, format=pyarrow.dataset.ParquetFileFormat(read_options=options)
    )


def _no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; `empty_table` would import pandas."""
    return pa.Table.from_batches([], schema)


def _decoded(name: str, waiting: list[tuple[int, _Section]]) -> list[pa.Table]:
    """Return the rows of each frame. Raise CorruptLedger."""

    def table(part: tuple[int, _Section]) -> pa.Table:
        sequence, section = part
        try:
            return section if isinstance(section, pa.Table) else open_stream(section).read_all()
        except (pa.ArrowException, OSError) as error:
            raise CorruptLedger(f"frame {sequence} of the ledger: no table {name}: {error}") from None

    return _each(table, waiting, several=len(waiting) >= _MANY)


def _first_rows(path: Path, rows: int) -> pa.Table:
    """Return the first rows of a Parquet file; row groups behind them are not read."""
    with pq.ParquetFile(path) as file:
        ends = np.cumsum([file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)])
        groups = range(int(np.searchsorted(ends, rows)) + 1)
        return file.read_row_groups(list(groups)).slice(0, rows)


def _last_rows(path: Path, rows: int | None = None) -> pa.Table:
    """Return the last rows of a Parquet file, or the last of its first `rows`: those of two row groups.

    The rows of a match may be in two of them.
    """
    with pq.ParquetFile(path) as file:
        ends = np.cumsum([0, *(file.metadata.row_group(i).num_rows for i in range(file.num_row_groups))])
        end = int(ends[-1]) if rows is None else rows
        last = max(int(np.searchsorted(ends, end)) - 1, 0)
        first = max(last - 1, 0)
        return file.read_row_groups(list(range(first, last + 1))).slice(0, end - int(ends[first]))


def _fitted(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of `tables` with the columns of `schema`: NULL where they lack one."""
    parts = []
    for _, alike in itertools.groupby(tables, key=lambda table: table.schema):
        whole = list(alike)
        column = functools.partial(_column, pa.concat_tables(whole))
        parts.append(pa.table(_each(column, list(schema), several=len(whole) >= _MANY), schema=schema))
    return parts[0] if len(parts) == 1 else _merged(parts)


def _each(work: Callable[[_T], _R], parts: Sequence[_T], *, several: bool) -> list[_R]:
    """Return the result of `work` for each part; with `several`, by several threads."""
    if not several:
        return [work(part) for part in parts]
    size = -(-len(parts) // _PORTIONS)
    portions = [parts[at : at + size] for at in range(0, len(parts), size)]
    with ThreadPoolExecutor(4) as threads:  # a call for each part would take longer than most of the parts
        done = list(threads.map(lambda portion: [work(part) for part in portion], portions))
    return [result for portion in done for result in portion]


def _column(rows: pa.Table, field: pa.Field) -> pa.Array:
    """Return the column in one piece, NULL if `rows` lack it."""
    if field.name not in rows.column_names:
        return pa.nulls(len(rows), field.type)
    column = rows[field.name]
    if pa.types.is_dictionary(field.type):
        if not pa.types.is_dictionary(column.type):
            column = column.dictionary_encode()
        column = column.unify_dictionaries()
    column = column.cast(field.type)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.nulls(0, field.type)


def _merged(tables: list[pa.Table]) -> pa.Table:
    """Return one table in one piece, with the dictionaries of all."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
