"""Losses, as pure functions of one batch of steps; chosen by name in the config.

A policy loss takes the log-probabilities of the actions taken and their advantages, all [N], and
gives each step's loss [N]; the learner takes the mean. A loss of your own is a `Loss` at
`module:Name`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, NamedTuple

from torch import Tensor

from storage.suggestions import nearest


class LogProbs(NamedTuple):
    """Log-probabilities of the actions that were taken, [N] each."""

    now: Tensor  # under the policy that learns; the only one with a gradient
    acted: Tensor  # under the policy that acted
    anchor: Tensor  # under the policy that ratios are taken to: the target network's, else `acted` itself


PolicyLoss = Callable[[LogProbs, Tensor, float], Tensor]  # log-probabilities, advantage [N], clip -> [N]


@dataclass(frozen=True, slots=True)
class Loss:
    """What moves the policy, and where its advantages and the value's targets come from.

    `vtrace`: corrected for the policies that acted, anew in every update. `gae`: computed once,
    before the epochs, for experience that the present policy made.
    """

    policy: PolicyLoss
    targets: Literal["vtrace", "gae"]


def impala(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """Policy gradient weighted by min(1, pi / mu) (arXiv 1802.01561, section 4.2). No use for `clip`."""
    rho = (log_probs.now.detach() - log_probs.acted).exp().clamp(max=1.0)
    return -(rho * advantage * log_probs.now)


def appo(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """PPO's clipped surrogate (arXiv 1707.06347, equation 7), its ratio taken to the anchor.

    With a target network as the anchor, each step is weighted by how likely the target would have
    acted so, min(1, pi_target / mu), as in IMPACT (arXiv 1912.00167), whose ratio is clipped to
    the target's neighbourhood for the same reason: the workers' policies are old and many.
    """
    weight = (log_probs.anchor - log_probs.acted).exp().clamp(max=1.0)
    ratio = (log_probs.now - log_probs.anchor).exp()
    return -weight * (ratio * advantage).minimum(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def ppo(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """PPO's clipped surrogate (arXiv 1707.06347, equation 7), its ratio taken to the policy that acted."""
    ratio = (log_probs.now - log_probs.acted).exp()
    return -(ratio * advantage).minimum(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


LOSSES: dict[str, Loss] = {
    "appo": Loss(appo, "vtrace"),
    "impala": Loss(impala, "vtrace"),
    "ppo": Loss(ppo, "gae"),
}


def find_loss(name: str) -> Loss:
    """The loss that goes by `name`, or lies at "module:Name". Raises ValueError."""
    if name in LOSSES:
        return LOSSES[name]
    module_name, _, attribute = name.partition(":")
    if not attribute or not module_name:
        near = nearest(name, LOSSES)
        remedy = f"did you mean '{near[0]}'?" if near else f"expected {', '.join(LOSSES)}"
        raise ValueError(f"found '{name}'; {remedy} (or 'module:Name' for your own)")
    try:
        loss = getattr(importlib.import_module(module_name), attribute)
    except ImportError as error:
        raise ValueError(f"'{name}' cannot be imported: {error}") from error
    except AttributeError:
        raise ValueError(f"module '{module_name}' has no '{attribute}'") from None
    if not isinstance(loss, Loss):
        raise ValueError(f"'{name}' is {loss!r}, expected a league.learning.maths.losses.Loss")
    return loss
