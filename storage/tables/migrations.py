"""Migrations: how an index of an older version becomes one of this version, without being rebuilt.

schema.sql is the newest schema, whole. MIGRATIONS has the steps to it, each with a name; an index remembers
the names of the steps that it has behind it. An index with fewer is brought forward, in one transaction with
the names. An index with other names, or that differs from schema.sql in the end, is rebuilt from the ledger.
Views hold nothing: they are made again whenever they differ.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

# Bundled extensions only: nothing is fetched from anywhere.
CONFIG: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}

Connection = duckdb.DuckDBPyConnection


# The steps of the oldest schema that is still brought forward; an index with fewer of them is rebuilt.
BASELINE = (
    "migrations have names",
    "ratings know their batch",
    "matches know their seats",
    "matches know their player",
    "meetings are counted when they are recorded",
    "caches report",
    "matches are recorded action by action",
    "tournaments have entrants",
    "matches that are the same are known",
)
# The steps since then: name and SQL.
MIGRATIONS: tuple[tuple[str, str], ...] = (
    ("seats know their team", "ALTER TABLE seats ADD COLUMN team TINYINT"),
    (
        "competitors are measured on yardsticks",
        "CREATE TABLE yardsticks (seq BIGINT, competitor VARCHAR, yardstick VARCHAR, kind VARCHAR, "
        "measure VARCHAR, mode VARCHAR, part VARCHAR, value DOUBLE, low DOUBLE, high DOUBLE, samples BIGINT, "
        "created_at TIMESTAMP)",
    ),
    (
        "payoffs count scores",
        "ALTER TABLE runs ADD COLUMN most_lead DOUBLE; ALTER TABLE meetings ADD COLUMN lead DOUBLE; "
        "ALTER TABLE meetings ADD COLUMN squares DOUBLE",
    ),
    (
        "runs are branched",
        "CREATE TABLE branches (seq BIGINT, parent VARCHAR, frame BIGINT, env_steps BIGINT, matches BIGINT, "
        "seconds DOUBLE, learners VARCHAR, changes VARCHAR, moment_at TIMESTAMP, branched_at TIMESTAMP)",
    ),
    (
        "deaths are recorded",
        "CREATE TABLE incidents (seq BIGINT, kind VARCHAR, who VARCHAR, node VARCHAR, cause VARCHAR, "
        "players VARCHAR, matches BIGINT, env_steps BIGINT, updates BIGINT, remedy VARCHAR, kept VARCHAR, "
        "happened_at TIMESTAMP)",
    ),
    (
        "ends of sessions are recorded",
        "CREATE TABLE ends (seq BIGINT, state VARCHAR, reason VARCHAR, seconds DOUBLE, of_seconds DOUBLE, "
        "env_steps BIGINT, of_env_steps BIGINT, ended_at TIMESTAMP)",
    ),
    (
        "draws of pairs are recorded",
        "CREATE TABLE drawn_pairs (seq BIGINT, match_id BIGINT, round INTEGER, probability DOUBLE, "
        "standing VARCHAR)",
    ),
    (
        "old matches are summed up",
        "CREATE TABLE summed_matches (seq BIGINT, batch BIGINT, purpose VARCHAR, match_type VARCHAR, "
        "env VARCHAR, reason VARCHAR, num_seats TINYINT, player VARCHAR, started_at TIMESTAMP, "
        "ended_at TIMESTAMP, matches BIGINT, env_steps BIGINT, step_squares DOUBLE, seconds DOUBLE, "
        "last_match_id BIGINT); "
        "CREATE TABLE summed_seats (seq BIGINT, purpose VARCHAR, reason VARCHAR, num_seats TINYINT, "
        "competitor VARCHAR, seat TINYINT, learning BOOLEAN, outcome VARCHAR, seats BIGINT, score DOUBLE, "
        "squares DOUBLE); "
        "CREATE TABLE summed_opponents (seq BIGINT, player VARCHAR, opponent VARCHAR, games BIGINT); "
        "ALTER TABLE ingest_state ADD COLUMN summed BIGINT DEFAULT 0",
    ),
)

_SCHEMA = (Path(__file__).parent / "schema.sql").read_text()
# What the index keeps for itself: the last frame that is folded in, the number of the last segment whose
# matches are in it as sums, and the steps it has behind it.
_STATE = (
    "CREATE TABLE ingest_state (sequence BIGINT, batch_id BLOB, summed BIGINT DEFAULT 0); "
    "CREATE TABLE migrations (name VARCHAR)"
)


class Damaged(Exception):
    """An index that cannot be used; its ledger has everything. Never leaves this package."""


_ARROW = {
    "BIGINT": pa.int64(),
    "INTEGER": pa.int32(),
    "TINYINT": pa.int8(),
    "DOUBLE": pa.float64(),
    "FLOAT": pa.float32(),
    "FLOAT[]": pa.list_(pa.float32()),
    "BOOLEAN": pa.bool_(),
    "VARCHAR": pa.string(),
    "TIMESTAMP": pa.float64(),
}


@dataclass(frozen=True, slots=True)
class Schema:
    """Tables and views, as DuckDB parsed them."""

    tables: Mapping[str, Mapping[str, str]]  # table -> column -> type
    views: Mapping[str, str]  # view -> the SQL that makes it, in an order in which each finds the others


@functools.cache
def newest() -> Schema:
    """Return the schema of schema.sql."""
    with duckdb.connect(":memory:", config=CONFIG) as connection:
        connection.execute(_SCHEMA)
        return _schema_of(connection)


def arrow_schema(table: str) -> pa.Schema:
    """Return the columns of `table` as facts have them: texts plain, times in seconds since the epoch."""
    return pa.schema([(column, _ARROW[kind]) for column, kind in newest().tables[table].items()])


def create(connection: Connection) -> None:
    """Make the tables and views of a new index."""
    connection.execute("BEGIN")
    connection.execute(_SCHEMA)
    connection.execute(_STATE)
    connection.execute("INSERT INTO ingest_state VALUES (0, ''::BLOB, 0)")
    _remember(connection, [*BASELINE, *(name for name, _ in MIGRATIONS)])
    connection.execute("COMMIT")


def bring_forward(connection: Connection) -> None:
    """Bring an existing index to this version.

    Raise Damaged, or duckdb.Error, if that is impossible; the index is then unchanged.
    """
    found = _schema_of(connection)
    names = [*BASELINE, *(name for name, _ in MIGRATIONS)]
    done = _done(connection) if "migrations" in found.tables else []
    if len(done) < len(BASELINE) or done != names[: len(done)]:
        raise Damaged("it was made by another version")
    if len(done) == len(names) and found.views == newest().views:
        _require_newest(found)
        return
    connection.execute("BEGIN")
    try:
        for view in reversed(list(found.views)):
            connection.execute(f'DROP VIEW IF EXISTS "{view}"')
        for name, sql in MIGRATIONS[len(done) - len(BASELINE) :]:
            connection.execute(sql)
            _remember(connection, [name])
        for sql in newest().views.values():
            connection.execute(sql)
        _require_newest(_schema_of(connection))
        connection.execute("COMMIT")
    except BaseException:
        connection.execute("ROLLBACK")
        raise


def _require_newest(found: Schema) -> None:
    own = {"ingest_state", "migrations"}
    if {name: c for name, c in found.tables.items() if name not in own} != newest().tables:
        raise Damaged("its tables are not those of this version")
    if list(found.tables.get("ingest_state", ())) != ["sequence", "batch_id", "summed"]:
        raise Damaged("its last frame is not recorded")


def _done(connection: Connection) -> list[str]:
    return [name for (name,) in connection.execute("SELECT name FROM migrations ORDER BY rowid").fetchall()]


def _remember(connection: Connection, names: Iterable[str]) -> None:
    for name in names:
        connection.execute("INSERT INTO migrations VALUES (?)", [name])


def _schema_of(connection: Connection) -> Schema:
    here = "NOT internal AND database_name = current_database()"
    views = connection.execute(
        f"SELECT view_name, sql FROM duckdb_views() WHERE {here} ORDER BY view_oid"
    ).fetchall()
    columns = connection.execute(
        "SELECT table_name, column_name, data_type FROM duckdb_columns() "
        f"WHERE {here} ORDER BY table_name, column_index"
    ).fetchall()
    tables: dict[str, dict[str, str]] = {}
    for table, column, data_type in columns:
        if table not in dict(views):
            tables.setdefault(table, {})[column] = data_type
    return Schema(tables, dict(views))
