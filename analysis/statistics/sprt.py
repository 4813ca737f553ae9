"""Sequential tests, which stop as soon as the question is answered.

Is A stronger than B by `elo0` (H0) or by `elo1` (H1)? Wald's test follows the log likelihood ratio of the two
and stops where it leaves its bounds. A wrong answer then comes at most as often as the settings allow. The
amount of luck in the games is not known, so each hypothesis is given the likeliest luck (the generalized
SPRT; X. Li, J. Liu, Z. Ying, Sequential Analysis 33, 2014). fishtest and fastchess stop by this test:
https://www.cantate.be/Fishtest/normalized_elo_practical.pdf.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from analysis.statistics.elo import NORMALIZED_ELO, Z_95, EloEstimate, elo_of_score, score_of_elo
from analysis.statistics.likelihood import Sample, at_mean, at_t, mean_interval, sample_of_counts, widening
from analysis.statistics.valid import check_counts
from storage.errors import Mistake

Answer = Literal["H0", "H1"]
Model = Literal["logistic", "normalized"]

_WIDEST: dict[Model, float] = {"logistic": 1200.0, "normalized": 400.0}
_REFLECTIONS = 20
_SOON = (
    0.25  # width of bounds, in deviations at the end, of which all but 1e-33 of the motions have passed one
)
_FAR = 40.0  # deviations
_LATE = 0.583  # deviations of one batch, by which a motion without drift passes a bound on average
MOST_BACK = 4.0  # times the bound, up to which an end is taken back in time alone
_LEAST_STEP = 1e-9  # deviations between the hypotheses


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

    def deviation(self, sample: Sample, elo: float) -> float:
        """Return by how many standard errors one sample is better than `elo`: the root of its evidence."""
        root = math.sqrt(max(0.0, -2.0 * float(self._log_likelihood(sample, elo))))
        mean = float(sample.share @ sample.score)
        expected = score_of_elo(elo)
        if self.model == "normalized":
            spread = math.sqrt(float(sample.share @ (sample.score - mean) ** 2))
            expected = 0.5 + self._t_value(sample, elo) * spread
        return math.copysign(root, mean - expected)

    def _log_likelihood(self, sample: Sample, elo: float) -> npt.NDArray[np.float64]:
        if self.model == "logistic":
            return at_mean(sample, score_of_elo(elo))
        return at_t(sample, self._t_value(sample, elo))

    @staticmethod
    def _t_value(sample: Sample, normalized: float) -> float:
        games = (len(sample.score) - 1) / 2
        return normalized / NORMALIZED_ELO * math.sqrt(games)


def sequential_elo(sprt: Sprt, counts: npt.ArrayLike) -> EloEstimate:
    """Return Elo of a test that followed `counts` [K] of evenly spaced scores, stopped or not.

    A test stops early where luck ran high, so the score at its end is too far out. Here the evidence is a
    Brownian motion between the bounds, whose ends are ordered: the earlier at the upper bound, the higher,
    and the later at the lower one (D. Siegmund: Estimation following sequential tests, Biometrika 65, 1978;
    fishtest reports the same). An end past a bound is taken back on a straight way to the time at which the
    motion came to it, as in fishtest: so intervals of tests that end in large batches are wide rather than
    narrow (`tests/bench/until.py`). Of one over four times as far only so much is taken back, and the bound
    is moved to the rest, as tests of batches end like tests of single pairs between wider bounds (D.
    Siegmund: Sequential Analysis, 1985, chapter 10). Far from both bounds this is `elo_from_counts`.

    It is logistic Elo, median-unbiased, with its 95 % interval and the probability that the score is over one
    half. Raise ValueError for counts that are negative, not whole, or none.
    """
    from scipy.optimize import brentq  # here, as the league's commands read this module

    given = check_counts(counts, least=1.0, single=True)
    sample = sample_of_counts(given)
    widened = widening(sample.size, Z_95)
    below, above = (sprt.deviation(sample, elo) for elo in (sprt.elo0, sprt.elo1))
    end = 0.5 * (below + above)
    low, high = (bound / max(below - above, _LEAST_STEP) for bound in sprt.bounds)
    past = max(end / high, end / low, 1.0)  # times as far as the bound
    time = 1.0 / min(past, MOST_BACK)  # at which it came to a bound, on a straight way
    late = min(max(low - time * end, time * end - high, 0.0), _LATE)  # as late is the other bound noticed
    low, high = min(low - late, time * end), max(high + late, time * end)
    unit = math.sqrt(time)
    low, high, end = low / unit, high / unit, end * unit

    far = _FAR * (1.0 + 1.0 / min(-low, high))

    def below_end(share: float) -> float:
        """Return by how much the drift is below `end`, if ends up to there have this share."""
        return float(brentq(lambda z: _up_to(end, low, high, end - z) - share, -far, far, xtol=1e-9))

    z = np.array([below_end(share) for share in (0.5, 0.975, 0.025)]) / unit
    lows, highs = mean_interval(sample, 0.5 * z * z * widened)
    middle, least, most = np.where(z < 0.0, highs, lows).tolist()
    if given[0] == given.sum():  # as in `elo_from_counts`
        middle = least = 0.0
    elif given[-1] == given.sum():
        middle = most = 1.0
    root = math.sqrt(max(0.0, -2.0 * float(at_mean(sample, 0.5)) / float(widened)))
    equal = math.copysign(root, float(sample.share @ sample.score) - 0.5)
    los = _up_to(end, low, high, end - equal * unit)
    return EloEstimate(elo_of_score(middle), elo_of_score(least), elo_of_score(most), los)


def _up_to(end: float, low: float, high: float, drift: float) -> float:
    """Return the probability of an end at time 1 that is at most as high as `end`, from `low` to `high`.

    The motion begins at 0. Its paths are reflected at both bounds (D. Darling and A. Siegert: The first
    passage problem for a continuous Markov process, Ann. Math. Stat. 24, 1953). Every term is at most 1, and
    none is needed where the bounds are so close that it has passed one.
    """
    from scipy.special import log_ndtr

    width = high - low
    if width < _SOON:
        steep = 2.0 * max(abs(drift), 1e-300)
        first = math.expm1(-steep * high) / math.expm1(-steep * width)
        return first * math.exp(min(2.0 * drift * low, 0.0))
    turns = 2.0 * width * np.arange(-_REFLECTIONS, _REFLECTIONS + 1)
    source = np.concatenate([turns, turns + 2.0 * high])
    side = np.where(source < 0.0, -1.0, 1.0)
    sign = side * np.repeat([1.0, -1.0], len(turns))
    share = drift * source + log_ndtr(side * (end - source - drift))
    return min(1.0, max(0.0, float(sign @ np.exp(np.minimum(share, 0.0)))))
