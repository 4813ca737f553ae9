"""Policies: a network that acts. Built from a `PolicySpec` and a mapping of named tensors.

One network per spec lives in a process, without memory of its own; a `Policy` lends it its
tensors for the length of a call. So a thousand snapshots cost a thousand mappings of files, not
a thousand modules, and a policy's tensors are never copied to be used.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn

from league.envs.base import BatchedGame
from league.models.networks import MLP
from storage.errors import WeightsMismatch

SMALLEST_NOISE = 1e-30  # an exponential draw may be exactly 0, and 0 / 0 would win every argmax


class PolicySettings(BaseModel):
    """The network of every player."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    architecture: Literal["mlp"] = Field(default="mlp", description="Kind of network")
    hidden: tuple[int, ...] = Field(
        default=(256, 256), description="Widths of the hidden layers", min_length=1
    )
    activation: Literal["relu", "tanh"] = Field(default="relu", description="Nonlinearity between layers")


@dataclass(frozen=True, slots=True)
class PolicySpec:
    """What is needed, beside weights, to build a policy. Travels with every snapshot, as JSON."""

    architecture: str
    hidden: tuple[int, ...]
    activation: str
    observation_shape: tuple[int, ...]
    observation_dtype: str
    num_actions: int

    @staticmethod
    def for_game(settings: PolicySettings, game: BatchedGame) -> PolicySpec:
        """The spec of a policy that can sit in every seat of `game`."""
        if not game.shared_spaces:
            raise ValueError(
                f"env '{game.id}': its seats differ in their spaces, but one policy must fit them all"
            )
        space = game.observation_spaces[0]
        return PolicySpec(
            architecture=settings.architecture,
            hidden=settings.hidden,
            activation=settings.activation,
            observation_shape=tuple(space.shape),
            observation_dtype=str(space.dtype),
            num_actions=int(game.action_spaces[0].n),
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> PolicySpec:
        """Raises WeightsMismatch when `fields` describe no network of this version."""
        try:
            spec = PolicySpec(**fields)
            spec = PolicySpec(
                architecture=str(spec.architecture),
                hidden=tuple(int(width) for width in spec.hidden),
                activation=str(spec.activation),
                observation_shape=tuple(int(n) for n in spec.observation_shape),
                observation_dtype=str(np.dtype(spec.observation_dtype)),
                num_actions=int(spec.num_actions),
            )
        except (TypeError, ValueError) as error:
            raise WeightsMismatch(f"policy spec {dict(fields)!r} cannot be read: {error}") from None
        if spec.architecture != "mlp":
            raise WeightsMismatch(f"policy spec: architecture '{spec.architecture}', expected 'mlp'")
        return spec


def build_network(spec: PolicySpec) -> MLP:
    """The network of `spec`, uninitialised."""
    return MLP(spec.observation_shape, spec.num_actions, spec.hidden, spec.activation)


def initial_weights(spec: PolicySpec, seed: int) -> dict[str, Tensor]:
    """Fresh weights; the same seed gives the same."""
    network = build_network(spec)
    network.initialise(torch.Generator().manual_seed(seed))
    return {name: tensor.detach() for name, tensor in network.state_dict().items()}


class Actor(Protocol):
    """Whatever can sit in a seat: a policy or a bot."""

    def act(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Observations [n, *shape], masks [n, A] -> actions [n], log-probabilities [n]."""


class Policy:
    """A masked categorical policy with a value. Its tensors are used where they lie, never copied."""

    def __init__(self, spec: PolicySpec, tensors: Mapping[str, Tensor], name: str = "policy") -> None:
        self.spec = spec
        self.tensors = dict(tensors)
        self._network, slots = _shared_network(spec)
        check_tensors(name, self.tensors, {key: shape for key, (_, _, shape) in slots.items()})
        self._lend = [(owner, attribute, self.tensors[key]) for key, (owner, attribute, _) in slots.items()]

    def act(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
    ) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
        """Sample an action for each row (or take the likeliest), with its log-probability."""
        with torch.no_grad():
            probability = self._probabilities(self._bind().logits(torch.from_numpy(observation)), mask)
            if greedy:
                action = probability.argmax(1)
            else:
                # the largest of p / Exponential(1) is a draw from p (the Gumbel-max trick, exponentiated)
                noise = rng.standard_exponential(probability.shape, dtype=np.float32)
                action = (probability / torch.from_numpy(noise).add_(SMALLEST_NOISE)).argmax(1)
            log_prob = probability.gather(1, action.unsqueeze(1)).squeeze(1).log()
        return action.numpy(), log_prob.numpy()

    def evaluate(
        self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Action probabilities [n, A] and values [n]."""
        with torch.no_grad():
            logits, value = self._bind()(torch.from_numpy(observation))
            return self._probabilities(logits, mask).numpy(), value.numpy()

    @staticmethod
    def _probabilities(logits: Tensor, mask: npt.NDArray[np.bool_]) -> Tensor:
        return logits.masked_fill_(~torch.from_numpy(mask), -torch.inf).softmax(1)

    def _bind(self) -> MLP:
        for owner, attribute, tensor in self._lend:
            owner._parameters[attribute] = tensor  # type: ignore[assignment]  # inference needs no Parameter
        return self._network


@functools.lru_cache(maxsize=64)
def _shared_network(spec: PolicySpec) -> tuple[MLP, dict[str, tuple[nn.Module, str, tuple[int, ...]]]]:
    """The one network of `spec` in this process, and where each named tensor goes in it."""
    with torch.device("meta"):
        network = build_network(spec)
    slots = {}
    for path, owner in network.named_modules():
        for attribute, parameter in owner.named_parameters(recurse=False):
            key = f"{path}.{attribute}" if path else attribute
            slots[key] = (owner, attribute, tuple(parameter.shape))
    return network, slots


def check_tensors(name: str, found: Mapping[str, Tensor], wanted: Mapping[str, tuple[int, ...]]) -> None:
    """Raise WeightsMismatch, naming the first tensor of `found` that is missing, foreign or misshapen."""
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
