"""Fixed schedules, which go by no results: round robin, gauntlet; completion of either."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games
from league.tournament.schedules.designs import cyclic_design, developed, meetings, num_developed
from league.tournament.schedules.schedule import MOST_PAIRS, Pairings, Round, Schedule, in_tiles
from storage.arrays import Indices


class RoundRobin(Schedule):
    """Any two competitors meet in `pairs` pairs; if more than two meet in a match, some two meet more often.

    Rounds do not depend on results, so each is as large as MOST_PAIRS allows.
    """

    goes_by_results = False

    def __init__(self, field: int, num_teams: int, pairs: int) -> None:
        self._field = field
        self._base = cyclic_design(field, num_teams, pairs)
        self._per_round = max(1, MOST_PAIRS // field)  # base rows
        self._total = num_developed(self._base, field)

    def next_round(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
        base = self._base[len(history) * self._per_round :][: self._per_round]
        return in_tiles(developed(base, self._field)) if len(base) else None

    def total_pairs(self) -> int:
        return self._total


class Gauntlet(Schedule):
    """Each seed meets all competitors, other seeds included, in `pairs` pairs. Others do not meet.

    If more than two meet in a match, the others at a seed's table are drawn again for each cycle. If the last
    table is not full, some competitors take part in it a second time.
    """

    goes_by_results = False

    def __init__(self, field: int, num_teams: int, pairs: int, seeds: Sequence[int]) -> None:
        self._field, self._num_teams, self._pairs = field, num_teams, pairs
        self._seeds = np.array(seeds, dtype=np.int64)
        opponents = field - 1 - np.arange(len(seeds))  # two seeds meet at a table of the earlier one
        self._per_cycle = sum(math.ceil(count / (num_teams - 1)) for count in opponents.tolist())
        self._cycles = max(1, MOST_PAIRS // self._per_cycle)  # cycles in one round

    def next_round(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
        cycles = min(self._cycles, self._pairs - len(history) * self._cycles)
        if cycles <= 0:
            return None
        return in_tiles(np.concatenate([self._cycle(rng) for _ in range(cycles)]))

    def total_pairs(self) -> int:
        return self._pairs * self._per_cycle

    def _cycle(self, rng: np.random.Generator) -> Pairings:
        """Return the tables of each seed against all competitors, once."""
        tables = []
        for number, seed in enumerate(self._seeds):
            opponents = np.setdiff1d(np.arange(self._field), self._seeds[: number + 1])
            if len(opponents):
                tables.append(self._tables(seed, opponents, rng))
        return np.concatenate(tables)

    def _tables(self, seed: np.int64, opponents: Indices, rng: np.random.Generator) -> Pairings:
        """Return [n, T] tables of the seed and others, with each of `opponents` at one table at least."""
        size = self._num_teams - 1
        order = rng.permutation(opponents) if size > 1 else opponents
        missing = -len(order) % size
        if missing:
            at_last_table = np.append(order[len(order) - (size - missing) :], seed)
            free = np.setdiff1d(np.arange(self._field), at_last_table)
            order = np.concatenate([order, rng.choice(free, missing, replace=False)])
        return np.insert(order.reshape(-1, size), 0, seed, axis=1)


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

    def next_round(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
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
