"""The file league.duckdb: a copy of a run's tables for other DuckDB tools, replaced whole.

Nothing here reads it: readers ask the ledger (`live`), and a process that has it open stops nothing. A copy
is written beside it, synced and renamed, so there is always the old one or the new one.

    while a run trains    METADATA and the newest rating of each competitor, after each freeze
    when it is over       all tables, unless that takes long
    `league sql --save`   all tables, at any time
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Literal, Self

import duckdb

from storage.disk import Progress, disk, require_allowed, whole_by_name
from storage.errors import DiskFailed, Mistake, RunTaken, StorageError
from storage.layout import DATABASE, LEDGER
from storage.tables import live, schema
from storage.tables.moments import Moment
from storage.tables.questions import interrupted_after
from storage.tables.schema import literal, one_line

Content = Literal["all", "metadata", "none"]

METADATA = frozenset(
    (
        *("runs", "branches", "players", "snapshots", "competitors", "entrants"),
        *("decisions", "yardsticks", "incidents", "ends"),
    )
)
"""Tables of what a league is, but for its matches: few rows, most of which come with a freeze."""

LEAST_SECONDS = 10.0  # between two renewals
MOST_SHARE = 0.01  # of the time, that renewals take
LAST_SHARE = 0.1  # of the time that a run took, that its last copy takes at most
SHORT_SECONDS = 5.0  # a last copy of so long is made in any case
BYTES_PER_SECOND = 10e6  # of a ledger, that a core copies (measured)
_LOOK_SECONDS = 1.0
_NEWEST = "SELECT unnest(max_by(r, (seq, coalesce(batch, 0)))) FROM rated r GROUP BY competitor ORDER BY ALL"
_LEFT_OUT = (
    "not in this copy, which was made while the run trained: league sql RUN --save FILE makes one with all"
)
_log = logging.getLogger(__name__)


class OutOfTime(StorageError):
    """A copy would have taken longer than it may."""


def save(
    run: Path,
    file: Path,
    *,
    metadata: bool = False,
    as_of: Moment | None = None,
    seconds: float = math.inf,
    progress: Progress | None = None,
) -> None:
    """Replace `file` by a copy of the tables and views of the run in the folder `run`, whole.

    With `metadata` it has METADATA and the newest ratings; other tables, and views of them, are errors that
    say so. With `as_of` it is the run of then. Raise OutOfTime after `seconds`, DiskFailed, Mistake, NotARun,
    CorruptLedger; `file` is then as it was.
    """
    began = time.monotonic()
    late = OutOfTime(f"{file}: not written: it takes longer than {seconds:.3g} s")
    try:
        with live.connect(run, as_of=as_of) as source, whole_by_name(file) as fresh:
            try:
                _make(fresh, metadata)
                with interrupted_after(seconds, source.interrupt), source.at_one_moment():
                    for number, total in _filled(source, fresh, metadata):
                        if time.monotonic() - began > seconds:  # between two statements
                            raise late
                        if progress is not None:
                            progress(f"tables in {DATABASE}", number, total)
            finally:
                _remove(_write_ahead_log(fresh))
            require_allowed(file)
            _remove(_write_ahead_log(file))  # that of an old file does not fit the new one
    except duckdb.InterruptException:
        raise late from None
    except duckdb.Error as error:
        raise DiskFailed(f"{file}: cannot be written: {one_line(error)}") from error


def require_replaceable(file: Path) -> None:
    """Raise Mistake unless `file` is a name for a new file, or an existing DuckDB file."""
    try:
        with open(file, "rb") as opened:
            found = "" if opened.read(12)[8:] == b"DUCK" else "a file that is no DuckDB database"
    except FileNotFoundError:
        found = "" if file.parent.is_dir() else "no folder for it"
    except OSError as error:
        found = (error.strerror or str(error)).lower()
    if found:
        raise Mistake(f"{file}: found {found}, expected a new name, or a DuckDB file to replace")


class DatabaseFile:
    """The copy in the folder of a run that this process writes: renewed while it trains, whole at its end.

    With `with`, a thread renews the metadata whenever `num_changes`, which counts what was recorded of
    METADATA, has another value. What goes wrong is one line for `say`, and never ends a training.
    """

    def __init__(
        self,
        run: Path,
        num_changes: Callable[[], int],
        content: Content = "all",
        say: Callable[[str], None] = _log.warning,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._run, self._file, self._content = run, run / DATABASE, content
        self._num_changes, self._say, self._clock = num_changes, say, clock
        self._began = clock()
        self._renewed = 0  # value of `num_changes` at the last renewal
        self._next = -math.inf  # time of the next one at the earliest
        self._said = ""
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Self:
        if self._content != "none":
            for left in self._run.glob(f".{DATABASE}.*.tmp*"):  # by a process that was killed
                _remove(left)
            self._thread = threading.Thread(target=self._work, name="database file", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closing.set()
        if self._thread is not None:
            self._thread.join()

    def _work(self) -> None:
        while not self._closing.wait(_LOOK_SECONDS):
            self.renew()

    def renew(self) -> None:
        """Copy the metadata if there is something new and it is time."""
        began = self._clock()
        if began >= self._next:
            self._renew(began)

    def _renew(self, began: float) -> None:
        changes = self._num_changes()
        if changes == self._renewed:
            return
        with self._said_of_failures():
            self._renewed = changes
            save(self._run, self._file, metadata=True)
        self._next = began + max(LEAST_SECONDS, (self._clock() - began) / MOST_SHARE)

    def finish(self, progress: Progress | None = None) -> None:
        """Copy all tables, as the settings say and where that takes no longer than it may."""
        self.__exit__()
        if self._content == "none":
            return
        took = self._clock() - self._began
        limit = max(SHORT_SECONDS, LAST_SHARE * took)
        if self._content == "all":
            with self._said_of_failures():
                try:
                    if (expected := _bytes_of(self._run / LEDGER) / BYTES_PER_SECOND) > limit:
                        raise OutOfTime(f"{self._file}: not written: it takes about {expected:.0f} s")
                    save(self._run, self._file, seconds=limit, progress=progress)
                    return
                except OutOfTime as error:
                    self._say(
                        f"{error}, over a tenth of the {took:.0f} s of this session; it has metadata alone "
                        f"(league sql {self._run} --save FILE makes a copy with all)"
                    )
        self._renew(self._clock())

    @contextlib.contextmanager
    def _said_of_failures(self) -> Iterator[None]:
        try:
            yield
        except RunTaken:
            self._closing.set()  # the file is another process's now, which the loop finds out by itself
        except Exception as error:  # all facts are in the ledger: never a reason to end a training
            sentence = " ".join(str(error).split()) or type(error).__name__
            if sentence != self._said:
                self._said = sentence
                self._say(f"{sentence}; the run goes on without this copy of its tables")


def _make(fresh: Path, metadata: bool) -> None:
    """Make the file, with all tables and views, empty, and their comments."""
    tables = [*METADATA, "ratings"] if metadata else list(schema.TABLES)
    with duckdb.connect(str(fresh), config=schema.CONFIG) as connection:
        connection.execute("BEGIN")  # or each statement is synced
        for table in schema.TABLES.keys() - set(tables):
            refusing = schema.refusing(schema.TABLES[table], f"{table}: {_LEFT_OUT}")
            connection.execute(f"CREATE VIEW {table} AS {refusing}")
        schema.create(connection, tables)
        connection.execute(schema.comments(tables))
        if metadata:
            connection.execute("COMMENT ON TABLE ratings IS 'Newest TrueSkill rating of each competitor.'")
        connection.execute("COMMIT")


def _filled(source: live.LiveConnection, fresh: Path, metadata: bool) -> Iterator[tuple[int, int]]:
    """Copy the rows of `source` to the file; yield how many tables are done, of how many."""
    # several threads take twice the time of all cores, and half as much disk again (measured)
    source.execute("SET threads = 1; SET memory_limit = '1GB'")
    source.execute(f"ATTACH {literal(fresh)} AS file")
    tables = sorted([*METADATA, "ratings"] if metadata else schema.TABLES)
    for number, table in enumerate(tables, 1):
        rows = _NEWEST if metadata and table == "ratings" else f"FROM main.{table}"
        source.execute(f"INSERT INTO file.main.{table} BY NAME {rows}")
        yield number, len(tables)
    source.execute("CHECKPOINT file")  # DETACH would not say what went wrong
    source.execute("DETACH file")


def _bytes_of(folder: Path) -> int:
    """Return the bytes of the files in `folder`; those that go meanwhile are left out."""
    size = 0
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            size += entry.stat().st_size
    return size


def _write_ahead_log(file: Path) -> Path:
    return file.with_name(f"{file.name}.wal")


def _remove(file: Path) -> None:
    with contextlib.suppress(OSError):  # not there, or it stays and is tried again the next time
        disk().unlink(file)
