"""Branch `nash`, and its meta-strategies: the share of each opponent, given a pool's payoffs among itself.

The meta-game of a pool of n is symmetric and zero-sum: `payoff` [n, n] holds what the row gains
against the column, and the transposed is its negative. Package `analysis` finds equilibria.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, cast

import numpy as np
from pydantic import Field, PrivateAttr

from analysis.solution.equilibria.nash import check_antisymmetric, max_entropy_nash
from league.rules.matchmaking.branches.base import Branch, LeagueView
from league.rules.matchmaking.pools import EMPTY, Pool
from storage.arrays import Floats, Indices

_REPLICATOR_STEPS, _REPLICATOR_RATE, _REPLICATOR_FLOOR = 2_000, 0.1, 1e-6


def uniform(payoff: Floats) -> Floats:
    """Return equal shares [n]: PSRO becomes fictitious play."""
    n = check_antisymmetric(payoff)
    return np.full(n, 1.0 / n)


def replicator(payoff: Floats) -> Floats:
    """Return the time average [n] of the replicator dynamics from the centre.

    No share falls below a floor (Lanctot et al.: A unified game-theoretic approach to multiagent
    reinforcement learning, NeurIPS 2017, section 3.1). In exponential steps: near an equilibrium, and
    every opponent keeps a share.
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
    """Return the part of a mixture [n] that the home player beats or equals (`rates` [n] of at least 1/2).

    It is a distribution: strengths are amplified, weaknesses ignored (Balduzzi et al.: Open-ended
    learning in symmetric zero-sum games, ICML 2019, PSRO_rN). The whole mixture if none is beaten.
    """
    kept = np.where(rates >= 0.5, mixture, 0.0)
    total = kept.sum()
    return kept / total if total > 0.0 else mixture


@dataclass(frozen=True, slots=True)
class _Found:
    """Mixture of candidates, and the number of games when it was found."""

    candidates: Indices
    p: Floats
    games: int


class Nash(Branch):
    """All snapshots, by a meta-strategy of what they win against each other."""

    meta_strategy: Literal["nash", "uniform", "replicator", "rectified"] = Field(
        default="nash", description="Mixture of the pool: maximum-entropy equilibrium, or another"
    )
    refresh_games: int = Field(
        default=5_000,
        ge=1,
        description="Number of games, counted for each competitor, after which the mixture is found again",
    )
    _found: _Found | None = PrivateAttr(default=None)  # it takes long to find

    def candidates(self, view: LeagueView) -> Indices:
        """Return all snapshots [k]."""
        return view.roster.snapshots()

    def pool(self, view: LeagueView) -> Pool:
        """Return the snapshots [k] with their shares of the mixture."""
        candidates, standings = self.candidates(view), view.standings
        if not len(candidates):
            return EMPTY
        games, found = int(standings.ratings.games.sum()), self._found
        if (
            found is None
            or not np.array_equal(found.candidates, candidates)
            or abs(games - found.games) >= self.refresh_games  # a reset takes games away
        ):
            each = cast(int, candidates[:, None])  # it broadcasts
            leads = standings.lead(each, candidates, view.rules.prior_strength)  # [n, n]
            payoff = (leads - leads.T) / 2.0  # antisymmetric to the last bit
            payoff /= max(float(np.abs(payoff).max()), 1.0)  # a scale changes no equilibrium
            self._found = found = _Found(candidates, META_STRATEGIES[self.meta_strategy](payoff), games)
        if self.meta_strategy == "rectified":
            return Pool(candidates, rectify(found.p, view.rates(candidates)))
        return Pool(candidates, found.p)
