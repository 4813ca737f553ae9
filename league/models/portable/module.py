"""Portable: a policy or a mixture as one module of tensors, connectors, memory and draw included.

A row of state is what `Actor.memory_size` describes, so a policy and its file can exchange it. The file is
one of ONNX, with a card under CARD: names, types and shapes of inputs and outputs, game, licence, as JSON.
torch 2.9 and later warn that TorchScript, by which it is written, will go one day: the other way to ONNX
needs a further package (onnxscript). `league.models.bots.kinds.onnx_file` opens it again.
"""

from __future__ import annotations

import json
import logging
import math
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from league.envs.spaces import ObservationSpec
from league.models.actor import Actor
from league.models.connectors import (
    ConnectorSettings,
    Flatten,
    FrameStack,
    OwnConnector,
    Previous,
    Reshape,
    Scale,
    Transpose,
)
from league.models.networks.distributions import LOG_STD_RANGE, squashing
from league.models.networks.memory import Recurrent
from league.models.networks.networks import build_network
from league.models.policies.mixture import MixtureActor
from league.models.policies.policy import Policy
from league.models.portable.interface import CARD, NEVER, examples, inputs_of, outputs_of
from storage.errors import Mistake

OPSET = 17  # of ONNX, 2022
LARGEST = 2_000_000_000  # bytes: what one message of protobuf can hold
INSTEAD = "keep it as a folder of this library (--to folder)"


class NotPortable(Mistake):
    """The competitor needs code that cannot be written to a file of tensors."""


class _Stage(NamedTuple):
    """A connector, what it is shown, and its columns of a row of state."""

    connector: ConnectorSettings
    seen: ObservationSpec
    columns: slice


class _Result(NamedTuple):
    parameters: Tensor
    value: Tensor
    action: Tensor
    state: Tensor


class _Part(nn.Module):
    """One policy, playing at `temperature`."""

    squashed: Tensor
    middle: Tensor
    half_width: Tensor
    low: Tensor
    high: Tensor

    def __init__(self, policy: Policy, temperature: float) -> None:
        super().__init__()
        self.spec, self.temperature = policy.spec, temperature
        self._stages, self._own_size = _stages(policy)
        network = build_network(policy.spec)
        network.load_state_dict({name: tensor.cpu() for name, tensor in policy.tensors.items()})
        for layer in network.modules():
            if isinstance(layer, Recurrent):
                layer.step = layer.step_by_formula  # type: ignore[method-assign]  # ONNX knows no cells
        self.network = network.eval().requires_grad_(False)
        self.size = policy.memory_size
        action = policy.spec.action
        if action.low:
            squashed, middle, half_width = squashing(action, policy.spec.squash)
            self.register_buffer("squashed", torch.from_numpy(squashed))
            self.register_buffer("middle", torch.from_numpy(middle).float())
            self.register_buffer("half_width", torch.from_numpy(half_width).float())
            self.register_buffer("low", torch.from_numpy(action.bounds()[0]))
            self.register_buffer("high", torch.from_numpy(action.bounds()[1]))

    def forward(
        self, observation: Tensor, mask: Tensor | None, noise: Tensor, state: Tensor, reward: Tensor | None
    ) -> _Result:
        """Return parameters, values, actions and the next state for n rows."""
        own = state[:, : self._own_size]
        seen, kept = self._shown(observation, own, reward)
        recurrent = state[:, self._own_size :] if self.network.memory_size else None
        parameters, value, after = self.network.full_step(seen, recurrent)
        width, parts, raws, actions = self.spec.action.mask_width, [], [], []
        if mask is not None:
            logits = parameters[:, :width].masked_fill(~mask, NEVER)
            chosen = self._chosen(logits + noise[:, :width] * self.temperature)
            parts, raws, actions = [logits], [chosen], [chosen]
        if self.spec.action.low:
            mean, log_std = parameters[:, width:].chunk(2, 1)
            log_std = log_std.clamp(*LOG_STD_RANGE)
            drawn = mean + log_std.exp() * noise[:, width:] * self.temperature
            parts, raws, actions = [*parts, mean, log_std], [*raws, drawn], [*actions, self._within(drawn)]
        parameters, raw, action = (
            found[0] if len(found) == 1 else torch.cat([part.float() for part in found], 1)
            for found in (parts, raws, actions)
        )
        parts = [self._remembered(stage, kept[i], raw) for i, stage in enumerate(self._stages)]
        if after is not None and recurrent is not None:
            parts.append(after)
        return _Result(parameters, value, action, torch.cat(parts, 1) if parts else state)

    def _shown(
        self, observation: Tensor, memory: Tensor, reward: Tensor | None
    ) -> tuple[Tensor, list[Tensor]]:
        """Return what the network sees, and the columns of each connector's memory after it."""
        kept = []
        for stage in self._stages:
            own = memory[:, stage.columns]
            match stage.connector:
                case Reshape(shape=shape):
                    observation = observation.reshape(-1, *shape)
                case Transpose(axes=axes):
                    shaped = observation.reshape(-1, *stage.seen.shape)
                    observation = shaped.permute(0, *(1 + axis for axis in axes))
                case Scale(divisor=divisor):
                    observation = observation.float() / divisor
                case FrameStack(frames=frames):
                    observation, own = _stacked(observation.flatten(1).float(), own, frames, stage.seen)
                case Previous(reward=shows_reward):
                    rows = [observation.flatten(1).float(), own]
                    if shows_reward and reward is not None:
                        rows.append(reward.unsqueeze(1))
                    observation = torch.cat(rows, 1)
                case Flatten():
                    observation = observation.flatten(1)
            kept.append(own)
        shape = self.spec.seen.shape
        return observation.reshape(-1, *shape).to(getattr(torch, self.spec.seen.dtype)), kept

    def _chosen(self, scores: Tensor) -> Tensor:
        """Return the choices [n, *shape] with the largest scores [n, A]."""
        sizes = self.spec.action.sizes
        best = [part.argmax(1) for part in scores.split(list(sizes), 1)]
        return best[0] if self.spec.action.kind == "discrete" else torch.stack(best, 1)

    def _within(self, raw: Tensor) -> Tensor:
        """Return raw draws [n, d] as actions within the bounds."""
        if self.spec.squash:
            raw = torch.where(self.squashed, self.middle + self.half_width * raw.tanh(), raw)
        return torch.minimum(torch.maximum(raw, self.low), self.high)

    def _remembered(self, stage: _Stage, kept: Tensor, raw: Tensor) -> Tensor:
        if not isinstance(stage.connector, Previous) or not stage.connector.action:
            return kept
        rows = raw.reshape(-1, math.prod(self.spec.action.shape))  # a traced length would be a constant
        shown = [
            (rows[:, i : i + 1] == torch.arange(size)).float()
            for i, size in enumerate(self.spec.action.sizes)
        ]
        if self.spec.action.low:
            shown.append(rows[:, len(shown) :])
        return torch.cat(shown, 1)


def _stages(policy: Policy) -> tuple[list[_Stage], int]:
    """Return the connectors of a policy, and the floats of their memory. Raise NotPortable for own code."""
    spec = policy.spec
    stages, seen, start = [], spec.observation, 0
    for connector in spec.settings.connectors:
        if isinstance(connector, OwnConnector):
            raise NotPortable(
                f"{policy.name}: policy.connectors '{connector.kind}' is code of your own, which only Python "
                "runs, expected connectors of ours; keep it as a folder of this library (--to folder)"
            )
        end = start + connector.memory_size(seen, spec.action)
        stages.append(_Stage(connector, seen, slice(start, end)))
        seen, start = connector.output(seen, spec.action), end
    return stages, start


def _stacked(rows: Tensor, memory: Tensor, frames: int, seen: ObservationSpec) -> tuple[Tensor, Tensor]:
    """Return the last `frames` observations [n, ...] as `FrameStack` gives them, and its memory after."""
    history = torch.cat([memory, rows], 1)
    sizes = [part.size for part in seen.parts] or [seen.size]
    if len(sizes) == 1:
        return history, history[:, seen.size :]
    by_frame = history.reshape(-1, frames, seen.size).split(sizes, 2)
    return torch.cat([part.flatten(1) for part in by_frame], 1), history[:, seen.size :]


class Portable(nn.Module):
    """A policy or mixture with the inputs and outputs of `interface`, in their order."""

    until: Tensor  # [members - 1], where the draws of the next member begin

    def __init__(self, actor: Actor, temperature: float = 1.0) -> None:
        """Make it of a `Policy`, or a `MixtureActor` of policies. Raise NotPortable for all else."""
        super().__init__()
        members = [(actor, temperature)]
        if isinstance(actor, MixtureActor):
            members = [(member.actor, member.temperature) for member in actor.members]
        policies = [(policy, at) for policy, at in members if isinstance(policy, Policy)]
        if len(policies) < len(members):
            raise NotPortable("found a bot, expected a snapshot, a player or a mixture; name one of those")
        self.parts = nn.ModuleList(_Part(policy, at) for policy, at in policies)
        spec = policies[0][0].spec
        for policy, _ in policies:
            if policy.spec.action != spec.action or not policy.spec.observation.fits(spec.observation):
                raise NotPortable(f"{policy.name}: it plays other seats than {policies[0][0].name}")
        self.mixed = isinstance(actor, MixtureActor)
        if isinstance(actor, MixtureActor):
            self.register_buffer("until", torch.from_numpy(np.cumsum(actor.weights)[:-1]).float())
        self.temperatures = [at for _, at in policies]
        self.size = actor.memory_size
        self.inputs = inputs_of(spec.observation, spec.action, self.size, actor.wants_reward, self.mixed)
        self.outputs = outputs_of(spec.action, self.size)
        self.observation, self.action = spec.observation, spec.action

    def forward(self, *given: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs for the inputs, both in their order."""
        by_name = dict(zip([value.name for value in self.inputs], given, strict=True))
        observation, noise = by_name["observation"], by_name["noise"]
        mask, reward = by_name.get("mask"), by_name.get("reward")
        state = by_name.get("state", noise[:, :0])
        if self.mixed:
            result = self._mixed(observation, mask, noise, state, reward, by_name["draw"])
        else:
            result = self.parts[0](observation, mask, noise, state, reward)
        width, d = self.action.mask_width, len(self.action.low)
        parameters = result.parameters.split([size for size in (width, d, d) if size], 1)
        after = (result.state,) if self.size else ()
        return (*parameters, result.value, result.action, *after)

    def _mixed(
        self,
        observation: Tensor,
        mask: Tensor | None,
        noise: Tensor,
        state: Tensor,
        reward: Tensor | None,
        draw: Tensor,
    ) -> _Result:
        """Let all members decide, and return what the drawn member of each row did."""
        drawn = 1.0 + (self.until <= draw.unsqueeze(1)).sum(1).float()
        who = torch.where(state[:, 0] == 0.0, drawn, state[:, 0])
        kept, chosen = state[:, 1:], None
        for number, part in enumerate(self.parts):
            result = part(observation, mask, noise, kept[:, : part.size], reward)
            result = result._replace(state=torch.cat([result.state, kept[:, part.size :]], 1))
            chosen = result if chosen is None else _where(who == number + 1.0, result, chosen)
        assert chosen is not None  # a mixture has members
        return chosen._replace(state=torch.cat([who.unsqueeze(1), chosen.state], 1))


def _where(rows: Tensor, yes: _Result, no: _Result) -> _Result:
    def pick(a: Tensor, b: Tensor) -> Tensor:
        return torch.where(rows.reshape(-1, *(1,) * (a.dim() - 1)), a, b)

    return _Result(*(pick(a, b) for a, b in zip(yes, no, strict=True)))


def write(module: Portable, path: Path, card: Mapping[str, Any]) -> None:
    """Write `module` to the file `path`, which is replaced.

    Raise Mistake if a package is missing or the file would be too large, NotPortable for a network with
    operators that ONNX lacks.
    """
    _require_onnx()
    import onnx

    size = sum(tensor.numel() * tensor.element_size() for tensor in module.state_dict().values())
    if size > LARGEST:
        raise Mistake(
            f"its weights have {size:,} bytes, expected at most {LARGEST:,} in a file of ONNX; {INSTEAD}"
        )
    given, found = ([value.name for value in values] for values in (module.inputs, module.outputs))
    try:
        with _quiet(), torch.no_grad():
            torch.onnx.export(
                module,
                tuple(map(torch.from_numpy, examples(module.inputs, 2))),
                path,
                input_names=given,
                output_names=found,
                dynamic_axes={name: {0: "n"} for name in (*given, *found)},
                opset_version=OPSET,
                dynamo=False,
            )
        model = onnx.load(path)
        onnx.helper.set_model_props(model, {CARD: json.dumps(card)})
        onnx.save(model, path)
    except Exception as error:  # torch has many classes of errors for what it cannot write
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise NotPortable(f"this network cannot be written as onnx: {reason}; {INSTEAD}") from error


def _require_onnx() -> None:
    for package in ("onnx", "onnxruntime"):
        try:
            __import__(package)
        except ImportError as error:
            raise Mistake(
                f"--to onnx: {package} is not installed; pip install '.[onnx]' (or --to folder)"
            ) from error


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep torch from warning its users of what is known here: this exporter is deprecated."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
