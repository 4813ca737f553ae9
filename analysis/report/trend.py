"""Change in strength of a player, against opponents that stay as they are.

Ratings of players that learn drift with their opponents. So a player is compared with its own snapshot of a
while ago, by the posterior of strengths (`analysis.statistics.strength`): both have met bots, old snapshots
and other competitors that do not change.
"""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.statistics.strength.order import Order

KEPT = 0.65  # share of the interval's width: a verdict stays until a 80 % interval holds 0
RECENT = 0.25  # last share of the league's env steps, over which a change is estimated


@dataclass(frozen=True, slots=True)
class Trend:
    """Change in strength of a player over the last part of a run."""

    player: str
    now: str  # its newest snapshot
    before: str  # its newest snapshot before that part
    change: float  # in Elo
    low: float  # of the 95 % interval
    high: float

    @property
    def says(self) -> str:
        """Verdict: improving, declining, or unclear."""
        return "improving" if self.low > 0.0 else "declining" if self.high < 0.0 else "unclear"


def held(before: str | None, trend: Trend) -> str:
    """Return the verdict on `trend` where that of a moment ago was `before` (`None`: there is none).

    A verdict begins when the 95 % interval is beyond 0, and ends when the 80 % interval is no more: at one
    threshold for both it would come and go with each batch of games.
    """
    if trend.says == "unclear":
        low = trend.change - KEPT * (trend.change - trend.low)
        high = trend.change + KEPT * (trend.high - trend.change)
        if (before == "improving" and low > 0.0) or (before == "declining" and high < 0.0):
            return before
    return trend.says


def trend_of(order: Order, snapshots: pd.DataFrame, player: str, league_env_steps: float) -> Trend | None:
    """Return the change of `player` over the last RECENT of `league_env_steps`.

    `snapshots` are those of the run in order of freezing. Return `None` if fewer than two of the player's
    are estimated, or if games with one seat have no Elo.
    """
    if order.unit != "Elo":
        return None
    own = snapshots[(snapshots["player"] == player) & snapshots["snapshot_id"].isin(list(order.draws))]
    if len(own) < 2:
        return None
    now = str(own["snapshot_id"].iloc[-1])
    earlier = own.iloc[:-1]
    old = earlier[earlier["league_env_steps"] <= (1.0 - RECENT) * league_env_steps]
    before = str((earlier.iloc[0] if old.empty else old.iloc[-1])["snapshot_id"])
    ahead = order.ahead(now, before)
    return None if ahead is None else Trend(player, now, before, ahead.elo, ahead.low, ahead.high)
