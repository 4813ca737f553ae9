"""Losses, as pure functions of one batch of steps; chosen by name in the config.

A policy loss takes the log-probabilities of the actions taken, now and when they were taken, and
V-trace's errors, all [N], and gives a scalar: a mean over steps.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

PolicyLoss = Callable[[Tensor, Tensor, Tensor, float], Tensor]


def impala(log_prob: Tensor, acted_log_prob: Tensor, error: Tensor, clip: float) -> Tensor:
    """Policy gradient weighted by min(1, pi / mu) (arXiv 1802.01561, section 4.2). No use for `clip`."""
    rho = (log_prob.detach() - acted_log_prob).exp().clamp(max=1.0)
    return -(rho * error * log_prob).mean()


def appo(log_prob: Tensor, acted_log_prob: Tensor, error: Tensor, clip: float) -> Tensor:
    """PPO's clipped surrogate (arXiv 1707.06347, equation 7), its ratio taken to the policy that acted."""
    ratio = (log_prob - acted_log_prob).exp()
    return -torch.minimum(ratio * error, ratio.clamp(1.0 - clip, 1.0 + clip) * error).mean()


LOSSES: dict[str, PolicyLoss] = {"impala": impala, "appo": appo}


def entropy(log_probs: Tensor) -> Tensor:
    """Entropy in nats [N] of masked log-probabilities [N, A], where -inf marks illegal actions."""
    # an illegal action adds 0 x -inf, which is NaN unless the infinity is cut first
    return -(log_probs.exp() * log_probs.clamp(min=-1e9)).sum(1)
