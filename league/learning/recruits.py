"""Records of what players learn with: one `Recruit` for each, and `Recruits` for all of a run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from torch import Tensor

from league.learning.settings import LearnerSettings
from league.models.spec import PolicySpec


@dataclass(frozen=True, slots=True)
class Recruit:
    """A player that is to learn: the policy and the settings that it learns with, and its seed."""

    player: str
    spec: PolicySpec
    settings: LearnerSettings
    seed: int  # of its first weights and of its shuffling
    teacher: Mapping[str, Tensor] | None = field(default=None, repr=False, compare=False)
    """Weights of a magnet of kind `snapshot`, which fit the policy."""


@dataclass(frozen=True, slots=True)
class Recruits:
    """All players that a run begins with, one or more, and what their processes compute on."""

    each: tuple[Recruit, ...]
    device: str = "cpu"  # or cuda
    threads: int = 1  # of torch, in each process

    def __iter__(self) -> Iterator[Recruit]:
        return iter(self.each)

    def in_order(self, players: Iterable[str]) -> list[Recruit]:
        """Return the recruits of `players`, in their order. Raise KeyError for an unknown one."""
        by_name = {recruit.player: recruit for recruit in self.each}
        return [by_name[player] for player in players]

    @property
    def shared(self) -> LearnerSettings:
        """Settings of processes and queues (`settings.SHARED`), which are the same for all players."""
        return self.each[0].settings
