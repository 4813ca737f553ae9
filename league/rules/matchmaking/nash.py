"""Meta-strategies: how much of each opponent, given the payoffs of a pool among itself.

The meta-game of a pool of n is symmetric and zero-sum: `payoff` [n, n] holds what the row gains
against the column, in [-1, 1], and the transposed is its negative. Equilibria are found by `analysis`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from analysis.solution.equilibria.nash import check_antisymmetric, max_entropy_nash
from storage.arrays import Floats

__all__ = ["META_STRATEGIES", "Floats", "MetaStrategy", "rectify", "replicator", "uniform"]

_REPLICATOR_STEPS, _REPLICATOR_RATE, _REPLICATOR_FLOOR = 2_000, 0.1, 1e-6


def uniform(payoff: Floats) -> Floats:
    """All alike [n]: PSRO becomes fictitious play."""
    n = check_antisymmetric(payoff)
    return np.full(n, 1.0 / n)


def replicator(payoff: Floats) -> Floats:
    """Time average [n] of the replicator dynamics from the centre, in which no share falls below a
    floor (Lanctot et al.: A unified game-theoretic approach to multiagent reinforcement learning,
    NeurIPS 2017, section 3.1), in exponential steps: near an equilibrium, and never without anyone.
    """
    n = check_antisymmetric(payoff)
    mixture, total = np.full(n, 1.0 / n), np.zeros(n)
    for _ in range(_REPLICATOR_STEPS):
        mixture = mixture * np.exp(_REPLICATOR_RATE * (payoff @ mixture))
        mixture = np.maximum(mixture / mixture.sum(), _REPLICATOR_FLOOR)
        mixture /= mixture.sum()
        total += mixture
    return total / _REPLICATOR_STEPS


MetaStrategy = Callable[[Floats], Floats]

META_STRATEGIES: Mapping[str, MetaStrategy] = MappingProxyType(
    {"nash": max_entropy_nash, "uniform": uniform, "replicator": replicator, "rectified": max_entropy_nash}
)


def rectify(mixture: Floats, rates: Floats) -> Floats:
    """The part of a mixture [n] that the home player beats or equals (`rates` [n] of at least 1/2),
    as a distribution: strengths are amplified, weaknesses ignored (Balduzzi et al.: Open-ended
    learning in symmetric zero-sum games, ICML 2019, PSRO_rN). All of it when none is beaten.
    """
    kept = np.where(rates >= 0.5, mixture, 0.0)
    total = kept.sum()
    return kept / total if total > 0.0 else mixture
