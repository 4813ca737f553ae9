"""Gauntlet: some competitors, the seeds, meet all others."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games
from league.tournament.schedules.base import MOST_PAIRS, Pairings, Schedule, in_tiles
from storage.arrays import Indices


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

    def next_round(
        self, history: Sequence[Pairings], games: Games, rng: np.random.Generator
    ) -> Pairings | None:
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
