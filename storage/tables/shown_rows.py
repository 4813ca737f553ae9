"""Rows of one table as DuckDB is shown them: in files and in memory, all or, unread, their columns alone."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.parquet as pq

from storage.tables import schema
from storage.tables.schema import Connection

PARTS = "ledger"
"""Schema of DuckDB with the parts that the tables are made of, out of the user's sight."""

MANY = 64  # tables that are worth several threads
_UNREAD = "a table that the statement does not name; name it, as in SELECT ... FROM matches"
_PORTIONS = 16  # of the work that threads share
_T = TypeVar("_T")
_R = TypeVar("_R")


class StoredRows:
    """Rows that are in no journal: a whole file, or what `load` returns of one, verified at the first use."""

    def __init__(
        self,
        load: Callable[[], pa.Table] | None = None,
        path: Path | None = None,
        verify: Callable[[], None] = lambda: None,
    ) -> None:
        self.path, self._load, self._verify = path, load, verify
        self.rows: pa.Table | None = None  # in memory
        self._read = False

    def read(self, fitting: pa.Schema) -> None:
        """Verify the file, and load the rows unless they are all that is in it. Raise CorruptLedger."""
        if not self._read:
            self._verify()
            if self._load is not None:
                self.rows = fitted([self._load()], fitting)
            self._read = True


class ShownRows:
    """What DuckDB is shown of a table: two relations, for rows in files and in memory."""

    def __init__(self, key: str, types: Mapping[str, str], fitting: pa.Schema, native: bool) -> None:
        self.wanted = False
        self.parts: dict[int, list[StoredRows]] = {}  # by segment; 0: of none
        self.changed = self._unshown = True
        self._files, self._held = f"stored_{key}", f"recent_{key}"
        self._types, self._schema, self._native = types, fitting, native
        self.selected = f"(FROM {PARTS}.{self._files} UNION ALL FROM {PARTS}.{self._held})"

    def show(self, shelf: Connection, recent: Sequence[pa.Table]) -> None:
        """Show all rows, those in `recent` too, if they are wanted; else only the columns."""
        if self.wanted and (self.changed or self._unshown):
            stored = [part for parts in self.parts.values() for part in parts]
            files = [part.path for part in stored if part.path is not None]
            if files and self._native:
                shelf.execute(f"CREATE OR REPLACE VIEW {self._files} AS {_union(files, self._types)}")
            else:
                rows = _files(files, self._schema) if files else no_rows(self._schema)
                shelf.from_arrow(rows).create_view(self._files)
            held = [*(part.rows for part in stored if part.rows is not None), *recent]
            rows = pa.concat_tables(held) if held else no_rows(self._schema)
            shelf.from_arrow(rows).create_view(self._held)
            self.changed = self._unshown = False
        elif self._unshown:
            shelf.execute(f"CREATE OR REPLACE VIEW {self._files} AS {schema.refusing(self._types, _UNREAD)}")
            shelf.execute(f"CREATE OR REPLACE VIEW {self._held} AS FROM {self._files}")
            self._unshown = False

    def read(self) -> None:
        """Read what `show` needs. Raise CorruptLedger."""
        if self.wanted and (self.changed or self._unshown):
            for parts in self.parts.values():
                for part in parts:
                    part.read(self._schema)


def _union(paths: list[Path], types: Mapping[str, str]) -> str:
    """Return SQL for the rows of all files; files of an older version may lack columns."""
    parts = []
    for there, files in itertools.groupby(paths, key=lambda path: pq.read_schema(path).names):
        chosen = ", ".join(
            f'"{column}"' if column in there else f'CAST(NULL AS {kind}) AS "{column}"'
            for column, kind in types.items()
        )
        listed = ", ".join(map(schema.literal, files))
        parts.append(f"SELECT {chosen} FROM read_parquet([{listed}])")
    return " UNION ALL ".join(parts)


def _files(paths: list[Path], schema: pa.Schema) -> Any:
    """Return Parquet files as one dataset; a column that one lacks is NULL."""
    import pyarrow.dataset  # imports pandas, a third of a second

    coded = [field.name for field in schema if pa.types.is_dictionary(field.type)]
    options = pyarrow.dataset.ParquetReadOptions(dictionary_columns=coded)
    return pyarrow.dataset.dataset(
        [str(path) for path in paths], schema, format=pyarrow.dataset.ParquetFileFormat(read_options=options)
    )


def no_rows(schema: pa.Schema) -> pa.Table:
    """Return a table without rows; `empty_table` would import pandas."""
    return pa.Table.from_batches([], schema)


def fitted(tables: Iterable[pa.Table], schema: pa.Schema) -> pa.Table:
    """Return the rows of `tables` with the columns of `schema`: NULL where they lack one."""
    parts = []
    for _, alike in itertools.groupby(tables, key=lambda table: table.schema):
        whole = list(alike)
        column = functools.partial(_column, pa.concat_tables(whole))
        parts.append(pa.table(each(column, list(schema), several=len(whole) >= MANY), schema=schema))
    return parts[0] if len(parts) == 1 else merged(parts)


def each(work: Callable[[_T], _R], parts: Sequence[_T], *, several: bool) -> list[_R]:
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


def merged(tables: list[pa.Table]) -> pa.Table:
    """Return one table in one piece, with the dictionaries of all."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()
