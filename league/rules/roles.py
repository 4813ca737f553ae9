"""Rules of players: those that players of one role share, and those of single players on top."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from league.rules.building.builder import FreezeSettings, KeepSettings, ResetSettings
from league.rules.matchmaking.branches import OpponentSettings
from league.rules.roster import Roster
from league.rules.standings import Standings, prior_strength
from league.section import SettingsGroup, on_top
from storage.records import LivePlayer


class EarningSettings(SettingsGroup):
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
    prior_strength: float = prior_strength(" in a win rate")


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


SeatNumbers = Annotated[
    tuple[NonNegativeInt, ...] | None,
    Field(min_length=1, description="Seats that may be taken, counted from 0; none: all"),
]


def _changes(what: str, from_what: str = "its role's") -> Any:
    """Return the setting of changes to a part of other settings."""
    return Field(default_factory=dict, description=f"{what} that differ from {from_what}")


class RoleEnv(SettingsGroup):
    """Env that players of one role bring to the seats that they take."""

    id: str = Field(description="An env of gymnasium for one seat, such as gymnasium:MountainCar-v0")
    options: dict[str, Any] = Field(default_factory=dict, description="Its kwargs and scale")


class RoleSettings(SettingsGroup):
    """Rules that players of one role share."""

    share: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Matches for a player of this role, relative to others",
    )
    earns: EarningSettings | None = Field(
        default=None,
        description="Rule by which a player's share depends on what it wins; `null`: it does not",
    )
    opponents: OpponentSettings = Field(description="Opponents that it plays")
    freeze: FreezeSettings = Field(default=FreezeSettings(), description="Conditions to take a snapshot")
    reset: ResetSettings = Field(default=ResetSettings(), description="Weights that it takes after that")
    keep: KeepSettings = Field(default=KeepSettings(), description="Snapshots of it that stay seated")
    decay: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="Decay of the games of its live players; none: league.decay, as for all others",
    )
    learner: dict[str, Any] = _changes("Settings of its learners", "section learner")
    policy: dict[str, Any] = _changes("Settings of its players' policies", "section policy")
    seats: SeatNumbers = None
    env: RoleEnv | None = Field(
        default=None,
        description="Env of the seats that its players and their snapshots take, in all matches; none: that "
        "of the run",
    )
    schedules: Literal["run", "freeze"] = Field(
        default="run",
        description="Time that the schedules of its learners run over: the whole run, or freeze.max_steps "
        "from each snapshot on",
    )

    @model_validator(mode="after")
    def _schedules_have_an_end(self) -> Self:
        if self.schedules == "freeze" and self.freeze.max_steps is None:
            raise ValueError(
                "schedules: found freeze without freeze.max_steps, which they run over; set "
                "freeze.max_steps, or schedules: run"
            )
        return self

    def progress(self, of_run: float, since_freeze: int) -> float:
        """Return where the schedules of a learner are, in [0, 1].

        `of_run` is the part of the run that is done, `since_freeze` the player's env steps since a freeze.
        """
        if self.schedules == "run" or self.freeze.max_steps is None:
            return of_run
        return min(since_freeze / self.freeze.max_steps, 1.0)


class MemberSettings(SettingsGroup):
    """Settings of one player on top of those of its role; what is left out is as for its role."""

    share: PositiveFloat | None = Field(default=None, description="Its share of matches; none: its role's")
    earns: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the rule by which its share depends on what it wins"
    )
    opponents: dict[str, Any] = _changes("Settings of its opponents")
    freeze: dict[str, Any] = _changes("Conditions to take a snapshot")
    reset: dict[str, Any] = _changes("Settings of its resets")
    learner: dict[str, Any] = _changes("Settings of its learner")
    policy: dict[str, Any] = _changes("Settings of its policy")
    seats: SeatNumbers = None
    schedules: Literal["run", "freeze"] | None = Field(
        default=None, description="Time that the schedules of its learner run over; none: its role's"
    )

    def on_top_of(self, role: RoleSettings) -> RoleSettings:
        """Return the rules of a player of `role`. Raise ValidationError for settings that no role has."""
        own = {name: value for name, value in self if value is not None and value != {}}
        base = role.model_dump()
        whole = {name: on_top(base[name], getattr(self, name)) for name in ("policy", "learner")}
        return RoleSettings.model_validate(merged(base, own) | whole)


def merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with `changes` on top, mapping by mapping."""
    result = dict(base)
    for key, value in changes.items():
        below = result.get(key)
        result[key] = (
            merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        )
    return result
