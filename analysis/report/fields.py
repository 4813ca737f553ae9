"""Field: the competitors that solution concepts and their plots cover."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from analysis.solution.payoffs import Payoffs, counts_scores
from analysis.statistics.games import Games

MET_ENOUGH = 0.5  # share of played pairings below which nothing is solved: the rest would be guessed
MOST = 100  # competitors, the best rated: the time of alpha-rank grows with the cube of their number


@dataclass(frozen=True)
class Field:
    """Some competitors of a run and their scores against each other."""

    names: list[str]  # best rated first
    fixed: bool  # only snapshots and bots
    met: pd.DataFrame  # the rows of the payoff between them
    games: Games | None  # only in a tournament

    @property
    def share_met(self) -> float:
        """Share of the field's pairings that were ever played, in [0, 1]."""
        return float((self.met["home"] < self.met["away"]).sum()) / max(
            1.0, len(self.names) * (len(self.names) - 1) / 2.0
        )

    @cached_property
    def payoffs(self) -> Payoffs:
        """Payoffs of the field: by pairs in a tournament, by games otherwise."""
        if self.games is not None:
            most = float(self.met["most_lead"].iloc[0]) if counts_scores(self.met) else None
            return Payoffs.from_games(self.games, most).subset(self.names)
        return Payoffs.from_frame(self.met, self.names)

    @cached_property
    def filled(self) -> pd.DataFrame:
        """Scores [N, N] of each against each, in [-1, 1], from estimated strengths if they never met."""
        return pd.DataFrame(self.payoffs.matrix(), self.names, self.names)


def field_of(leaderboard: pd.DataFrame, payoff: pd.DataFrame, games: Games | None) -> Field:
    """Return the field of the best rated MOST snapshots and bots that have met other snapshots or bots.

    Stages of players that learn are left out, because their policies changed meanwhile. They are included if
    few snapshots have met any other.
    """
    fixed = leaderboard[leaderboard["kind"] != "player"]["competitor"]
    played = set(payoff[payoff["home"].isin(fixed) & payoff["away"].isin(fixed)]["home"])
    alone = len(played) >= max(3, 0.5 * len(fixed))
    first: set[str] = set()  # players that have met the others, which connect the field
    if not alone:
        fixed, played = leaderboard["competitor"], set(payoff["home"])
        first = set(leaderboard[leaderboard["kind"] == "player"]["competitor"]) & played
    if games is not None:
        played &= set(games.competitors)
    others = [name for name in fixed if name in played and name not in first]
    chosen = first | set(others[: max(0, MOST - len(first))])
    names = [name for name in fixed if name in chosen]
    return Field(names, alone, payoff[payoff["home"].isin(names) & payoff["away"].isin(names)], games)
