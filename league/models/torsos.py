"""Settings of a network's torso and of its memory: what `policy.torso` and `policy.memory` may be."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BeforeValidator, Discriminator, Field, Tag

from league.section import Kind, StoredPart, by_kind, kind_of

TORSOS = ("mlp", "cnn", "resnet")
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


class OwnTorso(StoredPart):
    """A whole network of your own, with its keyword arguments beside its path."""


TorsoSettings = Annotated[
    Annotated[Mlp, Tag("mlp")]
    | Annotated[Cnn, Tag("cnn")]
    | Annotated[ResNet, Tag("resnet")]
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
    Annotated[NoMemory, Tag("none")]
    | Annotated[Gru, Tag("gru")]
    | Annotated[Lstm, Tag("lstm")]
    | Annotated[Transformer, Tag("transformer")],
    Discriminator(kind_of),
    BeforeValidator(by_kind("none", MEMORIES, own=False)),
]
