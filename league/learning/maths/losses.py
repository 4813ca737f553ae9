"""Losses, as pure functions of one batch of steps; chosen by name in the config.

A policy loss maps the log-probabilities of the actions taken and their advantages, all [N], to the
loss of each step [N]. The learner takes the mean. A loss of your own is a `Loss` at `module:Name`; it
may add terms of its own (`league.learning.maths.terms`), and have options that a config sets.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, TypeAlias, TypeVar, get_args

from league.import_paths import import_path, is_import_path
from league.learning.maths import published
from league.learning.maths.terms import (
    LogProbs,
    Options,
    Output,
    OwnBatch,
    Steps,
    Term,
    checked_options,
    with_options,
)
from storage.errors import Mistake
from storage.suggestions import nearest

if TYPE_CHECKING:  # settings name losses, and are read without torch
    from torch import Tensor

    from league.models.spec import PolicySpec

__all__ = ["LogProbs", "Output", "OwnBatch", "Steps", "Term"]  # beside what is defined here

PolicyLoss: TypeAlias = (
    "Callable[..., Tensor]"  # (log-probabilities, advantage [N], clip, **options) or (steps) -> [N]
)
Part = TypeVar("Part")  # of a loss that a config names
Kind = Literal["discrete", "multi_discrete", "continuous", "joint"]


@dataclass(frozen=True, slots=True)
class Loss:
    """Policy loss, source of advantages and value targets, and further terms.

    `vtrace`: advantages are corrected for the policies that acted, again in every update. `gae`: they are
    computed once, before the epochs, for experience that the present policy made. `none`: there are none, and
    the policy loss is the whole loss, for `sees="batch"`.

    `options` are numbers or schedules with defaults, which a config may set (beside the loss).
    `sees`: what the policy loss is called with.

        log_probs   (log_probs, advantage, clip, **options), options by their names
        steps       (steps): all that is known of the steps, with options in `steps.options`
        batch       (batch): the tensors of the batch, those that a program brings or those of episodes, and
                    the networks to call with them (`OwnBatch`); returns a loss for each row [N]

    `actions`: kinds of actions that it is for. Raises ValueError if two terms have one name, and for an
    option that is no number.
    """

    policy: PolicyLoss
    targets: Literal["vtrace", "gae", "none"]
    terms: tuple[Term, ...] = ()
    options: Options = field(default_factory=dict)
    sees: Literal["log_probs", "steps", "batch"] = "log_probs"
    actions: tuple[Kind, ...] = get_args(Kind)

    def __post_init__(self) -> None:
        if self.sees not in ("log_probs", "steps", "batch"):
            raise ValueError(f"loss: found sees '{self.sees}', expected 'log_probs', 'steps' or 'batch'")
        if (self.sees == "batch") != (self.targets == "none"):
            raise ValueError(
                f"loss: found sees '{self.sees}' with targets '{self.targets}', expected targets 'none' with "
                "sees 'batch', and 'vtrace' or 'gae' else"
            )
        if self.sees == "batch" and self.terms:
            raise ValueError("loss: found terms with sees 'batch', expected none; add them in the function")
        object.__setattr__(self, "options", checked_options("loss", self.options))
        for name, count in Counter(term.name for term in self.terms).items():
            if count > 1:
                raise ValueError(f"term '{name}': found {count} terms of this name, expected one")

    @property
    def needs_reference(self) -> bool:
        """True if a term compares with a reference policy."""
        return any(term.reference for term in self.terms)

    @property
    def needs_steps(self) -> bool:
        """True if something is computed from all that is known of a player's steps."""
        return bool(self.terms) or self.sees == "steps"

    def composed(self, name: str, options: Options, terms: Mapping[str, tuple[str, Options]]) -> Loss:
        """Return the loss, called `name`, with other options and further terms.

        `terms`: name or path of each, with its weight and options, by its name in the config. Raise
        ValueError for a term or an option that does not exist.
        """
        try:
            changed = with_options(f"loss '{name}'", self.options, options)
        except ValueError as error:
            raise ValueError(f"loss.{error}") from None
        added = []
        for key, (term, settings) in terms.items():
            if is_import_path(key):
                raise ValueError(
                    f"terms: found '{key}' as a name; choose a name of your own: mine: {{use: {key}, ...}}"
                )
            try:
                added.append(find_term(term).changed(settings))
            except ValueError as error:
                raise ValueError(f"terms: {error}") from None
        return replace(self, options=changed, terms=(*self.terms, *added))


CLIP_RHO = {"clip_rho": 1.0}


def impala(log_probs: LogProbs, advantage: Tensor, clip: float, clip_rho: float = 1.0) -> Tensor:
    """Return the policy gradient's loss weighted by min(clip_rho, pi / mu) (arXiv 1802.01561, section 4.2).

    `clip` is not used.
    """
    rho = (log_probs.now.detach() - log_probs.acted).exp().clamp(max=clip_rho)
    return -(rho * advantage * log_probs.now)


def appo(log_probs: LogProbs, advantage: Tensor, clip: float, clip_rho: float = 1.0) -> Tensor:
    """Return PPO's clipped surrogate (arXiv 1707.06347, equation 7), with the ratio to the anchor.

    With a target network as the anchor, each step is weighted by min(clip_rho, pi_target / mu), as in IMPACT
    (arXiv 1912.00167). IMPACT clips the ratio to the target's neighbourhood for the same reason: the
    workers' policies are old and many.
    """
    weight = (log_probs.anchor - log_probs.acted).exp().clamp(max=clip_rho)
    ratio = (log_probs.now - log_probs.anchor).exp()
    return -weight * (ratio * advantage).minimum(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


def ppo(log_probs: LogProbs, advantage: Tensor, clip: float) -> Tensor:
    """Return PPO's clipped surrogate (arXiv 1707.06347, equation 7), its ratio to the policy that acted."""
    ratio = (log_probs.now - log_probs.acted).exp()
    return -(ratio * advantage).minimum(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage)


LOSSES: dict[str, Loss] = {
    "appo": Loss(appo, "vtrace", options=CLIP_RHO),
    "impala": Loss(impala, "vtrace", options=CLIP_RHO),
    "ppo": Loss(ppo, "gae"),
    "neurd": Loss(
        published.neurd, "vtrace", options=published.NEURD_OPTIONS, sees="steps", actions=("discrete",)
    ),
}

TERMS: dict[str, Term] = {
    "upgo": Term("upgo", published.upgo),
    "self_imitation": Term("self_imitation", published.self_imitation, 0.1),
    "diversity": Term(
        "diversity", published.diversity, 0.01, reference="initial", options=published.DIVERSITY_OPTIONS
    ),
}
"""Terms that a config may add by their names."""


def find_loss(name: str) -> Loss:
    """Return the loss called `name`, or the one at "module:Name". Raise ValueError if not found."""
    return _found(name, LOSSES, Loss)


def find_term(name: str) -> Term:
    """Return the term called `name`, or the one at "module:Name". Raise ValueError if not found."""
    return _found(name, TERMS, Term)


def check_actions(loss: str, spec: PolicySpec, player: str = "the player") -> None:
    """Raise Mistake unless the loss called `loss` is for the actions of this policy."""
    kinds = find_loss(loss).actions
    if spec.action.kind not in kinds:
        raise Mistake(
            f"learner.loss: found '{loss}', which is for actions that are {' or '.join(kinds)}, but those of "
            f"{player} are {spec.action.kind}; take appo, impala or ppo"
        )


def _found(name: str, known: Mapping[str, Part], kind: type[Part]) -> Part:
    """Return what is `known` by that name, or what a user has at "module:Name"."""
    if name in known:
        return known[name]
    if not is_import_path(name):
        near = nearest(name, known)
        remedy = f"did you mean '{near[0]}'?" if near else f"expected {', '.join(known)}"
        raise ValueError(f"found '{name}'; {remedy} (or {{use: module:Name}} for your own)")
    own = import_path(name)
    if not isinstance(own, kind):
        raise ValueError(f"'{name}' is {own!r}, expected a {kind.__module__}.{kind.__name__}")
    return own
