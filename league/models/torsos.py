"""Settings of a network's torso, memory and mirror: `policy.torso`, `policy.memory` and `policy.mirror`."""

from __future__ import annotations

import math
from typing import Annotated, Literal

import numpy as np
from pydantic import BeforeValidator, Discriminator, Field, PositiveInt, Tag, model_validator

from league.section import Kind, SettingsGroup, StoredPart, by_kind, kind_of
from storage.arrays import Indices

TORSOS = ("mlp", "cnn", "resnet", "nature", "impala")
MEMORIES = ("none", "gru", "lstm", "transformer")

# bounded: a spec from a foreign file must not exhaust the memory of this process
Width = Annotated[int, Field(ge=1, le=2**16)]


class Mlp(Kind):
    """Fully connected layers."""

    kind: Literal["mlp"] = "mlp"


class Convolutions(Kind):
    """Settings of convolutions over boards of shape [planes, rows, columns]."""

    channels: tuple[Width, ...] = Field(
        default=(32, 64), description="Channels of each layer or block", min_length=1, max_length=256
    )
    kernel: int = Field(default=3, ge=1, le=255, description="Width of the square kernels, odd")


class Cnn(Convolutions):
    """Convolutions over boards, then fully connected layers."""

    kind: Literal["cnn"] = "cnn"


class ResNet(Convolutions):
    """Residual blocks over boards, then fully connected layers."""

    kind: Literal["resnet"] = "resnet"


class Nature(Kind):
    """Three strided convolutions over frames, then fully connected layers."""

    kind: Literal["nature"] = "nature"
    channels: tuple[Width, Width, Width] = Field(default=(32, 64, 64), description="Channels of each layer")


class Impala(Kind):
    """Residual blocks and pooling over frames, then fully connected layers."""

    kind: Literal["impala"] = "impala"
    channels: tuple[Width, ...] = Field(
        default=(16, 32, 32),
        description="Channels of each section, which halves rows and columns",
        min_length=1,
        max_length=16,
    )


class OwnTorso(StoredPart):
    """A whole network of your own, with its keyword arguments beside its path."""


TorsoSettings = Annotated[
    Annotated[Mlp, Tag("mlp")]
    | Annotated[Cnn, Tag("cnn")]
    | Annotated[ResNet, Tag("resnet")]
    | Annotated[Nature, Tag("nature")]
    | Annotated[Impala, Tag("impala")]
    | Annotated[OwnTorso, Tag("use")],
    Discriminator(kind_of),
    BeforeValidator(by_kind("mlp", TORSOS)),
]


class NoMemory(Kind):
    """No memory: every decision by itself."""

    kind: Literal["none"] = "none"


class Sized(Kind):
    """Memory of a given width."""

    size: Width = Field(default=128, description="Width of the memory")


class Gru(Sized):
    """Gated recurrent unit."""

    kind: Literal["gru"] = "gru"


class Lstm(Sized):
    """Long short-term memory."""

    kind: Literal["lstm"] = "lstm"


class Transformer(Sized):
    """Attention to the last few steps."""

    kind: Literal["transformer"] = "transformer"
    context: Width = Field(default=16, description="Number of steps it attends to, with the present one")
    heads: Width = Field(default=4, description="Attention heads")


MemorySettings = Annotated[
    NoMemory | Gru | Lstm | Transformer,
    Field(discriminator="kind"),
    BeforeValidator(by_kind("none", MEMORIES, own=False)),
]


def _reversal(shape: tuple[int, ...], axis: int) -> Indices:
    """Return the order [size] of the numbers of an array with one axis reversed, flat."""
    return np.flip(np.arange(math.prod(shape)).reshape(shape), axis).ravel()


class Mirror(SettingsGroup):
    """Mirror of a game with discrete actions: an axis of the observation and one of the actions, reversed.

    A position and its mirror image are worth the same, and their moves are mirror images. A policy with a
    mirror gives equal probabilities to both, so that what is learned of a position is learned of its image.
    """

    observation: tuple[PositiveInt, ...] = Field(
        description="Shape of an observation, such as [planes, columns, rows]", min_length=1, max_length=8
    )
    axis: int = Field(description="Axis of the observation that is reversed, from 0", ge=0)
    actions: tuple[PositiveInt, ...] = Field(
        description="Shape of the actions, such as [columns], or [rows, columns] if each cell is an action",
        min_length=1,
        max_length=8,
    )
    action_axis: int = Field(default=0, description="Axis of the actions that is reversed, from 0", ge=0)

    @model_validator(mode="after")
    def _axes_are_there(self) -> Mirror:
        for name, axis, shape in (
            ("axis", self.axis, self.observation),
            ("action_axis", self.action_axis, self.actions),
        ):
            if axis >= len(shape):
                raise ValueError(
                    f"{name}: found {axis}, expected one of the {len(shape)} axes of {list(shape)}"
                )
        return self

    @property
    def observation_order(self) -> Indices:
        """Order [size] in which the numbers of an observation are those of its mirror image."""
        return _reversal(self.observation, self.axis)

    @property
    def action_order(self) -> Indices:
        """Mirror image [A] of each action."""
        return _reversal(self.actions, self.action_axis)
