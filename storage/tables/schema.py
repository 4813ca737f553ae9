"""The schema of a run's tables and views, as schema.sql has it: columns, types, comments and SQL."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa

# Bundled extensions only: nothing is fetched from anywhere.
CONFIG: dict[str, Any] = {"autoinstall_known_extensions": False, "autoload_known_extensions": False}

Connection = duckdb.DuckDBPyConnection

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
_COLUMN = re.compile(r"    (\w+) ([A-Z]+(?:\[\])?),?  -- (.+)")
_CREATED = re.compile(r"CREATE (TABLE|VIEW) (\w+) ")


@dataclass(frozen=True, slots=True)
class _Relation:
    """A table or a view: its statement, its comment, and those of its columns."""

    kind: str  # TABLE, VIEW
    name: str
    sql: str
    comment: str
    columns: Mapping[str, str]  # column -> type; {} for a view, whose query decides
    comments: Mapping[str, str]  # column -> comment


def _parsed(text: str) -> Iterator[_Relation]:
    """Yield the relations of schema.sql, which has an empty line between two."""
    for part in text.strip().split("\n\n"):
        lines = part.splitlines()
        above = [line[2:] for line in lines if line.startswith("--")]
        statement = lines[len(above) :]
        if not statement:
            continue  # the text at the top
        created = _CREATED.match(statement[0])
        assert created is not None, statement[0]
        columns: dict[str, str] = {}
        comments: dict[str, str] = {}
        for line in above:
            if line.startswith("   "):
                column, comments[column] = line.strip().split(": ", 1)
        for line in statement if created[1] == "TABLE" else ():
            if found := _COLUMN.fullmatch(line):
                column, columns[column], comments[column] = found.groups()
            elif line.strip().startswith("--"):  # the comment goes on
                comments[column] += line.strip()[2:]
        comment = " ".join(line.strip() for line in above if not line.startswith("   "))
        yield _Relation(created[1], created[2], "\n".join(statement), comment, columns, comments)


_RELATIONS = tuple(_parsed((Path(__file__).parent / "schema.sql").read_text()))

TABLES: Mapping[str, Mapping[str, str]] = {r.name: r.columns for r in _RELATIONS if r.kind == "TABLE"}
"""The columns of each table, with their types in DuckDB."""

VIEWS: Mapping[str, str] = {r.name: r.sql for r in _RELATIONS if r.kind == "VIEW"}
"""The statement that makes each view, in an order in which each finds the others."""


def create(connection: Connection, tables: Iterable[str] = tuple(TABLES)) -> None:
    """Make these tables, empty, and all views, whose other tables must exist; without comments."""
    for relation in _RELATIONS:
        if relation.kind == "VIEW" or relation.name in tables:
            connection.execute(relation.sql)


@functools.cache
def arrow_schema(table: str) -> pa.Schema:
    """Return the columns of `table` as facts have them: texts plain, times in seconds since the epoch."""
    return pa.schema([(column, _ARROW[kind]) for column, kind in TABLES[table].items()])


def comments(tables: Iterable[str] = (), schema: str = "main") -> str:
    """Return SQL that gives every table, view and column in `schema` its comment.

    `tables` exist as tables, the others as views.
    """
    statements = []
    for relation in _RELATIONS:
        kind = "TABLE" if relation.name in tables else "VIEW"
        name = f'"{schema}"."{relation.name}"'
        statements.append(f"COMMENT ON {kind} {name} IS {literal(relation.comment)}")
        statements += [
            f'COMMENT ON COLUMN {name}."{column}" IS {literal(comment)}'
            for column, comment in relation.comments.items()
        ]
    return ";\n".join(statements)


def refusing(columns: Mapping[str, str], why: str) -> str:
    """Return a query with these columns and types that fails with the message `why` when it is executed."""
    chosen = ", ".join(f'CAST(NULL AS {kind}) AS "{column}"' for column, kind in columns.items())
    return f"SELECT {chosen} FROM (SELECT error({literal(why)}) AS failed) WHERE failed IS NULL"


def literal(text: object) -> str:
    """Return SQL for a text."""
    return "'" + str(text).replace("'", "''") + "'"


def utc(seconds: str) -> str:
    """Return SQL for the TIMESTAMP of an expression in seconds since the epoch."""
    return f"make_timestamp(CAST(round(1e6 * {seconds}) AS BIGINT))"


def one_line(error: Exception) -> str:
    """Return DuckDB's message in one line, without the picture of the place."""
    return " ".join(str(error).split("\n\nLINE")[0].split()) or type(error).__name__
