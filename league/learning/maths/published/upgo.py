"""UPGO: the upgoing policy gradient of AlphaStar (doi 10.1038/s41586-019-1724-z, Methods)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings name losses and terms, and are read without torch
    from torch import Tensor

    from league.learning.maths.terms import Steps


def upgo(steps: Steps) -> Tensor:
    """Return the loss -rho (G - v) log pi [T, B] of each step.

        G_t = r_t + gamma G_t+1        if r_t+1 + gamma v_t+2 >= v_t+1: the next step did as well as expected
        G_t = r_t + gamma v_t+1        otherwise, and at the end of a sequence

    Play that does better than the value expects is followed to its end; play that does worse is cut short
    there and bootstrapped. rho = min(1, pi / mu) corrects for the policy that acted.
    """
    import torch

    with torch.no_grad():
        value = steps.in_time(steps.value)
        returns = upgoing_returns(
            steps.in_time(steps.reward),
            value,
            steps.in_time(steps.next_value),
            steps.in_time(steps.discount),
            steps.valid,
        )
        rho = (steps.log_probs.now - steps.log_probs.acted).exp().clamp(max=1.0)
    return -steps.in_time(rho) * (returns - value) * steps.in_time(steps.log_probs.now)


def upgoing_returns(r_t: Tensor, v_tm1: Tensor, v_t: Tensor, discount_t: Tensor, valid: Tensor) -> Tensor:
    """Return G for T steps of B sequences, [T, B], time first.

    `v_tm1`, `v_t` [T, B]: values before and after each step. `r_t`, `discount_t` [T, B]: reward and discount
    after the step; the discount is 0 where the match terminated. `valid` [T, B] bool: False for padding,
    which is at the end of sequences. Raise ValueError if shapes differ.
    """
    if not r_t.shape == v_tm1.shape == v_t.shape == discount_t.shape == valid.shape or r_t.dim() != 2:
        shapes = [tuple(x.shape) for x in (r_t, v_tm1, v_t, discount_t, valid)]
        raise ValueError(f"upgo: shapes are {shapes}, expected five equal [T, B]")
    import torch

    goes_on = (r_t + discount_t * v_t >= v_tm1) & valid  # whether returns before this step include its own
    returns = r_t + discount_t * v_t
    for t in range(len(r_t) - 2, -1, -1):
        following = torch.where(goes_on[t + 1], returns[t + 1], v_t[t])
        returns[t] = r_t[t] + discount_t[t] * following
    return returns
