"""The config section `learner`: how players learn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, ConfigDict, Discriminator, Field, Tag, field_validator, model_validator

from league.import_paths import import_callable, takes
from league.learning.maths.losses import LOSSES, Loss, find_loss
from league.learning.maths.schedules import Points, Ramp, Schedule, Value, extremes
from league.moved_keys import LEARNER, LEARNERS, gone, refused
from league.section import (
    Kind,
    OwnPart,
    OwnPath,
    SettingsGroup,
    StoredPolicy,
    Used,
    by_kind,
    kind_of,
    leaves,
    on_top,
)

Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Limit = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Memory = Annotated[float, Field(ge=0, lt=1)]  # part of a mean that is kept at each step
CLIP = 0.2  # of a ratio of probabilities
HOOK = "a function of player, statistics and learner"  # which `learner.after_update` names


class VTraced(SettingsGroup):
    """Settings of V-trace, which corrects advantages for the policies that acted."""

    vtrace_lambda: float = Field(default=0.95, ge=0, le=1, description="Lambda of V-trace; 1: as published")
    vtrace_clip_rho: Limit = Field(
        default=1.0, description="V-trace: most weight of a step's own error (rho-bar of IMPALA)"
    )
    vtrace_clip_c: Limit = Field(
        default=1.0, description="V-trace: most weight of the errors that follow a step (c-bar of IMPALA)"
    )


class Clipped(SettingsGroup):
    """A loss whose ratio of probabilities may move so far."""

    clip: Schedule = Field(default=CLIP, description="How far the ratio may move, within (0, 1)")

    @field_validator("clip")
    @classmethod
    def _clip_is_a_part(cls, schedule: float | Points | Ramp) -> float | Points | Ramp:
        low, high = extremes(schedule)
        if low <= 0.0 or high >= 1.0:
            raise ValueError(f"found {low if low <= 0.0 else high}, expected more than 0 and less than 1")
        return schedule


class OnGae(SettingsGroup):
    """Settings of generalised advantage estimation, for experience that the present policy made."""

    gae_lambda: float = Field(default=0.95, ge=0, le=1, description="Lambda of GAE")
    normalise_advantage: bool = Field(
        default=True, description="Scale advantages to mean 0 and deviation 1 in each minibatch"
    )


class Appo(VTraced, Clipped, Kind):
    """PPO's clipped surrogate on V-trace errors."""

    kind: Literal["appo"] = "appo"
    clip_rho: Schedule = Field(
        default=1.0, description="Most weight of a step that a target network corrects"
    )


class Impala(VTraced, Kind):
    """V-trace policy gradient."""

    kind: Literal["impala"] = "impala"
    clip_rho: Schedule = Field(default=1.0, description="Most weight of a step in the policy gradient")


class Ppo(Clipped, OnGae, Kind):
    """PPO's clipped surrogate on GAE."""

    kind: Literal["ppo"] = "ppo"


class Neurd(VTraced, Kind):
    """Neural replicator dynamics, for discrete actions."""

    kind: Literal["neurd"] = "neurd"
    logit_limit: Schedule = Field(
        default=2.0, description="Distance of a logit from their mean at which it is pushed no further"
    )
    force_limit: Schedule = Field(
        default=10_000.0, description="Size that the advantage of an action is clipped to"
    )


class OwnLoss(VTraced, Clipped, OnGae, OwnPart):
    """A Loss of your own, with its options beside its path."""

    __pydantic_extra__: dict[str, Value]


LossSettings = Annotated[
    Annotated[Appo, Tag("appo")]
    | Annotated[Impala, Tag("impala")]
    | Annotated[Ppo, Tag("ppo")]
    | Annotated[Neurd, Tag("neurd")]
    | Annotated[OwnLoss, Tag("use")],
    Discriminator(kind_of),
    BeforeValidator(by_kind("appo", tuple(LOSSES))),
]


class TermSettings(SettingsGroup):
    """A term that is added to the loss. Further keys are its own options."""

    model_config = ConfigDict(extra="allow", frozen=True)
    __pydantic_extra__: dict[str, Value]
    use: OwnPath | None = Field(default=None, description="Import path of a Term of your own, module:Name")
    weight: Value | None = Field(default=None, description="Weight in the loss; `null`: the term's own")

    @property
    def options(self) -> dict[str, Any]:
        """Weight and options that are given."""
        given = {} if self.weight is None else {"weight": self.weight}
        return given | (self.__pydantic_extra__ or {})


class AdamMeans(Kind):
    """Settings of Adam's two means."""

    betas: tuple[Memory, Memory] = Field(
        default=(0.9, 0.999), description="Decay of the mean of gradients, and of their squares"
    )
    epsilon: Limit = Field(
        default=1e-5, description="Number that the root of the mean squared gradient is increased by"
    )


class Adam(AdamMeans):
    """Adam (arXiv 1412.6980)."""

    kind: Literal["adam"] = "adam"


class AdamW(AdamMeans):
    """Adam with a pull of every parameter towards 0 (arXiv 1711.05101)."""

    kind: Literal["adamw"] = "adamw"
    weight_decay: Weight = Field(default=0.0, description="Pull of every parameter towards 0")


class RmsProp(Kind):
    """RMSProp, by the root of the mean squared gradient."""

    kind: Literal["rmsprop"] = "rmsprop"
    rms_decay: Memory = Field(default=0.99, description="Decay of the mean of squared gradients")
    momentum: Memory = Field(default=0.0, description="Share of the last step in the next one")
    epsilon: Limit = Field(
        default=1e-5, description="Number that the root of the mean squared gradient is increased by"
    )


OptimizerSettings = Annotated[
    Adam | AdamW | RmsProp,
    Field(discriminator="kind"),
    BeforeValidator(by_kind("adam", ("adam", "adamw", "rmsprop"), own=False)),
]


Decay = Annotated[float, Field(gt=0, lt=1)]
DECAY = "Weight of the old average in each update; about the last 1 / (1 - decay) updates count"


class Average(SettingsGroup):
    """A moving average of a learner's weights."""

    decay: Decay = Field(default=0.999, description=DECAY)


class _Hold(SettingsGroup):
    """How a learner is held to its magnet."""

    weight: Schedule = Field(description="Strength of the hold; a number, or as for lr")
    direction: Literal["forward", "reverse"] = Field(
        default="reverse", description="forward: KL(magnet || policy); reverse: KL(policy || magnet)"
    )
    through: Literal["loss", "reward"] = Field(
        default="loss",
        description="loss: the KL is a term of the loss; reward: each reward is lowered by the weighted "
        "logarithm of the policy's probability over the magnet's",
    )

    @model_validator(mode="after")
    def _rewards_have_one_direction(self) -> Self:
        if self.through == "reward" and self.direction == "forward":
            raise ValueError(
                "direction: found forward with through reward, whose mean is the reverse KL; set direction "
                "to reverse, or through to loss"
            )
        return self


class CopyMagnet(_Hold):
    """A copy of the policy, made again after every so many updates (NashPG, R-NaD)."""

    kind: Literal["copy"]
    every: int = Field(default=500, ge=1, description="Updates between two copies")


class EmaMagnet(_Hold):
    """A moving average of the policy's weights."""

    kind: Literal["ema"]
    decay: Decay = Field(default=0.999, description=DECAY)


class InitialMagnet(_Hold):
    """The weights that the player began with, or was last reset to."""

    kind: Literal["initial"]


class SnapshotMagnet(_Hold, StoredPolicy):
    """A fixed teacher: a snapshot of a run, or an exported folder."""

    kind: Literal["snapshot"]


MagnetSettings = Annotated[
    CopyMagnet | EmaMagnet | InitialMagnet | SnapshotMagnet, Field(discriminator="kind")
]


OLD = "Replayed part of each update's steps, in [0, 1); 0: no replay"


class Replaying(SettingsGroup):
    """Old experience that is learned from again, of whole episodes."""

    proportion: float = Field(default=0.25, ge=0, lt=1, description=OLD)
    capacity_steps: int = Field(default=200_000, ge=1, description="Steps kept, of each player")


class Uniform(Replaying, Kind):
    """A replay that draws all episodes alike."""

    kind: Literal["uniform"] = "uniform"
    proportion: float = Field(default=0.0, ge=0, lt=1, description=OLD)


class Prioritised(Replaying, Kind):
    """A replay that draws those more often whose values are wrong (arXiv 1511.05952)."""

    kind: Literal["prioritised"] = "prioritised"
    alpha: Weight = Field(
        default=0.6, description="Power of an episode's temporal-difference error that is its chance"
    )
    beta: Weight = Field(
        default=0.4, description="Power of 1 / chance that is an episode's weight in the loss; 0: all alike"
    )


class OwnReplay(Replaying, OwnPart):
    """A Replay of your own, with its keyword arguments beside its path."""


ReplaySettings = Annotated[
    Annotated[Uniform, Tag("uniform")]
    | Annotated[Prioritised, Tag("prioritised")]
    | Annotated[OwnReplay, Tag("use")],
    Discriminator(kind_of),
    BeforeValidator(by_kind("uniform", ("uniform", "prioritised"))),
]


class LearnerSettings(SettingsGroup):
    """Settings of a player's learner."""

    loss: LossSettings = Field(
        default=Appo(),
        description="impala: V-trace policy gradient; appo: PPO's clipped surrogate on V-trace errors; "
        "ppo: the same on GAE; neurd: neural replicator dynamics; or {use: module:Name}, a Loss of your own",
    )
    terms: dict[str, TermSettings] = Field(
        default_factory=dict,
        description="Terms added to the loss, each with its weight and its options: upgo, self_imitation, "
        "diversity, or one of your own under a name that you choose, {use: module:Name}",
    )
    lr: Schedule = Field(
        default=5e-4,
        description="Step size; {start, end}: a ramp over the whole run; [[progress, value], ...]: a line",
    )
    optimizer: OptimizerSettings = Field(default=Adam(), description="Optimizer that makes the steps")
    batch_steps: int = Field(
        default=4096,
        ge=1,
        description="Steps in one update; approximate, as sequences stay whole. Left out: fewer where "
        "observations are large, of 16,777,216 numbers in all, and where `stop.env_steps` are not 128 "
        "batches",
    )
    micro_steps: int | None = Field(
        default=None,
        ge=1,
        description="Most steps that are computed at a time, about: gradients of equal parts of a batch are "
        "added up, so that one fits that is larger than the memory; `null`: all at once",
    )
    sequence_length: int = Field(
        default=128, ge=1, description="Most steps in a sequence; longer episodes are cut and bootstrapped"
    )
    epochs: int = Field(default=1, ge=1, description="Number of passes over the same experience")
    shuffle: bool = Field(default=False, description="Shuffle the first pass too, by whole sequences")
    replay: ReplaySettings = Field(
        default=Uniform(),
        description="Old experience that is learned from again, with appo, impala and neurd. uniform: all "
        "episodes alike; prioritised: by their errors; or {use: module:Class}, a Replay of your own, with "
        "keyword arguments",
    )
    discount: float = Field(default=1.0, ge=0, le=1, description="Gamma, per own decision")
    entropy: Schedule = Field(default=0.01, description="Weight of the entropy bonus; a number, or as for lr")
    value: Weight = Field(default=0.5, description="Weight of the value loss")
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
    gradient_norm: Limit | None = Field(default=1.0, description="Norm that gradients are clipped to")
    precision: Literal["float32", "tf32", "bfloat16", "auto"] = Field(
        default="float32",
        description="Precision of the hidden layers' products, forwards and backwards; auto: bfloat16 where "
        "it is faster on the learner's processor or GPU and its gradients agree with float32's, but float32 "
        "with `runners: 0`, which can be repeated to the bit; tf32: on GPUs, with factors of 10 bits. "
        "Weights, losses and optimizer are in float32",
    )
    loader_depth: int = Field(
        default=1,
        ge=1,
        le=64,
        description="Minibatches that are copied to the GPU ahead of the one that is learned from",
    )
    after_update: Used | None = Field(
        default=None,
        description="Function (player, statistics, learner) of your own that is called after each update, "
        "{use: module:function}, with its keyword arguments beside it; `null`: none",
    )

    _moved = model_validator(mode="before")(refused(LEARNER))
    _gone = model_validator(mode="before")(gone)

    @field_validator("loss")
    @classmethod
    def _loss_exists(cls, loss: LossSettings) -> LossSettings:
        find_loss(loss.kind)
        return loss

    @field_validator("after_update")
    @classmethod
    def _hook_exists(cls, hook: OwnPart | None) -> OwnPart | None:
        if hook is not None:
            found = import_callable(hook.use, HOOK)
            if not takes(found, 3, hook.options):
                given = ", ".join(("player", "statistics", "learner", *hook.options))
                raise ValueError(f"'{hook.use}' cannot be called as ({given})")
        return hook

    @field_validator("lr")
    @classmethod
    def _steps_are_taken(cls, schedule: float | Points | Ramp) -> float | Points | Ramp:
        if extremes(schedule)[1] == 0.0:
            raise ValueError("found 0 throughout, expected more than 0 at some time of the run")
        return schedule

    def changed(self, changes: Mapping[str, Any]) -> LearnerSettings:
        """Return these settings with `changes`, for some of the players. Raise ValidationError."""
        return LearnerSettings.model_validate(on_top(self.model_dump(), changes))

    def numbers(self) -> dict[str, float]:
        """Return all settings that are numbers with a fraction, by their keys, such as "loss.clip"."""
        return {key: value for key, value in leaves(self.model_dump()).items() if isinstance(value, float)}

    def with_numbers(self, numbers: Mapping[str, float]) -> LearnerSettings:
        """Return these settings with other numbers. Raise ValidationError for one out of its range."""
        fields = self.model_dump()
        for key, number in numbers.items():
            *parents, last = key.split(".")
            inner = fields
            for parent in parents:
                inner = inner[parent]
            inner[last] = number
        return LearnerSettings.model_validate(fields)

    def composed_loss(self) -> Loss:
        """Return the loss with the options and the terms of these settings."""
        loss, found = self.loss, find_loss(self.loss.kind)
        own = (
            loss.options
            if isinstance(loss, OwnLoss)
            else {name: getattr(loss, name) for name in found.options}
        )
        return found.composed(
            loss.kind, own, {name: (t.use or name, t.options) for name, t in self.terms.items()}
        )

    @property
    def clip(self) -> float | Points | Ramp:
        """How far the loss lets the ratio move; for a loss without such a limit, that of others."""
        return self.loss.clip if isinstance(self.loss, Clipped) else CLIP

    @property
    def has_own_parts(self) -> bool:
        """True if the loss, a term of it or the replay is of the user's own."""
        own = (isinstance(self.loss, OwnLoss), isinstance(self.replay, OwnReplay))
        return any(own) or any(term.use for term in self.terms.values())

    @property
    def needs_reference(self) -> bool:
        """True if the weights that a player began with are compared with."""
        return isinstance(self.magnet, InitialMagnet) or self.composed_loss().needs_reference

    @model_validator(mode="after")
    def _no_contradictions(self) -> Self:
        composed = self.composed_loss()
        once = composed.targets == "gae"
        if composed.sees == "batch" and self.magnet is not None:
            raise ValueError(
                f"magnet: found a magnet with loss '{self.loss.kind}', which is the whole loss (it sees "
                "'batch'), expected null; compute it in the loss"
            )
        if self.freeze == "ema" and self.ema is None:
            raise ValueError(
                "freeze: found ema, but no average is kept; set ema: {decay: 0.999}, or freeze to live"
            )
        if self.loss.kind in LOSSES and once and self.target_updates:
            raise ValueError(
                f"target_updates: found {self.target_updates}, but loss '{self.loss.kind}' has no use for a "
                "target network; set it to 0"
            )
        if self.replay.proportion > 0 and once:
            raise ValueError(
                f"replay.proportion: found {self.replay.proportion}, but loss '{self.loss.kind}' learns from "
                "fresh experience only; set it to 0, or take appo or impala"
            )
        if isinstance(self.loss, OwnLoss):
            _check_own(self.loss, composed)
        return self


def _check_own(loss: OwnLoss, composed: Loss) -> None:
    """Raise ValueError for settings of advantages that a loss of the user's own does not have."""
    of: Mapping[str, tuple[type[SettingsGroup], ...]] = {
        "vtrace": (VTraced, Clipped),
        "gae": (OnGae, Clipped),
    }
    called = {"log_probs": "log_probs, advantage, clip", "steps": "steps", "batch": "batch"}[composed.sees]
    options = composed.options if composed.sees == "log_probs" else {}
    if not takes(composed.policy, called.count(",") + 1, options):
        expected = ", ".join([called, *options])
        raise ValueError(f"loss: the function of '{loss.use}' takes other arguments, expected ({expected})")
    used = {name for part in of.get(composed.targets, ()) for name in part.model_fields}
    if taken := sorted(composed.options.keys() & OwnLoss.model_fields.keys()):
        raise ValueError(f"loss: '{loss.use}' has an option '{taken[0]}', a key of every loss; rename it")
    for part in (VTraced, OnGae, Clipped):
        for name, field in part.model_fields.items():
            if name not in used and getattr(loss, name) != field.default:
                raise ValueError(
                    f"loss.{name}: found {getattr(loss, name)}, but '{loss.use}' has targets "
                    f"'{composed.targets}', which do not take it; leave it out"
                )


class LearnersSettings(SettingsGroup):
    """What all learners of a run share: their processes and their queues."""

    processes: int = Field(
        default=1, ge=1, description="Processes that share each update of a player, without GPUs"
    )
    shards: int | None = Field(
        default=None,
        ge=1,
        description="Shards that players are spread over, each with processes of its own; "
        "`null`: one for each GPU or player, whichever are fewer, and one in all without GPUs",
    )
    aggregators: int = Field(
        default=0, ge=0, description="Ray actors that gather rollouts into larger ones for the learners"
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

    _moved = model_validator(mode="before")(refused(LEARNERS))
