"""Elo from scores, with error bars that hold for few pairs and for lopsided scores.

A *pair* is one seed played with all seatings. Its score is the mean of one side's points in its games, in [0,
1]. The games of a pair share their luck, so pairs are the independent observations (the pentanomial model of
chess-engine testing). Games counted one by one are the trinomial model.

Elo here is logistic: a score of s is 400 log10(s / (1 - s)). *Normalized* Elo measures the same advantage in
units of the luck of one game, which makes it comparable between games with many draws and games with few (M.
Van den Bergh, https://www.cantate.be/Fishtest/normalized_elo_practical.pdf).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.likelihood import (
    EMPTY,
    Sample,
    at_mean,
    mean_interval,
    sample_of,
    sample_of_counts,
    widening,
)
from analysis.statistics.valid import check_counts, check_number, check_scores, check_whole
from storage.arrays import Floats

Z_95 = 1.959963984540054
NORMALIZED_ELO = 800.0 / math.log(10.0)  # of a game whose mean is one deviation above 1/2


@dataclass(frozen=True, slots=True)
class EloEstimate:
    """Elo difference with its 95 % interval; infinite where every game was won or lost."""

    elo: float
    low: float
    high: float
    los: float  # likelihood of superiority: P(true score > 1/2)

    @property
    def error(self) -> float:
        """Half of the interval's width; infinite where an end is."""
        return (self.high - self.low) / 2.0


@dataclass(frozen=True, slots=True)
class EloEstimates:
    """Elo differences with their intervals, as arrays of one shape."""

    elo: Floats
    low: Floats
    high: Floats
    los: Floats

    @property
    def error(self) -> Floats:
        """Half of the interval's width; infinite where an end is."""
        return (self.high - self.low) / 2.0

    def single(self) -> EloEstimate:
        """Return the only estimate of arrays without dimensions."""
        return EloEstimate(float(self.elo), float(self.low), float(self.high), float(self.los))


@dataclass(frozen=True, slots=True)
class EngineFigures:
    """Figures that fastchess, cutechess and fishtest print, by their formulas: good near even scores only."""

    score: float
    elo: float
    elo_error: float  # +- at 95 %, half the width of the normal interval
    normalized_elo: float
    normalized_elo_error: float
    los: float
    draw_ratio: float  # of games that are drawn; of pairs that scored 1/2
    pairs_ratio: float  # pairs that scored more than 1/2 over those that scored less


def elo_of_score(score: float) -> float:
    """Return the Elo difference at which `score`, points per game in [0, 1], is expected.

    The logistic model of A. Elo, The Rating of Chessplayers (1978), section 8. Raise ValueError for another
    score.
    """
    if not 0.0 <= score <= 1.0:
        raise ValueError(f"score is {score}, expected points per game in [0, 1]")
    return float(_elo(np.float64(score)))


def score_of_elo(elo: float) -> float:
    """Return the points per game, in [0, 1], expected of a competitor that is `elo` stronger.

    It is the inverse of `elo_of_score`. Raise ValueError for nan.
    """
    if math.isnan(elo):
        raise ValueError("elo is nan, expected a difference")
    return 0.5 + 0.5 * math.tanh(elo * math.log(10.0) / 800.0)


def elo_from_pairs(pair_scores: npt.ArrayLike) -> EloEstimate:
    """Return Elo from the scores [n] of pairs, each one independent observation. See `elo_from_counts`.

    Raise ValueError for no pairs, and for a score that is not in [0, 1].
    """
    if not np.size(pair_scores):
        raise ValueError("no pairs, expected at least one")
    return _estimate(sample_of(check_scores(pair_scores))).single()


def elo_from_games(wins: int, draws: int, losses: int) -> EloEstimate:
    """Return Elo from games counted one by one, as if each were independent of all others.

    Raise ValueError for no games, and for counts that are negative or not whole.
    """
    if not wins + draws + losses:
        raise ValueError("no games, expected at least one")
    return _estimate(sample_of_counts(check_counts([losses, draws, wins]))).single()


def elo_from_counts(counts: npt.ArrayLike) -> EloEstimates:
    """Return Elo of many matches at once, from counts [..., K] of K evenly spaced scores.

    The interval holds the means whose empirical likelihood is not too far below the best. It is asymmetric
    where the score is lopsided, and finite on one side where everything was won. The quantile is that of
    Student's t, to first order in 1 / n. LOS is the normal probability of the same ratio's signed root: over
    0.975 where the interval is above 0. Raise ValueError for counts that are negative or not whole, and for
    none.
    """
    return _estimate(sample_of_counts(check_counts(counts, least=1.0)))


def score_counts(pair_scores: npt.ArrayLike, games: int = 2) -> npt.NDArray[np.int64]:
    """Count the pairs of `games` games that scored 0, 1/2, ... points [2 games + 1].

    For two games this is the pentanomial. Raise ValueError for a score that is not in [0, 1], and without
    games.
    """
    check_whole("games", games, 1)
    points = np.rint(check_scores(pair_scores) * 2 * games).astype(np.int64)
    return np.bincount(points, minlength=2 * games + 1)


def normalized_elo(counts: npt.ArrayLike) -> EloEstimates:
    """Return normalized Elo with its 95 % interval, from counts [..., K] of evenly spaced scores.

    The interval is that of the inverse hyperbolic sine of the t-value, which is far less skewed: where all
    games of a pair end alike it is half the log-odds. Its variance is that of the delta method, with its
    sample's skewness and kurtosis and a quarter of a pair added at either end. Its quantile is Student's. It
    holds 0 where that of Elo does. Where it does not, the mean bounds the t-value too, since no score in
    [0, 1] deviates by more than sqrt(mean (1 - mean)); the bound of pairs that were all won is exact (C.
    Clopper, E. Pearson: The use of confidence or fiducial limits, Biometrika 26, 1934). Raise ValueError as
    `elo_from_counts` does.
    """
    given = check_counts(counts, least=1.0)
    places, n = given.shape[-1], given.sum(axis=-1)
    from scipy.special import stdtrit  # here, as the league's rules read this module and need no scipy

    unit = NORMALIZED_ELO / math.sqrt((places - 1) / 2)
    t, _ = _t_value(given)
    middle, deviation = _t_value(given + 0.25 * np.isin(np.arange(places), (0, places - 1)))
    half = stdtrit(np.maximum(n - 1.0, 1.0), 0.975) * deviation / np.sqrt(1.0 + middle**2)
    logistic = elo_from_counts(given)
    with np.errstate(over="ignore"):  # only in values that are cut off below
        low, high = (np.sinh(np.arcsinh(middle) + sign * half) for sign in (-1.0, 1.0))
        least, most = (np.sinh(bound * math.log(10.0) / 800.0) for bound in (logistic.low, logistic.high))
    won = 0.025 ** (1.0 / n)  # the least chance to win all
    exact = np.maximum((won - 0.5) / np.sqrt(won * (1.0 - won)), 0.0)
    least, most = np.where(t == np.inf, exact, least), np.where(t == -np.inf, -exact, most)
    low = np.where(t == -np.inf, t, np.where(least > 0.0, np.maximum(low, least), np.minimum(low, 0.0)))
    high = np.where(t == np.inf, t, np.where(most < 0.0, np.minimum(high, most), np.maximum(high, 0.0)))
    return EloEstimates(unit * t, unit * low, unit * high, logistic.los)


def engine_figures(counts: npt.ArrayLike) -> EngineFigures:
    """Return the figures of a match from counts [K] of evenly spaced scores: 3 for games, 5 for pairs of two.

    Formulas: https://github.com/Disservin/fastchess, app/src/elo; those of normalized Elo are good for
    small differences only (at a score of 0.9, the stated error is half the true one). Raise ValueError as
    `elo_from_counts` does.
    """
    given = check_counts(counts, least=1.0, single=True)
    score, games = np.linspace(0.0, 1.0, len(given)), (len(given) - 1) / 2
    n, share = float(given.sum()), given / given.sum()
    mean = float(share @ score)
    error = Z_95 * math.sqrt(float(share @ (score - mean) ** 2) / n)
    low, high = _elo(np.clip(np.array([mean - error, mean + error]), 0.0, 1.0))
    better, worse = given[score > 0.5].sum(), given[score < 0.5].sum()
    t = float(_t_value(given)[0])
    return EngineFigures(
        score=mean,
        elo=float(_elo(np.float64(mean))),
        elo_error=float(high - low) / 2.0,
        normalized_elo=NORMALIZED_ELO * t / math.sqrt(games),
        normalized_elo_error=NORMALIZED_ELO * Z_95 / math.sqrt(n * games),
        los=_normal(t * math.sqrt(n)),
        draw_ratio=float(share[score == 0.5].sum()),
        pairs_ratio=float(_ratio(better, worse)),
    )


def _estimate(sample: Sample) -> EloEstimates:
    """Return the estimates of `elo_from_counts` for a sample."""
    widened = widening(sample.size, Z_95)
    low, high = mean_interval(sample, Z_95**2 / 2.0 * widened)
    seen = np.where(sample.count > EMPTY, sample.count, 0.0)
    mean = seen @ sample.score / seen.sum(axis=-1)
    root = np.sqrt(np.maximum(-2.0 * at_mean(sample, 0.5), 0.0) / widened)
    los = np.vectorize(_normal, otypes=[np.float64])(np.sign(mean - 0.5) * root)
    low, high = np.where(mean == 0.0, 0.0, low), np.where(mean == 1.0, 1.0, high)
    return EloEstimates(_elo(mean), _elo(low), _elo(high), los)


def _elo(score: Floats | np.float64) -> Floats:
    """Return logistic Elo [...] of scores [...], infinite at 0 and 1."""
    with np.errstate(divide="ignore"):
        return 400.0 * (np.log10(score) - np.log10(1.0 - score))


def _t_value(counts: Floats) -> tuple[Floats, Floats]:
    """Return (mean - 1/2) / deviation of counts [..., K] of evenly spaced scores, and its standard error."""
    n, score = counts.sum(axis=-1), np.linspace(0.0, 1.0, counts.shape[-1])
    mean = counts @ score / n
    excess = score - mean[..., None]
    second, third, fourth = (np.sum(counts * excess**power, axis=-1) / n for power in (2, 3, 4))
    t = _ratio(mean - 0.5, np.sqrt(second))
    skewness, kurtosis = _ratio(third, second**1.5), _ratio(fourth, second**2)
    with np.errstate(invalid="ignore"):  # infinite t-values have no deviation
        return t, np.sqrt(np.maximum(1.0 - skewness * t + (kurtosis - 1.0) * t * t / 4.0, 0.0) / n)


def _ratio(above: npt.ArrayLike, below: npt.ArrayLike) -> Floats:
    """Return `above / below` [...]; 0 / 0 is 0, and anything else over 0 is infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(above, 0.0), 0.0, np.divide(above, below))


def _normal(z: float) -> float:
    """Return P(Z < z) of a standard normal Z."""
    return 0.5 * math.erfc(-z / math.sqrt(2.0))


def wilson(share: float, n: int) -> tuple[float, float]:
    """Return the 95 % interval of a share of n independent observations.

    E. B. Wilson: Probable inference, the law of succession, and statistical inference, JASA 22 (1927). It is
    for observations of 0 or 1. Others between 0 and 1 vary less around the same mean: it is wide enough.
    Raise ValueError for a share that is not in [0, 1], and without observations.
    """
    check_number("share", share, -1e-6, 1.0 + 1e-6)  # rounding
    check_number("n", n, 1.0)
    share = min(max(share, 0.0), 1.0)
    spread = Z_95 * math.sqrt(share * (1.0 - share) / n + Z_95**2 / (4.0 * n * n))
    middle, scale = share + Z_95**2 / (2.0 * n), 1.0 + Z_95**2 / n
    return min(max((middle - spread) / scale, 0.0), share), max(min((middle + spread) / scale, 1.0), share)
