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

from analysis.statistics.elo import NORMALIZED_ELO, score_of_elo
from analysis.statistics.likelihood import Sample, at_mean, at_t, sample_of_counts
from storage.errors import Mistake

Answer = Literal["H0", "H1"]
Model = Literal["logistic", "normalized"]

_WIDEST: dict[Model, float] = {"logistic": 1200.0, "normalized": 400.0}


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
        """Raise Mistake for bounds in the wrong order or too wide, and for error rates outside (0, 0.5)."""
        if self.model not in _WIDEST:
            raise Mistake(f"sprt: model is '{self.model}', expected one of: {', '.join(_WIDEST)}")
        widest = _WIDEST[self.model]
        if not -widest <= self.elo0 < self.elo1 <= widest:
            raise Mistake(
                f"sprt: found elo0 {self.elo0:g} and elo1 {self.elo1:g}, expected the lower first, both "
                f"{self.model} Elo within {widest:g} of 0, such as 0 and 10"
            )
        for name, rate in (("alpha", self.alpha), ("beta", self.beta)):
            if not 0.0 < rate < 0.5:
                raise Mistake(
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
        """
        sample = sample_of_counts(counts)
        return self._log_likelihood(sample, self.elo1) - self._log_likelihood(sample, self.elo0)

    def decide(self, llr: float) -> Answer | None:
        """Return the hypothesis that is accepted; `None`: play on."""
        low, high = self.bounds
        if low < llr < high:
            return None
        return "H1" if llr >= high else "H0"

    def _log_likelihood(self, sample: Sample, elo: float) -> npt.NDArray[np.float64]:
        if self.model == "logistic":
            return at_mean(sample, score_of_elo(elo))
        games = (len(sample.score) - 1) / 2
        return at_t(sample, elo / NORMALIZED_ELO * math.sqrt(games))
