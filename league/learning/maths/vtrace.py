"""V-trace: off-policy corrected values and advantages (IMPALA, arXiv 1802.01561, section 4.1)."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


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
    """Return targets and errors for T steps of B sequences, time first.

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
