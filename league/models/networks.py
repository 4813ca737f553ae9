"""Networks: what a `PolicySpec` is built into. Each maps observations to (logits, value)."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh}


class MLP(nn.Module):
    """A torso of fully connected layers under a policy head and a value head.

    Weights are orthogonal, with gain sqrt(2) in the torso, 0.01 at the policy (so that a fresh
    policy is close to uniform) and 1 at the value.
    """

    def __init__(
        self, observation_shape: Sequence[int], num_actions: int, hidden: Sequence[int], activation: str
    ) -> None:
        super().__init__()
        widths = [math.prod(observation_shape), *hidden]
        layers: list[nn.Module] = []
        for fan_in, fan_out in itertools.pairwise(widths):
            layers += [nn.Linear(fan_in, fan_out), ACTIVATIONS[activation]()]
        self.torso = nn.Sequential(*layers)
        self.policy_head = nn.Linear(widths[-1], num_actions)
        self.value_head = nn.Linear(widths[-1], 1)

    def initialise(self, generator: torch.Generator) -> None:
        """Draw fresh weights in place; the same generator state gives the same weights."""
        gains = [*(math.sqrt(2.0) for m in self.torso if isinstance(m, nn.Linear)), 0.01, 1.0]
        linears = [*(m for m in self.torso if isinstance(m, nn.Linear)), self.policy_head, self.value_head]
        for linear, gain in zip(linears, gains, strict=True):
            nn.init.orthogonal_(linear.weight, gain, generator=generator)
            nn.init.zeros_(linear.bias)

    def logits(self, observation: Tensor) -> Tensor:
        """[n, *shape] of any dtype -> [n, num_actions], unmasked."""
        return self.policy_head(self.torso(observation.flatten(1).float()))

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        """[n, *shape] of any dtype -> unmasked logits [n, num_actions], values [n]."""
        features = self.torso(observation.flatten(1).float())
        return self.policy_head(features), self.value_head(features).squeeze(-1)
