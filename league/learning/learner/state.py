"""State of a learner, as it is saved: everything that it needs to go on exactly where it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor

PARTS = ("weights", "optimizer", "target", "reference", "magnet", "teacher", "average", "ages")
"""Parts of a state, as its tensors are named."""


@dataclass(frozen=True, slots=True)
class LearnerState:
    """Everything that a learner needs to go on. Tensors are copies on the CPU, never the live ones."""

    weights: dict[str, Tensor]  # parameters and buffers
    optimizer: dict[str, Tensor]  # "step.<name>", "exp_avg.<name>", ...: the optimizer's own names
    updates: int
    env_steps: int
    # of the networks beside it (companions.py), where there are such
    target: dict[str, Tensor] = field(default_factory=dict)
    reference: dict[str, Tensor] = field(default_factory=dict)
    magnet: dict[str, Tensor] = field(default_factory=dict)
    teacher: dict[str, Tensor] = field(default_factory=dict)
    average: dict[str, Tensor] = field(default_factory=dict)
    ages: dict[str, Tensor] = field(default_factory=dict)  # int64 []: updates that a part has followed

    @property
    def companions(self) -> dict[str, dict[str, Tensor]]:
        """Parts of the networks beside the one that learns."""
        return {part: getattr(self, part) for part in PARTS[2:]}

    def to_freeze(self, freeze: Literal["live", "ema"]) -> dict[str, Tensor]:
        """Return the weights that a snapshot stores."""
        return self.average if freeze == "ema" else self.weights

    def to_tensors(self) -> dict[str, Tensor]:
        """Return all tensors in one mapping, to be stored; `from_tensors` is the inverse."""
        return {f"{part}/{name}": tensor for part in PARTS for name, tensor in getattr(self, part).items()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], updates: int, env_steps: int) -> LearnerState:
        """Return the state of which `to_tensors` returned `tensors`."""
        parts: dict[str, dict[str, Tensor]] = {part: {} for part in PARTS}
        for key, tensor in tensors.items():
            part, name = key.split("/", 1)
            parts[part][name] = tensor
        return LearnerState(**parts, updates=updates, env_steps=env_steps)
