"""Rows by their keys: numbers for texts, groups of equal rows, and the sums of each group.

Opponents that players learned from are counted from the seats of matches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
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


Column = npt.NDArray[Any]


def pairs(seated: Sequence[Column], learns: Sequence[Column]) -> Iterator[tuple[Column, Column, Ints]]:
    """Yield (player, opponent, match), each [n], of every pair of seats, with the matches in which it counts.

    `seated` and `learns` have for each seat its competitors [m] and whether these learn in it [m]. A match
    counts once for each competitor that learns and each competitor in another seat.
    """
    size = len(seated)
    # how many seats before it have the same competitor: of several, the first counts
    before = [sum((seated[j] == seated[k]).astype(np.int8) for k in range(j)) for j in range(size)]
    for i in range(size):
        first = learns[i].astype(np.bool_)
        for k in range(i):
            first &= ~(learns[k] & (seated[k] == seated[i]))
        if first.any():
            for j in (j for j in range(size) if j != i):
                itself = (seated[i] == seated[j]) & (i < j)
                match = np.flatnonzero(first & (before[j] == itself))
                yield seated[i][match], seated[j][match], match


def opponents_of(seats: pa.Table, part: Ints) -> tuple[Ints, pa.Table]:
    """Return (part [n], rows of `summed_opponents` [n]) of the matches in `seats`, in order of `part`.

    Seats are in the order of recording. `part` [number of seats] is the number of what each seat is counted
    in: one for all seats of a match, and in order. `seq` is the number of the part's last match.
    """
    seq, learning = seats["seq"].to_numpy(), seats["learning"].to_numpy()
    competitor, names = coded(seats["competitor"])
    starts = np.flatnonzero(np.diff(seq, prepend=-1))
    sizes = np.diff(starts, append=len(seq))
    none = np.zeros(0, np.int64)
    found: list[tuple[Column, Column, Column]] = [(none, none, none)]
    for size in np.flatnonzero(np.bincount(sizes)).tolist():
        first = starts[sizes == size]
        at = [first + seat for seat in range(size)]
        each = pairs([competitor[rows] for rows in at], [learning[rows] for rows in at])
        found += [(part[first[match]], player, opponent) for player, opponent, match in each]
    within, player, opponent = (np.concatenate(columns) for columns in zip(*found, strict=True))
    groups = Groups([(within, int(part.max(initial=0)) + 1), (player, len(names)), (opponent, len(names))])
    order = np.argsort(within[groups.first], kind="stable")
    chosen = groups.first[order]
    rows = {
        "seq": seq[np.searchsorted(part, within[chosen], side="right") - 1],
        "player": names.take(pa.array(player[chosen])),
        "opponent": names.take(pa.array(opponent[chosen])),
        "games": groups.total()[order].astype(np.int64),
    }
    return within[chosen], pa.table(rows)
