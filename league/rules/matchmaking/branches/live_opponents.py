"""Branches of live opponents, and branches that begin with a live main and lead on from it."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from pydantic import Field

from league.rules.matchmaking.branches.branch import Branch, LeagueView, WeightedBranch
from league.rules.matchmaking.branches.past_opponents import PastMain
from league.rules.matchmaking.pools import EMPTY, Pool
from storage.arrays import Floats, Indices
from storage.records import MAIN_EXPLOITER

EXPLOITED_BELOW = 0.3  # least win rate below which past main exploiters are played
UNSAFE_BELOW = 0.7  # least win rate below which the main's snapshots are played


class SelfPlay(Branch):
    """Player itself in every seat, where all seats learn; the only branch that a game for one can have."""

    alone: ClassVar[bool] = True
    drawn: ClassVar[bool] = False

    def candidates(self, view: LeagueView) -> Indices:
        """Return the player itself [1]."""
        return np.array([view.home])


class CurrentMain(Branch):
    """Another live main, all equally likely; past mains if one is too strong (`switch_below`)."""

    drawn: ClassVar[bool] = False

    def candidates(self, view: LeagueView) -> Indices:
        """Return the other live mains [k]."""
        return view.other_mains()


class OtherMains(WeightedBranch):
    """Other live mains, the more often the nearer they are to even."""

    weighting: str = Field(
        default="bell", description="Weights of opponents by win rate, or your own as module:name"
    )

    def candidates(self, view: LeagueView) -> Indices:
        """Return the other live mains [k]."""
        return view.other_mains()


@dataclass(frozen=True, slots=True)
class Lead:
    """Match type and opponents that a chosen main leads to; an empty pool is the main itself."""

    match_type: str
    pool: Pool


class ChosenMain(Branch):
    """Branch that draws one live main for each match, the player included, and plays what it leads to."""

    any_seat: ClassVar[bool] = True
    drawn: ClassVar[bool] = False

    def candidates(self, view: LeagueView) -> Indices:
        """Return all live mains [k]."""
        return view.roster.mains()

    @abstractmethod
    def lead(self, main: int, view: LeagueView) -> Lead:
        """Return what is played when `main` was drawn."""


class Mains(ChosenMain):
    """One live main; if it is the player itself, self-play.

    Against one that is too strong (`switch_below`): the snapshots of that very main, weighted as
    branch past_main of the role, or by `variance` if it has none.
    """

    def lead(self, main: int, view: LeagueView) -> Lead:
        """Return self-play, the main, or its snapshots."""
        return lead_to_main(main, view)


class Verification(ChosenMain, WeightedBranch):
    """Snapshots that have to be verified for one live main (AlphaStar's pseudocode, MainPlayer).

    Past main exploiters if the player loses to one of them (`EXPLOITED_BELOW`). Otherwise the main's
    snapshots without the newest run of ever harder ones, if one of them is not safely beaten
    (`UNSAFE_BELOW`). Otherwise as branch mains.
    """

    def lead(self, main: int, view: LeagueView) -> Lead:
        """Return the snapshots to verify, or what branch mains plays."""
        if pool := self.unverified(main, view):
            return Lead("verification", pool)
        return lead_to_main(main, view)

    def unverified(self, main: int, view: LeagueView) -> Pool:
        """Return the snapshots that have to be verified against `main`; an empty pool if all are safe."""
        exploiters = view.roster.snapshots(MAIN_EXPLOITER)
        rates = view.rates(exploiters)
        if len(exploiters) and rates.min() < EXPLOITED_BELOW:
            return self.weighted(exploiters, rates)
        past = view.snapshots_of(view.roster.id(main))
        rates = view.rates(past)
        kept = before_monotone_suffix(rates)
        if kept and rates[:kept].min() < UNSAFE_BELOW:
            return self.weighted(past[:kept], rates[:kept])
        return EMPTY


def past_main(view: LeagueView) -> PastMain:
    """Return branch past_main of the role, or the one that a switch leads to in a role without it."""
    found = view.branches.get("past_main")
    return found if isinstance(found, PastMain) else PastMain(share=0.0, weighting="variance")


def lead_to_main(main: int, view: LeagueView) -> Lead:
    """Return self-play for the player itself, the snapshots of a main that is too strong, or the main."""
    if main == view.home:
        return Lead("self_play", EMPTY)
    if view.rates(np.array([main]))[0] < view.rules.switch_below:
        past = view.snapshots_of(view.roster.id(main))
        if pool := past_main(view).weighted(past, view.rates(past)):
            return Lead("past_main", pool)
    return Lead("current_main", EMPTY)


def before_monotone_suffix(rates: Floats) -> int:
    """Return how many of the rates [n], oldest first, remain without the newest run in which they only fall.

    The run begins after the last rate that is above the one before it; 0 remain if there is none.
    """
    rises = np.flatnonzero(rates[1:] > rates[:-1])
    return int(rises[-1]) + 2 if len(rises) else 0
