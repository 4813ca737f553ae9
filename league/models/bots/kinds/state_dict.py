"""Agents of Stable-Baselines3 and CleanRL as bots, from the state dicts of their networks.

A state dict comes as a file of safetensors, which holds numbers alone. Files of torch.save are never read:
loading them may run code. Who has one makes the file where it was trained (league/GAMES.md has the lines).

    sb3        PPO, A2C (also MaskablePPO) with MlpPolicy: mlp_extractor, action_net; DQN: q_net
    cleanrl    ppo.py, ppo_continuous_action.py: actor, actor_mean; dqn.py: network

The policy alone is read, as values are not needed to play. What was around the network (a wrapper that
normalises observations, say) is not in a state dict. Networks of other forms play as ONNX files.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Actor
from league.models.bots.bot import UnknownBot
from league.models.bots.kinds.exported import Greedy
from league.models.bots.settings import StateDictSettings
from league.models.policies.policy import Policy
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake, StorageError
from storage.snapshots import blobs


@dataclass(frozen=True, slots=True)
class _Form:
    """A way in which a library names the layers of a policy."""

    name: str
    hidden: str  # before the number of a layer
    last: str | None  # name of the last layer; None: it is the last of the numbered ones
    activation: str  # the library's default
    log_std: str | None = None
    values: bool = False  # whether the outputs are values of actions, of which the largest is taken


_FORMS = {
    "sb3": (
        _Form("PPO or A2C", "mlp_extractor.policy_net.", "action_net", "tanh", "log_std"),
        _Form("DQN", "q_net.q_net.", None, "relu", values=True),
    ),
    "cleanrl": (
        _Form("ppo_continuous_action", "actor_mean.", None, "tanh", "actor_logstd"),
        _Form("ppo", "actor.", None, "tanh"),
        _Form("dqn", "network.", None, "relu", values=True),
    ),
}


def state_dict_bot(
    name: str, settings: StateDictSettings, observation: ObservationSpec, action: ActionSpec
) -> Actor:
    """Return the policy whose state dict is in `settings.file`.

    Raise UnknownBot if it cannot be read, has another form, or fits no seat with these spaces.
    """
    where = f"bot '{name}': {settings.file}"
    if not Path(settings.file).is_file():
        raise UnknownBot(f"{where}: no such file, expected a state dict as safetensors")
    try:
        tensors = blobs.map_tensors(Path(settings.file), verify=False)
    except StorageError as error:
        raise UnknownBot(
            f"{where}: cannot be read as safetensors, expected a state dict that safetensors.torch.save_file "
            f"has written: {str(error).removeprefix(settings.file).lstrip(': ')}"
        ) from error
    form, layers = _layers(where, settings.kind, tensors)
    try:
        spec, own = _translated(form, layers, tensors, settings, observation, action)
        policy = Policy(spec, own, Path(settings.file).name)
    except (Mistake, StorageError, ValueError) as error:
        raise UnknownBot(f"{where} ({form.name}): {error}") from error
    return Greedy(policy) if form.values or settings.mode == "greedy" else policy


def _layers(where: str, library: str, tensors: Mapping[str, Any]) -> tuple[_Form, list[str]]:
    """Return the form of a state dict, and the names of the policy's layers in order. Raise UnknownBot."""
    for form in _FORMS[library]:
        numbered = re.compile(re.escape(form.hidden) + r"(\d+)\.weight")
        found = sorted(int(match[1]) for match in map(numbered.fullmatch, tensors) if match)
        layers = [f"{form.hidden}{number}" for number in found]
        layers += [form.last] if form.last is not None and f"{form.last}.weight" in tensors else []
        flat = all(tensors[f"{layer}.weight"].dim() == 2 for layer in layers)
        if len(layers) > 1 and flat and all(f"{layer}.bias" in tensors for layer in layers):
            return form, layers
    expected = " or ".join(f"{form.hidden}0.weight, ... ({form.name})" for form in _FORMS[library])
    names = ", ".join(list(tensors)[:4])
    raise UnknownBot(
        f"{where}: found tensors {names}, ..., expected fully connected layers {expected}; write other "
        "networks as ONNX, and name the file onnx:FILE"
    )


def _translated(
    form: _Form,
    layers: list[str],
    tensors: Mapping[str, Tensor],
    settings: StateDictSettings,
    observation: ObservationSpec,
    action: ActionSpec,
) -> tuple[PolicySpec, dict[str, Tensor]]:
    """Return the policy in our own form: its spec and its weights. Raise ValueError if it does not fit."""
    given = "continuous" if form.log_std is not None and form.log_std in tensors else "choices"
    if given != {"discrete": "choices", "multi_discrete": "choices"}.get(action.kind, action.kind):
        raise ValueError(f"it is for other actions than the {action.kind} ones of this game")
    size = tensors[f"{layers[0]}.weight"].shape[1]
    if size != observation.size:
        raise ValueError(f"its first layer takes {size} numbers, the game shows {observation.size}")
    activation = form.activation if settings.activation == "auto" else settings.activation
    hidden = tuple(len(tensors[f"{layer}.bias"]) for layer in layers[:-1])
    made = PolicySettings.model_validate({"hidden": hidden, "activation": activation, "squash": False})
    homes = [*(f"torso.{2 * number}" for number in range(len(hidden))), "policy_head"]
    own = {
        f"{home}.{part}": tensors[f"{layer}.{part}"].float()
        for home, layer in zip(homes, layers, strict=True)
        for part in ("weight", "bias")
    }
    if form.log_std is not None and form.log_std in tensors:
        log_std = tensors[form.log_std]
        if log_std.numel() != len(action.low):
            raise ValueError(f"{form.log_std} is {list(log_std.shape)}, expected {len(action.low)} numbers")
        own["log_std"] = log_std.float().reshape(-1)
    own |= {"value_head.weight": torch.zeros(1, hidden[-1]), "value_head.bias": torch.zeros(1)}
    return PolicySpec(made, observation, action), own
