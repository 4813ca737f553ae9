"""Aggregates of a figure over seeds: mean, median, interquartile mean, and differences between settings.

Runs of one config differ by their seeds, often by more than the settings that are compared. The interquartile
mean is the mean of the middle half of the runs, so one lucky seed does not carry it; its interval is a
bootstrap stratified by task, as in Agarwal et al. 2021, "Deep Reinforcement Learning at the Edge of the
Statistical Precipice" (https://arxiv.org/abs/2108.13264). The interval of the mean, and that of a difference
of means, are Student's and Welch's: with three to ten seeds a bootstrap is too narrow.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from analysis.statistics.valid import check_finite, check_number
from storage.arrays import Floats

LEVEL = 0.95
RESAMPLES = 5000
FEWEST = 2  # seeds from which there is an interval


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate with the ends of its interval; infinite ends: not known."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Aggregate:
    """A figure of one setting over n seeds."""

    n: int
    mean: Estimate
    median: float
    iqm: Estimate


def aggregate(scores: Floats, *, level: float = LEVEL, seed: int = 0) -> Aggregate:
    """Return the aggregates of `scores`: [n], or [n, tasks] of n seeds on several tasks.

    The mean is over tasks first. Raise ValueError without scores, and for scores that are not finite.
    """
    scores = np.asarray(scores, dtype=np.float64)
    grid = scores[:, None] if scores.ndim == 1 else scores
    if grid.ndim != 2 or not grid.size or not np.isfinite(grid).all():
        raise ValueError(f"scores of shape {scores.shape}, expected finite ones of shape [n] or [n, tasks]")
    check_number("level", level, 0.0, 1.0)
    by_seed = grid.mean(axis=1)
    return Aggregate(len(grid), _mean(by_seed, level), float(np.median(by_seed)), _iqm(grid, level, seed))


def interquartile_mean(scores: Floats) -> float:
    """Return the mean of the middle half of all `scores`: a quarter of them is cut off at each end.

    The number cut off is rounded down, as in the paper's `scipy.stats.trim_mean(scores, 0.25)`. Raise
    ValueError without scores, and for scores that are not finite.
    """
    ordered = np.sort(check_finite("scores", np.ravel(scores), None))
    cut = int(0.25 * len(ordered))
    return float(ordered[cut : len(ordered) - cut].mean())


def difference(a: Floats, b: Floats, *, level: float = LEVEL) -> Estimate:
    """Return by how much the mean of scores `a` [n] exceeds that of `b` [m], with Welch's interval.

    Raise ValueError without scores, for scores that are not finite, and for a level outside [0, 1].
    """
    a, b = check_finite("a", a, None), check_finite("b", b, None)
    check_number("level", level, 0.0, 1.0)
    value = float(a.mean() - b.mean())
    if min(len(a), len(b)) < FEWEST:
        return Estimate(value, -math.inf, math.inf)
    parts = a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)
    variance = sum(parts)
    if variance == 0.0:
        return Estimate(value, value, value)
    freedom = variance**2 / (parts[0] ** 2 / (len(a) - 1) + parts[1] ** 2 / (len(b) - 1))
    half = float(stdtrit(freedom, (1.0 + level) / 2.0)) * math.sqrt(variance)
    return Estimate(value, value - half, value + half)


def _mean(scores: Floats, level: float) -> Estimate:
    value = float(scores.mean())
    if len(scores) < FEWEST:
        return Estimate(value, -math.inf, math.inf)
    error = float(scores.std(ddof=1)) / math.sqrt(len(scores))
    half = float(stdtrit(len(scores) - 1, (1.0 + level) / 2.0)) * error
    return Estimate(value, value - half, value + half)


def _iqm(grid: Floats, level: float, seed: int) -> Estimate:
    """Return the interquartile mean; seeds are drawn again within each task by itself."""
    value = interquartile_mean(grid)
    n, tasks = grid.shape
    if n < FEWEST:
        return Estimate(value, -math.inf, math.inf)
    rng = np.random.default_rng(seed)
    drawn = rng.integers(0, n, (RESAMPLES, n, tasks))
    ordered = np.sort(grid[drawn, np.arange(tasks)].reshape(RESAMPLES, -1), axis=1)
    cut = int(0.25 * ordered.shape[1])
    means = ordered[:, cut : ordered.shape[1] - cut].mean(axis=1)
    low, high = np.quantile(means, [(1.0 - level) / 2.0, (1.0 + level) / 2.0])
    return Estimate(value, float(low), float(high))
