"""League builder: decide which players are frozen and reset and which snapshots retire.

The builder returns decisions as data; the session carries them out.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol, Self, cast

import numpy as np
from pydantic import Field, model_validator

from league.import_paths import import_path, is_import_path, running, takes
from league.rules.building.resets import ResetSettings, better_of, reset_of
from league.rules.building.retirement import KeepSettings, retirements
from league.rules.roster import Roster, rules_of
from league.rules.standings import Standings, prior_strength
from league.section import SettingsGroup
from storage.records import Decision, Freeze, LivePlayer, Role

DEFAULT = "default"
STANDARD_ERRORS = 2.0  # of the gain on a plateau


class PlateauSettings(SettingsGroup):
    """Plateau: a player gains no more from one window of its games to the next.

    Games against snapshots and bots count, in training, since the player's last snapshot: those of PSRO's
    best response against its mixture.
    """

    games: int = Field(ge=2, description="Games in each of the two newest windows that are compared")
    gain: float = Field(
        gt=0,
        allow_inf_nan=False,
        description="Gain of the mean lead from one window to the next that a plateau is surely below (by "
        "two standard errors); 1 is the lead of a certain win",
    )


class FreezeSettings(SettingsGroup):
    """Conditions under which players of one role are frozen: any of them; without any, never."""

    beats: Literal["mains", "snapshots", "targets"] | None = Field(
        default=None,
        description="Freeze when the player beats all of these; targets: the newest snapshot of each main "
        "that was there when the player was frozen last; `null`: by steps only",
    )
    win_rate: float = Field(default=0.7, ge=0, le=1, description="Win rate above which an opponent is beaten")
    min_games: int = Field(default=50, ge=0, description="Fewest games against an opponent that is beaten")
    min_steps: int = Field(
        default=0, ge=0, description="Fewest env steps of a player between two of its snapshots"
    )
    max_steps: int | None = Field(
        default=None,
        gt=0,
        description="Env steps after which a player is frozen in any case; `null`: no limit",
    )
    plateau: PlateauSettings | None = Field(
        default=None, description="Freeze when the player gains no more; `null`: not for that"
    )
    prior_strength: float = prior_strength(" in a win rate")

    @model_validator(mode="after")
    def _steps_are_ordered(self) -> Self:
        if self.max_steps is not None and self.max_steps < self.min_steps:
            raise ValueError(
                f"freeze: max_steps is {self.max_steps}, expected at least min_steps, {self.min_steps}; "
                "lower min_steps or raise max_steps"
            )
        return self


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """Training progress of a player: its own env steps and updates."""

    env_steps: int
    updates: int
    since_freeze: int  # env steps since its last snapshot, or its start
    since_reset: int  # env steps since its last reset, or its start
    settings: Mapping[str, float] = field(default_factory=dict)  # that a reset may perturb, by their keys


class HasBuildingRules(Protocol):
    """Part of a role's settings that a builder needs."""

    @property
    def freeze(self) -> FreezeSettings: ...
    @property
    def reset(self) -> ResetSettings: ...
    @property
    def keep(self) -> KeepSettings: ...
    @property
    def policy(self) -> Mapping[str, Any]: ...


class LeagueBuilder:
    """Builder that follows the settings of each role and has no state of its own.

    A user's own builder is made by `__init__(roles)`, with the options of `league.builder` as keyword
    arguments, and called by `decide` in the same way. `roles.of(player)` are the rules of one player.
    """

    def __init__(self, roles: Mapping[Role, HasBuildingRules]) -> None:
        self._roles = rules_of(roles)

    def decide(
        self,
        roster: Roster,
        standings: Standings,
        clocks: Mapping[str, Clock],
        rng: np.random.Generator,
    ) -> list[Decision]:
        """Return the decisions that are due now: freezes in order of admission, then retirements.

        A Freeze carries its Reset, if one is due. At most one snapshot per player is retired in a call,
        and none of a player that is frozen in it; further retirements follow in later calls.
        `clocks` maps every live player's name to its Clock. Raise ValueError if a reset has no snapshot
        to go back to, KeyError for a player without a clock or a role without settings.
        """
        decisions: list[Decision] = []
        for player in roster.players:
            freeze = self._freeze_of(player, roster, standings, clocks[player.player])
            if freeze is None:
                continue
            reset = self._roles.of(player).reset
            if reset.probability > 0.0 and (drawn := float(rng.random())) < reset.probability:
                if reset.target == "better":
                    policy = self._roles.of(player).policy
                    peers = [(p, clocks[p.player]) for p in roster.players if p.role == player.role]
                    alike = {
                        p.player: clock.settings
                        for p, clock in peers
                        if self._roles.of(p).policy == policy  # its weights fit
                        and clock.since_reset > clock.since_freeze  # its newest snapshot is what it became
                    }
                    found = better_of(player, reset, roster, standings, drawn, alike, rng)
                    freeze = replace(freeze, reset=found)
                else:
                    freeze = replace(freeze, reset=reset_of(player, reset, roster, standings, drawn))
            decisions.append(freeze)
        busy = {decision.player for decision in decisions}
        for role, rules in self._roles.items():
            for retire in retirements(role, rules.keep, roster, standings):
                if retire.player not in busy:
                    busy.add(retire.player)
                    decisions.append(retire)
        return decisions

    def _freeze_of(
        self, player: LivePlayer, roster: Roster, standings: Standings, clock: Clock
    ) -> Freeze | None:
        if player.role not in self._roles:
            raise KeyError(f"builder: no settings for role '{player.role}' of '{player.player}'")
        rule = self._roles.of(player).freeze
        if clock.since_freeze < max(rule.min_steps, 1):
            return None  # also: unchanged weights are never frozen twice
        evidence: dict[str, float] = {"steps_since_freeze": clock.since_freeze}
        if rule.beats is not None:
            home = roster.index(player.player)
            if rule.beats == "targets":
                opponents = roster.targets_of(player.player)
            else:
                opponents = roster.mains() if rule.beats == "mains" else roster.snapshots()
            opponents = opponents[opponents != home]
            if len(opponents):
                lowest = float(standings.win_rate(home, opponents, rule.prior_strength).min())
                fewest = int(standings.payoff.recorded(home, opponents).min())
                evidence |= {
                    "min_steps": rule.min_steps,
                    "win_rate": lowest,
                    "win_rate_threshold": rule.win_rate,
                    "games": fewest,
                    "min_games": rule.min_games,
                    "opponents": len(opponents),
                }
                if lowest > rule.win_rate and fewest >= rule.min_games:
                    return Freeze(player=player.player, reason=f"beats all {rule.beats}", evidence=evidence)
        if rule.plateau is not None:
            found = standings.form.gain(player.player, rule.plateau.games)
            if found is not None:
                unit = standings.scale or 1.0
                gain, error = found.gain / unit, found.error / unit
                evidence |= {"gain": gain, "gain_error": error, "lead": found.lead / unit}
                evidence |= {"window_games": found.games, "least_gain": rule.plateau.gain}
                if gain + STANDARD_ERRORS * error < rule.plateau.gain:
                    return Freeze(player=player.player, reason="plateau", evidence=evidence)
        if rule.max_steps is not None and clock.since_freeze >= rule.max_steps:
            evidence["max_steps"] = rule.max_steps
            reason = "schedule" if rule.beats is None and rule.plateau is None else "timeout"
            return Freeze(player=player.player, reason=reason, evidence=evidence)
        return None


def as_recorded(decisions: Iterable[Decision]) -> list[Decision]:
    """Return `decisions` one by one, as the table `decisions` has them: a Freeze, then its Reset."""
    rows: list[Decision] = []
    for decision in decisions:
        if isinstance(decision, Freeze) and decision.reset is not None:
            rows += [replace(decision, reset=None), decision.reset]
        else:
            rows.append(decision)
    return rows


def make_builder(
    name: str, roles: Mapping[Role, HasBuildingRules], options: Mapping[str, Any] | None = None
) -> LeagueBuilder:
    """Return the builder that `name` means: `default`, or a user's own `module:Class`, made with `options`.

    A user's own is best a subclass of LeagueBuilder; any class with the same two calls will do. Raise
    ValueError if there is no such class, if it does not take the options, and for whatever it raises.
    """
    if name == DEFAULT:
        return LeagueBuilder(roles)
    if not is_import_path(name):
        raise ValueError(f"no builder is called '{name}', expected '{DEFAULT}' or your own as 'module:Class'")
    try:
        found = import_path(name)
    except ValueError as error:
        raise ValueError(f"builder {error}") from error
    if not inspect.isclass(found):
        raise ValueError(f"builder '{name}' is a {type(found).__name__}, expected a class")
    own = dict(options or {})
    made_with = ", ".join(["roles", *own])
    for wanted, call, given, by_name in (
        ("decide(roster, standings, clocks, rng)", getattr(found, "decide", None), 5, {}),  # with self
        (f"__init__({made_with})", found, 1, own),
    ):
        if call is None or not takes(call, given, by_name):
            raise ValueError(
                f"builder '{name}' has no {wanted}; the simplest is a subclass of "
                "league.rules.building.builder.LeagueBuilder"
            )
    with running("", name, ValueError):
        return cast(type[LeagueBuilder], found)(roles, **own)
