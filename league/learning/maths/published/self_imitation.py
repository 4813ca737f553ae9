"""Self-imitation: what went better than expected is done more often (arXiv 1806.05342, equation 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings name terms, and are read without torch
    from torch import Tensor

    from league.learning.maths.terms import Steps


def self_imitation(steps: Steps) -> Tensor:
    """Return -log pi(a) max(R - v, 0) of each step [N].

    R is the target of the value, of the steps of this update; with `learner.replay` also of older ones. The
    advantage has no gradient.
    """
    better = (steps.value_target - steps.value.detach()).clamp(min=0.0)
    return -better * steps.log_probs.now
