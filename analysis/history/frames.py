"""Answers as tidy pandas frames: the same types with rows and without, whole numbers whole."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import yaml

_MAY_LACK = ("digest", "num_seats", "batch", "team", "trained_env_steps")  # whole numbers


class Of:
    """For `{name:X}` in a format: what a function makes of X."""

    def __init__(self, make: Callable[[str], str]) -> None:
        self._make = make

    def __format__(self, given: str) -> str:
        return self._make(given)


def to_frame(reader: pa.RecordBatchReader, categories: tuple[str, ...] = ()) -> pd.DataFrame:
    """What `reader` gives; the columns of `categories` as such, whose texts are never all held at once."""
    batches = [_coded(batch, categories) for batch in reader]
    schema = batches[0].schema if batches else _coded(_empty(reader.schema), categories).schema
    return to_pandas(pa.Table.from_batches(batches, schema).unify_dictionaries())


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _coded(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    for name in columns:
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, name, batch.column(place).dictionary_encode())
    return batch


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Whole numbers stay whole, also where one lacks."""
    lacking = [name for name in table.column_names if name in _MAY_LACK]
    frame = table.drop_columns(lacking).to_pandas(split_blocks=True, ignore_metadata=True)
    for name in lacking:
        frame[name] = _whole(table[name])
    return frame[table.column_names]


def _whole(column: pa.ChunkedArray) -> pd.Series:
    """Whole numbers of which some may lack: by way of two arrays, as floats would round them."""
    values = column.fill_null(0).to_numpy()
    return pd.Series(pd.arrays.IntegerArray(values.copy(), column.is_null().to_numpy()))


def parsed(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """`frame` with a column of JSON as dicts."""
    dicts = pd.Series(
        [json.loads(text) if isinstance(text, str) else {} for text in frame[column]],
        index=frame.index,
        dtype=object,
    )
    return frame.assign(**{column: dicts})


def settings_of(text: str | None) -> dict[str, Any]:
    """The settings that a run recorded as YAML; {} for none, and for what is no mapping: a run may be a
    stranger's."""
    try:
        found = yaml.safe_load(text or "")
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def setting(config: Mapping[str, Any], *path: str) -> Any:
    """What stands in `config` at `path`; None: nothing."""
    found: Any = config
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def number_setting(config: Mapping[str, Any], *path: str, default: float, above: float = -math.inf) -> float:
    """The number in `config` at `path`; `default` where there is none, or none beyond `above`."""
    found = setting(config, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return default
    return float(found) if above < found < 1e300 else default
