"""Normaliser: observations with mean 0 and variance 1, by statistics of all training observations.

The statistics are buffers, so every snapshot holds its own, and a frozen policy keeps its scaling. They
are merged batch by batch (Chan, Golub, LeVeque 1983, equation 2.1b).
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn


def moments(rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and population variance of rows [n, *shape], each [*shape] float64."""
    variance, mean = torch.var_mean(rows.double(), dim=0, correction=0)
    return mean, variance


def merged(
    count_a: Tensor, mean_a: Tensor, variance_a: Tensor, count_b: Tensor, mean_b: Tensor, variance_b: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return count, mean and variance of the union of two sets of rows a and b; float64."""
    count = count_a + count_b
    delta = mean_b - mean_a
    mean = mean_a + delta * (count_b / count)
    squares = variance_a * count_a + variance_b * count_b + delta.square() * (count_a * count_b / count)
    return count, mean, squares / count


class Normaliser(nn.Module):
    """(observation - mean) / sqrt(variance + epsilon), clipped to [-clip, clip]; float32."""

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
        normal = ((own.float() - self.mean.float()) * scale).clamp_(-self.clip, self.clip)
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
        new = merged(self.count, self.mean, self.variance, self.count.new_tensor(len(rows)), *moments(rows))
        for buffer, value in zip((self.count, self.mean, self.variance), new, strict=True):
            buffer.copy_(value)

    def initialise(self) -> None:
        """Reset the statistics: observations then pass unchanged, but clipped."""
        self.mean.zero_()
        self.variance.fill_(1.0)
        self.count.zero_()
