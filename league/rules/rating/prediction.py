"""What TrueSkill expects of a match before it is played: pairs, teams, free-for-alls.

A seat's performance is normal with its competitor's mean mu and variance sigma^2 + beta^2; a team's
is the sum of its members'. Two sides draw when their performances differ by less than the margin
epsilon. Every function is vectorised over n matches.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from storage.arrays import Floats

_SQRT_HALF = math.sqrt(0.5)
_REACH = 8.5  # standard deviations; what lies beyond is under 1e-16


def expected_score(gap: Floats, c: Floats, margin: float) -> Floats:
    """P(win) + P(draw) / 2 of the side that leads by `gap` [...] in the mean, c [...] the standard
    deviation of the difference, `margin` epsilon, all in mu.

    P(win) = Phi((gap - epsilon) / c), P(loss) = Phi((-gap - epsilon) / c). Swapping the sides gives
    one minus it; without draws it is Phi(gap / c).
    """
    return 0.5 + 0.25 * (erf((gap - margin) / c) + erf((gap + margin) / c))


def team_difference(
    seated: npt.NDArray[np.int64], side: npt.NDArray[np.int64], mu: Floats, variance: Floats
) -> tuple[Floats, Floats]:
    """Mean [n] and variance [n], without the noise of performances, of what one team has over the other.

    `seated` [n, S] are the competitors, `side` [S] is +1 for seats of the one team, -1 for the other;
    `mu` and `variance` are by competitor. Exact also when a competitor sits in several seats, whose
    skills are then one and the same: with a_k the sum of its seats' sides, the mean is
    sum_k a_k mu_k and the variance sum_k a_k^2 sigma_k^2.
    """
    together = seated[:, :, None] == seated[:, None, :]
    net = (together * side).sum(axis=2) * side  # a_k, in each of k's seats, times that seat's side
    return (mu[seated] * side).sum(axis=1), (variance[seated] * net).sum(axis=1)


def first_probability(mu: Floats, deviation: Floats) -> Floats:
    """Probability of the best performance, for each seat of n free-for-alls: [n, S], rows sum to 1.

    mu [n, S] and deviation [n, S] (of the performance: sqrt(sigma^2 + beta^2)) are those of
    independent seats. The draw margin plays no part: a tie for the first place counts for whoever
    was ahead within it.

    P(i) = integral of phi_i(x) prod_{j != i} Phi_j(x) dx by the trapezoidal rule over 17 standard
    deviations of i, which converges geometrically for such integrands (Trefethen, Weideman: The
    exponentially convergent trapezoidal rule, SIAM Review 2014); the step is a fraction of the
    sharpest feature, so that the error is under 1e-9.
    """
    seats = mu.shape[1]
    sharpest = float((deviation.max(axis=1) / deviation.min(axis=1)).max()) * math.sqrt(seats)
    half = math.ceil(_REACH * max(2.0, 1.25 * sharpest))
    u = np.linspace(-_REACH, _REACH, 2 * half + 1)
    weight = np.exp(-0.5 * u * u)
    weight /= weight.sum()
    first = np.empty_like(mu)
    for i in range(seats):
        x = mu[:, i, None] + deviation[:, i, None] * u  # [n, K]
        others = np.arange(seats) != i
        z = (x[:, None, :] - mu[:, others, None]) / deviation[:, others, None]
        first[:, i] = (0.5 + 0.5 * erf(z)).prod(axis=1) @ weight
    return first


def erf(x: Floats) -> Floats:
    """erf(x / sqrt 2), elementwise: numpy has none."""
    flat = np.atleast_1d(x * _SQRT_HALF).ravel().tolist()
    return np.fromiter(map(math.erf, flat), dtype=np.float64, count=len(flat)).reshape(np.shape(x))
