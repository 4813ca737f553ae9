"""The config keys `learner.magnet` and `learner.ema`: what a learner is held to, what is averaged."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from league.learning.maths.schedules import Schedule
from league.section import Section, StoredPolicy

Decay = Annotated[float, Field(gt=0, lt=1)]
DECAY = "Weight of the old average in each update; about the last 1 / (1 - decay) updates count"


class Average(Section):
    """A moving average of a learner's weights."""

    decay: Decay = Field(default=0.999, description=DECAY)


class _Hold(Section):
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
