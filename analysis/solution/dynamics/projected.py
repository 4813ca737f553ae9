"""Projected replicator dynamics: shares that grow with their gain over the average, and never die out.

    x <- P(x + rate x (payoff x - x . payoff x)), P: to the nearest mixture of shares that reach a floor

(Lanctot et al.: A unified game-theoretic approach to multiagent reinforcement learning, NeurIPS 2017, section
3.1.) The floor makes every member an opponent now and then. The time average is the meta-strategy.
"""

from __future__ import annotations

import numpy as np

from analysis.solution.equilibria.nash import check_antisymmetric
from storage.arrays import Floats

_LEAST_SCALE = 1e-12


def projected_replicator(
    payoff: Floats, *, exploration: float = 0.01, steps: int = 2_000, rate: float = 0.1
) -> Floats:
    """Return the time average [n] of the dynamics from the centre of a symmetric zero-sum game.

    `exploration` in [0, 1] is the sum of all floors. Steps are in units of the largest payoff. Raise
    ValueError unless payoff [n, n] is finite and antisymmetric, and for another exploration.
    """
    n = check_antisymmetric(payoff)
    if not 0.0 <= exploration <= 1.0:
        raise ValueError(f"projected replicator: exploration is {exploration}, expected 0 to 1")
    game = payoff / max(float(np.abs(payoff).max()), _LEAST_SCALE)
    mixture, total = np.full(n, 1.0 / n), np.zeros(n)
    for _ in range(steps):
        mixture = onto_simplex(mixture + rate * mixture * (game @ mixture), floor=exploration / n)
        total += mixture  # x . payoff x is 0 in a symmetric zero-sum game
    return total / steps


def onto_simplex(point: Floats, *, floor: float = 0.0) -> Floats:
    """Return the mixture [n] with shares of at least `floor` that is nearest to `point` [n].

    The distance is Euclidean (Duchi et al.: Efficient projections onto the l1-ball, ICML 2008). `floor` is at
    most 1 / n.
    """
    room = 1.0 - floor * len(point)
    above = point - floor
    falling = np.sort(above)[::-1]
    excess = (np.cumsum(falling) - room) / np.arange(1, len(point) + 1)
    shift = excess[np.flatnonzero(falling - excess > 0.0)[-1]] if room > 0.0 else np.inf
    return np.maximum(above - shift, 0.0) + floor
