"""Optimizer of a network's parameters, with states as flat mappings by name: "exp_avg.torso.0.weight"."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from league.learning.maths.schedules import value_at
from league.learning.settings import AdamW, LearnerSettings, RmsProp
from storage.errors import WeightsMismatch

MOMENTS = {
    "adam": {"step", "exp_avg", "exp_avg_sq"},
    "adamw": {"step", "exp_avg", "exp_avg_sq"},
    "rmsprop": {"step", "square_avg", "momentum_buffer"},
}


def num_moments(settings: LearnerSettings) -> int:
    """Return how many numbers an optimizer keeps for each parameter."""
    optimizer = settings.optimizer
    return 1 + bool(optimizer.momentum) if isinstance(optimizer, RmsProp) else 2


class Optimizer:
    """Optimizer of all `parameters`. Parameters without a gradient stay as they are."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], settings: LearnerSettings) -> None:
        self._parameters = parameters
        self._settings = settings
        self._torch = _made(list(parameters.values()), settings)

    def step(self, progress: float) -> None:
        """Make one step at the rate of `progress`, the part of the run that is done."""
        for group in self._torch.param_groups:
            group["lr"] = value_at(self._settings.lr, progress)
        self._torch.step()

    def live(self) -> dict[str, Tensor]:
        """Return all moments and step counts by name, not copied."""
        return {
            f"{moment}.{name}": tensor
            for name, parameter in self._parameters.items()
            for moment, tensor in self._torch.state[parameter].items()
        }

    def load(self, player: str, state: Mapping[str, Tensor]) -> None:
        """Go on from copies of what `live` returned. Raise WeightsMismatch for those of another kind."""
        kind = self._settings.optimizer.kind
        wanted = MOMENTS[kind]
        fused = bool(self._torch.param_groups[0].get("fused"))
        for key, tensor in state.items():
            moment, _, name = key.partition(".")
            if moment not in wanted or name not in self._parameters:
                raise WeightsMismatch(
                    f"player {player}: the saved optimizer has '{key}', {kind} keeps "
                    f"{', '.join(sorted(wanted))} of each parameter; was learner.optimizer changed?"
                )
            parameter = self._parameters[name]
            place = parameter.device if moment != "step" or fused else "cpu"
            self._torch.state[parameter][moment] = tensor.to(place, copy=True)


def _made(parameters: list[nn.Parameter], settings: LearnerSettings) -> torch.optim.Optimizer:
    """Return torch's optimizer, whose rate is set at each step."""
    own = settings.optimizer
    # on a CPU it would gain less than 1 % of an update
    fused = True if parameters[0].is_cuda else None
    eps = own.epsilon
    if isinstance(own, AdamW):
        decay = own.weight_decay
        return torch.optim.AdamW(parameters, eps=eps, betas=own.betas, weight_decay=decay, fused=fused)
    if isinstance(own, RmsProp):
        return torch.optim.RMSprop(parameters, alpha=own.rms_decay, eps=eps, momentum=own.momentum)
    return torch.optim.Adam(parameters, eps=eps, betas=own.betas, fused=fused)
