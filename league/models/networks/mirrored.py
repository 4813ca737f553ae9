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

from torch import Tensor, nn

from league.models.networks.encoders import BadNetwork
from league.models.spec import PolicySpec
from league.models.torsos import Mirror

Reversed = tuple[tuple[int, ...], int]  # shape of rows or columns, and its axis that is reversed


class _Image:
    """The mirror image of a tensor [out] or [out, in]: one axis of its rows and of its columns reversed."""

    def __init__(self, out: Reversed, seen: Reversed | None = None) -> None:
        (rows, axis), (columns, other) = out, seen or ((), 0)
        self._shape = (*rows, *columns)
        self._axes = (axis,) if seen is None else (axis, len(rows) + other)

    def add(self, tensor: Tensor, divisor: float) -> None:
        """Add to `tensor` its mirror image, and divide by `divisor`, in place."""
        tensor.add_(tensor.view(self._shape).flip(self._axes).view_as(tensor)).div_(divisor)


class MirroredLayers:
    """Fully connected layers, and the mirror images of their weights and biases."""

    def __init__(
        self, mirror: Mirror, torsos: Iterable[nn.Module], policy: nn.Linear, value: nn.Linear
    ) -> None:
        """`torsos` are stacks of linear layers over the observation; `policy` and `value` are the heads."""
        self._layers: list[tuple[nn.Linear, _Image, _Image]] = []

        def note(layer: nn.Linear, out: Reversed, seen: Reversed) -> None:
            self._layers.append((layer, _Image(out, seen), _Image(out)))

        for torso in torsos:
            seen: Reversed = (mirror.observation, mirror.axis)
            for layer in torso.modules():
                if isinstance(layer, nn.Linear):
                    units = ((layer.out_features,), 0)
                    note(layer, units, seen)
                    seen = units
        note(policy, (mirror.actions, mirror.action_axis), ((policy.in_features,), 0))
        note(value, ((1,), 0), ((value.in_features,), 0))

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
    tied = settings.torso.kind == "mlp" and settings.memory.kind == "none" and not settings.connectors
    if not tied or settings.value_sees == "all":
        raise BadNetwork(
            f"policy.mirror: found torso '{settings.torso.kind}', memory '{settings.memory.kind}', "
            f"{len(settings.connectors)} connectors and value_sees {settings.value_sees}, expected an mlp "
            "without memory and connectors whose value sees what its seat does; set mirror to null, or "
            "change these"
        )
    if not spec.mirror_fits:
        raise BadNetwork(
            f"policy.mirror: it has {math.prod(mirror.observation)} numbers and {math.prod(mirror.actions)} "
            f"actions, the game has {spec.seen.size} numbers and {spec.action.mask_width or 'no discrete'} "
            "actions, expected the same and discrete actions; correct observation and actions"
        )
    return mirror
