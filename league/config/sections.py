"""Sections of a config that belong to the run as a whole: game, warm starts, stop, storage, log.

Sections of one part (learner, rollout, rules, ...) are defined beside that part.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from league.config.sinks import SinkSettings
from league.section import Section
from storage.cache.node_cache import CacheSettings


class EnvSettings(Section):
    """The game."""

    id: str = Field(description="A game of `league envs list`, or module:Class")
    options: dict[str, Any] = Field(default_factory=dict, description="Passed to the game")


class InitFrom(Section):
    """Where a player's first weights come from: a run's snapshot, or an exported folder."""

    player: str = Field(description="A player of this league, such as main-0")
    run: str | None = Field(default=None, description="A run folder")
    snapshot: str | None = Field(
        default=None, description="In that run: a snapshot (id or unique prefix), or a player's newest"
    )
    folder: str | None = Field(default=None, description="Made by: league snapshots RUN export ID DIR")

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if (self.run is None) == (self.folder is None) or (self.run is None) != (self.snapshot is None):
            raise ValueError(
                f"init_from of {self.player}: found {self.source}, expected run and snapshot, or folder alone"
            )
        return self

    @property
    def source(self) -> str:
        """As it is shown to people."""
        given = ((name, getattr(self, name)) for name in ("run", "snapshot", "folder"))
        return ", ".join(f"{name} {value}" for name, value in given if value is not None) or "nothing"


def check_players(entries: Sequence[InitFrom], players: Sequence[str]) -> None:
    """Raise ValueError for a player that is named twice, or is none of this league."""
    seen: set[str] = set()
    for entry in entries:
        if entry.player not in players:
            raise ValueError(
                f"init_from: '{entry.player}' is no player of this league, "
                f"expected one of {', '.join(players)}"
            )
        if entry.player in seen:
            raise ValueError(
                f"init_from: player '{entry.player}' is named twice, expected one source for each"
            )
        seen.add(entry.player)


class StopSettings(Section):
    """When training ends; whichever comes first. Neither: at Ctrl-C."""

    minutes: float | None = Field(
        default=None, gt=0, description="Minutes of training, resumed ones included"
    )
    env_steps: int | None = Field(
        default=None, gt=0, description="Decisions taken in the environment, by all seats"
    )


class EvaluationSettings(Section):
    """Runners that play for the record, beside those that bring experience; nobody learns from them."""

    runners: int = Field(
        default=0, ge=0, description="Ray actors that play evaluation matches all the time; 0: none"
    )
    matches_per_request: int = Field(default=256, ge=1, description="Matches asked of one of them at once")


class StorageSettings(Section):
    """How the run is remembered."""

    save_seconds: float = Field(
        default=60.0,
        gt=0,
        description="Time between saves of learner states: what a kill may cost of learning",
    )
    verify: Literal["admission", "always", "never"] = Field(
        default="admission",
        description="When a snapshot's bytes are hashed: once on each node, at each load, or never",
    )
    cache_folder: str | None = Field(
        default=None,
        description="Where a node keeps what it has verified and fetched; default: the user's cache folder",
    )
    cache_bytes: int = Field(
        default=20 * 2**30, ge=2**20, description="Room for fetched snapshots on each node's disk"
    )
    remote: str | None = Field(
        default=None,
        description="An object store that gets a copy of everything: s3://bucket/prefix, gs://..., file:///path",
    )
    upload_seconds: float = Field(
        default=5.0, gt=0, description="Least time between two uploads of new facts to the remote"
    )

    def cache(self) -> CacheSettings:
        """What a runner needs to know of its node's cache."""
        return CacheSettings(self.cache_folder, self.cache_bytes, self.verify)


class LogSettings(Section):
    """What is shown while training."""

    seconds: float = Field(
        default=10.0,
        gt=0,
        description="Time between two plain lines, rows of updates, or points of a sink",
    )
    sinks: tuple[SinkSettings, ...] = Field(
        default=(), description="Who else is told how it goes: tensorboard, wandb, mlflow"
    )

    @field_validator("sinks", mode="before")
    @classmethod
    def _one_or_several(cls, sinks: Any) -> Any:
        return [sinks] if isinstance(sinks, (str, dict)) else sinks

    @field_validator("sinks")
    @classmethod
    def _each_kind_once(cls, sinks: tuple[SinkSettings, ...]) -> tuple[SinkSettings, ...]:
        kinds = [sink.kind for sink in sinks]
        if twice := [kind for kind in dict.fromkeys(kinds) if kinds.count(kind) > 1]:
            raise ValueError(f"found {twice[0]} {kinds.count(twice[0])} times, expected each kind once")
        return sinks
