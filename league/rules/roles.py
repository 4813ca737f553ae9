"""Rules of players: those that players of one role share, and those of single players on top."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, NonNegativeInt, PositiveFloat, model_validator

from league.rules.building.builder import FreezeSettings, KeepSettings, ResetSettings
from league.rules.earnings import EarningSettings
from league.rules.matchmaking.opponents import OpponentSettings
from league.section import Section, on_top

SeatNumbers = Annotated[
    tuple[NonNegativeInt, ...] | None,
    Field(min_length=1, description="Seats that may be taken, counted from 0; none: all"),
]


class RoleEnv(Section):
    """Env that players of one role bring to the seats that they take."""

    id: str = Field(description="An env of gymnasium for one seat, such as gymnasium:MountainCar-v0")
    options: dict[str, Any] = Field(default_factory=dict, description="Its kwargs and scale")


class RoleSettings(Section):
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
    learner: dict[str, Any] = Field(
        default_factory=dict, description="Settings of its learners that differ from section learner"
    )
    policy: dict[str, Any] = Field(
        default_factory=dict, description="Settings of its players' policies that differ from section policy"
    )
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


class MemberSettings(Section):
    """Settings of one player on top of those of its role; what is left out is as for its role."""

    share: PositiveFloat | None = Field(default=None, description="Its share of matches; none: its role's")
    earns: dict[str, Any] = Field(
        default_factory=dict, description="Settings of the rule by which its share depends on what it wins"
    )
    opponents: dict[str, Any] = Field(
        default_factory=dict, description="Settings of its opponents that differ from its role's"
    )
    freeze: dict[str, Any] = Field(
        default_factory=dict, description="Conditions to take a snapshot that differ from its role's"
    )
    reset: dict[str, Any] = Field(
        default_factory=dict, description="Settings of its resets that differ from its role's"
    )
    learner: dict[str, Any] = Field(
        default_factory=dict, description="Settings of its learner that differ from its role's"
    )
    policy: dict[str, Any] = Field(
        default_factory=dict, description="Settings of its policy that differ from its role's"
    )
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
