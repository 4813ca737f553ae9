"""Opponents that players learned from, counted from the seats of matches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from storage.retention.groups import Groups, Ints, coded

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
