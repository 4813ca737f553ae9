"""The meta-strategies by name: the mixture [n] that solves a meta-game of payoffs [n, n].

Payoffs are antisymmetric, in [-1, 1]; `uniform` needs none, so it is not here. Package `analysis` finds
equilibria. It takes long to load, so this module is imported when a mixture is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np

from analysis.solution.evolution import alpha_rank, projected_replicator
from analysis.solution.nash import max_entropy_nash
from analysis.statistics.valid import check_antisymmetric
from storage.arrays import Floats

_REPLICATOR_STEPS, _REPLICATOR_RATE, _REPLICATOR_FLOOR = 2_000, 0.1, 1e-6
_LEAST_SCALE = 1e-12


def replicator(payoff: Floats) -> Floats:
    """Return the time average [n] of the replicator dynamics from the centre.

    No share falls below a floor. In exponential steps: near an equilibrium, and every opponent keeps a share.
    """
    n = len(check_antisymmetric(payoff))
    mixture, total = np.full(n, 1.0 / n), np.zeros(n)
    for _ in range(_REPLICATOR_STEPS):
        mixture = mixture * np.exp(_REPLICATOR_RATE * (payoff @ mixture))
        mixture = np.maximum(mixture / mixture.sum(), _REPLICATOR_FLOOR)
        mixture /= mixture.sum()
        total += mixture
    return total / _REPLICATOR_STEPS


def ranked(payoff: Floats) -> Floats:
    """Return alpha-rank's shares [n] of the pool, with alpha 100 in units of the largest payoff."""
    check_antisymmetric(payoff)
    return alpha_rank(payoff / max(float(np.abs(payoff).max()), _LEAST_SCALE))


MetaStrategy = Callable[[Floats], Floats]

META_STRATEGIES: Mapping[str, MetaStrategy] = MappingProxyType(
    {
        "nash": max_entropy_nash,
        "replicator": replicator,
        "projected_replicator": projected_replicator,
        "alpha_rank": ranked,
        "rectified": max_entropy_nash,
        "anytime": max_entropy_nash,
    }
)


def mixture_of(payoff: Floats, strategy: str, exploration: float) -> Floats:
    """Return the mixture [n] by the name of a strategy; `exploration` is for projected_replicator."""
    if strategy == "projected_replicator":
        return projected_replicator(payoff, exploration=exploration)
    return META_STRATEGIES[strategy](payoff)
