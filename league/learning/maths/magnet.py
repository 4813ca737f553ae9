"""Magnet: the reference policy that a learner is held to.

A hold makes self-play settle. Without one it circles around an equilibrium; with a fixed magnet it arrives
at the equilibrium of the game that the hold has changed (a quantal response equilibrium, if the magnet is
uniform); with a magnet that follows the policy it arrives at one of the game itself.

    copy      NashPG (arXiv 2510.18183): KL(policy || reference), the reference copied every so often
    reverse   MMD (arXiv 2206.05825), whose magnet is uniform: that is the entropy bonus
    reward    R-NaD (arXiv 2206.15378), its transformation of rewards
"""

from __future__ import annotations

from typing import Literal, TypeVar

import numpy as np
from torch import Tensor

from league.models.networks.distributions import Distribution

Numbers = TypeVar("Numbers", Tensor, np.ndarray)


def magnet_kl(
    distribution: Distribution,
    policy: Tensor,
    magnet: Tensor,
    mask: Tensor,
    direction: Literal["forward", "reverse"],
) -> Tensor:
    """Return the KL [N] in nats between policies with these parameters, [N, P] each.

    `forward`: KL(magnet || policy), which keeps what the magnet does alive. `reverse`: KL(policy || magnet).
    """
    p, q = (magnet, policy) if direction == "forward" else (policy, magnet)
    return distribution.kl(p, q, mask)


def held_reward(
    reward: Numbers, log_prob: Numbers, magnet_log_prob: Numbers, weight: float | Tensor
) -> Numbers:
    """Return rewards less `weight` (log pi(a) - log magnet(a)), of the actions taken, all [N].

    The mean over actions of what is taken off is the reverse KL. R-NaD (arXiv 2206.15378, Methods) also
    adds the opponent's weighted logarithm, which keeps a two-player game zero-sum. That part is left out: a
    learner has the steps of its own seat alone, and its opponent may be a snapshot or a bot. Without it the
    equilibria are the same in games of one move each, where that part does not depend on the own action; in
    longer games they may differ while the weight is above 0 and the magnet has not arrived.
    """
    return reward - weight * (log_prob - magnet_log_prob)
