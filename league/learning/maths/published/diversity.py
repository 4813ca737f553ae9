"""Diversity: a player is pushed away from the policy that it began with (arXiv 1802.04564, equation 1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:  # settings name terms, and are read without torch
    from torch import Tensor

    from league.learning.maths.terms import Steps

OPTIONS = {"bound": 1.0}  # nats beyond which a step is different enough


def diversity(steps: Steps) -> Tensor:
    """Return -min(KL(reference || pi), bound) of each step [N]: less is more different.

    The reference is what the player began with, or was last reset to. Without the bound the divergence has no
    least value, and a policy could end where the reference's likeliest actions have probability 0.
    """
    assert steps.reference is not None  # the term asks for one
    apart = steps.kl(steps.reference.parameters, steps.parameters)
    return -apart.clamp(max=steps.options["bound"])
