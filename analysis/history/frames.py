"""Query results as tidy pandas frames: the same types with and without rows, whole numbers as integers."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import pandas as pd
import pyarrow as pa
import yaml

_MAY_LACK = ("digest", "num_seats", "batch", "team", "trained_env_steps")  # whole numbers


def to_table(reader: pa.RecordBatchReader, categories: tuple[str, ...] = ()) -> pa.Table:
    """Read all rows. Columns in `categories` become dictionaries, so their texts are never all in memory."""
    batches = [_coded(batch, categories) for batch in reader]
    schema = batches[0].schema if batches else _coded(_empty(reader.schema), categories).schema
    return pa.Table.from_batches(batches, schema)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array([], field.type) for field in schema], schema=schema)


def _coded(batch: pa.RecordBatch, columns: tuple[str, ...]) -> pa.RecordBatch:
    for name in columns:
        place = batch.schema.get_field_index(name)
        batch = batch.set_column(place, name, batch.column(place).dictionary_encode())
    return batch


def to_pandas(table: pa.Table) -> pd.DataFrame:
    """Return `table` as a frame in which whole numbers stay whole, also where some are missing."""
    table = table.unify_dictionaries()
    lacking = [name for name in table.column_names if name in _MAY_LACK]
    frame = table.drop_columns(lacking).to_pandas(split_blocks=True, ignore_metadata=True)
    for name in lacking:
        frame[name] = _whole(table[name])
    return frame[table.column_names]


def _whole(column: pa.ChunkedArray) -> pd.Series:
    """Return whole numbers of which some may be missing. Floats would round them."""
    values = column.fill_null(0).to_numpy()
    return pd.Series(pd.arrays.IntegerArray(values.copy(), column.is_null().to_numpy()))


def parsed(frame: pd.DataFrame, column: str) -> pd.DataFrame:
    """Return `frame` with a column of JSON as dicts."""
    dicts = pd.Series(
        [json.loads(text) if isinstance(text, str) else {} for text in frame[column]],
        index=frame.index,
        dtype=object,
    )
    return frame.assign(**{column: dicts})


def settings_of(text: str | None) -> dict[str, Any]:
    """Return the settings that a run recorded as YAML.

    Text that is missing or is not a mapping gives {}: a run may come from an unknown source.
    """
    try:
        found = yaml.safe_load(text or "")
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def setting(config: Mapping[str, Any], *path: str) -> Any:
    """Return the value in `config` at `path`; `None` if there is none."""
    found: Any = config
    for key in path:
        found = found.get(key) if isinstance(found, Mapping) else None
    return found


def number_setting(config: Mapping[str, Any], *path: str, default: float, above: float = -math.inf) -> float:
    """Return the number in `config` at `path`.

    `default` replaces a value that is missing, is not a number, or is not beyond `above`.
    """
    found = setting(config, *path)
    if isinstance(found, bool) or not isinstance(found, int | float):
        return default
    return float(found) if above < found < 1e300 else default
