"""Round robin: all competitors meet."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games
from league.tournament.schedules.base import MOST_PAIRS, Pairings, Schedule, in_tiles
from league.tournament.schedules.pairing.designs import cyclic_design, developed, num_developed


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

    def next_round(
        self, history: Sequence[Pairings], games: Games, rng: np.random.Generator
    ) -> Pairings | None:
        base = self._base[len(history) * self._per_round :][: self._per_round]
        return in_tiles(developed(base, self._field)) if len(base) else None

    def total_pairs(self) -> int:
        return self._total
