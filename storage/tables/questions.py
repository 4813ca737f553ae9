"""Questions: one SQL statement of a user, answered within bounds.

It reaches no file, no setting and no Python variable, changes nothing, and ends within its limits of time,
memory and rows.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

from storage.errors import BadQuery
from storage.tables.live import LiveConnection, connect
from storage.tables.moments import Moment
from storage.tables.schema import one_line

QUERY_MEMORY = "4GB"  # what one question may take before it is refused
ANSWER_BYTES = 2**30  # what its answer may hold
_ANSWER_ROWS = 65_536  # of an answer at a time
_QUESTIONS = (duckdb.StatementType.SELECT, duckdb.StatementType.EXPLAIN, duckdb.StatementType.MULTI)  # PIVOT


def query(
    run: str | Path,
    sql: str,
    *,
    timeout_seconds: float = 60.0,
    max_rows: int | None = None,
    as_of: Moment | None = None,
) -> pa.Table:
    """Answer `sql`, one question, with at most `max_rows` rows.

    `as_of` asks for the answer at a moment (see `storage.tables.moments`). The question can reach no file and
    no setting.

    Raise BadQuery for anything but one question, for SQL that DuckDB refuses and for what takes longer than
    `timeout_seconds` or more memory than QUERY_MEMORY; NotARun, CorruptLedger. DuckDB keeps to both limits
    from one block of rows to the next: a single gigantic value goes beyond them.
    """
    with connect(run, as_of=as_of, native=False) as live:
        _lock(live)
        try:
            with interrupted_after(timeout_seconds, live.interrupt):
                return _answer(live, sql, max_rows)
        except (duckdb.Error, OSError, pa.ArrowException) as error:  # behind its first rows, it is Arrow's
            message = one_line(error)
            if message.startswith("INTERRUPT"):
                message = f"the query took longer than {timeout_seconds:g} seconds"
            elif message.startswith("Out of Memory"):
                message = f"the query needs more than {QUERY_MEMORY} of memory; ask for less at a time"
            raise BadQuery(message) from None


def _lock(live: LiveConnection) -> None:
    """Keep all further statements from files, settings, Python variables, and from spilling to disk."""
    for setting in (
        f"memory_limit = '{QUERY_MEMORY}'",
        "temp_directory = ''",
        "python_enable_replacements = false",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        live.execute(f"SET {setting}")


def _answer(live: LiveConnection, sql: str, max_rows: int | None) -> pa.Table:
    statements = live.extract_statements(sql)
    if len(statements) != 1:
        raise BadQuery(f"found {len(statements)} statements, expected one")
    if not _asks(statements[0]):
        word = statements[0].query.split()[0]
        raise BadQuery(f"found a statement that begins with {word}, expected a question such as SELECT")
    reader = live.sql(statements[0]).to_arrow_reader(_ANSWER_ROWS)
    batches: list[pa.RecordBatch] = []
    rows = held = 0
    for batch in reader:
        if max_rows is not None and rows + len(batch) >= max_rows:
            batches.append(batch.slice(0, max_rows - rows))
            break
        batches.append(batch)
        rows, held = rows + len(batch), held + batch.nbytes
        if held > ANSWER_BYTES:
            raise BadQuery(f"the answer holds over {ANSWER_BYTES >> 20} MiB; ask for less, or add LIMIT")
    return pa.Table.from_batches(batches, reader.schema)


def _asks(statement: Any) -> bool:
    try:
        return statement.type in _QUESTIONS
    except ValueError:  # of a kind that DuckDB's Python has no name for
        return False


@contextmanager
def interrupted_after(seconds: float, interrupt: Callable[[], None]) -> Iterator[None]:
    """End whatever DuckDB does in the block after `seconds`, as soon as it looks."""
    done = threading.Event()

    def watch() -> None:
        if not done.wait(min(seconds, threading.TIMEOUT_MAX)):
            interrupt()
            while not done.wait(0.05):  # repeatedly: between two steps of a query it has no effect
                interrupt()

    watcher = threading.Thread(target=watch, name="time limit of a query", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
