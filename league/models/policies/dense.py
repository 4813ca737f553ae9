"""Dense: the logits of rows by the fully connected layers of several policies.

Networks run one after the other, with their weights in place, or in bfloat16 where that is faster. Those with
few rows each run together instead, small ones, or larger ones in bfloat16: the weights of a block of
neighbours are copied side by side, once in the lifetime of the group, and one batched product per layer
serves the block.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from league.models.policies import products
from league.models.policies.policy import Policy, Tensors
from league.models.policies.products import EXACT, LEAST_ROWS, Layer
from league.models.spec import PolicySpec, Precision
from storage.arrays import Indices

BLOCK = 32  # policies in a block with stacked weights
MANY_POLICIES = 16  # policies of a block with rows; with fewer, single calls are as fast
FEW_ROWS, FEW_BYTES = 32, 2**17  # limits on the rows and bytes of a policy for stacking
# The same of policies that are stacked in bfloat16, where that is measured to be faster: reading weights is
# what takes the time, and these copies are half as large.
FEW_ROWS_LOW, FEW_BYTES_LOW = 64, 2**20
STACKED_BYTES = 2**27  # of all blocks of a group; further policies run one after the other
LOWERED_BYTES = 2**23  # of its own copies in bfloat16 that a group keeps; others are made for each call


def is_dense(spec: PolicySpec) -> bool:
    """Return whether fully connected layers alone lead from the observation to the logits."""
    settings = spec.settings
    return (
        settings.torso.kind == "mlp"
        and settings.memory.kind == "none"
        and not spec.action.low
        and all(connector.kind != "normalise" for connector in settings.connectors)
    )


def may_stack(spec: PolicySpec, size: int, precision: Precision) -> bool:
    """Return whether policies of `spec`, with so many bytes of weights each, may be copied side by side."""
    low = precision == "bfloat16" or (precision == "auto" and products.has_bfloat16())
    return is_dense(spec) and size <= (FEW_BYTES_LOW if low else FEW_BYTES)


def describe(spec: PolicySpec, precision: Precision, rows: int, device: str = "cpu") -> str:
    """Return in one sentence in which precision policies of `spec` play, with so many rows in a call.

    `device`: that of runners; bfloat16 is measured on this CPU.
    """
    if device != "cpu":
        return f"policies play in {'tf32' if precision == 'tf32' else 'float32'}, on GPUs"
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


def _layer(tensors: Tensors, name: str) -> Layer:
    return tensors[f"{name}.weight"], tensors[f"{name}.bias"]


class DenseGroup:
    """The layers of policies of one spec, on the CPU."""

    def __init__(self, policies: Sequence[Policy], precision: Precision = "float32") -> None:
        """`precision`: of products."""
        spec = policies[0].spec
        settings = spec.settings
        torso = [f"torso.{2 * i}" for i in range(len(settings.hidden))]  # each is followed by its activation
        names = [*torso, "policy_head"]
        self._policies, self._names = policies, names
        self._layers: list[list[Layer]] = [
            [_layer(policy.tensors, name) for name in names] for policy in policies
        ]
        self._activation = settings.activation
        self._precision: Precision = precision
        self._sizes = _sizes(spec)
        self._exact = spec.seen.dtype in EXACT
        self._low_names = [names[i] for i in products.low_layers(len(names), exact=self._exact)]
        if not self._low_names:
            self._precision = "float32"
        self._lowered: dict[int, list[Layer]] = {}  # by policy
        self._lowered_bytes = 0
        size = sum(weight.nbytes + bias.nbytes for weight, bias in self._layers[0])
        # ways of stacking: whether in bfloat16, and up to how many rows each
        self._ways: list[tuple[bool, int]] = []
        low = self._precision == "bfloat16" or (self._precision == "auto" and products.has_bfloat16())
        if size <= FEW_BYTES_LOW and low:
            self._ways.append((True, FEW_ROWS_LOW))
        if size <= FEW_BYTES:
            self._ways.append((False, FEW_ROWS))
        self._stackable = min(len(policies), STACKED_BYTES // size) if self._ways else 0
        # by the first policy of the block, and whether in bfloat16
        self._stacks: dict[tuple[int, bool], list[Layer]] = {}

    def __call__(self, counts: Indices, seen: Tensor) -> Tensor:
        """Return logits [n, choices] for rows [n, *shape], `counts` [k] of each policy in turn."""
        n, flat = len(seen), seen.flatten(1)
        rows = torch.empty((n + products.step_of(n), flat.shape[1]))  # the last ones to fill up with
        rows[:n], rows[n:] = flat, 0.0
        starts = np.cumsum(counts) - counts
        alone = counts > 0
        logits = rows.new_empty((n, len(self._layers[0][-1][1])))
        for first in range(0, self._stackable, BLOCK):
            block = slice(first, min(first + BLOCK, self._stackable))
            for low, most in self._ways:
                few = np.where(counts[block] <= most, counts[block], 0)
                if self._pays(few, low, most):
                    alone[block] &= few == 0
                    self._side_by_side(block, low, starts[block], few, rows, logits)
                    break
        for i in np.flatnonzero(alone).tolist():
            start, count = int(starts[i]), int(counts[i])
            layers = self._in_precision(i, count)
            own = rows[start : start + products.even(count)]
            fused = None
            if self._precision == "auto":
                fused = products.fused_pays(self._sizes, count, self._activation)
            found = products.through(layers, own, count, self._activation, fused=fused)
            logits[start : start + count] = found
        return logits

    def _pays(self, counts: Indices, low: bool, most: int) -> bool:
        """Return whether a block with so many rows of each policy is faster side by side than one by one."""
        active, longest = np.count_nonzero(counts), int(counts.max())
        # a row of padding costs a fraction of a call
        if active < MANY_POLICIES or len(counts) * longest - counts.sum() > most // 2 * active:
            return False
        if not low or self._precision == "bfloat16":
            return True
        found = products.gain_beside(self._sizes, BLOCK, longest, self._activation, exact=self._exact)
        return found > products.GAIN

    def _in_precision(self, policy: int, rows: int) -> list[Layer]:
        """Return the layers of a policy, in the precision in which so many rows are computed."""
        layers = self._layers[policy]
        if self._precision == "float32" or rows < LEAST_ROWS:
            return layers
        if self._precision == "auto":
            copies = not self._policies[policy].shares
            gain = products.gain(self._sizes, rows, self._activation, exact=self._exact, copies=copies)
            if gain <= products.GAIN:
                return layers
        if policy in self._lowered:
            return self._lowered[policy]
        low, shared = self._low(policy)
        size = 0 if shared else sum(weight.nbytes for weight, _ in low if weight.dtype is torch.bfloat16)
        if self._lowered_bytes + size <= LOWERED_BYTES:
            self._lowered[policy] = low
            self._lowered_bytes += size
        return low

    def _low(self, policy: int) -> tuple[list[Layer], bool]:
        """Return the layers of a policy with weights in bfloat16, and whether the node shares these."""
        low = self._low_names
        wanted = [f"{name}.{part}" for name in low for part in ("weight", "bias")]
        tensors, shared = self._policies[policy].in_bfloat16(wanted)
        layers = zip(self._names, self._layers[policy], strict=True)
        return [_layer(tensors, name) if name in low else layer for name, layer in layers], shared

    def _side_by_side(
        self, block: slice, low: bool, starts: Indices, counts: Indices, rows: Tensor, logits: Tensor
    ) -> None:
        """Write the logits of these policies, `counts` rows each from `starts` on, padded to equal length."""
        k, longest = len(counts), int(counts.max())
        policy = np.repeat(np.arange(k), counts)
        within = np.arange(len(policy)) - np.repeat(np.cumsum(counts) - counts, counts)
        taken = torch.from_numpy(starts[policy] + within)
        place = torch.from_numpy(policy * longest + within)
        padded = rows.new_zeros((k * longest, rows.shape[1]))
        padded[place] = rows[taken]
        found = products.beside(self._stack(block, low), padded.view(k, longest, -1), self._activation)
        logits[taken] = found.flatten(0, 1)[place]

    def _stack(self, block: slice, low: bool) -> list[Layer]:
        key = block.start, low
        if key not in self._stacks:
            members = range(len(self._layers))[block]
            networks = [self._low(i)[0] if low else self._layers[i] for i in members]
            self._stacks[key] = products.stacked(networks)
        return self._stacks[key]
