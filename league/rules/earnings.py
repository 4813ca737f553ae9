"""Earnings: the part of its share of matches that a player has earned, by what it wins against the mains."""

from __future__ import annotations

from pydantic import Field

from league.rules.roster import Roster
from league.rules.standings import Standings
from league.section import Section
from storage.records import LivePlayer


class EarningSettings(Section):
    """Rule by which a player of one role has more or less of its role's share."""

    least: float = Field(
        default=0.25, gt=0, le=1, description="Part of its share that a player has, however little it wins"
    )
    win_rate: float = Field(
        default=0.5,
        gt=0,
        le=1,
        description="Mean win rate against the other live mains from which on it has its whole share; below, "
        "it has as large a part as its rate is of this",
    )
    trial_steps: int = Field(
        default=0,
        ge=0,
        description="Env steps of a player, from its start or last reset on, in which it has its whole share",
    )
    prior_strength: float = Field(
        default=10.0,
        ge=0,
        allow_inf_nan=False,
        description="Number of games that the TrueSkill prediction counts as in a win rate",
    )


def earned(
    player: LivePlayer, rule: EarningSettings | None, roster: Roster, standings: Standings, since_reset: int
) -> float:
    """Return the part of its share that `player` has now, in (0, 1].

    `since_reset`: its env steps from its start or last reset on. Without a rule, or without other mains, it
    is the whole share.
    """
    if rule is None or since_reset < rule.trial_steps:
        return 1.0
    home, mains = roster.index(player.player), roster.mains()
    mains = mains[mains != home]
    if not len(mains):
        return 1.0
    rate = float(standings.win_rate(home, mains, rule.prior_strength).mean())
    return max(rule.least, min(1.0, rate / rule.win_rate))
