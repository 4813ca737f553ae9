"""Records that an objective is computed from and consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from league.learning.forward import Forward
from league.learning.maths.schedules import value_at
from league.learning.maths.terms import Output
from league.learning.settings import LearnerSettings


class Trainee(NamedTuple):
    """Everything that the gradients of one player's update depend on, beside its batch."""

    forward: Forward
    target: Forward | None = None  # the target network
    progress: float = 0.0  # part of the run that is done, in [0, 1]
    updates: int = 0  # made so far
    reference: Forward | None = None  # the network that terms compare with
    magnet: Forward | None = None  # the network that the player is held to


class Outputs(NamedTuple):
    """Outputs of a player's networks for one batch; only `now` has a gradient."""

    now: Output
    target: Output | None = None
    reference: Output | None = None
    magnet: Output | None = None


class Scheduled(NamedTuple):
    """Values of schedules at the present progress, for all steps or one for each, [N]."""

    entropy: float | Tensor  # weight of the entropy bonus
    magnet: float | Tensor = 0.0  # weight of the hold

    @staticmethod
    def at(settings: LearnerSettings, progress: float) -> Scheduled:
        """Return the values at `progress`, the part of the run that is done."""
        held = 0.0 if settings.magnet is None else value_at(settings.magnet.weight, progress)
        return Scheduled(value_at(settings.entropy, progress), held)


@dataclass(frozen=True, slots=True)
class Parts:
    """Parts of the loss, unweighted: of each step [N], or their means []."""

    policy: Tensor
    value: Tensor
    entropy: Tensor
    lag: Tensor  # in updates; reported beside the parts
    kl: Tensor | None
    magnet_kl: Tensor | None
    terms: tuple[Tensor, ...]  # of `Loss.terms`

    @property
    def listed(self) -> list[Tensor]:
        """All parts in the order of `Objective.names`, without the loss."""
        kls = [kl for kl in (self.kl, self.magnet_kl) if kl is not None]
        return [self.policy, self.value, self.entropy, self.lag, *kls, *self.terms]

    def means(self, steps: int) -> Parts:
        """Return the means over `steps` steps, of which this may be a share."""
        policy, value, entropy, lag = (
            part.sum() / steps for part in (self.policy, self.value, self.entropy, self.lag)
        )
        kl, magnet_kl = (None if kl is None else kl.sum() / steps for kl in (self.kl, self.magnet_kl))
        terms = tuple(term.sum() / steps for term in self.terms)
        return Parts(policy, value, entropy, lag, kl, magnet_kl, terms)
