"""The tables of one run for a live reader: compacted rows in their files, newer ones in memory.

Views read other rows than a statement that names a table: in place of those of a closed segment its sums
(storage/retention/segment_sums.py), as if all old matches had been summed up. So what they ask takes little,
however long the run is. Behind the closed segments both read the same rows.

Nothing is read before it is needed: `show` gives DuckDB the tables that a statement names or its views read,
compares only their files with their hashes, and decodes only their columns of the journal. Of other tables
DuckDB has the columns alone; reading them is an error, never an empty answer.
"""

from __future__ import annotations

import functools
import itertools
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from storage.errors import CorruptLedger, Mistake, StorageError
from storage.layout import LEDGER
from storage.ledger.frames import FrameOffset, open_stream, streams
from storage.ledger.ledger import Follower, is_written
from storage.ledger.parquet import File, ParquetRows
from storage.ledger.segments import Segment
from storage.retention import segment_sums
from storage.retention.groups import opponents_of
from storage.retention.sums import SUMMED
from storage.snapshots import figures
from storage.tables import schema
from storage.tables.schema import Connection, arrow_schema, utc
from storage.tables.shown_rows import MANY, PARTS, ShownRows, StoredRows, each, fitted, merged, no_rows

OPPONENTS = "summed_opponents"
SUMMABLE = (*SUMMED, "summed_matches", "summed_seats", OPPONENTS)
"""Tables of which views read the sums."""

_READ = re.compile(rf"\b(FROM|JOIN) ({'|'.join(SUMMABLE)})\b")  # of these tables, in a view
_CODED = ("matches", "seats", "meetings")  # their texts repeat: read as dictionaries, a third of the time
_OF_SEATS = ["seq", "competitor", "learning"]  # columns by which opponents are counted


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
        self._segments: list[Segment] = []
        self._without: dict[int, Segment] = {}  # segments of which views read the rows, for lack of sums
        self._viewed, self._makes_sums = False, True
        self.tables = {
            table: LiveTable(table, types, f"{table}_{home}", native)
            for table, types in schema.TABLES.items()
        }

    def create(self, connection: Connection, shelf: Connection) -> None:
        """Make the tables and views, still empty; `shelf` is a connection whose schema is PARTS."""
        for table in self.tables.values():
            table.show(shelf)
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS \"{self.home}\"; SET schema = '{self.home}'")
        for name in SUMMABLE:
            sums = self.tables[name].selected_sums
            connection.execute(f"CREATE VIEW {PARTS}.viewed_{name}_{self.home} AS {sums}")
        for name, table in self.tables.items():
            rows = table.selected_sums if name == OPPONENTS else table.selected
            connection.execute(f"CREATE VIEW {name} AS {rows}")
        for sql in schema.VIEWS.values():
            connection.execute(_READ.sub(rf"\1 {PARTS}.viewed_\2_{self.home}", sql))
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
        if self._viewed and self._find_sums():
            self.restarts += 1

    def _start_again(self) -> None:
        """Forget all rows: some of them are sums now, in other files."""
        self.restarts += 1
        self._follower, self._figures = Follower(self._folder / LEDGER), set()
        self._segments, self._without = [], {}
        self.tables = {name: table.empty() for name, table in self.tables.items()}

    def show(self, shelf: Connection, named: Iterable[str], viewed: Iterable[str]) -> None:
        """Show DuckDB all rows of the tables `named`, what views read of those `viewed`, and as before."""
        for name in named:
            self.tables[name].want(sums=name == OPPONENTS)
        for name in viewed:
            self.tables[name].want(sums=name in SUMMABLE)
            if name in SUMMABLE and not self._viewed:
                self._viewed = True
                self._find_sums()
        if figures.TABLE in self.tables and self.tables[figures.TABLE].wanted:
            self._take_figures()
        for table in self.tables.values():
            table.show(shelf)

    @property
    def last(self) -> int:
        """The last frame that was taken in."""
        return self._follower.last

    def close(self) -> None:
        """Free the memory."""
        self.tables.clear()

    def _take_segment(self, segment: Segment) -> None:
        if self._last is not None and self._last < segment.first:
            return
        whole = self._last is None or segment.last <= self._last
        if not whole and segment.summed is not None:
            raise Mistake(
                f"{self._folder}: matches around the moment asked for are being summed up "
                "(storage.retention): ask again, for a later one"
            )
        counts = None if whole else segment.rows_until(self._last or 0)
        for name, table in self.tables.items():
            table.take_segment(segment, None if counts is None else counts.get(name, 0))
        seats = None if counts is None else counts.get("seats", 0)
        if segment.rows("seats") and seats != 0:
            self.tables[OPPONENTS].add_sums(segment.number, StoredRows(_opponents_in(segment, seats)))
        self._segments.append(segment)
        if whole and segment.summed is None:
            self._without[segment.number] = segment

    def _find_sums(self) -> bool:
        """Let views read sums in place of rows, where there are any or they can be made; return if so."""
        some = False
        ledger = self._folder / LEDGER
        for number, segment in list(self._without.items()):
            files = segment_sums.found(ledger, segment)
            if files is None and not segment_sums.pays(segment):
                del self._without[number]
            elif files is None and self._makes_sums and not is_written(ledger):
                try:
                    files = segment_sums.make(ledger, segment, segment_sums.beginning(self._segments))
                except (StorageError, OSError):  # a folder that cannot be written, a full disk
                    self._makes_sums = False
            if files is not None:
                some = True
                del self._without[number]
                for name in SUMMABLE:
                    self.tables[name].replace_sums(number, files.get(name))
        return some

    def _take_frame(self, place: FrameOffset, payload: bytes) -> None:
        for name, section in streams(payload):
            for own in (name, OPPONENTS) if name == "seats" else (name,):
                if own in self.tables:
                    self.tables[own].take(place.sequence, section)

    def _take_figures(self) -> None:
        """Take in the figures that were measured beside the writer, and are in no frame."""
        for path in figures.files(self._folder):
            if path not in self._figures:
                self._figures.add(path)
                rows = figures.rows(path)
                if len(rows) and rows["created_at"][0].as_py() <= self._until():
                    self.tables[figures.TABLE].take_lasting(rows)


class LiveTable:
    """The rows of one table, and what views read of it: closed segments in files, the rest in memory."""

    def __init__(self, name: str, types: Mapping[str, str], key: str, native: bool) -> None:
        self._arguments = name, types, key, native
        self._name = name
        stored = {column: "DOUBLE" if kind == "TIMESTAMP" else kind for column, kind in types.items()}
        text = pa.dictionary(pa.int32(), pa.string()) if name in _CODED else pa.string()
        self._schema = pa.schema(
            [(field.name, text if field.type == pa.string() else field.type) for field in arrow_schema(name)]
        )
        self._rows = ShownRows(key, stored, self._schema, native)
        self._sums = ShownRows(f"sums_{key}", stored, self._schema, native)
        self._waiting: list[tuple[int, pa.Buffer]] = []  # (sequence, rows) of frames, not decoded yet
        self._recent: list[pa.Table] = []
        self._ends: list[tuple[int, int]] = []  # (sequence, rows of _recent up to its end) of each frame
        chosen = ", ".join(
            f"{utc(column)} AS {column}" if kind == "TIMESTAMP" else f'"{column}"'
            for column, kind in types.items()
        )
        self.selected = f"SELECT {chosen} FROM {self._rows.selected}"
        self.selected_sums = f"SELECT {chosen} FROM {self._sums.selected}"

    @property
    def wanted(self) -> bool:
        """Whether a statement names the table."""
        return self._rows.wanted

    def want(self, *, sums: bool) -> None:
        """Show the rows from now on, or what views read."""
        (self._sums if sums else self._rows).wanted = True

    def empty(self) -> LiveTable:
        """Return the same table without rows."""
        other = LiveTable(*self._arguments)
        other._rows.wanted, other._sums.wanted = self._rows.wanted, self._sums.wanted
        return other

    def take_segment(self, segment: Segment, rows: int | None) -> None:
        """Take in a segment: rows up to its last frame are in its file and are held no longer.

        With `rows`, only so many of them count. Views read them too, until there are sums.
        """
        path = segment.path(self._name)
        if path is not None and rows != 0:
            load = None if rows is None else functools.partial(_first_rows, path, rows)
            verify = functools.partial(segment.verify, self._name)
            part = StoredRows(load, path if rows is None else None, verify)
            for shown in (self._rows, self._sums):
                shown.parts.setdefault(segment.number, []).append(part)
        self._waiting = [part for part in self._waiting if part[0] > segment.last]
        gone = bisect_right(self._ends, segment.last, key=lambda end: end[0])
        if gone:
            before = self._ends[gone - 1][1]
            whole = merged(self._recent)
            kept = whole.take(np.arange(before, len(whole)))  # a copy: a slice would hold on to all of it
            self._recent = [kept] if len(kept) else []
            self._ends = [(sequence, end - before) for sequence, end in self._ends[gone:]]
        self._mark()

    def add_sums(self, number: int, part: StoredRows) -> None:
        """Let views read `part` too, of the segment of that number."""
        self._sums.parts.setdefault(number, []).append(part)

    def replace_sums(self, number: int, file: File | None) -> None:
        """Let views read that file in place of the rows of the segment of that number."""
        self._sums.parts[number] = [] if file is None else [StoredRows(path=file.path)]
        self._sums.changed = True

    def take_lasting(self, rows: pa.Table) -> None:
        """Take in rows that are in no file, and stay."""
        part = StoredRows(lambda: rows)
        self._rows.parts.setdefault(0, []).append(part)
        self._mark()

    def take(self, sequence: int, section: pa.Buffer) -> None:
        """Take in the rows of a frame that is in no file yet."""
        self._waiting.append((sequence, section))
        self._mark()

    def _mark(self) -> None:
        self._rows.changed = self._sums.changed = True

    def show(self, shelf: Connection) -> None:
        """Show DuckDB the rows if the table is wanted, and what views read; else only the columns."""
        shown = (self._rows, self._sums) if self._name in SUMMABLE else (self._rows,)
        for one in shown:
            one.read()
        if any(one.wanted for one in shown):
            self._decode()
        for one in shown:
            one.show(shelf, self._recent)

    def newest(self, *columns: str) -> pa.Table:
        """Return some of the newest rows, those of the last match among them; none: no rows.

        At most one frame is decoded, or two row groups of a file are read. Raise CorruptLedger.
        """
        names = list(columns) or self._schema.names
        schema = pa.schema([self._schema.field(name) for name in names])
        for part in reversed(self._waiting):
            rows = fitted(_decoded(self._name, [part]), self._schema)
            if len(rows):
                return rows.select(names)
        if self._recent:
            return self._recent[-1].select(names)
        for number in sorted(self._rows.parts, reverse=True):
            for stored in reversed(self._rows.parts[number]):
                stored.read(self._schema)
                if stored.path:
                    return fitted([_last_rows(stored.path, names)], schema)
                if stored.rows is not None:
                    return stored.rows.select(names)
        return no_rows(schema)

    def _decode(self) -> None:
        waiting, self._waiting = self._waiting, []
        if not waiting:
            return
        tables = _opponents_of_frames(waiting) if self._name == OPPONENTS else _decoded(self._name, waiting)
        end = self._ends[-1][1] if self._ends else 0
        for (sequence, _), rows in zip(waiting, tables, strict=True):
            end += len(rows)
            self._ends.append((sequence, end))
        self._recent.append(fitted(tables, self._schema))
        # Few parts, and each row moved but a few times: every part is over twice as large as the next.
        while len(self._recent) > 1 and len(self._recent[-2]) <= 2 * len(self._recent[-1]):
            self._recent[-2:] = [merged(self._recent[-2:])]


def _opponents_of_frames(waiting: list[tuple[int, pa.Buffer]]) -> list[pa.Table]:
    """Return rows of OPPONENTS for each of the frames whose `seats` these are. Raise CorruptLedger."""
    tables = [rows.select(_OF_SEATS) for rows in _decoded("seats", waiting)]
    part = np.repeat(np.arange(len(tables)), [len(rows) for rows in tables])
    within, rows = opponents_of(pa.concat_tables(tables), part)
    bounds = np.searchsorted(within, np.arange(len(tables) + 1))
    return [rows.slice(at, end - at) for at, end in itertools.pairwise(bounds.tolist())]


def _opponents_in(segment: Segment, rows: int | None) -> Callable[[], pa.Table]:
    """Return a function that makes rows of OPPONENTS of the first `rows` seats of a segment, or of all."""

    def load() -> pa.Table:
        segment.verify("seats")
        seats = segment.table("seats", ["competitor"], _OF_SEATS).slice(0, rows)
        return opponents_of(seats, np.zeros(len(seats), np.int64))[1]

    return load


def _decoded(name: str, waiting: list[tuple[int, pa.Buffer]]) -> list[pa.Table]:
    """Return the rows of each frame. Raise CorruptLedger."""

    def table(part: tuple[int, pa.Buffer]) -> pa.Table:
        sequence, section = part
        try:
            return open_stream(section).read_all()
        except (pa.ArrowException, OSError) as error:
            raise CorruptLedger(f"frame {sequence} of the ledger: no table {name}: {error}") from None

    return each(table, waiting, several=len(waiting) >= MANY)


def _first_rows(path: Path, rows: int) -> pa.Table:
    """Return the first rows of a Parquet file; row groups behind them are not read."""
    with ParquetRows(path) as file:
        return pa.Table.from_batches([file.slice(0, rows)])


def _last_rows(path: Path, columns: list[str]) -> pa.Table:
    """Return the last two row groups of a Parquet file: the rows of a match may be in both."""
    with pq.ParquetFile(path) as file:
        return file.read_row_groups(list(range(file.num_row_groups))[-2:], columns)
