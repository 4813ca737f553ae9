"""The most even mixture under linear bounds, by which all equilibria of maximum entropy are found.

    most_entropy(rows [m, n], bounds [m]):   max -sum(x log x)   with rows x <= bounds, sum(x) = 1, x >= 0

It is Mehrotra's predictor-corrector, a primal-dual interior-point method (On the implementation of a
primal-dual interior point method, SIAM J. Optimization 2, 1992), to which the entropy adds its curvature 1 /
x. x >= 0 keeps a multiplier of its own, though no logarithm is ever taken of 0: for a member that is not
played log x would have to go far below zero, and would slow all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from storage.arrays import Floats

_MOST_STEPS = 120  # 15 to 40 are needed
_GAP = 1e-11  # mean complementarity at the end
_RESIDUAL = 1e-10  # by how much bounds may be missed at the end
_TILT = 1e-8  # by how much the entropy may still rise at the end
_TO_THE_EDGE = 0.99  # of the way to where the first value would become 0


@dataclass(frozen=True, slots=True)
class _Point:
    """An iterate of the method, or a step of it.

    It has the mixture, the slack of the bounds, and the multipliers of x >= 0, of the bounds ("prices"), and
    of sum(x) = 1 ("level").
    """

    x: Floats  # [n] > 0
    slack: Floats  # [m] > 0
    signs: Floats  # [n] > 0
    prices: Floats  # [m] > 0
    level: float

    def moved(self, step: _Point, *, most: float) -> _Point:
        """Return the point after the largest part of the step that keeps positive values positive.

        It is less than the whole by the factor `most`.
        """
        primal = min(most * min(_longest(self.x, step.x), _longest(self.slack, step.slack)), 1.0)
        dual = min(most * min(_longest(self.signs, step.signs), _longest(self.prices, step.prices)), 1.0)
        return _Point(
            self.x + primal * step.x,
            self.slack + primal * step.slack,
            self.signs + dual * step.signs,
            self.prices + dual * step.prices,
            self.level + dual * step.level,
        )

    def gap(self) -> float:
        """Return the mean of slack * price and x * sign, all of which are 0 at the optimum."""
        return float(self.slack @ self.prices + self.x @ self.signs) / (len(self.x) + len(self.slack))


@dataclass(frozen=True, slots=True)
class _System:
    """The optimality conditions, linearised at a point. All right-hand sides share one factorisation."""

    rows: Floats  # [m, n]
    at: _Point
    missed: Floats  # [m] by which the bounds are not met
    surplus: float  # of sum(x) over 1
    tilt: Floats  # [n] slope of the Lagrangian in x
    spread: Floats  # [n] inverse of its curvature
    factor: Any  # Cholesky's, of rows diag(spread) rows' + diag(slack / prices)
    along: Floats  # [m] rows @ spread
    lifted: Floats  # [m] the system solved for `along`

    def step(self, bounds_target: Floats, signs_target: Floats) -> _Point:
        """Return the step that adds these targets to slack * prices [m] and to x * signs [n]."""
        from scipy.linalg import cho_solve

        at, rows = self.at, self.rows
        pull = self.tilt - signs_target / at.x
        right = self.missed + bounds_target / at.prices - rows @ (self.spread * pull)
        plain = cho_solve(self.factor, right, check_finite=False)
        level = (self.surplus - self.spread @ pull - self.along @ plain) / (
            self.spread.sum() - self.along @ self.lifted
        )
        prices = plain - level * self.lifted
        x = -self.spread * (pull + level + rows.T @ prices)
        slack = (bounds_target - at.slack * prices) / at.prices
        return _Point(x, slack, (signs_target - at.signs * x) / at.x, prices, float(level))


def most_entropy(rows: Floats, bounds: Floats) -> Floats:
    """Return the mixture [n] of most entropy among those with `rows` [m, n] @ mixture <= `bounds` [m].

    Rows should be about 1 in size. Each of some 15 to 40 steps costs m^2 n multiplications. Where no mixture
    keeps all bounds, the result misses some: callers must check.
    """
    m, n = rows.shape
    even = np.full(n, 1.0 / n)
    at = _Point(even, np.maximum(bounds - rows @ even, 0.1), np.ones(n), np.ones(m), 0.0)
    for _ in range(_MOST_STEPS):
        system = _linearised(rows, bounds, at)
        if system is None:
            break
        gap = at.gap()
        direct = system.step(-at.slack * at.prices, -at.x * at.signs)
        aim = gap * (at.moved(direct, most=1.0).gap() / gap) ** 3
        step = system.step(
            aim - at.slack * at.prices - direct.slack * direct.prices,
            aim - at.x * at.signs - direct.x * direct.signs,
        )
        at = at.moved(step, most=_TO_THE_EDGE)
    return at.x / at.x.sum()


def _linearised(rows: Floats, bounds: Floats, at: _Point) -> _System | None:
    """Return the system at a point; `None` at the optimum, and where no digit is left to gain."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve

    missed = rows @ at.x + at.slack - bounds
    tilt = np.log(at.x) + 1.0 + at.level + rows.T @ at.prices - at.signs
    if at.gap() < _GAP and np.abs(missed).max() < _RESIDUAL and np.abs(tilt * at.x).sum() < _TILT:
        return None
    spread = at.x / (1.0 + at.signs)
    scaled = rows * np.sqrt(spread)
    normal = scaled @ scaled.T
    normal[np.diag_indices(len(rows))] += at.slack / at.prices
    try:
        factor = cho_factor(normal, overwrite_a=True, check_finite=False)
    except LinAlgError:
        return None
    along = rows @ spread
    lifted = cho_solve(factor, along, check_finite=False)
    return _System(rows, at, missed, float(at.x.sum() - 1.0), tilt, spread, factor, along, lifted)


def _longest(values: Floats, step: Floats) -> float:
    """Return how much of a step leaves all values at least 0: at most 1e12 times."""
    return 1.0 / max(float((-step / values).max()), 1e-12)
