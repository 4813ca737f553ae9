"""Losses, terms and holds as they were published.

upgo              the upgoing policy gradient of AlphaStar (doi 10.1038/s41586-019-1724-z, Methods)
neurd             neural replicator dynamics (arXiv 1906.00190), with R-NaD's limits (arXiv 2206.15378)
self_imitation    what went better than expected is done more often (arXiv 1806.05342, equation 2)
diversity         a player is pushed away from the policy that it began with (arXiv 1802.04564, equation 1)

So is the hold of a player to its magnet, a reference policy, which makes self-play settle. Without one it
circles around an equilibrium; with a fixed magnet it arrives at the equilibrium of the game that the hold has
changed (a quantal response equilibrium, if the magnet is uniform); with a magnet that follows the policy it
arrives at one of the game itself.

magnet copy       NashPG (arXiv 2510.18183): KL(policy || reference), the reference copied every so often
magnet reverse    MMD (arXiv 2206.05825), whose magnet is uniform: that is the entropy bonus
magnet reward     R-NaD (arXiv 2206.15378), its transformation of rewards
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeVar

if TYPE_CHECKING:  # settings name losses and terms, and are read without torch
    import numpy as np
    from torch import Tensor

    from league.learning.maths.terms import Steps
    from league.models.networks.distributions import Distribution

    Numbers = TypeVar("Numbers", Tensor, np.ndarray)


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


NEURD_OPTIONS = {"logit_limit": 2.0, "force_limit": 10_000.0}
"""`logit_limit`: distance of a logit from their mean at which it is pushed no further; `force_limit`: size
that the advantage of an action is clipped to. Both as published for R-NaD."""


def neurd(steps: Steps) -> Tensor:
    """Return the loss -sum_a y(a) A(a) [N], with logits y centred at their mean over legal actions.

    The gradient reaches the logits as they are, without the softmax's factor pi(a): an action that is
    hardly played can come back as fast as any other. With exact advantages it is the replicator dynamics,
    that is Hedge. From the action a' that was taken, with advantage d and probability mu(a') when it acted,

        A(a) = d / mu(a') (1[a = a'] - pi(a'))          its mean over a' ~ mu is q(a) - sum_b pi(b) q(b)

    An action whose centred logit is beyond `logit_limit` is not pushed further out. Discrete actions only.
    """
    import torch

    logits = steps.parameters
    legal = steps.mask
    count = legal.sum(1, keepdim=True)
    centred = logits - (logits * legal).sum(1, keepdim=True) / count
    with torch.no_grad():
        policy = logits.masked_fill(~legal, -torch.inf).softmax(1)
        taken = torch.zeros_like(logits).scatter_(1, steps.action.unsqueeze(1), 1.0)
        weight = steps.advantage * (-steps.log_probs.acted).exp()  # d / mu(a')
        share = policy.gather(1, steps.action.unsqueeze(1))
        force = weight.unsqueeze(1) * (taken - share)
        limit = steps.options["force_limit"]
        force = force.clamp(-limit, limit)
        limit = steps.options["logit_limit"]
        allowed = torch.where(force > 0, centred < limit, centred > -limit)
    return -(centred * force * (allowed & legal)).sum(1)


def self_imitation(steps: Steps) -> Tensor:
    """Return -log pi(a) max(R - v, 0) of each step [N].

    R is the target of the value, of the steps of this update; with `learners.replay` also of older ones. The
    advantage has no gradient.
    """
    better = (steps.value_target - steps.value.detach()).clamp(min=0.0)
    return -better * steps.log_probs.now


DIVERSITY_OPTIONS = {"bound": 1.0}  # nats beyond which a step is different enough


def diversity(steps: Steps) -> Tensor:
    """Return -min(KL(reference || pi), bound) of each step [N]: less is more different.

    The reference is what the player began with, or was last reset to. Without the bound the divergence has no
    least value, and a policy could end where the reference's likeliest actions have probability 0.
    """
    assert steps.reference is not None  # the term asks for one
    apart = steps.kl(steps.reference.parameters, steps.parameters)
    return -apart.clamp(max=steps.options["bound"])


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
