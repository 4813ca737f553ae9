"""PolicyGroup: policies of one spec that decide in one call.

Work by rows (connectors, drawing) is done once for all policies. The networks run one after the other,
with their weights in place. Small plain mlps with few rows each run together instead: the weights of a
block of neighbours are copied side by side, once in the lifetime of the group, and one batched product
per layer serves the block.

Microseconds per row (`python -m tests.bench.policy_groups`) for separate calls, one after the other, and
side by side: 128 networks 84-64-64 with 2 rows each: 21, 8.9, 4.8; 84-256-256 with 8 rows each: 12.8,
8.1, 8.5. In the second case the time goes into reading weights, which copies do not reduce.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor

from league.models.actor import Chosen, Look
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec

BLOCK = 32  # policies in a block with stacked weights
MANY_POLICIES = 16  # policies of a block with rows; with fewer, single calls are as fast
# Limits on the rows and bytes of a policy for stacking. A GPU waits for calls rather than for bytes.
FEW_ROWS = {"cpu": 32, "cuda": 256}
FEW_BYTES = {"cpu": 2**17, "cuda": 2**24}
STACKED_BYTES = 2**27  # of all blocks of a group; further policies run one after the other
# From this many multiplications on, oneDNN's fused product with bias and activation is faster than torch's
# own, which uses half of the vector unit on AMD's processors: 2.1 times for 512 rows of 256 by 256
MUCH_WORK = 2**21
FUSED_PRODUCT = "_linear_pointwise"  # of torch.ops.mkldnn

_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "tanh": torch.tanh_}
Layer = tuple[Tensor, Tensor]  # weight [out, in], bias [out]; stacked: [k, out, in], [k, 1, out]


class PolicyGroup:
    """Policies of one spec, on one device. Memory and reward are the same as in `Policy`."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        self.policies = policies
        self.memory_size = policies[0].memory_size
        self.wants_reward = policies[0].wants_reward
        self._dense = _Dense(policies) if is_dense(policies[0].spec) else None

    def decide(
        self,
        counts: npt.NDArray[np.int64],
        look: Look,
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> Chosen:
        """Decide as `Policy.decide` does, for rows in the order of the policies, `counts` [k] of each."""
        step = functools.partial(self._step, counts)
        return self.policies[0].decide_by(step, look, rng, temperature)

    def _step(
        self, counts: npt.NDArray[np.int64], seen: Tensor, memory: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        if self._dense is not None:
            return self._dense(counts, seen), memory
        sizes = counts.tolist()
        memories = [None] * len(sizes) if memory is None else memory.split(sizes)
        stepped = [
            policy.step(rows, its)
            for policy, rows, its in zip(self.policies, seen.split(sizes), memories, strict=True)
            if len(rows)
        ]
        after = None if memory is None else torch.cat([m for _, m in stepped if m is not None])
        return torch.cat([parameters for parameters, _ in stepped]), after


def is_dense(spec: PolicySpec) -> bool:
    """Return whether fully connected layers alone lead from the observation to the logits."""
    settings = spec.settings
    return (
        settings.architecture == "mlp"
        and settings.memory == "none"
        and spec.action.kind != "continuous"
        and all(connector.kind != "normalise" for connector in settings.connectors)
    )


def _has_fused_product() -> bool:
    """Return whether this torch has oneDNN's product. It is private, so an upgrade may remove it."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, FUSED_PRODUCT)


class _Dense:
    """The logits of rows by the fully connected layers of several policies."""

    def __init__(self, policies: Sequence[Policy]) -> None:
        settings, device = policies[0].spec.settings, policies[0].device.type
        torso = [f"torso.{2 * i}" for i in range(len(settings.hidden))]  # each is followed by its activation
        names = [*torso, "policy_head"]
        self._layers: list[list[Layer]] = [
            [(policy.tensors[f"{name}.weight"], policy.tensors[f"{name}.bias"]) for name in names]
            for policy in policies
        ]
        self._activation = settings.activation
        self._fused = device == "cpu" and _has_fused_product()
        self._few = FEW_ROWS[device]
        size = sum(weight.nbytes + bias.nbytes for weight, bias in self._layers[0])
        self._stackable = min(len(policies), STACKED_BYTES // size) if size <= FEW_BYTES[device] else 0
        self._stacks: dict[int, list[Layer]] = {}  # by the first policy of the block

    def __call__(self, counts: npt.NDArray[np.int64], seen: Tensor) -> Tensor:
        """Return logits [n, choices] for rows [n, *shape], `counts` [k] of each policy in turn."""
        rows = seen.flatten(1).float()
        starts = np.cumsum(counts) - counts
        few = (counts > 0) & (counts <= self._few)
        alone = counts > 0
        logits = rows.new_empty((len(rows), len(self._layers[0][-1][1])))
        for first in range(0, self._stackable, BLOCK):
            block = slice(first, min(first + BLOCK, self._stackable))
            padded = np.where(few[block], counts[block], 0)
            # a row of padding costs a fraction of a call
            active, padding = np.count_nonzero(padded), len(padded) * padded.max() - padded.sum()
            if active >= MANY_POLICIES and padding <= self._few // 2 * active:
                alone[block] &= ~few[block]
                self._side_by_side(block, starts[block], padded, rows, logits)
        for i in np.flatnonzero(alone).tolist():
            own = slice(starts[i], starts[i] + counts[i])
            logits[own] = self._through(self._layers[i], rows[own])
        return logits

    def _through(self, layers: list[Layer], rows: Tensor) -> Tensor:
        """Return logits [n, choices] for rows [n, in]."""
        for weight, bias in layers[:-1]:
            if self._fused and len(rows) * weight.numel() >= MUCH_WORK:
                product = getattr(torch.ops.mkldnn, FUSED_PRODUCT)
                rows = product(rows, weight, bias, self._activation, [], "")
            else:
                rows = _ACTIVATIONS[self._activation](F.linear(rows, weight, bias))
        return F.linear(rows, *layers[-1])

    def _side_by_side(
        self,
        block: slice,
        starts: npt.NDArray[np.int64],
        counts: npt.NDArray[np.int64],
        rows: Tensor,
        logits: Tensor,
    ) -> None:
        """Write the logits of these policies, `counts` rows each from `starts` on, padded to equal length."""
        k, longest = len(counts), int(counts.max())
        policy = np.repeat(np.arange(k), counts)
        within = np.arange(len(policy)) - np.repeat(np.cumsum(counts) - counts, counts)
        taken = torch.from_numpy(starts[policy] + within).to(rows.device)
        place = torch.from_numpy(policy * longest + within).to(rows.device)
        padded = rows.new_zeros((k * longest, rows.shape[1]))
        padded[place] = rows[taken]
        layers, hidden = self._stack(block), padded.view(k, longest, -1)
        for weight, bias in layers[:-1]:
            product = torch.baddbmm(bias, hidden, weight.transpose(1, 2))
            hidden = _ACTIVATIONS[self._activation](product)
        weight, bias = layers[-1]
        hidden = torch.baddbmm(bias, hidden, weight.transpose(1, 2))
        logits[taken] = hidden.flatten(0, 1)[place]

    def _stack(self, block: slice) -> list[Layer]:
        if block.start not in self._stacks:
            self._stacks[block.start] = [
                (
                    torch.stack([weight for weight, _ in layer]),
                    torch.stack([bias for _, bias in layer])[:, None],
                )
                for layer in zip(*self._layers[block], strict=True)
            ]
        return self._stacks[block.start]
