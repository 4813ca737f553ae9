"""NeuRD: neural replicator dynamics (arXiv 1906.00190), with R-NaD's limits (arXiv 2206.15378, Methods)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings name losses and terms, and are read without torch
    from torch import Tensor

    from league.learning.maths.terms import Steps

OPTIONS = {"logit_limit": 2.0, "force_limit": 10_000.0}
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
