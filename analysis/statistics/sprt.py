"""Sequential tests, which stop as soon as the question is answered.

Is A stronger than B by `elo0` (H0) or by `elo1` (H1)? Wald's test follows the log likelihood ratio of the two
and stops where it leaves its bounds. A wrong answer then comes at most as often as the settings allow. The
amount of luck in the games is not known, so each hypothesis is given the likeliest luck (the generalized
SPRT; X. Li, J. Liu, Z. Ying, Sequential Analysis 33, 2014). fishtest and fastchess stop by this test:
https://www.cantate.be/Fishtest/normalized_elo_practical.pdf.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from analysis.statistics.elo import NORMALIZED_ELO, EloEstimate, elo_of_score, score_of_elo
from analysis.statistics.likelihood import Sample, at_mean, at_t, sample_of_counts
from analysis.statistics.valid import check_counts
from storage.errors import Mistake

Answer = Literal["H0", "H1"]
Model = Literal["logistic", "normalized"]

_WIDEST: dict[Model, float] = {"logistic": 1200.0, "normalized": 400.0}
_TERMS = 400  # of the series of a first passage
_HALVINGS = 60
_STEEPEST = 300.0  # drift times the width of the bounds, over the variance


class ImpossibleTest(Mistake, ValueError):
    """A sequential test that cannot be: a user's mistake in a command, a wrong value in a program."""


@dataclass(frozen=True, slots=True)
class Sprt:
    """A sequential test between two Elo differences, with its error rates.

    `alpha` is the rate at which H1 is accepted though the difference is elo0 or less; `beta` is the rate of
    H0 though it is elo1 or more. The bounds are logistic or normalized Elo of one game
    (`analysis.statistics.elo`).
    """

    elo0: float
    elo1: float
    alpha: float = 0.05
    beta: float = 0.05
    model: Model = "logistic"

    def __post_init__(self) -> None:
        """Raise ImpossibleTest for an unknown model, wrong bounds, and error rates outside (0, 0.5)."""
        if self.model not in _WIDEST:
            raise ImpossibleTest(f"sprt: model is '{self.model}', expected one of: {', '.join(_WIDEST)}")
        widest = _WIDEST[self.model]
        if not -widest <= self.elo0 < self.elo1 <= widest:
            raise ImpossibleTest(
                f"sprt: found elo0 {self.elo0:g} and elo1 {self.elo1:g}, expected the lower first, both "
                f"{self.model} Elo within {widest:g} of 0, such as 0 and 10"
            )
        for name, rate in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 < rate < 0.5:
                raise ImpossibleTest(
                    f"sprt: {name} is {rate:g}, expected an error rate between 0 and 0.5, such as 0.05"
                )

    @property
    def bounds(self) -> tuple[float, float]:
        """Log likelihood ratios at which H0 and H1 are accepted.

        A. Wald, Sequential Tests of Statistical Hypotheses (1945).
        """
        return math.log(self.beta / (1.0 - self.alpha)), math.log((1.0 - self.beta) / self.alpha)

    def llr(self, counts: npt.ArrayLike) -> npt.NDArray[np.float64]:
        """Return the log likelihood ratio [...] of H1 to H0, from counts [..., K] of K evenly spaced scores.

        Three counts are losses, draws and wins. Five are pairs that scored 0, 1/2, ... 2 points; see
        `elo.score_counts`. A score that never occurred counts as `likelihood.EMPTY` pairs, as in fishtest.
        Raise ValueError for counts that are negative or not whole.
        """
        sample = sample_of_counts(check_counts(counts))
        return self._log_likelihood(sample, self.elo1) - self._log_likelihood(sample, self.elo0)

    def decide(self, llr: float) -> Answer | None:
        """Return the hypothesis that is accepted; `None`: play on. Raise ValueError for nan."""
        if math.isnan(llr):
            raise ValueError("llr is nan, expected a log likelihood ratio")
        low, high = self.bounds
        if low < llr < high:
            return None
        return "H1" if llr >= high else "H0"

    def _log_likelihood(self, sample: Sample, elo: float) -> npt.NDArray[np.float64]:
        if self.model == "logistic":
            return at_mean(sample, score_of_elo(elo))
        games = (len(sample.score) - 1) / 2
        return at_t(sample, elo / NORMALIZED_ELO * math.sqrt(games))


def sequential_elo(sprt: Sprt, counts: npt.ArrayLike) -> EloEstimate:
    """Return Elo of a test that followed `counts` [K] of evenly spaced scores, stopped or not.

    A test stops early where luck ran high, so the score at its end is too far out. Here the log likelihood
    ratio is a Brownian motion between the bounds, whose ends are ordered: the earlier at the upper bound, the
    higher, and the later at the lower one (D. Siegmund: Estimation following sequential tests, Biometrika 65,
    1978; fishtest reports the same). The probabilities of ends are those of D. Darling and A. Siegert: The
    first passage problem for a continuous Markov process, Ann. Math. Stat. 24, 1953.

    It is logistic Elo, median-unbiased, with its 95 % interval and the probability that the score is over one
    half. Raise ValueError for counts that are negative, not whole, or none, and without luck in the scores.
    """
    given = check_counts(counts, least=1.0, single=True)
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


def _score_at(chance: Callable[[float], float], p: float) -> float:
    """Return the score at which the chance of ends up to the one that was seen is `p`."""
    low, high = 0.0, 1.0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if chance(middle) > p else (low, middle)
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
    width, reach, tilt = high - low, end - low, drift / variance
    k = np.arange(1, _TERMS + 1) * math.pi / width
    decay = np.exp(-0.5 * (k**2 * variance + drift**2 / variance) * time)
    waves = math.exp(tilt * end) * (tilt * np.sin(k * reach) - k * np.cos(k * reach))
    waves = (waves + math.exp(tilt * low) * k) / (tilt**2 + k**2)  # integrals of exp(tilt x) sin(k (x - low))
    return min(1.0, max(0.0, below + 2.0 / width * float(np.sum(np.sin(-k * low) * waves * decay))))


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
