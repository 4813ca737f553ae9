"""The field: whom solution concepts and the graphs of them are about."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from analysis.solution.payoffs import Payoffs
from analysis.statistics.games import Games

MOST = 100  # competitors, the best rated: alpha-rank takes time that grows with the cube of their number


@dataclass(frozen=True)
class Field:
    """Some of a run's competitors and what they scored against one another."""

    names: list[str]  # best rated first
    fixed: bool  # snapshots and bots alone
    met: pd.DataFrame  # the rows of the payoff between them
    games: Games | None  # of a tournament

    @property
    def share_met(self) -> float:
        """Of all its pairings, how many were ever played."""
        return float((self.met["home"] < self.met["away"]).sum()) / max(
            1.0, len(self.names) * (len(self.names) - 1) / 2.0
        )

    @cached_property
    def payoffs(self) -> Payoffs:
        """By pairs of a tournament, by games otherwise."""
        if self.games is not None:
            return Payoffs.from_games(self.games).subset(self.names)
        return Payoffs.from_frame(self.met, self.names)

    @cached_property
    def filled(self) -> pd.DataFrame:
        """What each scores against each, in [-1, 1], taken from strengths where they never met."""
        return pd.DataFrame(self.payoffs.matrix(), self.names, self.names)


def field_of(leaderboard: pd.DataFrame, payoff: pd.DataFrame, games: Games | None) -> Field:
    """Snapshots and bots that have met others of the kind, the best rated MOST of them. Players that learn
    are left out, as their payoffs are those of all that they have been, unless snapshots met hardly anybody
    else."""
    fixed = leaderboard[leaderboard["kind"] != "player"]["competitor"]
    played = set(payoff[payoff["home"].isin(fixed) & payoff["away"].isin(fixed)]["home"])
    alone = len(played) >= max(3, 0.5 * len(fixed))
    first: set[str] = set()  # who has met the others holds a field together
    if not alone:
        fixed, played = leaderboard["competitor"], set(payoff["home"])
        first = set(leaderboard[leaderboard["kind"] == "player"]["competitor"]) & played
    if games is not None:
        played &= set(games.competitors)
    others = [name for name in fixed if name in played and name not in first]
    chosen = first | set(others[: max(0, MOST - len(first))])
    names = [name for name in fixed if name in chosen]
    return Field(names, alone, payoff[payoff["home"].isin(names) & payoff["away"].isin(names)], games)
