"""Named leagues: which roles there are, and full settings for each, with a user's changes on top.

alphastar_paper   mains, main exploiters and league exploiters (Vinyals et al. 2019, Methods)
self_play         mains that play themselves only, and are frozen as they go
none              the same without snapshots
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, ValidationError, model_validator

from league.rules.builder import FreezeSettings, ResetSettings
from league.rules.matchmaker import Branch, OpponentSettings
from storage.records import LEAGUE_EXPLOITER, MAIN, MAIN_EXPLOITER, Role


class RoleSettings(BaseModel):
    """The rules that players of one role share."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    share: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Matches for a player of this role, relative to others",
    )
    opponents: OpponentSettings = Field(description="Whom it plays")
    freeze: FreezeSettings = Field(default=FreezeSettings(), description="When it becomes a snapshot")
    reset: ResetSettings = Field(default=ResetSettings(), description="What it becomes after that")


Roles = Mapping[Role, RoleSettings]


def _alphastar_paper(n: int) -> Roles:
    """N was 2e9 steps. `min_steps` is ours: at small scale 50 lucky games take no time at all."""
    soon = n // 10
    return {
        MAIN: RoleSettings(
            opponents=OpponentSettings(
                branches={
                    "self_play": Branch(share=0.35),
                    "pfsp": Branch(share=0.5, weighting="hard"),
                    "forgotten": Branch(share=0.15, weighting="hard"),
                }
            ),
            freeze=FreezeSettings(max_steps=n),
        ),
        MAIN_EXPLOITER: RoleSettings(
            opponents=OpponentSettings(
                branches={
                    "current_main": Branch(share=0.5),
                    "past_main": Branch(share=0.5, weighting="variance"),
                },
                switch_below=0.2,
            ),
            freeze=FreezeSettings(beats="mains", min_steps=soon, max_steps=2 * n),
            reset=ResetSettings(probability=1.0),
        ),
        LEAGUE_EXPLOITER: RoleSettings(
            opponents=OpponentSettings(branches={"pfsp": Branch(share=1.0, weighting="hard")}),
            freeze=FreezeSettings(beats="snapshots", min_steps=soon, max_steps=n),
            reset=ResetSettings(probability=0.25),
        ),
    }


def _self_play(n: int) -> Roles:
    alone = OpponentSettings(branches={"self_play": Branch(share=1.0)})
    return {MAIN: RoleSettings(opponents=alone, freeze=FreezeSettings(max_steps=n))}


def _none(n: int) -> Roles:
    return {MAIN: RoleSettings(opponents=OpponentSettings(branches={"self_play": Branch(share=1.0)}))}


PRESETS: Mapping[str, Callable[[int], Roles]] = MappingProxyType(
    {"alphastar_paper": _alphastar_paper, "self_play": _self_play, "none": _none}
)
_PLAYERS: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {"alphastar_paper": {MAIN: 1, MAIN_EXPLOITER: 1, LEAGUE_EXPLOITER: 2}}
)


class LeagueSettings(BaseModel):
    """The league: a preset, how many players of each role, and what differs from the preset."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    preset: str = Field(default="alphastar_paper", description="Named set of rules to start from")
    freeze_every: int = Field(
        default=1_000_000, gt=0, description="N: env steps from which the preset derives its own"
    )
    players: dict[str, NonNegativeInt] = Field(
        default_factory=lambda so_far: dict(_PLAYERS.get(so_far["preset"], {MAIN: 1})),
        description="Players of each role; left out: as many as the preset has",
    )
    roles: dict[str, dict[str, Any]] = Field(
        default_factory=dict, description="Changes to the preset's roles, or whole new roles"
    )
    decay: float = Field(
        default=0.99, gt=0, le=1, description="What a game still counts after the next of the same pair"
    )

    @model_validator(mode="after")
    def _resolves(self) -> Self:
        if self.preset not in PRESETS:
            raise ValueError(
                f"preset: '{self.preset}' is unknown, expected one of "
                f"{', '.join(PRESETS)}{_suggest(self.preset, PRESETS)}"
            )
        if self.players.get(MAIN, 0) < 1:
            found = ", ".join(f"{role}: {count}" for role, count in self.players.items())
            raise ValueError(
                f"players: found {found or 'nobody'}, but a league needs at least one main, as all others "
                "train against mains; add 'main: 1'"
            )
        self.resolve()
        return self

    def resolve(self) -> dict[Role, RoleSettings]:
        """Full settings of every role that has players. Raises ValueError for what cannot be filled in."""
        preset = PRESETS[self.preset](self.freeze_every)
        known = set(preset) | set(self.players)
        for name in self.roles:
            if name not in known:
                raise ValueError(
                    f"roles.{name}: there are no players of this role{_suggest(name, known)}; "
                    f"add '{name}: 1' to players or remove it"
                )
        return {
            Role(name): self._resolve(Role(name), preset) for name, count in self.players.items() if count
        }

    def _resolve(self, role: Role, preset: Roles) -> RoleSettings:
        if role not in preset and role not in self.roles:
            raise ValueError(
                f"players.{role}: preset '{self.preset}' does not know this role"
                f"{_suggest(role, preset)}; describe it in full as roles.{role}"
            )
        base = preset[role].model_dump() if role in preset else {}
        try:
            return RoleSettings.model_validate(_merged(base, self.roles.get(role, {})))
        except ValidationError as error:
            raise ValueError(_one_sentence(error, f"roles.{role}")) from error

    def player_names(self) -> dict[Role, list[str]]:
        """The players of each role: `main-0`, `main-1`, ..."""
        return {
            Role(role): [f"{role}-{i}" for i in range(count)] for role, count in self.players.items() if count
        }


def _merged(base: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `changes` on top, mapping by mapping."""
    merged = dict(base)
    for key, value in changes.items():
        below = merged.get(key)
        merged[key] = (
            _merged(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
        )
    return merged


def _suggest(name: str, known: Iterable[str]) -> str:
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean '{near[0]}'?" if near else ""


def _one_sentence(error: ValidationError, where: str) -> str:
    fields = {
        f
        for m in (RoleSettings, OpponentSettings, Branch, FreezeSettings, ResetSettings)
        for f in m.model_fields
    }
    found = []
    for problem in error.errors():
        path = ".".join([where, *(str(part) for part in problem["loc"])])
        if problem["type"] == "extra_forbidden":
            found.append(f"{path}: no such setting{_suggest(str(problem['loc'][-1]), fields)}")
        else:
            message = problem["msg"].removeprefix("Value error, ")
            given = "" if problem["type"] == "value_error" else f"found {problem['input']!r}; "
            found.append(f"{path}: {given}{message[0].lower()}{message[1:]}")
    return "; ".join(found)
