"""Optimizers: one for all of a network's parameters, or a second for the value's own.

States are flat mappings by name, "exp_avg.torso.0.weight", the same for both optimizers.
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from league.learning.maths.schedules import value_at
from league.learning.settings import AdamW, LearnerSettings, RmsProp
from storage.errors import WeightsMismatch

VALUE = "value_"  # how names of the value's own parameters begin: value_head, value_torso
MOMENTS = {
    "adam": {"step", "exp_avg", "exp_avg_sq"},
    "adamw": {"step", "exp_avg", "exp_avg_sq"},
    "rmsprop": {"step", "square_avg", "momentum_buffer"},
}


def num_moments(settings: LearnerSettings) -> int:
    """Return how many numbers an optimizer keeps for each parameter."""
    optimizer = settings.optimizer
    return 1 + bool(optimizer.momentum) if isinstance(optimizer, RmsProp) else 2


class Optimizers:
    """Optimizers of all `parameters`. Parameters without a gradient stay as they are."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: LearnerSettings) -> None:
        self._parameters = parameters
        self._settings = settings
        separate = settings.value_lr is not None
        own = [p for name, p in parameters.items() if separate and name.startswith(VALUE)]
        others = [p for name, p in parameters.items() if not (separate and name.startswith(VALUE))]
        self._policy = self._make(others)
        self._value = self._make(own) if own else None

    def _make(self, parameters: list[nn.Parameter]) -> torch.optim.Optimizer:
        settings = self._settings.optimizer
        # on a CPU it would gain less than 1 % of an update
        fused = True if parameters[0].is_cuda else None
        eps = settings.epsilon
        # the rate is set at each step
        if isinstance(settings, AdamW):
            decay = settings.weight_decay
            return torch.optim.AdamW(
                parameters, eps=eps, betas=settings.betas, weight_decay=decay, fused=fused
            )
        if isinstance(settings, RmsProp):
            decay = settings.rms_decay
            return torch.optim.RMSprop(parameters, alpha=decay, eps=eps, momentum=settings.momentum)
        return torch.optim.Adam(parameters, eps=eps, betas=settings.betas, fused=fused)

    def step(self, progress: float) -> None:
        """Make one step at the rates of `progress`, the part of the run that is done."""
        _step(self._policy, value_at(self._settings.lr, progress))
        if self._value is not None and self._settings.value_lr is not None:
            _step(self._value, value_at(self._settings.value_lr, progress))

    def live(self) -> dict[str, Tensor]:
        """Return all moments and step counts by name, not copied."""
        return {
            f"{moment}.{name}": tensor
            for name, parameter in self._parameters.items()
            for moment, tensor in self._of(name).state[parameter].items()
        }

    def load(self, player: str, state: Mapping[str, Tensor]) -> None:
        """Go on from copies of what `live` returned. Raise WeightsMismatch for those of another kind."""
        wanted = MOMENTS[self._settings.optimizer.kind]
        for key, tensor in state.items():
            moment, _, name = key.partition(".")
            if moment not in wanted or name not in self._parameters:
                kind = self._settings.optimizer.kind
                raise WeightsMismatch(
                    f"player {player}: the saved optimizer has '{key}', {kind} keeps "
                    f"{', '.join(sorted(wanted))} of each parameter; was learner.optimizer changed?"
                )
            parameter = self._parameters[name]
            optimizer = self._of(name)
            fused = bool(optimizer.param_groups[0].get("fused"))
            place = parameter.device if moment != "step" or fused else "cpu"
            optimizer.state[parameter][moment] = tensor.to(place, copy=True)

    def _of(self, name: str) -> torch.optim.Optimizer:
        return self._policy if self._value is None or not name.startswith(VALUE) else self._value


def _step(optimizer: torch.optim.Optimizer, lr: float) -> None:
    for group in optimizer.param_groups:
        group["lr"] = lr
    optimizer.step()
