"""What a league is a fold of its results to, as a table of the ledger, exact to the bit.

Arrays are compressed; all else is JSON.

A frame with the table `folded` has the fold of all frames before it. Once the matches of old segments are
summed up, a run resumes from such a frame: it cannot replay them any more. No reader has this table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.errors import CorruptLedger

FOLDED = "folded"
_FIELDS = "fields"  # the row with what is no array
_KINDS = ("float64", "int64", "int32", "bool")


def folded_table(arrays: Mapping[str, npt.NDArray[Any]], fields: Mapping[str, Any]) -> pa.Table:
    """Return a row for each array and one for the JSON `fields`. Raise ValueError for other types."""
    rows: list[dict[str, Any]] = [
        {"name": _FIELDS, "type": "json", "shape": [], "data": json.dumps(fields).encode()}
    ]
    for name, array in arrays.items():
        if str(array.dtype) not in _KINDS:
            raise ValueError(f"folded: '{name}' is of {array.dtype}, expected one of {', '.join(_KINDS)}")
        data = pa.compress(np.ascontiguousarray(array).tobytes(), "zstd", asbytes=True)
        rows.append({"name": name, "type": str(array.dtype), "shape": list(array.shape), "data": data})
    return pa.Table.from_pylist(
        rows,
        pa.schema(
            [
                ("name", pa.string()),
                ("type", pa.string()),
                ("shape", pa.list_(pa.int64())),
                ("data", pa.large_binary()),
            ]
        ),
    )


def folded_of(table: pa.Table) -> tuple[dict[str, npt.NDArray[Any]], dict[str, Any]]:
    """Return (arrays, fields) as `folded_table` received them. Raise CorruptLedger."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    fields: dict[str, Any] = {}
    try:
        for row in table.to_pylist():
            if row["type"] == "json":
                fields = json.loads(row["data"])
            elif row["type"] in _KINDS:
                size = int(np.prod(row["shape"])) * np.dtype(row["type"]).itemsize
                data = pa.decompress(row["data"], size, "zstd", asbytes=True)
                arrays[row["name"]] = np.frombuffer(data, row["type"]).reshape(row["shape"]).copy()
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise CorruptLedger(f"table {FOLDED} of the ledger: cannot be read: {error}") from None
    return arrays, fields
