"""Generalised advantage estimation (arXiv 1506.02438, equation 16)."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.episode import Episodes


class GAE(NamedTuple):
    """Advantages and value targets, both [N], float32."""

    advantage: npt.NDArray[np.float32]
    value_target: npt.NDArray[np.float32]  # advantage + value: the lambda-return


def gae(
    v_tm1: npt.NDArray,
    v_t: npt.NDArray,
    r_t: npt.NDArray,
    discount_t: npt.NDArray,
    offset: npt.NDArray[np.int64],
    *,
    lambda_: float,
) -> GAE:
    """Return advantages and value targets of N steps; episode e has steps offset[e] : offset[e + 1].

    `v_tm1`, `v_t` [N]: values before and after each step; after the last step of a truncated
    episode `v_t` is the bootstrap value. `r_t`, `discount_t` [N]: reward and discount after the step; the
    discount is 0 where the match terminated. An episode has one step or more. Raise ValueError if
    shapes differ.

        delta_t = r_t + gamma v(x_t+1) - v(x_t)
        A_t     = delta_t + gamma lambda A_t+1          (0 after an episode's last step)
    """
    if not v_tm1.shape == v_t.shape == r_t.shape == discount_t.shape == (int(offset[-1]),):
        shapes = [x.shape for x in (v_tm1, v_t, r_t, discount_t)]
        raise ValueError(f"gae: shapes are {shapes}, expected four times [{int(offset[-1])}]")
    value = v_tm1.astype(np.float64)
    advantage = r_t + discount_t.astype(np.float64) * v_t - value  # delta, to be summed up in place
    decay = lambda_ * discount_t.astype(np.float64)
    length = np.diff(offset)
    order = np.argsort(-length, kind="stable")
    last = offset[1:][order] - 1  # of the longest episodes first
    # at each distance from the end, only the episodes that are long enough count
    counts = len(length) - np.searchsorted(np.sort(length), np.arange(length.max(initial=0)), side="right")
    for back, count in enumerate(counts[1:], start=1):
        row = last[:count] - back
        advantage[row] += decay[row] * advantage[row + 1]
    return GAE(advantage.astype(np.float32), (advantage + value).astype(np.float32))


def advantages(episodes: Episodes, value: npt.NDArray, *, discount: float, lambda_: float) -> GAE:
    """Return the GAE of all steps; `value` [N + K]: of the observations, then of the bootstraps."""
    n, last = episodes.num_steps, episodes.offset[1:] - 1
    following = np.append(value[1:n], value.dtype.type(0.0))
    following[last[episodes.terminated]] = 0.0
    following[last[~episodes.terminated]] = value[n:]
    discounts = np.full(n, discount)
    discounts[last[episodes.terminated]] = 0.0
    return gae(value[:n], following, episodes.reward, discounts, episodes.offset, lambda_=lambda_)
