"""Advantages and value targets: generalised advantage estimation, and V-trace for off-policy experience."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from league.episode import Episodes, ranges
from storage.arrays import Floats32, Indices

SMALLEST_DEVIATION = 1e-8  # of advantages that are all alike


class GAE(NamedTuple):
    """Advantages and value targets, both [N], float32."""

    advantage: Floats32
    value_target: Floats32  # advantage + value: the lambda-return


def gae(
    v_tm1: npt.NDArray,
    v_t: npt.NDArray,
    r_t: npt.NDArray,
    discount_t: npt.NDArray,
    offset: Indices,
    *,
    lambda_: float,
) -> GAE:
    """Return the GAE (arXiv 1506.02438, equation 16) of N steps, those of episode e from offset[e] on.

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
    """Return the GAE of all steps; `value` [N + K]: of the observations, then of the bootstraps.

    It goes on from an episode to the next one of the same match and seat, where the match `goes_on`.
    """
    n, last = episodes.num_steps, episodes.offset[1:] - 1
    following = np.append(value[1:n], value.dtype.type(0.0))
    following[last[episodes.terminated]] = 0.0
    following[last[~episodes.terminated]] = value[n:]
    discounts = np.full(n, discount)
    discounts[last[episodes.terminated]] = 0.0
    if episodes.goes_on is None or not episodes.goes_on.any():
        return gae(value[:n], following, episodes.reward, discounts, episodes.offset, lambda_=lambda_)
    order, offset = _in_time(episodes)
    found = np.empty((2, n), dtype=np.float32)
    found[:, order] = gae(
        value[order], following[order], episodes.reward[order], discounts[order], offset, lambda_=lambda_
    )
    return GAE(*found)


def normalised(advantage: Tensor) -> Tensor:
    """Return advantages [N], one or more, with mean 0 and deviation 1."""
    exact = advantage.double()
    mean, square = torch.stack([exact.sum(), exact.square().sum()]) / len(exact)
    deviation = (square - mean.square()).clamp(min=0.0).sqrt()
    return ((exact - mean) / (deviation + SMALLEST_DEVIATION)).float()


def _in_time(episodes: Episodes) -> tuple[Indices, Indices]:
    """Return the rows of all steps [N], match by match, and the offsets of what is known without a gap."""
    assert episodes.goes_on is not None
    by_match = np.lexsort((episodes.seat, episodes.match_id))  # stable: in order of time
    match, seat = episodes.match_id[by_match], episodes.seat[by_match]
    length = np.diff(episodes.offset)[by_match]
    joined = episodes.goes_on[by_match][:-1] & (match[1:] == match[:-1]) & (seat[1:] == seat[:-1])
    ends = np.cumsum(length)[np.append(~joined, True)]
    return ranges(episodes.offset[:-1][by_match], length), np.concatenate([[0], ends])


class VTrace(NamedTuple):
    """Value targets and errors, [T, B] each, without gradient."""

    vs: Tensor  # value targets
    error: Tensor  # r_t + gamma vs_t+1 - v(x_t): the advantage, before any weight by rho


def vtrace(
    v_tm1: Tensor,
    v_t: Tensor,
    r_t: Tensor,
    discount_t: Tensor,
    rho_tm1: Tensor,
    *,
    lambda_: float = 1.0,
    clip_rho: float = 1.0,
    clip_c: float = 1.0,
) -> VTrace:
    """Return V-trace (IMPALA, arXiv 1802.01561, section 4.1) of T steps of B sequences, time first.

    `v_tm1`, `v_t` [T, B]: values before and after each step; after the last step of a truncated
    sequence `v_t` is the bootstrap value. `r_t`, `discount_t` [T, B]: reward and discount after the
    step; the discount is 0 where the match terminated. `rho_tm1` [T, B]: pi(a|x) / mu(a|x), not yet clipped.
    A sequence may be padded at its end with steps whose reward, discount and values are all 0.

        delta_t = rho_t (r_t + gamma v(x_t+1) - v(x_t))
        vs_t    = v(x_t) + delta_t + gamma c_t (vs_t+1 - v(x_t+1)),   c_t = lambda min(clip_c, rho)
        error_t = r_t + gamma vs_t+1 - v(x_t)                         (equation 1 and section 4.2)

    At lambda < 1 the error bootstraps from the same mixture: lambda vs + (1 - lambda) v. Raise ValueError
    if shapes differ.
    """
    if not v_tm1.shape == v_t.shape == r_t.shape == discount_t.shape == rho_tm1.shape or v_tm1.dim() != 2:
        shapes = [tuple(x.shape) for x in (v_tm1, v_t, r_t, discount_t, rho_tm1)]
        raise ValueError(f"vtrace: shapes are {shapes}, expected five equal [T, B]")
    with torch.no_grad():
        rho = rho_tm1.clamp(max=clip_rho)
        c = lambda_ * rho_tm1.clamp(max=clip_c)
        delta = rho * (r_t + discount_t * v_t - v_tm1)
        correction = _discounted_sums(delta, discount_t * c)  # vs - v
        # no correction after the last step: vs there is the bootstrap value itself
        next_correction = torch.cat([correction[1:], torch.zeros_like(correction[:1])])
        error = r_t + discount_t * (v_t + lambda_ * next_correction) - v_tm1
    return VTrace(v_tm1 + correction, error)


def _discounted_sums(x: Tensor, decay: Tensor) -> Tensor:
    """Return y_t = x_t + decay_t y_t+1 along the first axis, with y = 0 behind the last.

    Doubling turns sums over k steps into sums over 2 k, in log2(T) rounds instead of T.
    """
    reach = 1
    while reach < len(x):
        x = torch.cat([torch.addcmul(x[:-reach], decay[: len(x) - reach], x[reach:]), x[-reach:]])
        decay = decay[:-reach] * decay[reach:]  # over twice the reach, where that many steps are left
        reach *= 2
    return x
