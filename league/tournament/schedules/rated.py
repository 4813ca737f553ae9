"""Rated schedules, whose rounds depend on the ratings so far: adaptive, and top k."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games, games_per_pair, of_those_who_played
from analysis.statistics.hierarchy.normal import Normal, normal_of
from league.tournament.schedules.designs import matchings, meetings, ring
from league.tournament.schedules.order import (
    boundary_stakes,
    distances,
    information,
    misorder_stakes,
    most_worth,
)
from league.tournament.schedules.schedule import (
    Pairings,
    Round,
    Schedule,
    among,
    at_random,
    in_tiles,
    pairs_until_all_met,
)
from league.tournament.schedules.settings import ScheduleSettings
from storage.arrays import Bools, Floats, Indices

_SCALE = 100.0  # expected Elo difference of two at the boundary; others are settled too, a little later

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


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
    def stakes(self, ratings: Normal) -> Floats | None:
        """Return [N, N] the cost of variance of each difference (see `order`), or `None` to end."""

    def next_round(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
        if not history:
            rows = ring(self._field, self._num_teams, rng)[: self._budget]
            return in_tiles(rows, np.full(len(rows), at_random(len(rows), self._field, self._num_teams)))
        number = min(self._per_round, self._budget - sum(map(len, history)))
        if number <= 0:
            return None
        newcomers = np.flatnonzero(meetings(history, self._field).sum(axis=1) == 0)
        if len(history) == self._rounds_before and len(newcomers):
            rows = _first_meetings(newcomers, self._field, self._num_teams, rng)[:number]
            return in_tiles(rows, _first_chances(rows, newcomers, self._field))
        ratings = normal_of(games)
        stakes = self.stakes(ratings)
        if stakes is None:
            return None
        uniform = math.ceil(self._uniform * number)
        drawn = matchings(uniform, self._field, self._num_teams, rng)
        by_chance = np.full(uniform, self._chance_of_matching(uniform))
        if uniform == number:
            return in_tiles(drawn, by_chance, ratings.elo)
        worth = information(ratings, games_per_pair(self._num_teams)) * self._counted(history, games)
        chosen = most_worth(ratings.covariance, stakes, worth, number - uniform, self._num_teams)
        certain = np.where(among(drawn, chosen), 1.0, by_chance)
        probability = np.concatenate([certain, np.ones(len(chosen))])
        return in_tiles(np.concatenate([drawn, chosen]), probability, ratings.elo)

    def total_pairs(self) -> int:
        return max(self._budget, self._pairs_before)

    def _chance_of_matching(self, rows: int) -> float:
        """Return the probability that given ones meet in one of so many rows of `matchings`."""
        whole, rest = divmod(rows, self._field // self._num_teams)
        all_seated = at_random(self._field // self._num_teams, self._field, self._num_teams)
        never = (1.0 - all_seated) ** whole * (1.0 - at_random(rest, self._field, self._num_teams))
        return 1.0 - never

    def _counted(self, history: Sequence[Pairings], games: Games) -> Floats:
        """Return [N, N] the share of the pairs of any two that is expected to count, given those so far.

        Repeated games and games without a valid end do not count.
        """
        played = meetings(history, self._field)
        met = np.bincount(games.home * self._field + games.away, minlength=self._field**2)
        met = met.reshape(self._field, self._field)
        return (1.0 + (met + met.T) / games_per_pair(self._num_teams)) / (1.0 + played)


class Adaptive(Rated):
    """Pairs whose games are expected to correct the ranking most, until the budget is used up."""

    def __init__(
        self, field: int, num_teams: int, settings: ScheduleSettings, before: Sequence[Pairings] = ()
    ) -> None:
        half = math.ceil(settings.pairs * pairs_until_all_met(field, num_teams) / 2)
        super().__init__(field, num_teams, settings, settings.budget or max(field, half), before)

    def stakes(self, ratings: Normal) -> Floats:
        """Return [N, N] the stakes of a wrong order of any two."""
        return misorder_stakes(ratings)


class TopK(Rated):
    """Pairs with the most information on the k best, until these are known or the budget is used up."""

    def __init__(
        self, field: int, num_teams: int, settings: ScheduleSettings, before: Sequence[Pairings] = ()
    ) -> None:
        round_robin = settings.pairs * pairs_until_all_met(field, num_teams)
        super().__init__(field, num_teams, settings, settings.budget or max(field, round_robin), before)
        self._k, self._confidence, self._margin = settings.k, settings.confidence, settings.margin

    def conclusion(self, games: Games) -> str:
        """Return the k best as a sentence, with the confidence or the lack of it.

        They are the first of the verdict: its posterior orders them, and `normal_of` is near to it.
        """
        from analysis.statistics.hierarchy.posterior import posterior  # scipy, which a config does not need

        played = of_those_who_played(games)
        found = posterior(played)
        order = np.lexsort((-found.elo, found.part))[: self._k]
        names = ", ".join(played.competitors[i] for i in order)
        if doubt(normal_of(games), self._k, self._margin) <= 1.0 - self._confidence:
            return f"the {self._k} best, with a confidence of {self._confidence:g}: {names}"
        return (
            f"the {self._k} best were not known with a confidence of {self._confidence:g} when the budget of "
            f"{self.total_pairs():,} pairs was used up; they seem to be {names}"
        )

    def stakes(self, ratings: Normal) -> Floats | None:
        """Return [N, N] the stakes at the boundary of the k best, or `None` once these are known."""
        if doubt(ratings, self._k, self._margin) <= 1.0 - self._confidence:
            return None
        return boundary_stakes(ratings, best(ratings, self._k), self._margin)


def best(ratings: Normal, k: int) -> Bools:
    """Return [N] True for the k best rated."""
    chosen = np.zeros(len(ratings.elo), dtype=np.bool_)
    chosen[np.argsort(-ratings.elo, kind="stable")[:k]] = True
    return chosen


def doubt(ratings: Normal, k: int, margin: float = 0.0) -> float:
    """Return a bound of the chance that another is over `margin` Elo better than one of the k best rated.

    The bound is a sum over such pairs, which may be above 1. It holds for any number of looks.
    A difference d with error s is tested after each round, so a test made for one look would end too early.
    So the chance for each two is that of a test that is valid at all times (Robbins: Statistical methods
    related to the law of the iterated logarithm, Annals of Mathematical Statistics 1970): the inverse of the
    likelihood ratio of d, for a truth from a half normal around 0 of width _SCALE against a truth of 0.
    """
    difference, variance = distances(ratings)
    inside = best(ratings, k)
    d, s2 = (difference + margin)[inside][:, ~inside], variance[inside][:, ~inside]
    wide = s2 + _SCALE**2
    z = d * _SCALE / np.sqrt(s2 * wide)
    exponent = np.minimum(0.5 * z**2, 600.0)  # limited, so that its exponential is a float
    likelier = np.sqrt(s2 / wide) * np.exp(exponent) * _erfc(-z / math.sqrt(2.0))  # 2 Phi(z)
    return float(np.minimum(1.0, 1.0 / np.maximum(likelier, 1e-300)).sum())


def _first_chances(rows: Pairings, newcomers: Indices, field: int) -> Floats:
    """Return the probability [n] of each row of `_first_meetings`, in as many tries of each newcomer."""
    tries = np.bincount(rows[:, 0], minlength=field)
    tries[np.setdiff1d(np.arange(field), newcomers)] = 0
    never = 1.0 - at_random(1, field - 1, rows.shape[1] - 1)
    return 1.0 - never ** tries[rows].sum(axis=1)


def _first_meetings(newcomers: Indices, field: int, num_teams: int, rng: np.random.Generator) -> Pairings:
    """Return [2 n, T] rows in which each newcomer meets others at random, twice."""
    rows = []
    for newcomer in np.repeat(newcomers, 2):
        others = np.setdiff1d(np.arange(field), newcomer)
        rows.append([newcomer, *rng.choice(others, num_teams - 1, replace=False)])
    return np.array(rows, dtype=np.int64)
