"""Strength of a population as a whole, and the number of different things it can do.

`payoff` [n, n] is antisymmetric, in [-1, 1]: what the row gains against the column.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from analysis.solution.equilibria.nash import (
    check_antisymmetric,
    check_finite,
    max_entropy_nash,
    zero_sum_nash,
)
from storage.arrays import Floats


def relative_population_performance(payoff: Floats, ours: Sequence[int], theirs: Sequence[int]) -> float:
    """Return what the best mixture of `ours` gains against the best of `theirs`, in [-1, 1].

    Both are members' numbers. Above 0, ours is the stronger population, whatever theirs does (Balduzzi et
    al.: Open-ended learning in symmetric zero-sum games, ICML 2019: the value of the game between them). More
    members on one's own side never lower it.
    """
    return zero_sum_nash(payoff[np.ix_(ours, theirs)]).value


def effective_diversity(payoff: Floats) -> float:
    """Return how much the members of the equilibrium gain in the games they win.

    It is the sum of p_i max(payoff_ij, 0) p_j with p the equilibrium of most entropy (Balduzzi et al. 2019).
    It is 0 where one member beats or equals all, and grows as the best ones differ in their strengths; weak
    or copied members do not change it. For rock, paper and scissors: 1/3.
    """
    check_antisymmetric(payoff)
    mixture = max_entropy_nash(payoff)
    return float(mixture @ np.maximum(payoff, 0.0) @ mixture)


def expected_cardinality(payoff: Floats) -> float:
    """Return how many of the n members differ in their gains against the population.

    It is the expected size of a sample of the determinantal point process with kernel L = payoff payoff',
    tr(I - (I + L)^-1) (Perez-Nieves et al.: Modelling behavioural diversity for learning in open-ended games,
    ICML 2021). `payoff` [n, m] may have any columns. It is 0 where all gain nothing, and below the rank of
    payoff; a copy of a member adds less than the first did.
    """
    check_finite(payoff)
    energies = np.linalg.svd(payoff, compute_uv=False) ** 2
    return float((energies / (1.0 + energies)).sum())


def effective_rank(payoff: Floats) -> float:
    """Return how many directions the payoffs [n, m] spread over.

    It is exp of the entropy of their normalised singular values (Roy, Vetterli: The effective rank, EUSIPCO
    2007), the same for payoffs of any size. 1 for a single direction; 2 for rock-paper-scissors, or any other
    cycle in one plane; 0 where all gain nothing.
    """
    check_finite(payoff)
    values = np.linalg.svd(payoff, compute_uv=False)
    total = values.sum()
    if total == 0.0:
        return 0.0
    shares = values[values > 0.0] / total
    return float(np.exp(-(shares * np.log(shares)).sum()))
