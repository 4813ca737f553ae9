"""Sections of a config that belong to the run as a whole: game, warm starts, stop, storage, log.

Sections of one part (learner, rollout, rules, ...) are defined beside that part.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from league.rollout.settings import MOST_AT_ONCE
from league.section import SettingsGroup, StoredPolicy, by_kind
from league.yardsticks.settings import YardstickSettings, by_name, each_once
from storage.errors import Mistake
from storage.settings import CacheSettings, Keep


class EnvSettings(SettingsGroup):
    """The game that is played."""

    id: str = Field(description="A game from `league envs list`, or your own as module:Class")
    options: dict[str, Any] = Field(default_factory=dict, description="Keyword arguments of the game")


class InitFrom(StoredPolicy):
    """Source of a player's first weights: a snapshot of a run, or an exported folder."""

    player: str = Field(description="Name of a player of this league, such as main-0")


class StopSettings(SettingsGroup):
    """Limits at which training ends: the first one reached. Without limits it ends at Ctrl-C."""

    minutes: float | None = Field(
        default=None,
        gt=0,
        description="Minutes of training, with what ends it: the last snapshots and their games. Those "
        "before a resume count",
    )
    env_steps: int | None = Field(
        default=None, gt=0, description="Decisions taken in the environment, in all seats together"
    )


class RunnerRange(SettingsGroup):
    """Numbers of runners on a cluster whose nodes come and go: as many as have room."""

    min: int = Field(ge=1, description="Least number of runners, for which there must be room at the start")
    max: int = Field(ge=1, description="Most runners; Ray's autoscaler is asked for nodes for so many")

    @model_validator(mode="after")
    def _min_is_not_above_max(self) -> Self:
        if self.min > self.max:
            raise ValueError(f"min: found {self.min}, expected no more than max, {self.max}")
        return self


class EvaluationSettings(SettingsGroup):
    """Runners that play evaluation matches, and fixed yardsticks; neither is learned from.

    Evaluation matches are between members of the league, and rated. Yardsticks measure each snapshot of a
    main when it is frozen; they change neither ratings nor what is trained. Nor does the round robin of the
    newest snapshots, by which it is known how strong they are when training ends.
    """

    runners: int = Field(
        default=0, ge=0, description="Number of Ray actors that play evaluation matches all the time"
    )
    matches_per_request: int = Field(default=256, ge=1, description="Matches in one request to such a runner")
    yardsticks: tuple[YardstickSettings, ...] = Field(
        default=(),
        description="What snapshots of mains are measured on: positions, a bot's name, a snapshot of another "
        "run ({run: ..., snapshot: ...}), a file of positions ({positions: ...})",
    )
    yardstick_games: int = Field(
        default=256,
        ge=2,
        le=MOST_AT_ONCE,
        description="Least number of games of each snapshot against each opponent among the yardsticks",
    )

    placing: float = Field(
        default=0.015,
        ge=0,
        le=0.5,
        allow_inf_nan=False,
        description="Share of the env steps played that the newest snapshots of mains play besides: among "
        "each other, against the best rated, the oldest and bots; half of it as training ends. For the "
        "record only: nothing is rated or learned from it. 0, or seats or envs that differ by role: none",
    )

    _by_name = field_validator("yardsticks", mode="before")(by_name)
    _each_once = field_validator("yardsticks")(each_once)


class RetentionSettings(SettingsGroup):
    """Retention of matches. Without limits all of them are kept; sums, ratings and payoffs always are.

    Older matches are summed up, by closed segments of the ledger of about 64 MB.
    """

    keep_hours: float | None = Field(
        default=None, gt=0, allow_inf_nan=False, description="Hours for which matches stay whole"
    )
    keep_bytes: int | None = Field(
        default=None,
        ge=1,
        description="Bytes of the newest closed segments whose matches stay whole; `null`: no limit",
    )
    keep_share: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of older matches that stay as rows; the others are in sums",
    )

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.keep_share and self.keep_hours is None and self.keep_bytes is None:
            raise ValueError(
                f"keep_share: found {self.keep_share:g} without a limit, expected keep_hours or keep_bytes"
            )
        return self

    def keep(self) -> Keep | None:
        """Return what storage needs; `None` if everything is kept."""
        if self.keep_hours is None and self.keep_bytes is None:
            return None
        return Keep(self.keep_hours, self.keep_bytes, self.keep_share)


class StorageSettings(SettingsGroup):
    """Storage of the run: saves, verification, caches and the remote."""

    save_seconds: float = Field(
        default=60.0,
        gt=0,
        description="Seconds between saves of learner states; a killed run loses at most so much learning",
    )
    kept_states: int = Field(
        default=4,
        ge=0,
        description="Number of earlier states of each learner that are kept, spread over the run. A branch "
        "(`league branch`) goes on from such a state, or else from the weights of a snapshot",
    )
    verify: Literal["admission", "always", "never"] = Field(
        default="admission",
        description="When a snapshot's bytes are checked against their hash: once on each node, at each "
        "load, or never",
    )
    cache_folder: str | None = Field(
        default=None,
        description="Folder for verified and fetched snapshots on each node; `null`: the user's cache folder",
    )
    cache_bytes: int = Field(
        default=20 * 2**30,
        ge=2**20,
        description="Bytes on each node's disk for fetched snapshots, and for weights in bfloat16 of those "
        "that play in it",
    )
    remote: str | None = Field(
        default=None,
        description="Object store that gets a copy of the run: s3://bucket/prefix, gs://..., file:///path",
    )
    upload_seconds: float = Field(
        default=5.0, gt=0, description="Least seconds between two uploads of new facts to the remote"
    )

    database: Literal["all", "metadata", "none"] = Field(
        default="all",
        description="What the file `league.duckdb` has, a copy of the run's tables for other DuckDB tools. "
        "`metadata`: snapshots, players and decisions, renewed while the run trains. `all`: every table too "
        "when it ends, unless that takes over a tenth of its time. `none`: there is no such file",
    )
    retention: RetentionSettings = Field(
        default_factory=RetentionSettings, description="Limits from which old matches are summed up"
    )

    @model_validator(mode="after")
    def _check_remote(self) -> Self:
        if self.remote is not None and self.retention.keep() is not None:
            raise ValueError(
                f"retention: found limits beside remote {self.remote}, which keeps every match; leave one of "
                "the two out"
            )
        return self

    def cache(self) -> CacheSettings:
        """Return the settings that a runner needs for the cache of its node."""
        return CacheSettings(self.cache_folder, self.cache_bytes, self.verify)


class TensorBoardSettings(SettingsGroup):
    """TensorBoard: event files."""

    kind: Literal["tensorboard"]
    folder: str | None = Field(
        default=None, description="Folder of the event files; `null`: sinks/tensorboard in the run folder"
    )


class WandbSettings(SettingsGroup):
    """Weights & Biases. The account comes from its own environment variables."""

    kind: Literal["wandb"]
    project: str = Field(default="checkpoint-league", description="Project of the run")
    mode: Literal["online", "offline"] = Field(
        default="online", description="offline: data stays in the run folder until `wandb sync` uploads it"
    )


class MlflowSettings(SettingsGroup):
    """MLflow tracking."""

    kind: Literal["mlflow"]
    uri: str | None = Field(
        default=None,
        description="Store: sqlite:///mlflow.db or http://...; `null`: sinks/mlflow.db in the run folder",
    )
    experiment: str = Field(default="checkpoint-league", description="Experiment of the run")


SINKS = ("tensorboard", "wandb", "mlflow")
"""Kinds of sinks; each is also the name of its library and of the extra that installs it."""

SinkSettings = Annotated[
    TensorBoardSettings | WandbSettings | MlflowSettings,
    Field(discriminator="kind"),
    BeforeValidator(by_kind("", SINKS, own=False)),
]


def require_installed(sinks: Iterable[SinkSettings]) -> None:
    """Raise Mistake unless the libraries of all `sinks` are installed."""
    for sink in sinks:
        if importlib.util.find_spec(sink.kind) is None:
            raise Mistake(
                f"log.sinks: {sink.kind} is not installed; pip install '.[{sink.kind}]', or leave it out"
            )


class LogSettings(SettingsGroup):
    """Output while training: intervals and experiment trackers."""

    seconds: float = Field(
        default=10.0,
        gt=0,
        description="Seconds between two plain lines, rows of updates, or points of a tracker",
    )
    sinks: tuple[SinkSettings, ...] = Field(
        default=(), description="Experiment trackers to log to: tensorboard, wandb, mlflow"
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
