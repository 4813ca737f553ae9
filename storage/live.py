"""Live readers: a run's tables in a DuckDB of the reader's own, as fresh as the question.

The writer has its index to itself, so readers go to the ledger: compacted segments as they lie there in
Parquet, and behind them the journal's frames, kept in memory as Arrow. Before each statement a reader
looks whether there is more. No lock is taken, nothing is written, and the writer never notices.

    with connect(run) as connection:
        connection.execute("SELECT count(*) FROM matches").fetchall()
"""

from __future__ import annotations

import itertools
from bisect import bisect_right
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset

from storage import columns, migrations
from storage.database import derive_meetings, utc
from storage.layout import LEDGER, require_run
from storage.ledger import Follower, Frame
from storage.mirror import run_folder
from storage.segments import Segment

_CODED = ("matches", "seats", "meetings")  # their texts repeat: dictionaries in memory, plain text elsewhere


def connect(run: str | Path) -> LiveConnection:
    """All tables and views of `run` in a DuckDB of the caller's own, to be read only.

    Works beside a writer and never disturbs it. The address of a remote stands for what it holds now.
    Raises NotARun, CorruptLedger, RemoteFailed.
    """
    folder = run_folder(run)
    require_run(folder)
    return LiveConnection(folder)


class LiveConnection:
    """A DuckDB connection with the run's tables, which looks for more before each question; everything
    else is DuckDB's own. One thread at a time: `cursor` is for others."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self._follower = Follower(run / LEDGER)
        self._connection = duckdb.connect(":memory:", config=migrations.CONFIG)
        self._tables = {name: _Table(name, types) for name, types in migrations.newest().tables.items()}
        try:
            for table in self._tables.values():
                table.show(self._connection)
                self._connection.execute(table.view)
            for view in migrations.newest().views.values():
                self._connection.execute(view)
            self.refresh()
        except BaseException:
            self.close()
            raise

    def refresh(self) -> None:
        """Take in what was acknowledged since the last look, giving up what `execute` left unread. Raises
        CorruptLedger; the connection is closed then."""
        self._connection.abort()
        try:
            segments, frames = self._follower.poll()
            for segment in segments:
                self._take_segment(segment)
            self._take_frames(frames)
            for table in self._tables.values():
                table.show(self._connection)
        except duckdb.ResourceInUseException:
            raise  # an answer that is being read still shows what was: shown at the next look
        except BaseException:  # what was found by then is lost
            self.close()
            raise

    def execute(self, query: Any, parameters: Any = None) -> LiveConnection:
        """As DuckDB's, over what is there now."""
        self.refresh()
        self._connection.execute(query, parameters)
        return self

    def sql(self, query: Any, **options: Any) -> duckdb.DuckDBPyRelation:
        """As DuckDB's, over what is there now."""
        self.refresh()
        return self._connection.sql(query, **options)

    def cursor(self) -> LiveConnection:
        """Another connection to the same run, with nothing in common."""
        return LiveConnection(self.run)

    def close(self) -> None:
        """Let go of what is held in memory."""
        self._connection.close()
        self._tables.clear()

    def __enter__(self) -> LiveConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("query", "from_query", "table", "view"):
            self.refresh()
        return getattr(self._connection, name)

    def _take_segment(self, segment: Segment) -> None:
        for name, table in self._tables.items():
            table.take_file(segment.path(name), segment.last)
        unrecorded = derive_meetings(segment)
        if unrecorded is not None:
            self._tables["meetings"].take_lasting(unrecorded)

    def _take_frames(self, frames: Iterable[Frame]) -> None:
        whole = [(frame.sequence, columns.with_meetings(frame.tables)) for frame in frames]
        for name, table in self._tables.items():
            table.take([(sequence, tables[name]) for sequence, tables in whole if name in tables])


class _Table:
    """The rows of one table: those of compacted segments in their files, those behind in memory."""

    def __init__(self, name: str, types: Mapping[str, str]) -> None:
        self._name = name
        text = pa.dictionary(pa.int32(), pa.string()) if name in _CODED else pa.string()
        self._in_files = migrations.arrow_schema(name)
        self._in_memory = pa.schema(
            [(field.name, text if field.type == pa.string() else field.type) for field in self._in_files]
        )
        self._files: list[str] = []
        self._lasting: list[pa.Table] = []
        self._recent: list[pa.Table] = []
        self._ends: list[tuple[int, int]] = []  # (sequence, rows of _recent up to its end) of each frame
        self._changed = True
        chosen = ", ".join(
            f"{utc(column)} AS {column}" if kind == "TIMESTAMP" else f'"{column}"'
            for column, kind in types.items()
        )
        self.view = (
            f"CREATE VIEW {name} AS SELECT {chosen} FROM (FROM stored_{name} UNION ALL FROM recent_{name})"
        )

    def take_file(self, file: Path | None, last: int) -> None:
        """The rows up to frame `last` are in `file` now, or there are none: they are held no longer."""
        if file is not None:
            self._files.append(str(file))
            self._changed = True
        gone = bisect_right(self._ends, last, key=lambda end: end[0])
        if gone:
            rows = self._ends[gone - 1][1]
            whole = _merged(self._recent)
            kept = whole.take(np.arange(rows, len(whole)))  # a copy: a slice would hold on to all of it
            self._recent = [kept] if len(kept) else []
            self._ends = [(sequence, end - rows) for sequence, end in self._ends[gone:]]
            self._changed = True

    def take_lasting(self, rows: pa.Table) -> None:
        """Rows that are in no file, and stay."""
        self._lasting.append(_fitted([rows], self._in_memory))
        self._changed = True

    def take(self, frames: list[tuple[int, pa.Table]]) -> None:
        """(sequence, rows) of frames that are in no file yet."""
        if not frames:
            return
        end = self._ends[-1][1] if self._ends else 0
        for sequence, rows in frames:
            end += len(rows)
            self._ends.append((sequence, end))
        self._recent.append(_fitted([rows for _, rows in frames], self._in_memory))
        # Few parts, and each row moved but a few times: every part is over twice as large as the next.
        while len(self._recent) > 1 and len(self._recent[-2]) <= 2 * len(self._recent[-1]):
            self._recent[-2:] = [_merged(self._recent[-2:])]
        self._changed = True

    def show(self, connection: migrations.Connection) -> None:
        """Let `connection` see what there is now."""
        if not self._changed:
            return
        stored = pyarrow.dataset.dataset(self._files, self._in_files) if self._files else None
        connection.register(f"stored_{self._name}", stored or self._in_files.empty_table())
        recent = [*self._lasting, *self._recent]
        connection.register(
            f"recent_{self._name}", pa.concat_tables(recent) if recent else self._in_memory.empty_table()
        )
        self._changed = False


def _fitted(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """The rows of `tables` with the columns of `schema`: NULL where they lack one."""
    parts = []
    for _, alike in itertools.groupby(tables, key=lambda table: table.schema):
        rows = pa.concat_tables(alike)
        parts.append(pa.table([_column(rows, field) for field in schema], schema=schema))
    return _merged(parts)


def _column(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    if field.name not in rows.column_names:
        return pa.chunked_array([pa.nulls(len(rows), field.type)])
    column = rows[field.name]
    if pa.types.is_dictionary(field.type) and not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    return column.cast(field.type)


def _merged(tables: list[pa.Table]) -> pa.Table:
    """One table in one piece, its dictionaries those of all."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
