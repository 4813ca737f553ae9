"""Live readers: tables of runs in a DuckDB of the reader's own, always fresh.

Readers read the ledger: compacted segments as Parquet files, and behind them the journal's frames, kept in
memory as Arrow. Before each statement a reader looks for more. No lock is taken, and the writer is never
disturbed. Views read sums of the segments (storage/retention/segment_sums.py), which are made once if the
run, of an older version, has none.

    with connect(run) as connection:
        connection.execute("SELECT count(*) FROM matches").fetchall()

Of several runs every table and view has `run` as its first column. Views join and count within one run only.
"""

from __future__ import annotations

import contextlib
import functools
import math
import re
from collections.abc import Container, Iterator
from pathlib import Path, PurePath
from typing import Any

import duckdb
import pyarrow as pa

from storage.errors import Mistake
from storage.layout import origin, require_ledger
from storage.tables import schema
from storage.tables.live_tables import LiveRun
from storage.tables.moments import Moment, last_frame_at, last_time
from storage.tables.shown_rows import PARTS

_UNIONED_AS = {"entrants": "* RENAME (run AS origin)"}  # it has a column `run` of its own
_INDIRECT = ("query", "execute", "prepare", "export", "copy ")  # may come to tables without naming them
_TOKEN = re.compile(
    r"""'(?:[^']|'')*' | \$\$.*?\$\$ | "((?:[^"]|"")*)" | --[^\n]* | /\*.*?\*/ | (\w+) | ([()])""",
    re.VERBOSE | re.DOTALL,
)
_BEFORE_TABLES = frozenset(
    ("from", "join", "pivot", "unpivot", "table", "describe", "summarize", "show", "into", "update")
)
_BEFORE_OTHERS = frozenset(
    (
        *("select", "where", "group", "order", "having", "qualify", "window", "limit", "offset"),
        *("union", "intersect", "except", "set", "values", "returning"),
    )
)


def connect(*runs: str | Path, as_of: Moment | None = None, native: bool = True) -> LiveConnection:
    """Open all tables and views of `runs` in a DuckDB of the caller's own, to be read only.

    This works beside a writer and never disturbs it. With `as_of` the tables are as they were then
    (`storage.tables.moments`). Without `native` DuckDB opens no file by itself, so that a caller can forbid
    it to, and takes up to four times as long. Raise NotARun, CorruptLedger, Mistake.
    """
    folders = [Path(run) for run in runs]
    for folder in folders:
        require_ledger(folder)
    return LiveConnection(*folders, as_of=as_of, native=native)


class LiveConnection:
    """A DuckDB connection with the runs' tables, which looks for more before each question.

    Everything else is DuckDB's own. One thread at a time: `cursor` makes connections for others.
    """

    def __init__(self, *runs: Path, as_of: Moment | None = None, native: bool = True) -> None:
        self.runs = runs
        self.names = names_of(runs)
        self._held = False
        self._arguments = (runs, as_of, native)
        last = [None if as_of is None else last_frame_at(run, as_of) for run in runs]
        self.schemas = ["main"] if len(runs) == 1 else [f"run_{i}" for i in range(len(runs))]
        self._runs = [
            LiveRun(run, home, frame, native, functools.partial(_time_of, run, as_of))
            for run, home, frame in zip(runs, self.schemas, last, strict=True)
        ]
        self._explained = False  # whether tables and columns have their comments
        self._connection = duckdb.connect(":memory:", config=schema.CONFIG)
        try:
            with contextlib.suppress(duckdb.InvalidInputException):  # a notebook without ipywidgets has none
                # it would be among what is printed
                self._connection.execute("SET enable_progress_bar = false")
            self._connection.execute(f"CREATE SCHEMA {PARTS}")
            self._shelf = self._connection.cursor()
            self._shelf.execute(f"SET schema = '{PARTS}'")
            for run in self._runs:
                run.create(self._connection, self._shelf)
            if len(runs) > 1:
                self._unite()
            self.refresh("")
        except BaseException:
            self.close()
            raise

    def _unite(self) -> None:
        for table in (*schema.TABLES, *schema.VIEWS):
            chosen = _UNIONED_AS.get(table, "*")
            parts = [
                f"SELECT {schema.literal(name)} AS run, {chosen} FROM {home}.{table}"
                for name, home in zip(self.names, self.schemas, strict=True)
            ]
            self._connection.execute(f"CREATE VIEW {table} AS " + " UNION ALL ".join(parts))

    def refresh(self, question: Any = None) -> None:
        """Take in what was acknowledged since the last look, and read the tables that `question` names.

        Without a `question` all tables are read. Unread rows of `execute` are given up. Raise CorruptLedger;
        the connection is closed then.
        """
        self._connection.abort()
        named = _named(question)
        try:
            for run in self._runs:
                if not self._held:
                    run.look()
                run.show(self._shelf, *named)
            text = _text_of(question)
            asked = text is None or any(word in text for word in ("duckdb_", "comment", *_INDIRECT))
            if asked and not self._explained:
                self._explain()
        except duckdb.ResourceInUseException:
            raise  # an answer that is being read still shows what was: shown at the next look
        except BaseException:  # what was found by then is lost
            self.close()
            raise

    def _explain(self) -> None:
        """Give tables, views and columns their comments, which take longer than all else of a connection."""
        for home in {"main", *self.schemas}:
            self._shelf.execute(schema.comments(schema=home))
        if len(self.runs) > 1:
            for table in (*schema.TABLES, *schema.VIEWS):
                self._shelf.execute(f"COMMENT ON COLUMN main.{table}.run IS 'name of the run'")
            self._shelf.execute("COMMENT ON COLUMN main.entrants.origin IS 'run that it comes from'")
        self._explained = True

    @property
    def restarts(self) -> list[int]:
        """How often rows of each run became sums (storage.retention) since the connection was opened."""
        return [run.restarts for run in self._runs]

    @property
    def seen(self) -> list[tuple[int, int]]:
        """The last frame of each run whose facts are shown, and how often rows became sums by then."""
        return [(run.last, run.restarts) for run in self._runs]

    @contextlib.contextmanager
    def at_one_moment(self) -> Iterator[None]:
        """Let all statements in the block see the same facts: those that exist now."""
        if self._held:
            yield
            return
        self.refresh("")
        self._held = True
        try:
            yield
        finally:
            self._held = False

    def execute(self, query: Any, parameters: Any = None) -> LiveConnection:
        """Execute as DuckDB does, over the facts that exist now."""
        self.refresh(query)
        self._connection.execute(query, parameters)
        return self

    def sql(self, query: Any, **options: Any) -> duckdb.DuckDBPyRelation:
        """Ask as DuckDB does, over the facts that exist now."""
        self.refresh(query)
        return self._connection.sql(query, **options)

    def newest(self, table: str, *columns: str) -> pa.Table:
        """Return some of the newest rows of a table of the one run, those of the last match among them.

        They have all columns, or those named. It takes no longer for a long run. Raise CorruptLedger.
        """
        if not self._held:
            self.refresh("")
        return self._runs[0].tables[table].newest(*columns)

    def cursor(self) -> LiveConnection:
        """Return another, independent connection to the same runs."""
        runs, as_of, native = self._arguments
        return LiveConnection(*runs, as_of=as_of, native=native)

    def close(self) -> None:
        """Close the connection and free its memory."""
        self._connection.close()
        for run in self._runs:
            run.close()

    def __enter__(self) -> LiveConnection:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __getattr__(self, name: str) -> Any:
        if name in ("query", "from_query", "table", "view"):
            self.refresh()
        return getattr(self._connection, name)


def names_of(runs: tuple[Path, ...]) -> list[str]:
    """Return a name for each run: its folder's, or the end of its remote's address.

    As many of the parts above are added as make the names different. Raise Mistake if a run is there twice,
    or there is none.
    """
    if not runs:
        raise Mistake("found no run, expected at least one run folder")
    whole = [PurePath(origin(run) or run.resolve()) for run in runs]
    twice = next((run for i, run in enumerate(runs) if whole[i] in whole[:i]), None)
    if twice is not None:
        raise Mistake(f"{twice}: found twice, expected each run once; leave one out")
    names = []
    for path in whole:
        parts = 1
        while sum(other.parts[-parts:] == path.parts[-parts:] for other in whole) > 1:
            parts += 1
        names.append("/".join(path.parts[-parts:]))
    return names


def _time_of(run: Path, as_of: Moment | None) -> float:
    """Return the time of a moment of `run`, in seconds since the epoch; infinite for now."""
    return math.inf if as_of is None else last_time(run, as_of)


def _named(question: Any) -> tuple[set[str], set[str]]:
    """Return the tables that a statement names, and those that the views which it names read.

    Too many are read rather than one too few.
    """
    text = _text_of(question)
    views = _tables_of_views()
    if text is None or any(word in text for word in _INDIRECT):
        return set(schema.TABLES), set().union(*views.values())
    words = tables_in(text, {*schema.TABLES, *views})
    return words & schema.TABLES.keys(), set().union(*(views[name] for name in words & views.keys()))


def tables_in(statement: str, known: Container[str]) -> set[str]:
    """Return the names, of those `known`, that the SQL `statement` has where a table may be.

    It is not parsed as DuckDB does. A name behind FROM counts until the next clause, in its parentheses, also
    where it is an alias: too many are found rather than one too few. A column of that name in another clause
    does not count. Names are lower case.
    """
    found: set[str] = set()
    reads = [False]  # whether names are those of tables, by parenthesis
    for token in _TOKEN.finditer(statement):
        quoted, word, parenthesis = token.groups()
        name = (quoted or word or "").lower()
        if parenthesis == "(":
            reads.append(reads[-1])
        elif parenthesis == ")":
            reads = reads[:-1] or [False]
        elif word and name in _BEFORE_TABLES:
            reads[-1] = True
        elif word and name in _BEFORE_OTHERS:
            reads[-1] = False
        elif reads[-1] and name in known:
            found.add(name)
    return found


def _text_of(question: Any) -> str | None:
    return None if question is None else str(getattr(question, "query", question)).lower()


@functools.cache
def _tables_of_views() -> dict[str, set[str]]:
    """Return the tables that each view reads."""
    found: dict[str, set[str]] = {}
    for view, sql in schema.VIEWS.items():
        words = set(re.findall(r"\w+", sql.lower().split(" as", 1)[1]))
        found[view] = words & schema.TABLES.keys()
        found[view].update(*(tables for other, tables in found.items() if other in words))
    return found
