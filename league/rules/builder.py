"""When a player's weights become a snapshot, and what it goes on with: decided here, done by the loop."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, Self

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, model_validator

from league.rules.roster import Indices, Roster
from league.rules.standings import Standings
from storage.records import MAIN, Decision, Freeze, LivePlayer, Reset, Role


class FreezeSettings(BaseModel):
    """When players of one role are frozen. With neither `beats` nor `max_steps`: never."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    beats: Literal["mains", "snapshots"] | None = Field(
        default=None, description="Freeze when all of these are beaten; none: by steps only"
    )
    win_rate: float = Field(default=0.7, ge=0, le=1, description="An opponent is beaten above this win rate")
    min_games: int = Field(
        default=50, ge=0, description="Games against an opponent before it can count as beaten"
    )
    min_steps: int = Field(default=0, ge=0, description="Fewest env steps between two snapshots of a player")
    max_steps: int | None = Field(
        default=None, gt=0, description="Freeze after so many env steps in any case; none: never"
    )
    prior_strength: float = Field(
        default=10.0, ge=0, allow_inf_nan=False, description="Games that the TrueSkill prediction is worth"
    )

    @model_validator(mode="after")
    def _steps_are_ordered(self) -> Self:
        if self.max_steps is not None and self.max_steps < self.min_steps:
            raise ValueError(
                f"freeze: max_steps is {self.max_steps}, expected at least min_steps, {self.min_steps}; "
                "lower min_steps or raise max_steps"
            )
        return self


class ResetSettings(BaseModel):
    """What players of one role become after a freeze."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    probability: float = Field(default=0.0, ge=0, le=1, description="Chance of a reset after each freeze")
    target: Literal["initial", "latest_main", "named", "inherit"] = Field(
        default="initial",
        description="Weights to go on with: the player's first snapshot, the newest of a main, "
        "`snapshot`, or the past exploiter of its role closest to 50 % against the mains",
    )
    snapshot: str | None = Field(default=None, description="Snapshot id, when target is named")
    inherit_above: float = Field(
        default=0.2, ge=0, le=1, description="Least rate against the mains to inherit"
    )
    inherit_below: float = Field(
        default=0.5, ge=0, le=1, description="Highest rate against the mains to inherit"
    )

    @model_validator(mode="after")
    def _target_is_complete(self) -> Self:
        if (self.target == "named") != (self.snapshot is not None):
            found = "no snapshot" if self.snapshot is None else f"snapshot '{self.snapshot}'"
            raise ValueError(
                f"reset: target '{self.target}' with {found}; set `snapshot` exactly when target is named"
            )
        if self.inherit_above > self.inherit_below:
            raise ValueError(
                f"reset: inherit_above is {self.inherit_above:g}, expected at most inherit_below, "
                f"{self.inherit_below:g}"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How far a player is, in env steps of its own and updates."""

    env_steps: int
    updates: int
    since_freeze: int  # env steps since its last snapshot, or its start
    since_reset: int  # env steps since its last reset, or its start


@dataclass(frozen=True, slots=True)
class _Verdict:
    reason: str
    evidence: dict[str, float]


class HasFreezeAndReset(Protocol):
    """The part of a role's settings that building needs."""

    @property
    def freeze(self) -> FreezeSettings: ...
    @property
    def reset(self) -> ResetSettings: ...


class LeagueBuilder:
    """Settings per role; no state of its own."""

    def __init__(self, roles: Mapping[Role, HasFreezeAndReset]) -> None:
        self._roles = dict(roles)

    def decide(
        self,
        roster: Roster,
        standings: Standings,
        clocks: Mapping[str, Clock],
        rng: np.random.Generator,
    ) -> list[Decision]:
        """What is due now, by player in order of admission; a player's Freeze comes before its Reset.

        `clocks` maps every live player's name to its Clock. Raises ValueError when a reset has no
        snapshot to go back to, KeyError for a player without clock or role without settings.
        """
        decisions: list[Decision] = []
        for player in roster.players:
            verdict = self._verdict(player, roster, standings, clocks[player.player])
            if verdict is None:
                continue
            decisions.append(Freeze(player=player.player, reason=verdict.reason, evidence=verdict.evidence))
            reset = self._roles[player.role].reset
            if reset.probability > 0.0 and rng.random() < reset.probability:
                decisions.append(self._reset_of(player, reset, roster, standings))
        return decisions

    def _verdict(
        self, player: LivePlayer, roster: Roster, standings: Standings, clock: Clock
    ) -> _Verdict | None:
        if player.role not in self._roles:
            raise KeyError(f"builder: no settings for role '{player.role}' of '{player.player}'")
        rule = self._roles[player.role].freeze
        if clock.since_freeze < max(rule.min_steps, 1):
            return None  # also: unchanged weights are never frozen twice
        evidence: dict[str, float] = {"steps_since_freeze": clock.since_freeze}
        if rule.beats is not None:
            home = roster.index(player.player)
            opponents = roster.mains() if rule.beats == "mains" else roster.snapshots()
            opponents = opponents[opponents != home]
            if len(opponents):
                lowest = float(standings.win_rate(home, opponents, rule.prior_strength).min())
                fewest = int(standings.payoff.recorded(home, opponents).min())
                evidence |= {
                    "win_rate": lowest,
                    "win_rate_threshold": rule.win_rate,
                    "games": fewest,
                    "min_games": rule.min_games,
                    "opponents": len(opponents),
                }
                if lowest > rule.win_rate and fewest >= rule.min_games:
                    return _Verdict(f"beats all {rule.beats}", evidence)
        if rule.max_steps is not None and clock.since_freeze >= rule.max_steps:
            evidence["max_steps"] = rule.max_steps
            return _Verdict("schedule" if rule.beats is None else "timeout", evidence)
        return None

    def _reset_of(
        self, player: LivePlayer, reset: ResetSettings, roster: Roster, standings: Standings
    ) -> Reset:
        own = roster.snapshots_of(player.player)
        evidence: dict[str, float] = {"probability": reset.probability}
        if reset.target == "named" and reset.snapshot is not None:
            target, how = roster.index(reset.snapshot), "named"
        elif reset.target == "latest_main" and len(roster.snapshots(MAIN)):
            target, how = int(roster.snapshots(MAIN)[-1]), "latest main"
        elif reset.target == "inherit" and (heir := _heir(player, reset, roster, standings)) is not None:
            (target, evidence["win_rate"]), how = heir, "inherited"
        elif len(own):
            target, how = int(own[0]), "initial"
        else:
            raise ValueError(
                f"builder: '{player.player}' is to be reset but has no snapshot; admit its initial one first"
            )
        return Reset(player=player.player, reason=how, evidence=evidence, target=roster.id(target))


def _heir(
    player: LivePlayer, reset: ResetSettings, roster: Roster, standings: Standings
) -> tuple[int, float] | None:
    """The past exploiter of the player's role whose mean rate against the live mains lies between
    `inherit_above` and `inherit_below`, closest to 1/2 (the newest among equals), and that rate."""
    exploiters: Indices = roster.snapshots(player.role)
    mains = roster.mains()
    if not len(exploiters) or not len(mains):
        return None
    rates = 1.0 - np.mean([standings.win_rate(int(m), exploiters, 0.0) for m in mains], axis=0)
    fits = np.flatnonzero((rates >= reset.inherit_above) & (rates <= reset.inherit_below))
    if not len(fits):
        return None
    best = int(fits[::-1][np.argmin(np.abs(rates[fits[::-1]] - 0.5))])
    return int(exploiters[best]), float(rates[best])
