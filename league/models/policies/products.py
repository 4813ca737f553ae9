"""Fully connected layers on the CPU, in float32 or, where the processor is faster with it, in bfloat16.

In bfloat16 weights and activations have 8 significant bits; products are summed in float32. The last layer
stays in float32, so that logits have all their digits; so does the first one, unless its inputs are whole
numbers that bfloat16 holds exactly. The log-probabilities that are recorded are those of these very logits,
so that a learner corrects for the policy that acted.

Processors without units for bfloat16 (AVX512-BF16, AMX) are slower with it, so it is measured.

oneDNN prepares a product for the shapes that it is given, which can take longer than the product, and keeps
what it has prepared for 1,024 shapes. Play and learning seldom have as many rows as before, so they are
filled up to one of few lengths (`even`).
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

Layer = tuple[Tensor, Tensor]  # weight [out, in], bias [out]

EXACT = ("bool", "int8", "uint8")  # observations that bfloat16 holds exactly
# From this many multiplications on, oneDNN's fused product with bias and activation is faster than torch's
# own on processors of which that uses half of the vector unit: 2.1 times for 512 rows of 256 by 256. On
# others it is slower. Where equal runs need not have equal bits, it is measured (`fused_pays`).
MUCH_WORK = 2**21
FUSED_PRODUCT = "_linear_pointwise"  # of torch.ops.mkldnn
LEAST_ROWS = 16  # that are computed in bfloat16; a call with fewer is over before it pays
ROUNDS = 5  # of each precision when they are measured
GAIN = 1.1  # times as fast as float32 that bfloat16 has to be

ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"relu": torch.relu_, "tanh": torch.tanh_}


def has_fused_product() -> bool:
    """Return whether this torch has oneDNN's product. It is private, so an upgrade may remove it."""
    return torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, FUSED_PRODUCT)


@functools.cache
def has_bfloat16() -> bool:
    """Return whether oneDNN computes in bfloat16 here; torch itself does everywhere, but slowly."""
    return has_fused_product() and torch.ops.mkldnn._is_mkldnn_bf16_supported()


def step_of(rows: int) -> int:
    """Return what `even` rounds so many rows up to a multiple of: from 128 on, a sixteenth at most."""
    return max(8, 1 << max(0, (rows - 1).bit_length() - 5))


def even(rows: int) -> int:
    """Return the number of rows that so many are filled up to; one is another kind of product, and stays."""
    step = step_of(rows)
    return -(-rows // step) * step if rows > 1 else rows


def through(
    layers: Sequence[Layer], rows: Tensor, n: int, activation: str, *, fused: bool | None = None
) -> Tensor:
    """Return logits [n, choices] of the first n of `rows`, each layer in the precision of its weight.

    `rows` [n to even(n), in]: others than the first n do not count. `fused`: whether layers in float32 go
    through oneDNN's product; `None`: those with MUCH_WORK.
    """
    for weight, bias in layers[:-1]:
        rows = rows.to(weight.dtype)
        if _by_onednn(weight, n, fused):
            if len(rows) < even(n):
                rows = F.pad(rows, (0, 0, 0, even(n) - len(rows)))
            rows = getattr(torch.ops.mkldnn, FUSED_PRODUCT)(rows, weight, bias, activation, [], "")
        else:
            rows = ACTIVATIONS[activation](F.linear(rows[:n], weight, bias))
    weight, bias = layers[-1]
    return F.linear(rows[:n].to(weight.dtype), weight, bias)


def beside(layers: Sequence[Layer], rows: Tensor, activation: str) -> Tensor:
    """Return logits [k, n, choices] of k networks for rows [k, n, in].

    Weights are [k, out, in], biases [k, 1, out].
    """
    for weight, bias in layers[:-1]:
        product = torch.baddbmm(bias, rows.to(weight.dtype), weight.transpose(1, 2))
        rows = ACTIVATIONS[activation](product)
    weight, bias = layers[-1]
    return torch.baddbmm(bias, rows.to(weight.dtype), weight.transpose(1, 2))


def stacked(networks: Sequence[Sequence[Layer]]) -> list[Layer]:
    """Return copies of the layers of k networks side by side, as `beside` takes them."""
    return [
        (torch.stack([weight for weight, _ in layer]), torch.stack([bias for _, bias in layer])[:, None])
        for layer in zip(*networks, strict=True)
    ]


def _by_onednn(weight: Tensor, rows: int, fused: bool | None) -> bool:
    if weight.dtype is torch.bfloat16:
        return has_bfloat16()
    return has_fused_product() and (rows * weight.numel() >= MUCH_WORK if fused is None else fused)


def low_layers(count: int, *, exact: bool) -> range:
    """Return which of `count` layers are in bfloat16: not the last; the first if inputs are `exact`."""
    return range(0 if exact else 1, count - 1)


def lowered(layers: Sequence[Layer], *, exact: bool) -> list[Layer]:
    """Return the layers with weights in bfloat16, but for those that stay as they are (`low_layers`)."""
    low = low_layers(len(layers), exact=exact)
    return [
        (weight.bfloat16(), bias.bfloat16()) if i in low else (weight, bias)
        for i, (weight, bias) in enumerate(layers)
    ]


def gain_beside(sizes: tuple[int, ...], networks: int, rows: int, activation: str, *, exact: bool) -> float:
    """Return how many times as fast networks with `rows` each are side by side in bfloat16 as one by one.

    One by one each is in the precision that `gain` chooses. It is measured once for about so many rows, and 0
    where oneDNN cannot compute in bfloat16.
    """
    if not has_bfloat16():
        return 0.0
    return _measured_beside(sizes, networks, 1 << (rows.bit_length() - 1), activation, exact)


def gain(sizes: tuple[int, ...], rows: int, activation: str, *, exact: bool, copies: bool = True) -> float:
    """Return how many times as fast as float32 bfloat16 is here.

    `sizes`: widths of the layers, from the inputs to the logits; `copies`: whether weights are converted for
    each call. It is measured once for about so many rows, and 0 where oneDNN cannot compute in bfloat16.
    """
    if not has_bfloat16():
        return 0.0
    return _measured(sizes, 1 << (rows.bit_length() - 1), activation, exact, copies)


def fused_pays(sizes: tuple[int, ...], rows: int, activation: str) -> bool:
    """Return whether oneDNN's product is faster here than torch's own in float32, measured as in `gain`."""
    return _measured_fused(sizes, 1 << (rows.bit_length() - 1), activation) > 1.0


def clock_of(device: str) -> Callable[[], float]:
    """Return a clock in seconds for work on a device of that type: that of this thread, if it does all of it.

    Other processes start while it is measured, and take the processor away for a while.
    """
    return time.thread_time if device == "cpu" and torch.get_num_threads() == 1 else time.perf_counter


@functools.lru_cache(maxsize=256)
@torch.no_grad()
def _measured_fused(sizes: tuple[int, ...], rows: int, activation: str) -> float:
    made = torch.Generator().manual_seed(0)
    layers, seen = _random_layers(sizes, made), torch.rand((rows, sizes[0]), generator=made)
    return times_as_fast(
        lambda: through(layers, seen, rows, activation, fused=True),
        lambda: through(layers, seen, rows, activation, fused=False),
    )


@functools.lru_cache(maxsize=256)
@torch.no_grad()
def _measured(sizes: tuple[int, ...], rows: int, activation: str, exact: bool, copies: bool) -> float:
    made = torch.Generator().manual_seed(0)
    layers = _random_layers(sizes, made)
    kept = lowered(layers, exact=exact)
    seen = torch.rand((rows, sizes[0]), generator=made)

    def plain() -> Tensor:
        return through(layers, seen, rows, activation, fused=fused_pays(sizes, rows, activation))

    def low() -> Tensor:
        return through(lowered(layers, exact=exact) if copies else kept, seen, rows, activation)

    return times_as_fast(low, plain)


@functools.lru_cache(maxsize=256)
@torch.no_grad()
def _measured_beside(sizes: tuple[int, ...], networks: int, rows: int, activation: str, exact: bool) -> float:
    made = torch.Generator().manual_seed(0)
    layers = [_random_layers(sizes, made) for _ in range(networks)]
    seen = torch.rand((networks, rows, sizes[0]), generator=made)
    low = [lowered(each, exact=exact) for each in layers]
    copies = stacked(low)
    alone = low if rows >= LEAST_ROWS and gain(sizes, rows, activation, exact=exact) > GAIN else layers

    fused = fused_pays(sizes, rows, activation)

    def one_by_one() -> None:
        for each, its in zip(alone, seen, strict=True):
            through(each, its, rows, activation, fused=fused)

    return times_as_fast(lambda: beside(copies, seen, activation), one_by_one)


def _random_layers(sizes: tuple[int, ...], made: torch.Generator) -> list[Layer]:
    return [
        (torch.rand((out, into), generator=made) / into, torch.zeros(out))
        for into, out in itertools.pairwise(sizes)
    ]


def times_as_fast(
    one: Callable[[], object], other: Callable[[], object], device: str = "cpu", rounds: int = ROUNDS
) -> float:
    """Return how many times as fast `one` is as the `other`, by the fastest of rounds that take turns.

    What disturbs one then disturbs the other. `device`: the type that they compute on.
    """
    best, clock = [float("inf")] * 2, clock_of(device)
    for turn in range(2 * rounds + 2):  # the first of each is a warm-up
        began = clock()
        (one, other)[turn % 2]()
        if device == "cuda":
            torch.cuda.synchronize()
        if turn >= 2:
            best[turn % 2] = min(best[turn % 2], clock() - began)
    return best[1] / best[0]
