"""Dense: the logits of rows by the fully connected layers of several policies.

Networks run one after the other, with their weights in place, or in bfloat16 where that is faster. Small ones
with few rows each run together instead: the weights of a block of neighbours are copied side by side, once
in the lifetime of the group, and one batched product per layer serves the block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.models.policies import products
from league.models.policies.policy import Policy
from league.models.policies.products import ACTIVATIONS, EXACT, LEAST_ROWS, Layer
from league.models.precision import Precision
from league.models.spec import PolicySpec

BLOCK = 32  # policies in a block with stacked weights
MANY_POLICIES = 16  # policies of a block with rows; with fewer, single calls are as fast
# Limits on the rows and bytes of a policy for stacking. A GPU waits for calls rather than for bytes.
FEW_ROWS = {"cpu": 32, "cuda": 256}
FEW_BYTES = {"cpu": 2**17, "cuda": 2**24}
STACKED_BYTES = 2**27  # of all blocks of a group; further policies run one after the other
LOWERED_BYTES = 2**23  # of copies in bfloat16 that a group keeps; further ones are made for each call


def is_dense(spec: PolicySpec) -> bool:
    """Return whether fully connected layers alone lead from the observation to the logits."""
    settings = spec.settings
    return (
        settings.architecture == "mlp"
        and settings.memory == "none"
        and spec.action.kind != "continuous"
        and all(connector.kind != "normalise" for connector in settings.connectors)
    )


def describe(spec: PolicySpec, precision: Precision, rows: int) -> str:
    """Return in one sentence in which precision policies of `spec` play here, with so many rows in a call."""
    if precision == "float32" or not is_dense(spec):
        return "policies play in float32"
    if precision == "bfloat16":
        return "policies play in bfloat16"
    if not products.has_bfloat16():
        return "policies play in float32: this processor has no bfloat16"
    gain = products.gain(_sizes(spec), rows, spec.settings.activation, exact=spec.seen.dtype in EXACT)
    chosen = "bfloat16" if gain > products.GAIN else "float32"
    return f"policies play in {chosen}: bfloat16 is {gain:.1f} times as fast as float32 here"


def _sizes(spec: PolicySpec) -> tuple[int, ...]:
    return (spec.seen.size, *spec.settings.hidden, spec.action.mask_width)


class Dense:
    """The layers of policies of one spec, on one device."""

    def __init__(self, policies: Sequence[Policy], precision: Precision = "float32") -> None:
        """`precision`: of products on the CPU."""
        spec, device = policies[0].spec, policies[0].device.type
        settings = spec.settings
        torso = [f"torso.{2 * i}" for i in range(len(settings.hidden))]  # each is followed by its activation
        names = [*torso, "policy_head"]
        self._layers: list[list[Layer]] = [
            [(policy.tensors[f"{name}.weight"], policy.tensors[f"{name}.bias"]) for name in names]
            for policy in policies
        ]
        self._activation = settings.activation
        self._fused = device == "cpu" and products.has_fused_product()
        self._precision: Precision = precision if device == "cpu" else "float32"
        self._sizes = _sizes(spec)
        self._exact = spec.seen.dtype in EXACT
        self._lowered: dict[int, list[Layer]] = {}  # by policy
        self._lowered_bytes = 0
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
            layers = self._in_precision(i, int(counts[i]))
            logits[own] = products.through(layers, rows[own], self._activation, fused=self._fused)
        return logits

    def _in_precision(self, policy: int, rows: int) -> list[Layer]:
        """Return the layers of a policy, in the precision in which so many rows are computed."""
        layers = self._layers[policy]
        if self._precision == "float32" or rows < LEAST_ROWS:
            return layers
        if self._precision == "auto":
            gain = products.gain(self._sizes, rows, self._activation, exact=self._exact)
            if gain <= products.GAIN:
                return layers
        if policy in self._lowered:
            return self._lowered[policy]
        low = products.lowered(layers, exact=self._exact)
        size = sum(weight.nbytes for weight, _ in low if weight.dtype is torch.bfloat16)
        if self._lowered_bytes + size <= LOWERED_BYTES:
            self._lowered[policy] = low
            self._lowered_bytes += size
        return low

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
            hidden = ACTIVATIONS[self._activation](product)
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
