"""What goes into a portable policy and comes out of it, whatever the format of its file.

Inputs, those that the policy needs, in this order:

    observation   [n, *shape], as the game shows it
    mask          [n, A] bool, the legal choices; none where there are only real numbers
    noise         [n, A + d]: standard Gumbel for choices, standard normal for real numbers: draws an action.
                  Zeros: the likeliest choices, and the means. Noise times T: temperature T
    state         [n, S], zeros when a match begins, then the output `next_state` of the seat's last decision
    reward        [n], since the seat's last decision
    draw          [n] within [0, 1), of a mixture: chooses the member that plays, when a match begins

Outputs: `logits` [n, A] (illegal ones NEVER), if there are choices; `mean` and `log_std` [n, d], if there
are real numbers; `value` [n]; `action` [n, *shape], as the game takes it; `next_state` [n, S].
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec, ObservationSpec
from storage.arrays import Floats32

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
    given = [Value("observation", observation.dtype, observation.shape)]
    if action.sizes:
        given.append(Value("mask", "bool", (action.mask_width,)))
    given.append(Value("noise", "float32", (action.width,)))
    if size:
        given.append(Value("state", "float32", (size,)))
    if wants_reward:
        given.append(Value("reward", "float32", ()))
    if mixed:
        given.append(Value("draw", "float32", ()))
    return tuple(given)


def outputs_of(action: ActionSpec, size: int) -> tuple[Value, ...]:
    """Return the outputs of a policy with `size` floats of memory."""
    found = [Value("logits", "float32", (action.mask_width,))] if action.sizes else []
    found += [Value(name, "float32", (len(action.low),)) for name in ("mean", "log_std") if action.low]
    found += [Value("value", "float32", ()), Value("action", np.dtype(action.dtype).name, action.shape)]
    return (*found, Value("next_state", "float32", (size,))) if size else tuple(found)


def examples(inputs: tuple[Value, ...], n: int) -> tuple[npt.NDArray, ...]:
    """Return n rows of each input: zeros, and masks that allow everything."""
    return tuple(
        (np.ones if value.name == "mask" else np.zeros)((n, *value.shape), dtype=value.dtype)
        for value in inputs
    )


def noise_of(action: ActionSpec, n: int, rng: np.random.Generator) -> Floats32:
    """Return noise for n decisions at temperature 1."""
    gumbel, normal = rng.gumbel(size=(n, action.mask_width)), rng.standard_normal((n, len(action.low)))
    return np.concatenate([gumbel, normal], axis=1).astype(np.float32)


def largest_difference(one: npt.NDArray, other: npt.NDArray) -> float:
    """Return the largest absolute difference of two arrays; infinite where only one of two is NaN."""
    both = np.isnan(one) & np.isnan(other)
    gap = np.where(both, 0.0, np.abs(one.astype(np.float64) - other.astype(np.float64)))
    return float(np.nan_to_num(gap, nan=math.inf).max(initial=0.0))
