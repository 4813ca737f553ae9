"""Terms that a loss may add to those that every loss has: a KL to a reference policy, UPGO, distillation.

    def kl_to_reference(steps):
        return steps.kl(steps.reference.parameters, steps.parameters)

    mine = Loss(appo, "vtrace", terms=(Term("reference_kl", kl_to_reference, 0.05, reference="initial"),))

The mean of a term over all steps is reported under its name, and added to the loss times its weight. A config
adds terms to any loss: `learner.terms: {upgo: {weight: 0.5}, mine: {use: module:Term}}`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from league.learning.maths.schedules import Points, Ramp, number_or_schedule, value_at
from storage.errors import Mistake
from storage.suggestions import did_you_mean

if TYPE_CHECKING:  # settings name terms, and are read without torch
    from torch import Tensor

    from league.models.networks.distributions import Distribution

REPORTED = frozenset(
    (
        "loss",
        "policy_loss",
        "value_loss",
        "entropy",
        "lag",
        "magnet_kl",
        "gradient_norm",
        "replayed",
        "cut_early",
        "bfloat16",
        "bfloat16_speedup",
    )
)
"""Names of an update's other figures, which no term may take."""
PREFIXES = ("replay_", "queue_", "seconds_")  # of further such names
NAME = re.compile(r"[a-z][a-z0-9_]*")  # of a term, and of an option

Options = Mapping[str, float | Points | Ramp]


class LogProbs(NamedTuple):
    """Log-probabilities of the actions that were taken, [N] each."""

    now: Tensor  # under the policy that learns; the only one with a gradient
    acted: Tensor  # under the policy that acted
    anchor: Tensor  # under the policy that ratios are taken to: the target network's, else `acted` itself


class Output(NamedTuple):
    """Output of a network for N steps, and for the K observations that follow truncated sequences."""

    parameters: Tensor  # [N + K, P] of the distribution over actions: logits, where actions are choices
    value: Tensor  # [N + K]


@dataclass(frozen=True, slots=True)
class Steps:
    """Everything that an update knows of the N steps of its minibatch: B sequences of at most T steps.

    Only `log_probs.now`, `parameters`, `value` and `entropy` have a gradient.
    """

    log_probs: LogProbs  # [N] each, of the actions taken
    parameters: Tensor  # [N, P] of the distribution over actions: logits, where actions are choices
    value: Tensor  # [N]
    entropy: Tensor  # [N]
    advantage: Tensor  # [N], as the policy loss takes it
    value_target: Tensor  # [N]
    next_value: Tensor  # [N], value of the following observation; 0 where the match terminated
    discount: Tensor  # [N], weight of `next_value`; 0 where the match terminated
    reward: Tensor  # [N], less what a magnet of `through: reward` takes off
    action: Tensor  # [N, *action.shape], as it was drawn
    mask: Tensor  # [N, mask_width] bool, the legal actions
    rows: Tensor  # [T, B] int64, row of each step among the N; N is padding
    distribution: Distribution  # of actions, as a function of `parameters` and `mask`
    reference: Output | None  # [N, P] and [N], of the reference policy; None if no term asks for one
    progress: float  # part of the run that is done, in [0, 1]
    clip: float  # how far the loss lets the ratio move, at this progress
    options: Mapping[str, float]  # of the loss, and those of the term that is computed, at this progress
    own: Mapping[str, Tensor] = field(default_factory=dict)  # [N, ...], columns of learner connectors

    @property
    def valid(self) -> Tensor:
        """[T, B] bool: steps that are no padding."""
        return self.rows < len(self.reward)

    def in_time(self, steps: Tensor) -> Tensor:
        """Lay out `steps` [N, ...] as [T, B, ...], time first, with 0 as padding at the end of sequences."""
        import torch

        return torch.cat([steps, steps.new_zeros(1, *steps.shape[1:])])[self.rows]

    def kl(self, p: Tensor, q: Tensor) -> Tensor:
        """Return KL(p || q) [N] of two policies, given by their parameters [N, P]."""
        return self.distribution.kl(p, q, self.mask)


@dataclass(frozen=True, slots=True)
class OwnBatch:
    """The batch of a loss that sees "batch": its tensors by name, and the networks to call with them."""

    tensors: Mapping[str, Tensor]  # [N, ...] each, if a program brought them
    network: Callable[[Tensor], Output]  # of observations [n, *shape]; the only one with a gradient
    target_network: Callable[[Tensor], Output] | None  # None without `learner.target_updates`
    updates: int  # made so far
    progress: float  # part of the run that is done, in [0, 1]
    options: Mapping[str, float]  # of the loss, at this progress

    def __getitem__(self, name: str) -> Tensor:
        """Return the tensor `name`. Raise Mistake if there is none."""
        if name not in self.tensors:
            raise Mistake(f"batch: found no tensor '{name}'; {did_you_mean(name, self.tensors)}")
        return self.tensors[name]

    def target(self, observation: Tensor) -> Output:
        """Return the target network's output for `observation` [n, *shape]. Raise Mistake without one."""
        if self.target_network is None:
            raise Mistake(
                "learner.target_updates: found 0, but the loss calls a target network; set 1 or more"
            )
        import torch

        with torch.no_grad():
            return self.target_network(observation)


@dataclass(frozen=True, slots=True)
class Term:
    """A term that a loss adds: `weight` times the mean of what `compute` returns for each step.

    `compute` maps `Steps` to losses [N], or [T, B], of which padding does not count. `weight` may be
    negative, or a schedule. `reference="initial"`: `Steps.reference` is the output of the weights that
    the player began with: its first weights, or those that it was last reset to. They are part of the
    learner's saved state. `options` are further numbers or schedules, with defaults; `compute` finds their
    present values in `Steps.options`, and a config may set them. Raises ValueError for a name that is taken
    and for a weight or an option that is no number.
    """

    name: str
    compute: Callable[[Steps], Tensor]
    weight: float | Points | Ramp = 1.0
    reference: Literal["initial"] | None = None
    options: Options = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not NAME.fullmatch(self.name):
            raise ValueError(f"term: found name '{self.name}', expected lower case letters, digits and '_'")
        if self.name in REPORTED or self.name.startswith(PREFIXES):
            raise ValueError(f"term '{self.name}': the name of another figure of updates; choose another one")
        if isinstance(self.weight, int | float) and not math.isfinite(self.weight):
            raise ValueError(f"term '{self.name}': found weight {self.weight}, expected a finite number")
        object.__setattr__(self, "weight", number_or_schedule(self.weight))
        object.__setattr__(self, "options", checked_options(f"term '{self.name}'", self.options))
        if "weight" in self.options:
            raise ValueError(f"term '{self.name}': found option 'weight', which every term has; rename it")
        if self.reference not in (None, "initial"):
            raise ValueError(
                f"term '{self.name}': found reference '{self.reference}', expected 'initial' or None"
            )

    def changed(self, settings: Options) -> Term:
        """Return the term with another `weight` and other options. Raise ValueError for an unknown one."""
        known = {"weight": self.weight, **self.options}
        options = with_options(f"term '{self.name}'", known, settings)
        return replace(self, weight=options.pop("weight"), options=options)


def checked_options(where: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return a term's or a loss's options. Raise ValueError for a bad name, or for what is no number."""
    found = {}
    for name, value in options.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"{where}: found option '{name}', expected lower case letters, digits and '_'")
        try:
            found[name] = number_or_schedule(value)
        except ValueError:
            raise ValueError(
                f"{where}: found {value!r} as option '{name}', expected a number or a schedule"
            ) from None
    return found


def with_options(where: str, options: Options, changes: Options) -> dict[str, Any]:
    """Return `options` with `changes`. Raise ValueError for an option that does not exist."""
    for name in changes:
        if name not in options:
            remedy = did_you_mean(name, options) if options else f"{where} has no options"
            raise ValueError(f"{name}: no option of {where}; {remedy}")
    return {**options, **changes}


def options_at(options: Options, progress: float) -> dict[str, float]:
    """Return the values of all options at `progress`, the part of the run that is done."""
    return {name: value_at(value, progress) for name, value in options.items()}
