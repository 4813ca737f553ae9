"""Moments v and w of TrueSkill, by which a result moves a rating, exact also far into the tails.

Herbrich, Minka, Graepel: TrueSkill, a Bayesian skill rating system (NIPS 2006). With c^2 the variance
of the difference of two sides' performances, `gap` the difference of their means and `margin` the
draw margin epsilon, both in units of c, a side of variance s^2 moves by s^2 / c * v, and its variance
becomes s^2 (1 - s^2 / c^2 * w).
"""

from __future__ import annotations

import math

SQRT_HALF = math.sqrt(0.5)
SQRT_2_BY_PI = math.sqrt(2.0 / math.pi)
TAIL = -10.0  # below it the fraction is more exact than erfc, which reaches 0 at about -37
_NO_MARGIN = 1e-8  # the limit of v and w is closer than the quotients, which cancel
_NEGLIGIBLE = -45.0  # exp of it is lost beside 1


def moments_win(x: float) -> tuple[float, float]:
    """Return v(x) = phi(x) / Phi(x) and w(x) = v (v + x) of a win, x = gap - margin (the paper's V_win)."""
    if x > TAIL:
        v = SQRT_2_BY_PI * math.exp(-0.5 * x * x) / math.erfc(-x * SQRT_HALF)
        return v, v * (v + x)
    excess = _inverse_mills_excess(-x)
    return excess - x, (excess - x) * excess


def moments_draw(gap: float, margin: float) -> tuple[float, float]:
    """Return v and w of a draw; v has the sign that moves the two sides together."""
    if margin < _NO_MARGIN:
        return -gap, 1.0
    distance = abs(gap)
    near, far = margin - distance, -margin - distance
    if near > TAIL:
        inside = 0.5 * (math.erfc(-near * SQRT_HALF) - math.erfc(-far * SQRT_HALF))
        at_near, at_far = _density(near), _density(far)
    else:  # all terms are divided by phi(near), which underflows
        log_ratio = -2.0 * distance * margin
        if log_ratio < _NEGLIGIBLE:  # the far end is negligible: a loss of the favourite, by less
            v, w = moments_win(near)
            return math.copysign(v, -gap), w
        at_near, at_far = 1.0, math.exp(log_ratio)
        mills_near = 1.0 / (_inverse_mills_excess(-near) - near)
        inside = mills_near - at_far / (_inverse_mills_excess(-far) - far)
    v = (at_far - at_near) / inside
    w = v * v + (near * at_near - far * at_far) / inside
    return (v if gap >= 0 else -v), min(max(w, 0.0), 1.0)


def _inverse_mills_excess(y: float) -> float:
    """Return phi(y) / (1 - Phi(y)) - y for y >= 10: Laplace's fraction 1/(y + 2/(y + 3/(y + ...)))."""
    fraction = 0.0
    for k in range(24, 0, -1):
        fraction = k / (y + fraction)
    return fraction


def _density(x: float) -> float:
    return 0.5 * SQRT_2_BY_PI * math.exp(-0.5 * x * x)
