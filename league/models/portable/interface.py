"""What goes into a portable policy and comes out of it, whatever the format of its file.

Inputs, those that the policy needs, in this order:

    observation   [n, *shape], as the game shows it
    mask          [n, A] bool, the legal actions; none for continuous actions
    noise         [n, A] standard Gumbel, [n, d] standard normal for continuous actions: draws an action.
                  Zeros: the likeliest action, or the mean. Noise times T: temperature T
    state         [n, S], zeros when a match begins, then the output `next_state` of the seat's last decision
    reward        [n], since the seat's last decision
    draw          [n] within [0, 1), of a mixture: chooses the member that plays, when a match begins

Outputs: `logits` [n, A] (illegal ones NEVER), or `mean` and `log_std` [n, d]; `value` [n]; `action`
[n, *shape], as the game takes it; `next_state` [n, S].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec, ObservationSpec

CARD = "league.json"  # the name of what a file says of itself
NEVER = -1e30  # logit of an illegal action: finite, so that sums with it are numbers


class Value(NamedTuple):
    """An input or output: its name, and the type and shape of one row."""

    name: str
    dtype: str
    shape: tuple[int, ...]


def inputs_of(
    observation: ObservationSpec, action: ActionSpec, size: int, wants_reward: bool, mixed: bool
) -> tuple[Value, ...]:
    """Return the inputs of a policy with `size` floats of memory; `mixed`: of a mixture."""
    width = action.mask_width or len(action.low)
    given = [Value("observation", observation.dtype, observation.shape)]
    if action.kind != "continuous":
        given.append(Value("mask", "bool", (width,)))
    given.append(Value("noise", "float32", (width,)))
    if size:
        given.append(Value("state", "float32", (size,)))
    if wants_reward:
        given.append(Value("reward", "float32", ()))
    if mixed:
        given.append(Value("draw", "float32", ()))
    return tuple(given)


def outputs_of(action: ActionSpec, size: int) -> tuple[Value, ...]:
    """Return the outputs of a policy with `size` floats of memory."""
    width = action.mask_width or len(action.low)
    names = ("mean", "log_std") if action.kind == "continuous" else ("logits",)
    found = [Value(name, "float32", (width,)) for name in names]
    found += [Value("value", "float32", ()), Value("action", np.dtype(action.dtype).name, action.shape)]
    return (*found, Value("next_state", "float32", (size,))) if size else tuple(found)


def examples(inputs: tuple[Value, ...], n: int) -> tuple[npt.NDArray, ...]:
    """Return n rows of each input: zeros, and masks that allow everything."""
    return tuple(
        (np.ones if value.name == "mask" else np.zeros)((n, *value.shape), dtype=value.dtype)
        for value in inputs
    )


def noise_of(action: ActionSpec, n: int, rng: np.random.Generator) -> npt.NDArray[np.float32]:
    """Return noise for n decisions at temperature 1."""
    if action.kind == "continuous":
        return rng.standard_normal((n, len(action.low))).astype(np.float32)
    return rng.gumbel(size=(n, action.mask_width)).astype(np.float32)


def largest_difference(one: npt.NDArray, other: npt.NDArray) -> float:
    """Return the largest absolute difference of two arrays; infinite where only one of two is NaN."""
    both = np.isnan(one) & np.isnan(other)
    gap = np.where(both, 0.0, np.abs(one.astype(np.float64) - other.astype(np.float64)))
    return float(np.nan_to_num(gap, nan=math.inf).max(initial=0.0))
