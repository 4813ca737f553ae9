"""Top k: the tournament ends when the k best are known."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.statistics.games import Games
from analysis.statistics.ratings import Ratings, bradley_terry
from league.tournament.schedules.base import Pairings, pairs_until_all_met
from league.tournament.schedules.pairing.order import boundary_stakes, distances
from league.tournament.schedules.pairing.rated import Rated
from league.tournament.schedules.settings import ScheduleSettings

_SCALE = 100.0  # expected Elo difference of two at the boundary; others are settled too, a little later

_erfc = np.vectorize(math.erfc, otypes=[np.float64])


class TopK(Rated):
    """Pairs with the most information on the k best, until these are known or the budget is used up."""

    def __init__(
        self, field: int, num_teams: int, settings: ScheduleSettings, before: Sequence[Pairings] = ()
    ) -> None:
        round_robin = settings.pairs * pairs_until_all_met(field, num_teams)
        super().__init__(field, num_teams, settings, settings.budget or max(field, round_robin), before)
        self._k, self._confidence, self._margin = settings.k, settings.confidence, settings.margin

    def conclusion(self, games: Games) -> str:
        """Return the k best as a sentence, with the confidence or the lack of it."""
        ratings = bradley_terry(games)
        found = np.flatnonzero(best(ratings, self._k))
        names = ", ".join(games.competitors[i] for i in found[np.argsort(-ratings.elo[found], kind="stable")])
        unsure = doubt(ratings, self._k, self._margin)
        if unsure <= 1.0 - self._confidence:
            return f"the {self._k} best, with a confidence of {self._confidence:g}: {names}"
        return (
            f"the {self._k} best were not known with a confidence of {self._confidence:g} when the budget of "
            f"{self.total_pairs():,} pairs was used up; they seem to be {names}"
        )

    def stakes(self, ratings: Ratings) -> npt.NDArray[np.float64] | None:
        """Return [N, N] the stakes at the boundary of the k best, or `None` once these are known."""
        if doubt(ratings, self._k, self._margin) <= 1.0 - self._confidence:
            return None
        return boundary_stakes(ratings, best(ratings, self._k), self._margin)


def best(ratings: Ratings, k: int) -> npt.NDArray[np.bool_]:
    """Return [N] True for the k best rated."""
    chosen = np.zeros(len(ratings.elo), dtype=np.bool_)
    chosen[np.argsort(-ratings.elo, kind="stable")[:k]] = True
    return chosen


def doubt(ratings: Ratings, k: int, margin: float = 0.0) -> float:
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
