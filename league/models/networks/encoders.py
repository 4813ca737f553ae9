"""Encoders: networks from an observation to the features for memory and heads.

    mlp      flat, through fully connected layers
    cnn      boards [planes, rows, columns] through convolutions, then flat as above
    resnet   the same with residual blocks (He et al. 2016, https://arxiv.org/abs/1512.03385, figure 5
             left), without batch normalisation, so that acting and learning give the same features
    nature   frames through three strided convolutions (Mnih et al. 2015, doi:10.1038/nature14236)
    impala   frames through sections of a convolution, pooling by 2 and two residual blocks (Espeholt et
             al. 2018, https://arxiv.org/abs/1802.01561, figure 3 right)

Padding of cnn and resnet keeps rows and columns. Frames may have their planes last, if these are fewer than
rows and columns; pixels of whole numbers (uint8) are divided by 255 where the network computes. In a dict
observation each part that is a board has its own convolutions; the other parts join them, flat, before the
fully connected layers.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from league.envs.spaces import ObservationSpec, SpacePart
from league.models.torsos import Cnn, Impala, Nature, ResNet, TorsoSettings
from storage.errors import Mistake

NATURE = (8, 4), (4, 2), (3, 1)  # kernel and stride of each layer
MOST_BY_REFLECTIONS = 2**23  # numbers of a layer; frames of 280 x 480 have 57 million, which took 4 s
NATURE_ROWS = 36  # fewest that these layers leave something of
ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class BadNetwork(Mistake, ValueError):
    """The settings of a policy do not describe a network that fits its observations and actions."""


def orthogonal(layer: nn.Linear | nn.Conv2d, gain: float, generator: torch.Generator) -> None:
    """Draw orthogonal weights with `gain`; zero the biases (Saxe et al. 2014, https://arxiv.org/abs/1312.6120)."""
    if layer.weight.numel() > MOST_BY_REFLECTIONS and layer.weight[0].numel() > 8 * len(layer.weight):
        _draw_long_rows(layer.weight, gain, generator)
    else:
        nn.init.orthogonal_(layer.weight, gain, generator=generator)
    if layer.bias is not None:
        nn.init.zeros_(layer.bias)


@torch.no_grad()
def _draw_long_rows(weight: Tensor, gain: float, generator: torch.Generator) -> None:
    """Draw orthogonal rows that are much longer than there are rows, in half the time and of the same law.

    Rows of a normal draw A become L^-1 A, with the Cholesky factor L of A A^T: what a QR decomposition with a
    positive diagonal gives. Such rows are nearly orthogonal as drawn, so nothing is lost to rounding.
    """
    rows = nn.init.normal_(weight, generator=generator).flatten(1)
    factor = torch.linalg.cholesky((rows @ rows.T).double()).float()
    weight.copy_((gain * torch.linalg.solve_triangular(factor, rows, upper=False)).view_as(weight))


class Encoder(nn.Module, ABC):
    """Network from observations [n, *shape] of any dtype to features [n, width]."""

    width: int

    @abstractmethod
    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights in place."""


class DenseEncoder(nn.Sequential, Encoder):
    """Fully connected layers over the flat observation."""

    def __init__(self, size: int, hidden: Sequence[int], activation: str) -> None:
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise([size, *hidden]):
            layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
        super().__init__(*layers)
        self.width = hidden[-1]

    def forward(self, observation: Tensor) -> Tensor:
        return super().forward(observation.flatten(1).float())

    def initialise(self, generator: torch.Generator) -> None:
        for layer in self:
            if isinstance(layer, nn.Linear):
                orthogonal(layer, math.sqrt(2.0), generator)


class ResidualBlock(nn.Module):
    """act(x + conv(act(conv(x)))); if the channels change, x passes a 1 x 1 convolution."""

    def __init__(self, planes: int, channels: int, kernel: int, activation: str) -> None:
        super().__init__()
        self.first = nn.Conv2d(planes, channels, kernel, padding=kernel // 2)
        self.second = nn.Conv2d(channels, channels, kernel, padding=kernel // 2)
        self.shortcut = nn.Identity() if planes == channels else nn.Conv2d(planes, channels, 1)
        self.activation = ACTIVATIONS[activation]()

    def forward(self, board: Tensor) -> Tensor:
        return self.activation(self.shortcut(board) + self.second(self.activation(self.first(board))))


class Boards(Encoder):
    """Convolutions over every part that is a board, then fully connected layers over all parts."""

    def __init__(
        self,
        seen: ObservationSpec,
        torso: Cnn | ResNet | Nature | Impala,
        hidden: Sequence[int],
        activation: str,
    ) -> None:
        super().__init__()
        self.parts = seen.parts or (SpacePart("observation", seen.shape),)
        boards = [part for part in self.parts if len(part.shape) == 3]
        of_frames = isinstance(torso, Nature | Impala)
        self.last = [of_frames and planes_last(part.shape) for part in boards]
        self.scale = 1.0 / 255.0 if of_frames and seen.dtype == "uint8" else 1.0
        shapes = [
            (part.shape[2], *part.shape[:2]) if last else part.shape
            for part, last in zip(boards, self.last, strict=True)
        ]
        _check_boards(seen, boards, shapes, torso)
        self.boards = nn.ModuleList(_stack(shape[0], torso, activation) for shape in shapes)
        with torch.no_grad():
            sizes = [
                stack(torch.zeros(1, *shape)).numel()
                for stack, shape in zip(self.boards, shapes, strict=True)
            ]
        flat = [part.size for part in self.parts if len(part.shape) != 3]
        self.dense = DenseEncoder(sum(flat) + sum(sizes), hidden, activation)
        self.width = self.dense.width

    def forward(self, observation: Tensor) -> Tensor:
        rows = observation.flatten(1).float()
        boards = zip(self.boards, self.last, strict=True)
        features = []
        for part, spec in zip(rows.split([p.size for p in self.parts], 1), self.parts, strict=True):
            if len(spec.shape) == 3:
                stack, last = next(boards)
                board = part.view(-1, *spec.shape)
                board = board.permute(0, 3, 1, 2) if last else board
                features.append(stack(board if self.scale == 1.0 else board * self.scale).flatten(1))
            else:
                features.append(part)
        return self.dense(features[0] if len(features) == 1 else torch.cat(features, 1))

    def initialise(self, generator: torch.Generator) -> None:
        for stack in self.boards:
            blocks = sum(
                isinstance(layer, ResidualBlock) + 2 * isinstance(layer, Section) for layer in stack.modules()
            )
            for name, layer in stack.named_modules():
                if isinstance(layer, nn.Conv2d):
                    # the sum of all branches must not grow with the number of blocks
                    branch = "second" in name.split(".")
                    orthogonal(layer, 1 / math.sqrt(blocks) if branch else math.sqrt(2.0), generator)
        self.dense.initialise(generator)


class Section(nn.Module):
    """A convolution, pooling that halves rows and columns, and two residual blocks."""

    def __init__(self, planes: int, channels: int, activation: str) -> None:
        super().__init__()
        self.conv = nn.Conv2d(planes, channels, 3, padding=1)
        self.pool = nn.MaxPool2d(3, stride=2, padding=1)
        self.first = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.second = nn.ModuleList(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2))
        self.activation = ACTIVATIONS[activation]()

    def forward(self, frame: Tensor) -> Tensor:
        frame = self.pool(self.conv(frame))
        for first, second in zip(self.first, self.second, strict=True):
            frame = frame + second(self.activation(first(self.activation(frame))))
        return frame


def planes_last(shape: Sequence[int]) -> bool:
    """Return whether a frame of this shape has its planes behind rows and columns: they are the fewest."""
    return shape[2] < min(shape[:2])


def _stack(planes: int, torso: Cnn | ResNet | Nature | Impala, activation: str) -> nn.Sequential:
    """Return the convolutions of a torso over boards or frames [n, planes, rows, columns]."""
    widths = [planes, *torso.channels]
    match torso:
        case Cnn():
            return _plain_stack(widths, torso.kernel, activation)
        case ResNet():
            stem = _plain_stack(widths[:2], torso.kernel, activation)
            pairs = itertools.pairwise([widths[1], *widths[1:]])
            return nn.Sequential(*stem, *(ResidualBlock(a, b, torso.kernel, activation) for a, b in pairs))
        case Nature():
            layers: list[nn.Module] = []
            for (before, after), (kernel, stride) in zip(itertools.pairwise(widths), NATURE, strict=True):
                layers += [nn.Conv2d(before, after, kernel, stride), ACTIVATIONS[activation]()]
            return nn.Sequential(*layers)
        case Impala():
            sections = (Section(a, b, activation) for a, b in itertools.pairwise(widths))
            return nn.Sequential(*sections, ACTIVATIONS[activation]())


def _plain_stack(planes: Sequence[int], kernel: int, activation: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(planes):
        layers += [nn.Conv2d(before, after, kernel, padding=kernel // 2), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def _check_boards(
    seen: ObservationSpec,
    boards: Sequence[SpacePart],
    shapes: Sequence[Sequence[int]],
    torso: Cnn | ResNet | Nature | Impala,
) -> None:
    """Raise BadNetwork unless there are boards, and the torso fits their `shapes`, planes first."""
    kind = torso.kind
    if not boards:
        found = (
            "parts " + ", ".join(f"{part.name} {list(part.shape)}" for part in seen.parts)
            if seen.parts
            else f"shape {list(seen.shape)}"
        )
        raise BadNetwork(
            f"policy.torso '{kind}': the network is shown {found}, expected a board "
            "[planes, rows, columns]; make it one with a connector {kind: reshape, shape: [planes, rows, "
            "columns]}, or choose torso mlp"
        )
    if isinstance(torso, Nature | Impala):
        for part, (_, rows, columns) in zip(boards, shapes, strict=True):
            if torso.kind == "nature" and min(rows, columns) < NATURE_ROWS:
                raise BadNetwork(
                    f"policy.torso 'nature': the frame '{part.name}' has {rows} rows and {columns} columns, "
                    f"expected at least {NATURE_ROWS} of each; choose torso impala, or cnn"
                )
        return
    kernel = torso.kernel
    if kernel % 2 == 0:
        raise BadNetwork(
            f"policy.torso.kernel is {kernel}, expected an odd number such as {kernel - 1 or 3}: "
            "only those keep the board's rows and columns"
        )
    for part in boards:
        _, rows, columns = part.shape
        if kernel > max(rows, columns):
            raise BadNetwork(
                f"policy.torso.kernel is {kernel}, but the board '{part.name}' has {rows} rows and {columns} "
                f"columns; expected at most {max(rows, columns)} (policy.torso '{kind}'; if "
                "the board is not what you meant, see the connector reshape)"
            )


def build_encoder(
    seen: ObservationSpec, torso: TorsoSettings, hidden: Sequence[int], activation: str
) -> Encoder:
    """Return the encoder of a torso of ours for observations `seen`. Raise BadNetwork."""
    if isinstance(torso, Cnn | ResNet | Nature | Impala):
        return Boards(seen, torso, hidden, activation)
    return DenseEncoder(seen.size, hidden, activation)


class Normaliser(nn.Module):
    """(observation - mean) / sqrt(variance + epsilon), clipped to [-clip, clip]; float32.

    Statistics are of all training observations, merged batch by batch (Chan, Golub, LeVeque 1983, equation
    2.1b). They are buffers, so every snapshot holds its own, and a frozen policy keeps its scaling.
    """

    mean: Tensor
    variance: Tensor
    count: Tensor

    def __init__(self, shape: Sequence[int], clip: float, epsilon: float) -> None:
        super().__init__()
        self.clip = clip
        self.epsilon = epsilon
        self.register_buffer("mean", torch.zeros(*shape, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(*shape, dtype=torch.float64))
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))

    def forward(self, observation: Tensor) -> Tensor:
        """Normalise observations [n, *shape] of any dtype; return the same shape in float32.

        Of longer rows the first numbers are the observation, and those behind them are left as they are.
        """
        scale = (self.variance + self.epsilon).rsqrt().float()
        own, rest = self._split(observation)
        normal = (own.float() - self.mean.float()).mul_(scale).clamp(-self.clip, self.clip)
        return normal if rest is None else torch.cat([normal.flatten(1), rest.float()], 1)

    def _split(self, rows: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the observations of rows, and what is behind them."""
        shape, size = self.mean.shape, self.mean.numel()
        if rows.shape[1:] == shape:
            return rows, None
        return rows[:, :size].reshape(len(rows), *shape), rows[:, size:]

    @torch.no_grad()
    def update(self, rows: Tensor) -> None:
        """Add these observations [n, *shape], or longer rows as in `forward`, to the statistics, in place."""
        if not len(rows):
            return
        rows, _ = self._split(rows)
        variance, mean = torch.var_mean(rows.double(), dim=0, correction=0)  # [*shape] float64
        before, added = self.count.clone(), torch.full_like(self.count, len(rows))
        self.count += added
        delta = mean - self.mean
        squares = self.variance * before + variance * added + delta.square() * (before * added / self.count)
        self.mean += delta * (added / self.count)
        self.variance.copy_(squares / self.count)

    def initialise(self) -> None:
        """Reset the statistics: observations then pass unchanged, but clipped."""
        self.mean.zero_()
        self.variance.fill_(1.0)
        self.count.zero_()
