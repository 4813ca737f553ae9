"""Records as rows of a table and back: a fact is a dataclass and a line of schema.sql.

Columns and their types are those of the table. A field that is a mapping or a tuple is JSON in its column.
Facts by the thousand, which are arrays and no records, are in `columns`.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

import pyarrow as pa

from storage.tables.schema import arrow_schema

_T = TypeVar("_T")
_Turn = Callable[[Any], Any]


def rows(table: str, records: Sequence[Any], **others: Any) -> pa.Table:
    """Return a row of `table` for each of n dataclass `records` of one kind.

    `others` are the columns that the records do not have as fields, or not as they are stored: one value for
    all rows, or a list of n. Raise KeyError for a column without values.
    """
    n = len(records)
    kind: Any = type(records[0]) if records else None
    columns = {}
    for field in arrow_schema(table):
        if field.name in others:
            given = others[field.name]
            values = given if isinstance(given, list) else [given] * n
        else:
            encode = _forms(kind)[field.name][0] if records else None
            values = [getattr(record, field.name) for record in records]
            values = values if encode is None else list(map(encode, values))
        columns[field.name] = pa.array(values, field.type)
    return pa.table(columns)


def records(kind: type[_T], rows: pa.Table) -> list[_T]:
    """Return the record of the dataclass `kind` in each row; columns that are no fields are left out."""
    forms = _forms(cast(Any, kind))
    found = []
    for row in rows.select(list(forms)).to_pylist():
        fields = {name: decode(row[name]) if decode else row[name] for name, (_, decode) in forms.items()}
        found.append(kind(**fields))
    return found


@functools.cache
def _forms(kind: type) -> dict[str, tuple[_Turn | None, _Turn | None]]:
    """Return how each field is encoded and decoded; `None`: it is stored as it is."""
    hints = get_type_hints(kind)
    return {field.name: _form(hints[field.name]) for field in dataclasses.fields(kind)}


def _form(hint: Any) -> tuple[_Turn | None, _Turn | None]:
    if get_origin(hint) is tuple:
        return json.dumps, lambda text: tuple(json.loads(text))
    if get_origin(hint) is Mapping:
        if get_args(hint)[1] is float:
            return numbers_to_json, json_to_numbers
        return lambda value: json.dumps(dict(value)), json.loads
    return None, None


def numbers_to_json(values: Mapping[str, float]) -> str:
    """Return a JSON object; infinities and NaN, which JSON lacks, become text that float() reads."""
    plain = {k: float(v) for k, v in values.items()}
    return json.dumps({k: v if math.isfinite(v) else str(v) for k, v in plain.items()})


def json_to_numbers(text: str) -> dict[str, float]:
    """Return the numbers that `numbers_to_json` received."""
    return {name: float(value) for name, value in json.loads(text).items()}
