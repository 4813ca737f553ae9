"""Significance: confidence intervals of scores, and corrections for many tests.

A score is points per game: a win is 1, a draw one half. Its variance is that of the observed results, which
accounts for draws. A win and a loss are added to each score, which corrects intervals for few games (Agresti
and Caffo, The American Statistician 54, 2000).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.special import ndtr

from analysis.statistics.elo import Z_95
from storage.arrays import Floats

MEDIAN_SQUARE = 0.454936423119572  # median of the square of a standard normal number


@dataclass(frozen=True, slots=True)
class Counts:
    """Numbers of games, wins and draws: arrays of one shape."""

    games: Floats
    wins: Floats
    draws: Floats

    def mapped(self, function: Callable[[Floats], Floats]) -> Counts:
        """Return the counts that `function` makes of the games, the wins and the draws."""
        return Counts(*(function(array) for array in (self.games, self.wins, self.draws)))

    def where(self, kept: npt.NDArray[np.bool_]) -> Counts:
        """Return the counts, with 0 where `kept` is false."""
        return self.mapped(lambda array: np.where(kept, array, 0.0))

    def __getitem__(self, index: Any) -> Counts:
        return Counts(self.games[index], self.wins[index], self.draws[index])

    def sum(self, axis: int = -1) -> Counts:
        """Return the counts summed over `axis`."""
        return Counts(self.games.sum(axis), self.wins.sum(axis), self.draws.sum(axis))

    @property
    def points(self) -> Floats:
        """Points: wins and half the draws."""
        return self.wins + 0.5 * self.draws

    @property
    def score(self) -> Floats:
        """Points per game; 1/2 without games."""
        return np.where(self.games > 0, self.points / np.maximum(self.games, 1.0), 0.5)

    @property
    def estimate(self) -> Floats:
        """Score with a win and a loss added, for tests and intervals."""
        return (self.points + 1.0) / (self.games + 2.0)

    @property
    def variance(self) -> Floats:
        """Variance of `estimate`."""
        mean = self.estimate
        return (((self.wins + 1.0) + 0.25 * self.draws) / (self.games + 2.0) - mean**2) / (self.games + 2.0)

    def interval(self, dispersion: float = 1.0, z: float = Z_95) -> tuple[Floats, Floats]:
        """Return low and high of the score, for `dispersion` times the variance of independent games."""
        half = z * np.sqrt(dispersion * self.variance)
        low, high = np.clip(self.estimate - half, 0.0, 1.0), np.clip(self.estimate + half, 0.0, 1.0)
        return np.minimum(low, self.score), np.maximum(high, self.score)

    def latest(self, least_games: float) -> Counts:
        """Return the counts of the shortest stretch until now [..., K] with enough games, or else of all."""
        backwards = self.mapped(lambda array: np.cumsum(array[..., ::-1], axis=-1))
        enough = backwards.games >= least_games
        last = np.where(enough.any(axis=-1), enough.argmax(axis=-1), enough.shape[-1] - 1)[..., None]
        return backwards.mapped(lambda array: np.take_along_axis(array, last, axis=-1)[..., 0])

    def evidence(self, dispersion: float = 1.0, z: float = Z_95) -> dict[str, Any]:
        """Return score, low and high of one pair's counts, and its games, as findings record them."""
        low, high = self.interval(dispersion, z)
        return {"score": float(self.score), "low": float(low), "high": float(high), "games": int(self.games)}


def above(z: npt.ArrayLike) -> Floats:
    """Return the probability that a standard normal number is greater than `z`."""
    return ndtr(-np.asarray(z, dtype=np.float64))


def holm(p: Floats) -> Floats:
    """Return adjusted p-values [m] (Holm, Scand. J. Statist. 6, 1979).

    If all adjusted values below a level count as findings, the probability of any false one is at most that
    level.
    """
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted


def dispersion(counts: Counts, least_games: float = 20.0) -> float:
    """Return the ratio of the variance of scores [P, K] to that of independent games, at least 1.

    The strength of a learning player fluctuates, which error bars of independent games ignore. Steady
    progress does not count as fluctuation, and a single drop does not change the median.
    """
    deviation, expected, known = from_neighbours(counts, least_games)
    squares = (deviation**2 / expected)[known]
    if len(squares) < 8:
        return 1.0
    return max(1.0, float(np.median(squares)) / MEDIAN_SQUARE)


def from_neighbours(counts: Counts, least_games: float) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Return how far scores [P, K] deviate from the line between their neighbours in time.

    Also return the variance of it by chance, and where all three have enough games; all are [P, K - 2].
    """
    score, variance, known = counts.estimate, counts.variance, counts.games >= least_games
    deviation = score[:, 1:-1] - (score[:, :-2] + score[:, 2:]) / 2
    by_chance = variance[:, 1:-1] + (variance[:, :-2] + variance[:, 2:]) / 4
    return deviation, by_chance, known[:, :-2] & known[:, 1:-1] & known[:, 2:]
