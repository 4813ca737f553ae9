"""The config section `learner`: how players learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from league.learning.hooks import find_hook
from league.learning.magnets import Average, InitialMagnet, MagnetSettings
from league.learning.maths.losses import LOSSES, Loss, find_loss
from league.learning.maths.schedules import Points, Ramp, Schedule, Value, extremes
from league.section import Section

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Memory = Annotated[float, Field(ge=0, lt=1)]  # part of a mean that is kept at each step


class ReplaySettings(Section):
    """Old experience that is learned from again; one store for all players of a shard."""

    proportion: float = Field(
        default=0.0, ge=0, lt=1, description="Replayed part of each update's steps, in [0, 1)"
    )
    capacity_steps: int = Field(default=200_000, ge=1, description="Steps kept, of all players together")


class LearnerSettings(Section):
    """Settings of a player's learner."""

    loss: str = Field(
        default="appo",
        description="impala: V-trace policy gradient; appo: PPO's clipped surrogate on V-trace errors; "
        "ppo: the same on GAE; neurd: neural replicator dynamics; or module:Name of a Loss of your own",
    )
    loss_options: dict[str, Value] = Field(
        default_factory=dict, description="Options of the loss that differ from its defaults, by name"
    )
    terms: dict[str, dict[str, Value]] = Field(
        default_factory=dict,
        description="Terms added to the loss, each with its weight and its options: upgo, self_imitation, "
        "diversity, or module:Name of a Term of your own",
    )
    lr: Schedule = Field(
        default=5e-4,
        description="Step size; {start, end}: a ramp over the whole run; [[progress, value], ...]: a line",
    )
    value_lr: Schedule | None = Field(
        default=None, description="Step size of the value's own parameters, in a second optimizer"
    )
    optimizer: Literal["adam", "adamw", "rmsprop"] = Field(
        default="adam", description="Optimizer that makes the steps"
    )
    betas: tuple[Memory, Memory] = Field(
        default=(0.9, 0.999), description="adam, adamw: decay of the mean of gradients, and of their squares"
    )
    rms_decay: Memory = Field(default=0.99, description="rmsprop: decay of the mean of squared gradients")
    momentum: Memory = Field(default=0.0, description="rmsprop: share of the last step in the next one")
    epsilon: Limit = Field(
        default=1e-5, description="Number that the root of the mean squared gradient is increased by"
    )
    weight_decay: Weight = Field(default=0.0, description="adamw: pull of every parameter towards 0")
    batch_steps: int = Field(
        default=4096, ge=1, description="Steps in one update; approximate, as sequences stay whole"
    )
    sequence_length: int = Field(
        default=128, ge=1, description="Most steps in a sequence; longer episodes are cut and bootstrapped"
    )
    epochs: int = Field(default=1, ge=1, description="Number of passes over the same experience")
    shuffle: bool = Field(default=False, description="Shuffle the first pass too, by whole sequences")
    discount: float = Field(default=1.0, ge=0, le=1, description="Gamma, per own decision")
    vtrace_lambda: float = Field(default=0.95, ge=0, le=1, description="Lambda of V-trace; 1: as published")
    vtrace_clip_rho: Limit = Field(
        default=1.0, description="V-trace: most weight of a step's own error (rho-bar of IMPALA)"
    )
    vtrace_clip_c: Limit = Field(
        default=1.0, description="V-trace: most weight of the errors that follow a step (c-bar of IMPALA)"
    )
    gae_lambda: float = Field(default=0.95, ge=0, le=1, description="Lambda of GAE (ppo)")
    clip: Schedule = Field(default=0.2, description="appo, ppo: how far the ratio may move, within (0, 1)")
    entropy: Schedule = Field(default=0.01, description="Weight of the entropy bonus; a number, or as for lr")
    value: Weight = Field(default=0.5, description="Weight of the value loss")
    kl: Weight = Field(default=0.0, description="Weight of KL(target network || policy)")
    target_updates: int = Field(
        default=0, ge=0, description="Updates between two copies to the target network; 0: no target network"
    )
    magnet: MagnetSettings | None = Field(
        default=None, description="Reference policy that the learner is held to; `null`: none"
    )
    ema: Average | None = Field(
        default=None, description="Moving average of the weights, beside those that play; `null`: none"
    )
    freeze: Literal["live", "ema"] = Field(
        default="live", description="Weights that a snapshot stores: those that play, or their moving average"
    )
    normalise_advantage: bool = Field(
        default=True, description="ppo: scale advantages to mean 0 and deviation 1 in each minibatch"
    )
    gradient_norm: Limit | None = Field(default=1.0, description="Norm that gradients are clipped to")
    gradient_value: Limit | None = Field(
        default=None, description="Size that each number of a gradient is clipped to, before its norm"
    )
    precision: Literal["float32", "bfloat16", "auto"] = Field(
        default="float32",
        description="Precision of the hidden layers' products, forwards and backwards; auto: bfloat16 where "
        "it is faster on the learner's processor or GPU and its gradients agree with float32's, but float32 "
        "with `runners: 0`, which can be repeated to the bit. Weights, losses and optimizer are in float32",
    )
    max_backlog: int = Field(
        default=2,
        ge=1,
        description="Rollouts of one player that may wait for its learner; at this number play pauses, and "
        "only the rollouts under way still arrive",
    )
    broadcast_updates: int = Field(
        default=1, ge=1, description="Updates between two publications of a player's weights"
    )
    copy_seconds: float | None = Field(
        default=30.0,
        gt=0,
        allow_inf_nan=False,
        description="Seconds between two copies of a learner's state that are kept off its node, with "
        "runners: a learner whose process dies goes on from the newest; `null`: from states that are saved",
    )
    async_update: bool = Field(default=True, description="Play during updates; false: play waits for them")
    replay: ReplaySettings = ReplaySettings()
    loader_depth: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Minibatches that are copied to the GPU ahead of the one that is learned from",
    )
    after_update: str | None = Field(
        default=None,
        description="Function of your own that is called after each update, as module:function "
        "(player, statistics, learner); `null`: none",
    )
    aggregators: int = Field(
        default=0, ge=0, description="Ray actors that gather rollouts into larger ones for the learners"
    )
    processes: int = Field(
        default=1, ge=1, description="Processes that share each update of a player, without GPUs"
    )
    shards: int | None = Field(
        default=None,
        ge=1,
        description="Shards that players are spread over, each with processes and a replay of its own; "
        "`null`: one for each GPU or player, whichever are fewer, and one in all without GPUs",
    )

    @field_validator("loss")
    @classmethod
    def _loss_exists(cls, name: str) -> str:
        find_loss(name)
        return name

    @field_validator("after_update")
    @classmethod
    def _hook_exists(cls, path: str | None) -> str | None:
        if path is not None:
            find_hook(path)
        return path

    @field_validator("lr", "value_lr")
    @classmethod
    def _steps_are_taken(cls, schedule: float | Points | Ramp | None) -> float | Points | Ramp | None:
        if schedule is not None and extremes(schedule)[1] == 0.0:
            raise ValueError("found 0 throughout, expected more than 0 at some time of the run")
        return schedule

    @field_validator("clip")
    @classmethod
    def _clip_is_a_part(cls, schedule: float | Points | Ramp) -> float | Points | Ramp:
        low, high = extremes(schedule)
        if low <= 0.0 or high >= 1.0:
            raise ValueError(f"found {low if low <= 0.0 else high}, expected more than 0 and less than 1")
        return schedule

    def composed_loss(self) -> Loss:
        """Return the loss with the options and the terms of these settings."""
        return find_loss(self.loss).composed(self.loss, self.loss_options, self.terms)

    @property
    def needs_reference(self) -> bool:
        """True if the weights that a player began with are compared with."""
        return isinstance(self.magnet, InitialMagnet) or self.composed_loss().needs_reference

    @model_validator(mode="after")
    def _no_contradictions(self) -> Self:
        composed = self.composed_loss()
        once = composed.targets == "gae"
        if composed.sees == "batch":
            for name, off in (("kl", 0.0), ("magnet", None)):
                if (found := getattr(self, name)) != off:
                    shown = "a magnet" if name == "magnet" else found
                    raise ValueError(
                        f"{name}: found {shown} with loss '{self.loss}', which is the whole loss (it sees "
                        f"'batch'), expected {'null' if off is None else off}; compute it in the loss"
                    )
        if once and self.replay.proportion > 0:
            raise ValueError(
                f"replay.proportion: found {self.replay.proportion}, but loss '{self.loss}' learns from "
                "fresh experience only; set it to 0, or take appo or impala"
            )
        if self.kl > 0 and not self.target_updates:
            raise ValueError(
                f"kl: found {self.kl}, but there is no target network to stay close to; "
                "set target_updates to 1 or more"
            )
        if self.freeze == "ema" and self.ema is None:
            raise ValueError(
                "freeze: found ema, but no average is kept; set ema: {decay: 0.999}, or freeze to live"
            )
        if self.loss in LOSSES and once and self.target_updates and self.kl == 0:
            raise ValueError(
                f"target_updates: found {self.target_updates}, but loss '{self.loss}' has no use for a "
                "target network when kl is 0; set kl, or target_updates to 0"
            )
        if self.momentum > 0 and self.optimizer != "rmsprop":
            raise ValueError(
                f"momentum: found {self.momentum} with optimizer '{self.optimizer}', expected 0; "
                "set optimizer to rmsprop, or change betas"
            )
        if self.weight_decay > 0 and self.optimizer != "adamw":
            raise ValueError(
                f"weight_decay: found {self.weight_decay} with optimizer '{self.optimizer}', expected 0; "
                "set optimizer to adamw"
            )
        return self


SHARED = (
    "precision",
    "max_backlog",
    "broadcast_updates",
    "copy_seconds",
    "async_update",
    "replay",
    "aggregators",
    "processes",
    "shards",
)
"""Settings of a shard's processes and queues: the same for all players."""


def changed(settings: LearnerSettings, changes: Mapping[str, Any]) -> LearnerSettings:
    """Return `settings` with `changes`, for some of the players.

    Raise ValueError for settings that all players share; pydantic's ValidationError for unknown ones.
    """
    for name in changes:
        if name in SHARED:
            raise ValueError(f"{name}: is shared by all players, expected only in the section learner")
    return LearnerSettings.model_validate(settings.model_dump() | dict(changes))
