"""Stacked: policies of one spec that decide side by side on a GPU, which waits for calls, not for numbers.

The weights of k policies are copied side by side, once in the lifetime of the group, and `torch.func.vmap`
turns each operator of the network into one for all of them: a convolution into one with k groups, a product
into a batched one. The rows of each policy are padded to equal length. Policies with far more rows than the
others decide one after the other, and so do a user's own networks.

Without room for all copies the group goes in blocks of as many policies as there is room for, and copies the
weights of a block at each call: on paper 1.4 ms on an H100 for 2 GiB, where 35 resnets of ten blocks with 128
channels take the host 13 ms to call one by one.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from league.episode import ranges
from league.models.networks.memory import Recurrent
from league.models.networks.networks import build_network
from league.models.policies.policy import Policy, slots_of
from league.models.sending import sent
from league.models.spec import PolicySpec
from league.models.torsos import OwnTorso
from storage.arrays import Indices

FEWEST = 8  # policies with rows; fewer are as fast one by one
CALL_ROWS = 256  # rows of a policy that take a GPU about as long as the calls for them take the host
CALL_CELLS = 2**13  # the same of boards: rows times the cells of each
STACKED_BYTES = 2**31  # of weights that are copied at a time


def can_stack(spec: PolicySpec) -> bool:
    """Return whether policies of this spec decide side by side on a GPU."""
    return not isinstance(spec.settings.torso, OwnTorso)


class StackedGroup:
    """Policies of one spec, on one GPU."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies = policies
        self._device = policies[0].device
        self._call_rows = _call_rows(policies[0].spec)
        size = sum(tensor.nbytes for tensor in policies[0].tensors.values())
        most = min(len(policies), STACKED_BYTES // max(1, size))
        firsts = range(0, len(policies), most) if most >= FEWEST else ()
        self._blocks = [slice(first, first + most) for first in firsts]
        self._stack: list[Tensor] = []  # [k, ...] each, of the only block

    def __call__(self, counts: Indices, seen: Tensor, memory: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return parameters [n, P] and memory [n, S] after a step, of rows on the CPU, `counts` [k] each."""
        starts = np.cumsum(counts) - counts
        alone = counts > 0
        padded, sources = 0, []
        back = np.empty(len(seen), dtype=np.int64)  # place of each row among those that are computed
        for block in self._blocks:
            its = counts[block]
            if longest := self._longest(its):
                beside = np.where(its <= longest, its, 0)
                alone[block] &= beside == 0
                rows = ranges(starts[block], beside)
                places = ranges(np.arange(len(its)) * longest, beside)
                source = np.zeros(len(its) * longest, dtype=np.int64)  # what padding shows does not matter
                source[places], back[rows] = rows, padded + places
                padded += len(source)
                sources.append((block, source))
        others = ranges(starts[alone], counts[alone])
        back[others] = padded + np.arange(len(others))
        tensors = {"seen": seen} if memory is None else {"seen": seen, "memory": memory}
        if sources:
            source = np.concatenate([source for _, source in sources])
            tensors |= {"source": torch.from_numpy(source), "back": torch.from_numpy(back)}
        tensors = sent(tensors, self._device)
        given = [tensors[name] for name in ("seen", "memory") if name in tensors]
        found = []
        if sources:
            lengths = [len(source) for _, source in sources]
            for (block, _), rows in zip(sources, tensors["source"].split(lengths), strict=True):
                k = len(counts[block])
                shown = (part[rows].unflatten(0, (k, -1)) for part in given)
                found.append([part.flatten(0, 1) for part in self._side_by_side(block, *shown)])
        for i in np.flatnonzero(alone).tolist():
            own = [part[starts[i] : starts[i] + counts[i]] for part in given]
            parts = self._policies[i].step(own[0], own[1] if len(own) > 1 else None)
            found.append([part for part in parts if part is not None])
        joined = [torch.cat(parts) if len(parts) > 1 else parts[0] for parts in zip(*found, strict=True)]
        if sources:
            joined = [part[tensors["back"]] for part in joined]
        return joined[0], joined[1] if memory is not None else None

    def _longest(self, counts: Indices) -> int:
        """Return up to how many rows policies go side by side, so that it takes least time; 0: none do."""
        many = np.sort(counts)
        if np.count_nonzero(many) < FEWEST:
            return 0
        alone = np.arange(len(many) - 1, -1, -1)  # policies with more rows than each, if rows differ
        cost = len(many) * many + self._call_rows * alone
        best = int(cost.argmin())
        fewer = np.count_nonzero(many[: best + 1]) < FEWEST
        return 0 if fewer or cost[best] > self._call_rows * np.count_nonzero(many) else int(many[best])

    def _side_by_side(self, block: slice, *shown: Tensor) -> tuple[Tensor, ...]:
        """Return parameters [k, m, P], and memory [k, m, S] if there is any, of m rows of each policy."""
        stack = self._stack
        if not stack:
            stacked = zip(*(policy.in_order() for policy in self._policies[block]), strict=True)
            stack = [torch.stack(tensors) for tensors in stacked]
            if len(self._blocks) == 1:
                self._stack = stack
        return _vmapped(self._policies[0].spec)(stack, *shown)


@functools.lru_cache(maxsize=64)
def _vmapped(spec: PolicySpec) -> Callable[..., tuple[Tensor, ...]]:
    """Return the step of k networks side by side, of tensors [k, ...] and rows [k, m, ...]."""
    with torch.device("meta"):
        network = build_network(spec).eval()
    for layer in network.modules():
        if isinstance(layer, Recurrent):
            layer.step = layer.step_by_formula  # type: ignore[method-assign]  # vmap knows no cells
    slots = list(slots_of(network).values())

    def step(tensors: Sequence[Tensor], seen: Tensor, memory: Tensor | None = None) -> tuple[Tensor, ...]:
        for (holder, key), tensor in zip(slots, tensors, strict=True):
            holder[key] = tensor
        return tuple(part for part in network.step(seen, memory) if part is not None)

    return torch.func.vmap(step)


def _call_rows(spec: PolicySpec) -> int:
    if spec.settings.torso.kind == "mlp":
        return CALL_ROWS
    parts = [part.shape for part in spec.seen.parts] or [spec.seen.shape]
    cells = max(math.prod(sorted(shape)[1:]) for shape in parts if len(shape) == 3)  # planes are the fewest
    return max(1, min(CALL_ROWS, CALL_CELLS // cells))
