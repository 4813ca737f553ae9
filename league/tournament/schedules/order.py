"""Expected worth of a pair's games for the ranking of a field: the mathematics of `adaptive` and `top_k`.

Ratings are known as a normal distribution with a covariance C. The games of a and b, with Fisher
information w on their difference, take w c c' / (1 + w v) from C, where c = C (e_a - e_b) and v is the
variance of that difference. Their worth depends on the question. Here the question is the order, so the
`stakes` L are the cost of a little variance of each difference: the rate at which the chance rises that its
two are misordered. To first order a pair's games are then worth

    w c' M c / (1 + w v) = w k / (1 + w v),    k the `variance` of the difference in K = C M C,

with M the Laplacian matrix of L: one product of matrices rates all pairs at once. That is L-optimality of
the design of experiments (Atkinson, Donev, Tobias: Optimum Experimental Designs, with SAS, 2007, section
10.5), with weights that are updated each round. The plain gain of information on the ratings, log(1 + w v),
is worse: it also measures the distance of entrants whose order is known already. For the same order it took
10 to 25 % more pairs of 32 entrants over 2,000 Elo. Within 100 Elo its tau was up to 7 % below that of a
round robin, unlike that of this method (tests/bench/schedules.py).
"""

from __future__ import annotations

import itertools
import math

import numpy as np

from analysis.statistics.davidson import ELO
from analysis.statistics.hierarchy.normal import Normal
from league.tournament.schedules.schedule import Pairings
from storage.arrays import Bools, Floats, Indices

_erf = np.vectorize(math.erf, otypes=[np.float64])

_STEPS = 32  # number of steps in which the pairings of a round are chosen
_NEARLY = 0.5  # share of the greatest worth that a pairing of the same step must have
_SEEN = 32  # number of such pairings that are examined for each one to be chosen


def distances(ratings: Normal) -> tuple[Floats, Floats]:
    """Return [N, N] the Elo of the row less that of the column, and its variance (1 on the diagonal)."""
    variance = _variance(ratings.covariance)
    np.fill_diagonal(variance, 1.0)
    return ratings.elo[:, None] - ratings.elo, np.maximum(variance, 1e-9)


def misorder_stakes(ratings: Normal) -> Floats:
    """Return [N, N] the rate at which the chance that two are misordered rises with variance.

    The difference has the variance s^2 around m. The truth is drawn from it and estimated with variance t^2:
    E Phi(-|d| / t), d ~ N(m, s^2). Its derivative by t^2 is at t = s, with x = |m| / 2 s,
    exp(-x^2) (exp(-x^2) / sqrt(pi) + x erf(x)) / (4 sqrt(pi) s^2).
    """
    difference, variance = distances(ratings)
    x = np.abs(difference) / (2.0 * np.sqrt(variance))
    bell = np.exp(-(x**2))
    stakes = bell * (bell / math.sqrt(math.pi) + x * _erf(x)) / (4.0 * math.sqrt(math.pi) * variance)
    np.fill_diagonal(stakes, 0.0)
    return stakes


def boundary_stakes(ratings: Normal, best: Bools, margin: float) -> Floats:
    """Return [N, N] the rate at which the chance that one of the `best` [N] is overtaken rises with variance.

    The difference of two has the variance s^2 around m. The rate is the derivative of Phi(-z),
    z = (m + margin) / s, which is z phi(z) / 2 s^2. Differences are taken as estimated, as in OCBA (Chen et
    al.: Simulation budget allocation for further enhancing the efficiency of ordinal optimization, 2000).
    """
    difference, variance = distances(ratings)
    z = (np.abs(difference) + margin) / np.sqrt(variance)
    stakes = z * np.exp(-0.5 * z**2) / (2.0 * math.sqrt(2.0 * math.pi) * variance)
    return np.where(best[:, None] != best, stakes, 0.0)


def information(ratings: Normal, games: int) -> Floats:
    """Return [N, N] the Fisher information, in Elo^-2, of `games` games of two on their difference.

    It is the variance of the score in Bradley and Terry's model, over the luck that games of a pair share.
    """
    apart = (ratings.elo[:, None] - ratings.elo) / (2.0 * ELO)
    return games * 0.25 * (1.0 - np.tanh(apart) ** 2) / (ratings.dispersion * ELO**2)


def most_worth(
    covariance: Floats, stakes: Floats, information: Floats, number: int, num_teams: int
) -> Pairings:
    """Return [number, num_teams] pairings of the greatest worth; the other arrays are [N, N].

    They are chosen in about _STEPS steps, each as if the games of earlier steps had been played. A step takes
    the best pairings in which each entrant appears once. If few are worth nearly as much as the best, it
    takes these several times. `information` is that of a pair's games.
    """
    c = covariance
    k = c @ (np.diag(stakes.sum(axis=1)) - stakes) @ c
    two = np.triu_indices(len(c), k=1)
    chosen: list[Indices] = []
    missing = number
    for step in range(_STEPS, 0, -1):
        worth = information * np.maximum(0.0, _variance(k)) / (1.0 + information * _variance(c))
        quota = math.ceil(missing / step)
        rows = _apart(worth, two, quota, num_teams)
        times = math.ceil(quota / len(rows))
        chosen.append(np.repeat(rows, times, axis=0)[:missing])
        missing -= len(chosen[-1])
        if not missing:
            break
        c, k = _played(c, k, times * information, rows)
    return np.concatenate(chosen)


def _apart(worth: Floats, two: tuple[Indices, Indices], number: int, num_teams: int) -> Pairings:
    """Return [n, num_teams] at most `number` disjoint rows: of any `two` near the best, and others."""
    first, second = two
    value = worth[first, second]
    near = np.flatnonzero(value >= _NEARLY * value.max())
    seen = _SEEN * number
    if len(near) > seen:
        near = np.sort(near[np.argpartition(-value[near], seen)[:seen]])
    near = near[np.argsort(-value[near], kind="stable")]
    free = np.ones(len(worth), dtype=np.bool_)
    rows: list[list[int]] = []
    for a, b in zip(first[near].tolist(), second[near].tolist(), strict=True):
        if not (free[a] and free[b]) or np.count_nonzero(free) < num_teams:
            continue
        row = [a, b]
        free[row] = False
        while len(row) < num_teams:
            row.append(int(np.where(free, worth[row].sum(axis=0), -np.inf).argmax()))
            free[row[-1]] = False
        rows.append(row)
        if len(rows) == number:
            break
    return np.array(rows, dtype=np.int64)


def _played(c: Floats, k: Floats, information: Floats, rows: Pairings) -> tuple[Floats, Floats]:
    """Return C and K after games of any two in each row.

    C becomes C - A G A', with A = C U for the differences U of the two and G = (W^-1 + U' A)^-1 (Woodbury's
    identity). K becomes C M C with that C.
    """
    pairs = [rows[:, pair] for pair in itertools.combinations(range(rows.shape[1]), 2)]
    one, other = np.concatenate(pairs).T
    a, b = c[:, one] - c[:, other], k[:, one] - k[:, other]
    gained = a @ np.linalg.inv(np.diag(1.0 / information[one, other]) + a[one] - a[other])
    common = gained @ b.T
    return c - gained @ a.T, k - common - common.T + gained @ (b[one] - b[other]) @ gained.T


def _variance(covariance: Floats) -> Floats:
    """Return [N, N] the variance of the difference of any two."""
    own = covariance.diagonal()
    return own[:, None] + own - 2.0 * covariance
