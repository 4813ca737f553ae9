"""Branch `nash`: PSRO's meta-strategies, the share of each opponent given a pool's payoffs among itself.

The meta-game of a pool of n is symmetric and zero-sum: `payoff` [n, n] holds what the row gains
against the column, and the transposed is its negative. `mixtures` solves it.

With `error`, nothing is learned before the payoffs are known: the pool plays for the record, each time the
pairing that says least about the mixture, until the regret of the mixture is known within that error.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Self, cast

import numpy as np
from pydantic import Field, PrivateAttr, model_validator

from league.rules.matchmaking.branches.branch import Branch, LeagueView
from league.rules.matchmaking.pools import EMPTY, Pool, alike
from storage.arrays import Floats, Indices

_STANDARD_ERRORS = 2.0  # of a gain, that it may be higher than the games show


def rectify(mixture: Floats, rates: Floats) -> Floats:
    """Return the part of a mixture [n] that the home player beats or equals (`rates` [n] of at least 1/2).

    It is a distribution: strengths are amplified, weaknesses ignored (Balduzzi et al.: Open-ended
    learning in symmetric zero-sum games, ICML 2019, PSRO_rN). The whole mixture if none is beaten.
    """
    kept = np.where(rates >= 0.5, mixture, 0.0)
    total = kept.sum()
    return kept / total if total > 0.0 else mixture


def hedged(gains: Floats, rounds: float) -> Floats:
    """Return the shares [n] of a pool by what each member gained on average against a response so far.

    It is the exponentially weighted forecaster (Hedge) after `rounds` plays of every member. Played while the
    response trains, no member would have gained sqrt(2 log(n) / rounds) more than the mixture did (McAleer et
    al.: Anytime PSRO for two-player zero-sum games, 2022, arXiv 2201.07700). `gains` [n] are in [-1, 1].
    """
    logs = np.sqrt(2.0 * np.log(len(gains)) * rounds) * gains
    raised: Floats = np.exp(logs - logs.max())
    return raised / raised.sum()


@dataclass(frozen=True, slots=True)
class Meta:
    """Meta-game of a pool of n, as known so far, and its mixture."""

    payoff: Floats  # [n, n] leads of the row over the column
    error: Floats  # [n, n] their standard errors; infinite for pairs that have not met
    mixture: Floats  # [n]

    def beyond(self, error: float) -> Floats:
        """Return what each member [n] may gain against the mixture beyond its regret and `error`.

        The regret is the largest gain of a member as the games show it; a gain may be two standard errors
        higher than shown. The regret is known within `error` if no member is above 0.
        """
        gain = self.payoff @ self.mixture
        regret = max(float(gain.max()), 0.0)
        return gain + _STANDARD_ERRORS * np.sqrt(self.error**2 @ self.mixture**2) - regret - error

    def least_known(self, error: float) -> tuple[int, Floats] | None:
        """Return a member, and the share [n] of its games that each other should get; `None`: all is known.

        Pairs that have not met come first. After them comes the member that may gain most, against each
        opponent in proportion to its part in the error of that gain.
        """
        unmet = np.isinf(self.error)
        if unmet.any():
            home = int(unmet.sum(axis=1).argmax())
            return home, unmet[home] / unmet[home].sum()
        beyond = self.beyond(error)
        home = int(beyond.argmax())
        if beyond[home] <= 0.0:
            return None
        part = (self.mixture * self.error[home]) ** 2
        return home, part / part.sum()


@dataclass(frozen=True, slots=True)
class _Found:
    """Meta-game of candidates, and the number of games when it was solved."""

    candidates: Indices
    meta: Meta
    games: int


class Nash(Branch):
    """All snapshots, by a meta-strategy of what they win against each other (PSRO)."""

    meta_strategy: Literal[
        "nash", "uniform", "replicator", "projected_replicator", "alpha_rank", "rectified", "anytime"
    ] = Field(
        default="nash",
        description="Mixture of the pool: nash: the equilibrium of most entropy; uniform: fictitious play; "
        "replicator and projected_replicator: averages of dynamics; alpha_rank; rectified: what the player "
        "beats of nash; anytime: adapts, without regret, to the player since its last reset",
    )
    exploration: float = Field(
        default=0.01,
        ge=0,
        le=1,
        description="Share of the mixture that projected_replicator spreads evenly over the pool, at least",
    )
    error: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Error within which the mixture's regret in the pool is known (by two standard errors) "
        "before a match is learned from: until then the pool plays for the record. 1 is the lead of a "
        "certain win; none: learning never waits",
    )
    refresh_games: int = Field(
        default=5_000,
        ge=1,
        description="Number of games, counted for each competitor, after which the mixture is found again; "
        "with `error`, after every game of the pool",
    )
    _found: _Found | None = PrivateAttr(default=None)  # it takes long to find

    @model_validator(mode="after")
    def _settings_have_a_use(self) -> Self:
        if self.meta_strategy != "projected_replicator" and self.exploration != 0.01:
            raise ValueError(
                f"exploration: found {self.exploration:g}, but meta_strategy '{self.meta_strategy}' has "
                "none; remove it, or set meta_strategy: projected_replicator"
            )
        if self.meta_strategy == "uniform" and self.error is not None:
            raise ValueError(
                f"error: found {self.error:g}, but meta_strategy 'uniform' needs no payoffs; remove it, or "
                "take another meta_strategy"
            )
        return self

    def candidates(self, view: LeagueView) -> Indices:
        """Return all snapshots [k]."""
        return view.roster.snapshots()

    @property
    def waits(self) -> bool:
        """`True` if payoffs are filled before anything is learned."""
        return self.error is not None

    def wanted(self, view: LeagueView) -> tuple[int, Pool] | None:
        """Return a snapshot and its opponents for the record; `None` if the mixture is known well enough."""
        candidates = self.candidates(view)
        if self.error is None or len(candidates) < 2:
            return None
        least = self.meta(candidates, view).least_known(self.error)
        if least is None:
            return None
        home, p = least
        return int(candidates[home]), Pool(candidates, p)

    def pool(self, view: LeagueView) -> Pool:
        """Return the snapshots [k] with their shares of the mixture."""
        candidates = self.candidates(view)
        if not len(candidates):
            return EMPTY
        if self.meta_strategy == "uniform":
            return alike(candidates)
        if self.meta_strategy == "anytime":
            gains = -view.standings.lead(view.home, candidates) / (view.standings.scale or 1.0)
            rounds = view.standings.payoff.games(view.home, candidates).mean()
            return Pool(candidates, hedged(np.clip(gains, -1.0, 1.0), float(rounds)))
        mixture = self.meta(candidates, view).mixture
        if self.meta_strategy == "rectified":
            return Pool(candidates, rectify(mixture, view.rates(candidates)))
        return Pool(candidates, mixture)

    def meta(self, candidates: Indices, view: LeagueView) -> Meta:
        """Return the meta-game of `candidates` [n]; it is solved again when it may have changed."""
        standings, found = view.standings, self._found
        each = cast(int, candidates[:, None])  # it broadcasts
        if self.error is None:
            games, refresh = int(standings.ratings.games.sum()), self.refresh_games
        else:
            games, refresh = int(standings.payoff.recorded(each, candidates).sum()), 1
        if (
            found is None
            or not np.array_equal(found.candidates, candidates)
            or abs(games - found.games) >= refresh  # a reset takes games away
        ):
            prior = view.rules.prior_strength if self.error is None else 0.0
            unit = standings.scale or 1.0
            leads = standings.lead(each, candidates, prior) / unit  # [n, n]
            payoff = 0.5 * (leads - leads.T)  # antisymmetric to the last bit
            error = np.array([standings.lead_error(i, candidates) for i in candidates.tolist()]) / unit
            np.fill_diagonal(error, 0.0)
            meta = Meta(payoff, error, self._solve(payoff))
            self._found = found = _Found(candidates, meta, games)
        return found.meta

    def _solve(self, payoff: Floats) -> Floats:
        from league.rules.matchmaking.branches.meta_strategies import (
            mixture_of,  # every config has this class
        )

        payoff = payoff / max(float(np.abs(payoff).max()), 1.0)  # a scale changes no equilibrium
        return mixture_of(payoff, self.meta_strategy, self.exploration)
