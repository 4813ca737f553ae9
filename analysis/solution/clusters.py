"""Layers of a population, and its diversity.

The first layer is the members that an equilibrium needs, the next those it needs once they are gone. Real
games look like spinning tops: few members at the top and at the bottom, and many in the middle that beat each
other in cycles. A layer's size shows how cyclic play is at that strength (Czarnecki et al.: Real world games
look like spinning tops, NeurIPS 2020).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.solution.nash import check_antisymmetric, max_entropy_nash
from storage.arrays import Floats, Indices

_LEAST_SHARE = 1e-6  # of an equilibrium, to be in it: nearly a thousand members may share it
_MARGIN = 1e-3


def nash_clusters(payoff: Floats) -> list[Indices]:
    """Return the members' numbers by layer, best first, ascending in each.

    A layer is the members of the equilibrium of most entropy among those not yet in a layer (the Nash
    clustering of Czarnecki et al. 2020). `payoff` is [n, n]. Each layer as a population equals or beats all
    later ones (proved there). A member that loses less than about 1e-4 to an equilibrium may be counted among
    its members.
    """
    left = np.arange(check_antisymmetric(payoff))
    clusters = []
    while len(left):
        chosen = _first_cluster(payoff[np.ix_(left, left)])
        clusters.append(left[chosen])
        left = left[~chosen]
    return clusters


def _first_cluster(game: Floats) -> npt.NDArray[np.bool_]:
    """Return the members [n] that the equilibrium of most entropy plays."""
    chosen = np.zeros(len(game), dtype=bool)
    best = int(game.sum(axis=1).argmax())
    if (np.delete(game[best], best) > _MARGIN).all():  # a member that beats all others is alone
        chosen[best] = True
        return chosen
    mixture = max_entropy_nash(game)
    # In exact arithmetic a member has a share or loses to the mixture: the larger of the two decides which.
    chosen = (mixture > _LEAST_SHARE) & (mixture > -(game @ mixture))
    chosen[mixture.argmax()] = True
    return chosen


def effective_diversity(payoff: Floats) -> float:
    """Return how much the members of the equilibrium gain in the games they win.

    It is the sum of p_i max(payoff_ij, 0) p_j with p the equilibrium of most entropy (Balduzzi et al.:
    Open-ended learning in symmetric zero-sum games, ICML 2019). It is 0 where one member beats or equals all,
    and grows as the best ones differ in their strengths; weak or copied members do not change it. For rock,
    paper and scissors: 1/3.
    """
    check_antisymmetric(payoff)
    mixture = max_entropy_nash(payoff)
    return float(mixture @ np.maximum(payoff, 0.0) @ mixture)
