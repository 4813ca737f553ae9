"""Branches of opponents that never learn: snapshots of the league, and bots."""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from league.rules.matchmaking.branches.branch import Branch, LeagueView, OpponentRules, WeightedBranch
from league.rules.matchmaking.pools import EMPTY, Pool
from league.section import OwnPart
from storage.arrays import Indices
from storage.records import MAIN, MAIN_EXPLOITER

FORGOTTEN_BELOW = 0.5  # win rate against a snapshot


class Pfsp(WeightedBranch):
    """All snapshots (prioritized fictitious self-play)."""

    def candidates(self, view: LeagueView) -> Indices:
        """Return all snapshots [k]."""
        return view.roster.snapshots()


class PastMain(WeightedBranch):
    """Snapshots of mains."""

    targets: bool = Field(
        default=False,
        description="Play of each main the newest snapshot alone that was there when the player was frozen "
        "last: it stays the same until the player is frozen again",
    )

    def candidates(self, view: LeagueView) -> Indices:
        """Return the snapshots of mains [k]."""
        return view.roster.targets_of(view.player.player) if self.targets else view.roster.snapshots(MAIN)


class Forgotten(WeightedBranch):
    """Snapshots of mains that the player now loses to, and past main exploiters that are still strong."""

    fallback: ClassVar[Literal["current_main", "self_play"]] = "self_play"

    def candidates(self, view: LeagueView) -> Indices:
        """Return the snapshots [k] that the player beats less often than half of the time."""
        mains = view.roster.snapshots(MAIN)
        candidates = np.concatenate([mains, view.roster.snapshots(MAIN_EXPLOITER)])
        return candidates[view.rates(candidates) < FORGOTTEN_BELOW]


class Latest(Branch):
    """Newest snapshot of the player itself."""

    def candidates(self, view: LeagueView) -> Indices:
        """Return the newest snapshot [1], or none [0]."""
        return view.snapshots_of(view.player.player)[-1:]


class Window(WeightedBranch):
    """Newest snapshots of the player itself."""

    weighting: str | OwnPart = Field(
        default="uniform", description="Weights of opponents by win rate, or your own, {use: module:name}"
    )
    window: int | None = Field(
        default=None, ge=1, description="Number of its newest snapshots to play; none: all"
    )

    def candidates(self, view: LeagueView) -> Indices:
        """Return the newest snapshots [k], oldest first."""
        return view.snapshots_of(view.player.player)[-(self.window or 0) :]  # [-0:] is all


class Bots(Branch):
    """Scripted opponents, by the weights in the role's `bots`."""

    def check(self, rules: OpponentRules) -> None:
        """Raise ValueError if the role names no bots."""
        if self.share > 0.0 and not rules.bots:
            raise ValueError(
                "bots: there are none, but branch 'bots' has a share of the matches; name some, such as "
                "bots: {random: 1}"
            )

    def candidates(self, view: LeagueView) -> Indices:
        """Return the role's bots [k] that are in the league and were not withdrawn."""
        roster = view.roster
        return roster.indices(b for b in view.rules.bots if b in roster and not roster.is_retired(b))

    def pool(self, view: LeagueView) -> Pool:
        """Return the bots [k] with their weights as probabilities."""
        candidates = self.candidates(view)
        if not len(candidates):
            return EMPTY
        names = [view.roster.id(index) for index in candidates.tolist()]
        weights = np.array([view.rules.bots[name] for name in names], dtype=np.float64)
        return Pool(candidates, weights / weights.sum())
