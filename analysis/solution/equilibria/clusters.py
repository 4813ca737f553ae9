"""Layers of a population: who is needed to be hard to beat, who is once those are gone, and so on.

Real games look like spinning tops: few members at the top and at the bottom, and many in the middle who
beat each other in circles. A layer's size says how cyclic play is at that strength (Czarnecki et al.: Real
world games look like spinning tops, NeurIPS 2020).
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from analysis.solution.equilibria.nash import check_antisymmetric, max_entropy_nash
from storage.arrays import Floats, Indices

_LEAST_SHARE = 1e-6  # of an equilibrium, to be in it: nearly a thousand members may share it
_MARGIN = 1e-3


def nash_clusters(payoff: Floats) -> list[Indices]:
    """The members' numbers by layer, best first, ascending in each: the members of the equilibrium of
    most entropy, then of that among the rest, until nobody is left (the Nash clustering of Czarnecki et al.
    2020). `payoff` [n, n]. Each layer as a population equals or beats all that come after it (proved there).
    Who loses less than about 1e-4 to an equilibrium may pass for a member of it.
    """
    left = np.arange(check_antisymmetric(payoff))
    clusters = []
    while len(left):
        chosen = _first_cluster(payoff[np.ix_(left, left)])
        clusters.append(left[chosen])
        left = left[~chosen]
    return clusters


def _first_cluster(game: Floats) -> npt.NDArray[np.bool_]:
    """Which members [n] the equilibrium of most entropy plays."""
    chosen = np.zeros(len(game), dtype=bool)
    best = int(game.sum(axis=1).argmax())
    if (np.delete(game[best], best) > _MARGIN).all():  # who beats everybody is alone
        chosen[best] = True
        return chosen
    mixture = max_entropy_nash(game)
    # In exact arithmetic a member has a share or loses to the mixture: the larger of the two tells which.
    chosen = (mixture > _LEAST_SHARE) & (mixture > -(game @ mixture))
    chosen[mixture.argmax()] = True
    return chosen


def nash_layers(payoff: Floats) -> Floats:
    """The number [n] of each member's layer in `nash_clusters`, 0 for the best."""
    layers = np.empty(len(payoff))
    for number, members in enumerate(nash_clusters(payoff)):
        layers[members] = number
    return layers
