"""TrueSkill's expectation of a match before it is played, of two sides.

A seat's performance is normal with its competitor's mean mu and variance sigma^2 + beta^2; a team's
is the sum of its members'. Two sides draw when their performances differ by less than the margin
epsilon. Functions are vectorised.
"""

from __future__ import annotations

import math

import numpy as np

from storage.arrays import Floats

_SQRT_HALF = math.sqrt(0.5)


def expected_score(gap: Floats, c: Floats, margin: float) -> Floats:
    """Return P(win) + P(draw) / 2 of the side that leads by `gap` [...] in the mean.

    c [...] is the standard deviation of the difference, `margin` is epsilon, all in mu.

    P(win) = Phi((gap - epsilon) / c), P(loss) = Phi((-gap - epsilon) / c). Swapping the sides gives
    one minus it; without draws it is Phi(gap / c).
    """
    return 0.5 + 0.25 * (erf((gap - margin) / c) + erf((gap + margin) / c))


def draw_probability(gap: Floats, c: Floats, margin: float) -> Floats:
    """Return the probability of a draw [...]; arguments are those of `expected_score`."""
    return 0.5 * (erf((margin - gap) / c) - erf((-margin - gap) / c))


def match_quality(gap: Floats, c: Floats, beta: float, seats: int = 2) -> Floats:
    """Return how even a match is, in [0, 1]: its draw probability relative to that of known equals.

    Section 4 of the paper, in the limit of a margin of 0. `seats` are those of both sides; other arguments
    are those of `expected_score`.
    """
    return np.sqrt(seats) * beta / c * np.exp(-0.5 * (gap / c) ** 2)


def erf(x: Floats) -> Floats:
    """Return erf(x / sqrt 2), elementwise: numpy has no erf."""
    flat = np.atleast_1d(x * _SQRT_HALF).ravel().tolist()
    return np.fromiter(map(math.erf, flat), dtype=np.float64, count=len(flat)).reshape(np.shape(x))
