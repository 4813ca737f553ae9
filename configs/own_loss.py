"""A loss of your own: appo, and a term that keeps the policy close to the weights that the player began with.

league train configs/own_loss.yaml
"""

from league.learning.maths.losses import Loss, Term, appo


def kl_to_reference(steps):
    """Return KL(reference policy || policy) of each step [N].

    `steps` is a `league.learning.maths.terms.Steps`: everything that the update knows of its steps.
    `[T, B]` is accepted too; steps of padding do not count.
    """
    return steps.kl(steps.reference.parameters, steps.parameters)


KEPT_CLOSE = Loss(
    appo,
    targets="vtrace",
    terms=(Term("reference_kl", kl_to_reference, weight=0.1, reference="initial"),),
)
"""`learner.loss` of `own_loss.yaml`. Its mean is in the table `updates`: `metrics->>'reference_kl'`."""
