"""Mirrored weights: a network of fully connected layers that commutes with a mirror of the game.

Unit h of a hidden layer and unit width - 1 - h are images of each other, so a weight matrix W is unchanged
when its rows and its columns are mirrored: W = P W Q. Such weights give mirrored logits and the same value
for the mirror image of an observation. If the weights are mirrored, then the gradient of a batch and of its
mirror image is (G + P G Q) / 2, with G the gradient of the batch alone: both are learned from at the price of
one (van der Pol et al. 2020, MDP homomorphic networks, https://arxiv.org/abs/2006.16908).
"""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from league.models.mirror import Mirror
from league.models.networks.encoders import BadNetwork
from league.models.spec import PolicySpec

Order = npt.NDArray[np.int64]


class _Image:
    """The mirror image of a tensor [out] or [out, in], whose rows and columns have these orders."""

    def __init__(self, out: Order, seen: Order | None = None) -> None:
        orders = (out,) if seen is None else (out, seen)
        # reversed units, as those of hidden layers, are read ten times as fast as any order is
        self._reversed = all(np.array_equal(order, np.arange(len(order))[::-1]) for order in orders)
        self._axes = tuple(range(len(orders)))
        places = out if seen is None else out[:, None] * len(seen) + seen
        self._places = torch.from_numpy(places.flatten())

    def add(self, tensor: Tensor, divisor: float) -> None:
        """Add to `tensor` its mirror image, and divide by `divisor`, in place."""
        if self._reversed:
            image = tensor.flip(self._axes)
        else:
            image = tensor.reshape(-1)[self._places.to(tensor.device)].view_as(tensor)
        tensor.add_(image).div_(divisor)


class MirroredLayers:
    """Fully connected layers, and the mirror images of their weights and biases."""

    def __init__(
        self, mirror: Mirror, torsos: Iterable[nn.Module], policy: nn.Linear, value: nn.Linear
    ) -> None:
        """`torsos` are stacks of linear layers over the observation; `policy` and `value` are the heads."""
        self._layers: list[tuple[nn.Linear, _Image, _Image]] = []

        def note(layer: nn.Linear, out: Order, seen: Order) -> None:
            self._layers.append((layer, _Image(out, seen), _Image(out)))

        for torso in torsos:
            seen = mirror.observation_order
            for layer in torso.modules():
                if isinstance(layer, nn.Linear):
                    units = np.arange(layer.out_features)[::-1]
                    note(layer, units, seen)
                    seen = units
        note(policy, mirror.action_order, np.arange(policy.in_features)[::-1])
        note(value, np.arange(1), np.arange(value.in_features)[::-1])

    def initialise(self) -> None:
        """Make freshly drawn weights mirrored, at the same size."""
        for layer, weight, _ in self._layers:
            weight.add(layer.weight.data, math.sqrt(2.0))

    def project(self) -> None:
        """Replace the weights by the nearest mirrored ones; those that are mirrored stay as they are."""
        for layer, weight, bias in self._layers:
            weight.add(layer.weight.data, 2.0)
            bias.add(layer.bias.data, 2.0)

    def average_gradients(self) -> None:
        """Make the gradients those of the batch and of its mirror image."""
        for layer, weight, bias in self._layers:
            if layer.weight.grad is not None and layer.bias.grad is not None:
                weight.add(layer.weight.grad, 2.0)
                bias.add(layer.bias.grad, 2.0)


def checked_mirror(spec: PolicySpec) -> Mirror | None:
    """Return the mirror of the policy. Raise BadNetwork if its network cannot have it."""
    settings, mirror = spec.settings, spec.settings.mirror
    if mirror is None:
        return None
    sizes = (math.prod(mirror.observation), math.prod(mirror.actions))
    if settings.value_sees == "all":
        raise BadNetwork(
            "policy.mirror: found together with value_sees all, expected one of them: a mirror is of what a "
            "seat itself sees; set mirror to null, or value_sees to seat"
        )
    if settings.architecture != "mlp" or settings.memory != "none" or settings.connectors:
        raise BadNetwork(
            f"policy.mirror: found architecture '{settings.architecture}', memory '{settings.memory}' and "
            f"{len(settings.connectors)} connectors, expected an mlp without memory and connectors; set "
            "mirror to null, or change these"
        )
    if not spec.mirror_fits:
        raise BadNetwork(
            f"policy.mirror: it has {sizes[0]} numbers and {sizes[1]} actions, the game has {spec.seen.size} "
            f"numbers and {spec.action.mask_width or 'no discrete'} actions, expected the same and discrete "
            "actions; correct observation and actions"
        )
    return mirror
