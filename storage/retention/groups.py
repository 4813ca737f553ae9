"""Rows by their keys: numbers for texts, groups of equal rows, and the sums of each group."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Ints = npt.NDArray[np.int64]
Key = tuple[npt.NDArray[Any], int]
"""A value for each row, and the number of values that there may be."""

_MOST = 2**62  # values of all keys together


def coded(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], pa.Array]:
    """Return a column of texts as numbers [n], and the texts that they number, NULL as the last of them."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    chunks = column.unify_dictionaries().chunks
    whole = pa.concat_arrays(chunks) if chunks else pa.array([], column.type)
    if pc.count_distinct(whole.dictionary).as_py() < len(whole.dictionary):  # a text twice
        whole = whole.dictionary_decode().dictionary_encode()
    texts = pa.concat_arrays([whole.dictionary, pa.nulls(1, whole.dictionary.type)])
    indices = whole.indices.fill_null(len(texts) - 1) if whole.null_count else whole.indices
    return indices.to_numpy().astype(np.int32, copy=False), texts


class Groups:
    """The rows [n] with equal keys."""

    def __init__(self, keys: Sequence[Key]) -> None:
        """`keys` are those of one or more columns."""
        whole, width = keys[0][0].astype(np.int64), keys[0][1]
        for values, size in keys[1:]:
            if size == 1:
                continue
            if width * size >= _MOST:  # the groups so far are numbered, which are no more than rows
                encoded = pa.array(whole).dictionary_encode()
                whole, width = encoded.indices.to_numpy().astype(np.int64), len(encoded.dictionary)
            whole *= size
            whole += values
            width *= size
        encoded = pa.array(whole).dictionary_encode()
        self._size = len(encoded.dictionary)
        self.of = encoded.indices.to_numpy()  # [n] the group of each row
        number = np.arange(len(self.of))
        self.first, self.last = np.zeros(self._size, np.int64), np.zeros(self._size, np.int64)
        self.last[self.of] = number  # [groups] rows
        self.first[self.of[::-1]] = number[::-1]

    def __len__(self) -> int:
        return self._size

    def total(self, values: npt.NDArray[Any] | None = None) -> npt.NDArray[np.float64]:
        """Return the sum of each group's values, by default the number of its rows; exact for whole ones."""
        return np.bincount(self.of, values, minlength=self._size).astype(np.float64, copy=False)

    def highest(self, values: Ints) -> Ints:
        """Return the highest of each group's values, which are 0 or more."""
        found = np.zeros(self._size, np.int64)
        np.maximum.at(found, self.of, values)
        return found
