"""Policies: networks that act, built from a `PolicySpec` and a mapping of named tensors.

A process has one network per spec, without tensors of its own. A `Policy` lends it its tensors for the
length of a call. So a thousand snapshots cost a thousand mapped files, not a thousand modules, and
tensors are never copied for a call.

A policy computes on the device of its tensors. Inputs and results are numpy arrays, and actions are
drawn on the CPU: equal numbers from the network and from `rng` give equal actions.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.models.actor import Actor, Chosen, Look
from league.models.connectors import Connectors
from league.models.networks.distributions import Distribution, distribution
from league.models.networks.networks import Network, build_network
from league.models.sending import fetched, sent
from league.models.spec import PolicySpec
from storage.arrays import Bools, Floats32
from storage.errors import WeightsMismatch

Step = Callable[[Tensor, Tensor | None], tuple[Tensor, Tensor | None]]  # the type of `Policy.step`
Tensors = Mapping[str, Tensor]
Keep = Callable[[str, Callable[[Tensors], Tensors]], Tensors | None]
"""Returns what is computed from a policy's tensors, by the name of its kind, as the node keeps it.

`None`: the node keeps nothing. It is computed from tensors that are given, so that those of the policy need
not be read for it.
"""


def initial_weights(spec: PolicySpec, seed: int) -> dict[str, Tensor]:
    """Return fresh weights (parameters and buffers); equal seeds give equal weights."""
    network = build_network(spec)
    network.initialise(torch.Generator().manual_seed(seed))
    return {name: tensor.detach() for name, tensor in network.state_dict().items()}


def _lowered(tensors: Tensors, names: Sequence[str]) -> dict[str, Tensor]:
    return {name: tensors[name].bfloat16() for name in names}


class Policy(Actor):
    """A network and its distribution over actions. All tensors are on one device and are not copied.

    A row of memory holds the part of the connectors, then that of the network.
    """

    def __init__(
        self, spec: PolicySpec, tensors: Tensors, name: str = "policy", keep: Keep | None = None
    ) -> None:
        """`keep`: where other processes find what is computed from `tensors`, if it is for others too."""
        self.spec = spec
        self.name = name
        self.tensors = dict(tensors)
        self._keep = keep
        self._in_bfloat16: Tensors | None = None
        self.device = next((tensor.device for tensor in self.tensors.values()), torch.device("cpu"))
        try:
            shared = _shared(spec)
        except (ValueError, RuntimeError) as error:  # settings that do not fit together, or overflow
            raise WeightsMismatch(f"{name}: its spec does not give a network: {error}") from error
        self._network, self._distribution = shared.network, shared.distribution
        self._connectors = shared.connectors
        self.memory_size = shared.connectors.memory_size + shared.network.memory_size
        self.recurrent_size = shared.network.memory_size  # the last columns of a row of memory
        self.wants_reward = shared.connectors.wants_reward
        self.num_parameters = shared.distribution.num_parameters
        check_tensors(name, self.tensors, shared.shapes)
        self._lend = [(holder, key, self.tensors[path]) for path, (holder, key) in shared.slots.items()]

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Draw an action for each row (at temperature 0: the likeliest), with its log-probability."""
        return self.decide_by(self.step, look, rng, temperature)

    def decide_by(self, step: Step, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Decide with `step` in place of this policy's own, for rows of several policies of one spec."""
        own, recurrent = self._parts(look.memory, len(look))
        seen = self._connectors.apply(look.observation, own, look.reward)
        with torch.no_grad():
            parameters, after = step(torch.from_numpy(seen), recurrent)
            if self.device.type != "cpu":
                found = fetched({"parameters": parameters} | ({} if after is None else {"after": after}))
                parameters, after = found["parameters"], found.get("after")
            if recurrent is not None and after is not None:
                recurrent.copy_(after)
            raw, log_prob = self._distribution.sample(parameters, look.mask, rng, temperature)
        self._connectors.acted(own, raw)
        certain = self._distribution.certain(log_prob, temperature)
        return Chosen(self._distribution.to_env(raw), log_prob, seen, raw, certain)

    def step(self, seen: Tensor, recurrent: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return parameters [n, P] of the network, and its memory after this step [n, S], on `device`.

        `seen` [n, *seen.shape] and `recurrent` [n, S] are there, or on the CPU.
        """
        return self._bind().step(*self.on_device(seen, recurrent))

    def in_order(self) -> list[Tensor]:
        """Return the tensors in the order of `slots_of` of its network."""
        return [tensor for _, _, tensor in self._lend]

    @property
    def shares(self) -> bool:
        """Whether the node keeps what is computed from the tensors, as far as is known."""
        return self._keep is not None

    def in_bfloat16(self, names: Sequence[str]) -> tuple[Tensors, bool]:
        """Return these tensors in bfloat16, and whether they are copies that the node shares.

        Others are made for this call. Calls of one policy have to give the same names.
        """
        if self._keep is not None and self._in_bfloat16 is None:
            kind = " ".join(("bfloat16", *names))  # another spec may have other layers of the same blob
            self._in_bfloat16 = self._keep(kind, lambda tensors: _lowered(tensors, names))
            if self._in_bfloat16 is None:
                self._keep = None
        if self._in_bfloat16 is not None:
            return self._in_bfloat16, True
        return _lowered(self.tensors, names), False

    def see(
        self, observation: npt.NDArray, memory: Floats32 | None = None, reward: Floats32 | None = None
    ) -> npt.NDArray:
        """Return what `decide` would show the network [n, *spec.seen.shape]. Do not change `memory`."""
        own, _ = self._parts(memory, len(observation))
        return self._connectors.apply(observation, own.copy(), reward)

    def evaluate(
        self,
        observation: npt.NDArray,
        mask: Bools,
        memory: Floats32 | None = None,
        reward: Floats32 | None = None,
    ) -> tuple[Floats32, Floats32]:
        """Return the probabilities [n, A] at temperature 1, and the values [n]. Do not change `memory`.

        Values are NaN if they would have to see what other seats see (`policy.value_sees: all`).
        Probabilities of several choices are side by side. For continuous actions, the first result is mean
        and log_std [n, 2 d].
        """
        own, recurrent = self._parts(memory, len(observation))
        seen = self._connectors.apply(observation, own.copy(), reward)
        with torch.no_grad():
            parameters, value = self._bind()(*self.on_device(torch.from_numpy(seen), recurrent))
            probabilities = self._distribution.probabilities(parameters.cpu(), torch.from_numpy(mask))
            return probabilities.numpy(), value.cpu().numpy()

    def _parts(self, memory: Floats32 | None, n: int) -> tuple[Floats32, Tensor | None]:
        """Return the connectors' part and the network's part of `memory` as views."""
        if memory is None:
            memory = np.zeros((n, self.memory_size), dtype=np.float32)
        border = self._connectors.memory_size
        return memory[:, :border], torch.from_numpy(memory[:, border:]) if self._network.memory_size else None

    def on_device(self, seen: Tensor, recurrent: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return both on the policy's device; without a copy if they are there."""
        if self.device.type == "cpu":
            return seen, recurrent
        found = sent({"seen": seen} | ({} if recurrent is None else {"memory": recurrent}), self.device)
        return found["seen"], found.get("memory")

    def _bind(self) -> Network:
        for holder, key, tensor in self._lend:
            holder[key] = tensor
        return self._network


@dataclass(frozen=True, slots=True)
class _Shared:
    """What all policies of one spec share in this process."""

    network: Network  # on the meta device: shapes without numbers
    distribution: Distribution
    connectors: Connectors
    shapes: dict[str, tuple[int, ...]]  # shape of each tensor, by its path
    slots: dict[str, tuple[dict[str, Any], str]]  # place of each tensor in the network, by its path


@functools.lru_cache(maxsize=64)
def _shared(spec: PolicySpec) -> _Shared:
    with torch.device("meta"):
        network = build_network(spec)
    return _Shared(
        network=network.eval(),
        distribution=distribution(spec.action, spec.squash),
        connectors=Connectors(spec.settings.connectors, spec.observation, spec.action),
        shapes={path: tuple(tensor.shape) for path, tensor in network.state_dict().items()},
        slots=slots_of(network),
    )


def slots_of(network: Network) -> dict[str, tuple[dict[str, Any], str]]:
    """Return the place of each tensor in the network, by its path."""
    slots: dict[str, tuple[dict[str, Any], str]] = {}
    wanted = network.state_dict()
    for path, owner in network.named_modules():
        # Not torch.func.functional_call: with it a call of an mlp 84-64-64 took 317 us, this way 72 us.
        # Inference needs no nn.Parameter, so plain tensors may take their places.
        for holder in (owner._parameters, owner._buffers):
            for key in holder:
                full = f"{path}.{key}" if path else key
                if full in wanted:
                    slots[full] = (holder, key)
    return slots


def check_tensors(name: str, found: Mapping[str, Tensor], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise WeightsMismatch for the first tensor of `found` that is missing, unknown or of a wrong shape."""
    for key in [*wanted, *found]:
        if key not in found:
            raise WeightsMismatch(f"{name}: '{key}' is missing; was the network changed?")
        if key not in wanted:
            raise WeightsMismatch(f"{name}: '{key}' is not part of the policy; was the network changed?")
        if tuple(found[key].shape) != wanted[key]:
            raise WeightsMismatch(
                f"{name}: '{key}' is {tuple(found[key].shape)}, policy wants {wanted[key]}; "
                "was the env or the network changed?"
            )
