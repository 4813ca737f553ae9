"""Statistics of ratings, as pure functions of recorded scores."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Z_95 = 1.959963984540054


@dataclass(frozen=True, slots=True)
class EloEstimate:
    """Elo difference with its 95 % interval; infinite where every game was won or lost."""

    elo: float
    low: float
    high: float
    los: float  # likelihood of superiority: P(true score > 1/2)


def elo_of_score(score: float) -> float:
    """The Elo difference at which `score`, points per game in [0, 1], is expected.

    The logistic model of A. Elo, The Rating of Chessplayers (1978), section 8.
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"score is {score}, expected points per game in [0, 1]")
    if score in (0.0, 1.0):
        return math.inf if score else -math.inf
    return -400.0 * math.log10(1.0 / score - 1.0)


def elo_from_pairs(pair_scores: npt.NDArray[np.float64]) -> EloEstimate:
    """Elo from mean scores of game pairs [n] in [0, 1], each pair one independent observation.

    The games of a pair share a seed and are not independent, which is why pairs, not games, carry
    the variance (the pentanomial model of chess-engine testing). The interval is that of the mean
    score, carried through the logistic curve. When all pairs score alike the sample shows no
    variance; Wilson's interval for n pairs is used then.
    """
    n = len(pair_scores)
    if n == 0:
        raise ValueError("no pairs, expected at least one")
    mean = float(np.mean(pair_scores))
    deviation = float(np.std(pair_scores, ddof=1)) / math.sqrt(n) if n > 1 else 0.0
    if deviation > 0.0:
        low, high = max(0.0, mean - Z_95 * deviation), min(1.0, mean + Z_95 * deviation)
        los = 0.5 * math.erfc((0.5 - mean) / (deviation * math.sqrt(2.0)))
    else:
        spread = 1.0 + Z_95**2 / n
        centre = (mean + Z_95**2 / (2 * n)) / spread
        half = Z_95 * math.sqrt(mean * (1 - mean) / n + Z_95**2 / (4 * n * n)) / spread
        low, high = max(0.0, centre - half), min(1.0, centre + half)
        los = 0.5 * math.erfc((0.5 - mean) * math.sqrt(2.0 * n))  # of the score test, Wilson's inverse
    return EloEstimate(elo_of_score(mean), elo_of_score(low), elo_of_score(high), los)
