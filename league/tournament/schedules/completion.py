"""Completion: the meetings that a fixed schedule still lacks, in a tournament that has played before."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games
from league.tournament.schedules.base import MOST_PAIRS, Pairings, Schedule, in_tiles
from league.tournament.schedules.pairing.designs import meetings
from storage.arrays import Indices


class Completion(Schedule):
    """Any two meet until they have met as often as wanted, earlier meetings included.

    In each cycle all that still lack a meeting have one, so that a tournament which is stopped early is as
    even as can be. If more than two meet in a match, each table seats those who lack most meetings with one
    another, so some two meet more often than wanted.
    """

    goes_by_results = False

    def __init__(self, wanted: Indices, num_teams: int, before: Sequence[Pairings]) -> None:
        """`wanted` [N, N] is symmetric; `before` are the pairings of all earlier rounds."""
        self._rounds_before, self._pairs_before = len(before), sum(map(len, before))
        self._missing = np.maximum(wanted - meetings(before, len(wanted)), 0)
        self._tables = None if num_teams == 2 else _tables(self._missing, num_teams)
        upper = self._missing[np.triu_indices(len(wanted), 1)]
        lacking = len(upper) - np.cumsum(np.bincount(upper))  # couples by cycle: lacking more than 0, 1, ...
        self._ends = np.cumsum(lacking)  # rows up to the end of each cycle; the last cycle is empty

    def next_round(
        self, history: Sequence[Pairings], games: Games, rng: np.random.Generator
    ) -> Pairings | None:
        start = (len(history) - self._rounds_before) * MOST_PAIRS
        rows = self._rows(start, start + MOST_PAIRS)
        return in_tiles(rows) if len(rows) else None

    def total_pairs(self) -> int:
        return self._pairs_before + (int(self._ends[-1]) if self._tables is None else len(self._tables))

    def _rows(self, start: int, stop: int) -> Pairings:
        """Return the rows of all cycles from number `start` to before `stop`."""
        if self._tables is not None:
            return self._tables[start:stop]
        parts = [np.zeros((0, 2), dtype=np.int64)]
        cycle = int(np.searchsorted(self._ends, start, side="right"))
        while cycle < len(self._ends) and start < stop:
            couples = np.argwhere(np.triu(self._missing > cycle, 1))
            first = start - (int(self._ends[cycle]) - len(couples))
            parts.append(couples[first : first + stop - start])
            start += len(parts[-1])
            cycle += 1
        return np.concatenate(parts)


def _tables(missing: Indices, size: int) -> Pairings:
    """Return [n, size] tables after which no two lack a meeting, given the lacking ones [N, N]."""
    lacking = missing.copy()
    tables = []
    while lacking.any():
        table = [int(i) for i in np.unravel_index(int(lacking.argmax()), lacking.shape)]
        while len(table) < size:
            gain = lacking[:, table].sum(axis=1)
            gain[table] = -1
            table.append(int(gain.argmax()))
        members = np.array(table)
        lacking[np.ix_(members, members)] = np.maximum(lacking[np.ix_(members, members)] - 1, 0)
        tables.append(members)
    return np.array(tables, dtype=np.int64).reshape(-1, size)
