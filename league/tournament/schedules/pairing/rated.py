"""Base class of schedules whose rounds depend on the ratings so far."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.statistics.games import Games, games_per_pair
from analysis.statistics.ratings import Ratings, bradley_terry
from league.tournament.schedules.base import Pairings, Schedule, in_tiles
from league.tournament.schedules.pairing.designs import matchings, meetings, ring
from league.tournament.schedules.pairing.order import information, most_worth
from league.tournament.schedules.settings import ScheduleSettings
from storage.arrays import Indices


class Rated(Schedule):
    """First a ring, in which each meets two others, then rounds of drawn and chosen pairs.

    In each round the share `uniform` of the pairs is drawn uniformly. The others are those of most worth.
    """

    def __init__(
        self,
        field: int,
        num_teams: int,
        settings: ScheduleSettings,
        budget: int,
        before: Sequence[Pairings] = (),
    ) -> None:
        """`budget`: greatest number of pairs in all, those that were played `before` included."""
        self._rounds_before, self._pairs_before = len(before), sum(map(len, before))
        self._field, self._num_teams, self._budget = field, num_teams, budget
        self._uniform = settings.uniform
        self._per_round = settings.pairs_per_round or max(
            math.ceil(2 * field / num_teams), math.ceil(budget / 30)
        )

    @abstractmethod
    def stakes(self, ratings: Ratings) -> npt.NDArray[np.float64] | None:
        """Return [N, N] the cost of variance of each difference (see `order`), or `None` to end."""

    def next_round(
        self, history: Sequence[Pairings], games: Games, rng: np.random.Generator
    ) -> Pairings | None:
        if not history:
            return in_tiles(ring(self._field, self._num_teams, rng)[: self._budget])
        number = min(self._per_round, self._budget - sum(map(len, history)))
        if number <= 0:
            return None
        newcomers = np.flatnonzero(meetings(history, self._field).sum(axis=1) == 0)
        if len(history) == self._rounds_before and len(newcomers):
            return in_tiles(_first_meetings(newcomers, self._field, self._num_teams, rng)[:number])
        ratings = bradley_terry(games)
        stakes = self.stakes(ratings)
        if stakes is None:
            return None
        uniform = math.ceil(self._uniform * number)
        drawn = matchings(uniform, self._field, self._num_teams, rng)
        if uniform == number:
            return in_tiles(drawn)
        worth = information(ratings, games_per_pair(self._num_teams)) * self._counted(history, games)
        chosen = most_worth(ratings.covariance, stakes, worth, number - uniform, self._num_teams)
        return in_tiles(np.concatenate([drawn, chosen]))

    def total_pairs(self) -> int:
        return max(self._budget, self._pairs_before)

    def _counted(self, history: Sequence[Pairings], games: Games) -> npt.NDArray[np.float64]:
        """Return [N, N] the share of the pairs of any two that is expected to count, given those so far.

        Repeated games and games without a valid end do not count.
        """
        played = meetings(history, self._field)
        met = np.bincount(games.home * self._field + games.away, minlength=self._field**2)
        met = met.reshape(self._field, self._field)
        return (1.0 + (met + met.T) / games_per_pair(self._num_teams)) / (1.0 + played)


def _first_meetings(newcomers: Indices, field: int, num_teams: int, rng: np.random.Generator) -> Pairings:
    """Return [2 n, T] rows in which each newcomer meets others at random, twice."""
    rows = []
    for newcomer in np.repeat(newcomers, 2):
        others = np.setdiff1d(np.arange(field), newcomer)
        rows.append([newcomer, *rng.choice(others, num_teams - 1, replace=False)])
    return np.array(rows, dtype=np.int64)
