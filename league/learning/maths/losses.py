"""Losses, as pure functions of one batch of steps; chosen by name in the config.

A policy loss maps the log-probabilities of the actions taken and their advantages, all [N], to the
loss of each step [N]. The learner takes the mean. A loss of your own is a `Loss` at `module:Name`; it
may add terms of its own (`league.learning.maths.terms`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from league.import_paths import import_path, is_import_path
from league.learning.maths.terms import LogProbs, Output, Steps, Term
from storage.suggestions import nearest

__all__ = ["LOSSES", "LogProbs", "Loss", "Output", "Steps", "Term", "appo", "find_loss", "impala", "ppo"]

PolicyLoss = Callable[[LogProbs, Tensor, float], Tensor]  # log-probabilities, advantage [N], clip -> [N]


@dataclass(frozen=True, slots=True)
class Loss:
    """Policy loss, source of advantages and value targets, and further terms.

    `vtrace`: advantages are corrected for the policies that acted, again in every update. `gae`: they are
    computed once, before the epochs, for experience that the present policy made. Raises ValueError if
    two terms have one name.
    """

    policy: PolicyLoss
    targets: Literal["vtrace", "gae"]
    terms: tuple[Term, ...] = ()

    def __post_init__(self) -> None:
        for name, count in Counter(term.name for term in self.terms).items():
            if count > 1:
                raise ValueError(f"term '{name}': found {count} terms of this name, expected one")

    @property
    def needs_reference(self) -> bool:
        """True if a term compares with a reference policy."""
        return any(term.reference for term in self.terms)


def impala(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """Return the policy gradient's loss weighted by min(1, pi / mu) (arXiv 1802.01561, section 4.2).

    `clip` is not used.
    """
    rho = (log_probs.now.detach() - log_probs.acted).exp().clamp(max=1.0)
    return -(rho * advantage * log_probs.now)


def appo(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """Return PPO's clipped surrogate (arXiv 1707.06347, equation 7), with the ratio to the anchor.

    With a target network as the anchor, each step is weighted by min(1, pi_target / mu), as in IMPACT
    (arXiv 1912.00167). IMPACT clips the ratio to the target's neighbourhood for the same reason: the
    workers' policies are old and many.
    """
    weight = (log_probs.anchor - log_probs.acted).exp().clamp(max=1.0)
    ratio = (log_probs.now - log_probs.anchor).exp()
    return -weight * (ratio * advantage).minimum(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def ppo(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """Return PPO's clipped surrogate (arXiv 1707.06347, equation 7), its ratio to the policy that acted."""
    ratio = (log_probs.now - log_probs.acted).exp()
    return -(ratio * advantage).minimum(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


LOSSES: dict[str, Loss] = {
    "appo": Loss(appo, "vtrace"),
    "impala": Loss(impala, "vtrace"),
    "ppo": Loss(ppo, "gae"),
}


def find_loss(name: str) -> Loss:
    """Return the loss called `name`, or the one at "module:Name". Raise ValueError if not found."""
    if name in LOSSES:
        return LOSSES[name]
    if not is_import_path(name):
        near = nearest(name, LOSSES)
        remedy = f"did you mean '{near[0]}'?" if near else f"expected {', '.join(LOSSES)}"
        raise ValueError(f"found '{name}'; {remedy} (or 'module:Name' for your own)")
    loss = import_path(name)
    if not isinstance(loss, Loss):
        raise ValueError(f"'{name}' is {loss!r}, expected a league.learning.maths.losses.Loss")
    return loss
