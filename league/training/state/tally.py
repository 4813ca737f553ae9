"""Counts of training matches by the player that they were drawn for, match type and opponent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from storage.records import MatchBatch, Purpose

_Ints = npt.NDArray[np.integer]


class Tally:
    """Counts of matches by (player, match type), and of seats by (player, opponent).

    Each seat that another competitor fills counts once; if the player fills all seats, it counts once as
    its own opponent. Matches that no player learns from are left out.
    """

    def __init__(self) -> None:
        self.types: Counter[tuple[str, str]] = Counter()
        self.opponents: Counter[tuple[str, str]] = Counter()

    def count(self, matches: MatchBatch) -> None:
        """Count M matches."""
        rows, home = homes_of(matches)
        if not len(rows):
            return
        who, seat = matches.competitors, matches.seat[rows]
        for i, kind, n in _pairs(home, matches.match_type[rows]):
            self.types[who[i], matches.match_types[kind]] += n
        others = seat != home[:, None]
        others[~others.any(axis=1), 0] = True
        for i, other, n in _pairs(np.repeat(home, others.sum(axis=1)), seat[others]):
            self.opponents[who[i], who[other]] += n


def matches_of(matches: MatchBatch) -> dict[str, int]:
    """Return the number of M matches that each player learns from, in order of name."""
    counts = np.bincount(homes_of(matches)[1], minlength=len(matches.competitors)).tolist()
    return {name: n for name, n in sorted(zip(matches.competitors, counts, strict=True)) if n}


def homes_of(matches: MatchBatch) -> tuple[_Ints, _Ints]:
    """Return the training matches that a player learns from [m], and that player in each of them [m].

    The player, an index of `competitors`, is the one in all seats that learn.
    """
    if matches.purpose is not Purpose.TRAINING:
        return np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64)
    rows = np.flatnonzero(matches.learning.any(axis=1))
    return rows, matches.seat[rows, matches.learning[rows].argmax(axis=1)]


def _pairs(first: _Ints, second: _Ints) -> Iterator[tuple[int, int, int]]:
    """Yield each pair of values that occurs in `first` [n] and `second` [n], and its count."""
    width = int(second.max(initial=0)) + 1
    # one number for each pair: sorting rows of two takes ten times as long
    found, counts = np.unique(first.astype(np.int64) * width + second, return_counts=True)
    yield from zip((found // width).tolist(), (found % width).tolist(), counts.tolist(), strict=True)
