"""Elo after a sequential test: the score at the moment of stopping is biased, this is not.

A test stops early where luck ran high. So the score at the end is too far out, and its interval too narrow.
Here the log likelihood ratio is a Brownian motion between the two bounds. Of all its ends, an earlier stop at
the upper bound is higher, and a later stop at the lower one too (D. Siegmund: Estimation following sequential
tests, Biometrika 65, 1978). The estimate is the score under which the end that was seen is the median, and
the interval holds the scores under which it is not extreme. fishtest reports the same. The probabilities of
ends are those of D. Darling and A. Siegert: The first passage problem for a continuous Markov process, Ann.
Math. Stat. 24, 1953.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from analysis.statistics.elo import NORMALIZED_ELO, EloEstimate, elo_of_score, score_of_elo
from analysis.statistics.sprt import Sprt
from analysis.statistics.valid import check_counts

_TERMS = 400  # of the series
_HALVINGS = 60
_STEEPEST = 300.0  # drift times the width of the bounds, over the variance


def sequential_elo(sprt: Sprt, counts: npt.ArrayLike) -> EloEstimate:
    """Return Elo of a test that followed `counts` [K] of evenly spaced scores, stopped or not.

    It is logistic Elo, median-unbiased, with its 95 % interval and the probability that the score is over one
    half. Raise ValueError for counts that are negative, not whole, or none, and without luck in the scores.
    """
    given = check_counts(counts, least=1.0)
    n, score = float(given.sum()), np.linspace(0.0, 1.0, len(given))
    smoothed = given + 1e-3
    mean = float(smoothed @ score / smoothed.sum())
    variance = float(smoothed @ (score - mean) ** 2 / smoothed.sum())
    if sprt.model == "logistic":
        s0, s1 = score_of_elo(sprt.elo0), score_of_elo(sprt.elo1)
    else:
        games = (len(given) - 1) / 2
        s0, s1 = (0.5 + elo / NORMALIZED_ELO * math.sqrt(games * variance) for elo in (sprt.elo0, sprt.elo1))
    low, high = sprt.bounds
    end = float(sprt.llr(given))

    def chance(s: float) -> float:
        drift = (s1 - s0) * (s - 0.5 * (s0 + s1)) / variance
        return _up_to(n, end, low, high, drift, (s1 - s0) ** 2 / variance)

    found = [_score_at(chance, p) for p in (0.5, 0.975, 0.025)]
    elo = [elo_of_score(s) for s in found]
    return EloEstimate(elo[0], elo[1], elo[2], chance(0.5))


def _score_at(chance: object, p: float) -> float:
    """Return the score at which the chance of ends up to the one that was seen is `p`."""
    assert callable(chance)
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if chance(middle) > p:
            low = middle
        else:
            high = middle
    return 0.5 * (low + high)


def _up_to(time: float, end: float, low: float, high: float, drift: float, variance: float) -> float:
    """Return the probability of an end that is at most as high as `end` after `time` steps."""
    steepest = _STEEPEST * variance / (high - low)
    drift = min(max(drift, -steepest), steepest)
    if end >= high:
        return 1.0 - _hits_low(time, -high, -low, -drift, variance)
    below = _hits_low(time, low, high, drift, variance)
    if end <= low:
        return below
    width, at = high - low, np.linspace(low, end, 801)
    k = np.arange(1, _TERMS + 1)[:, None] * math.pi / width
    decay = np.exp(-0.5 * (k**2 * variance + drift**2 / variance) * time)
    waves = (np.sin(-k * low) * np.sin(k * (at - low)) * decay).sum(axis=0)
    density = 2.0 / width * np.exp(drift * at / variance) * waves
    return min(1.0, max(0.0, below + float(np.trapezoid(density, at))))


def _hits_low(time: float, low: float, high: float, drift: float, variance: float) -> float:
    """Return the probability that a motion from 0 hits `low` before `high`, and by `time`."""
    width, slope = high - low, 2.0 * drift / variance
    if abs(slope) * width < 1e-9:
        ever = high / width
    else:
        ever = math.expm1(-slope * high) / (math.exp(-slope * high) - math.exp(-slope * low))
    k = np.arange(1, _TERMS + 1) * math.pi / width
    rate = 0.5 * (k**2 * variance + drift**2 / variance)
    later = np.sin(-k * low) * k / rate * np.exp(-rate * time)
    found = ever - math.exp(min(700.0, drift * low / variance)) * variance / width * float(later.sum())
    return min(1.0, max(0.0, found))
