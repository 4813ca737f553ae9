"""Parties: actors that decide in one call, among all that sit in the matches of a batch."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame
from league.models.actor import Actor, Chosen, Look
from league.models.policies.policy import Policy
from league.models.policies.policy_group import PolicyGroup
from league.models.spec import Precision


@dataclass(frozen=True, slots=True)
class Places:
    """Where n decisions are taken: the match of each and its seat."""

    game: BatchedGame
    slot: npt.NDArray[np.int64]  # [n]
    seat: npt.NDArray[np.int64]  # [n]

    def __getitem__(self, rows: slice | npt.NDArray[np.int64]) -> Places:
        return Places(self.game, self.slot[rows], self.seat[rows])


class Party(NamedTuple):
    """Policies of one spec at one temperature, or a single actor of any other kind.

    Its members occupy adjacent places, from `first` up to (not including) `end`.
    """

    actor: Actor | PolicyGroup
    temperature: float
    first: int
    end: int

    def decide(
        self,
        counts: npt.NDArray[np.int64],
        look: Look,
        rng: np.random.Generator,
        temperature: float,
        places: Places | None,
    ) -> Chosen:
        """Decide for rows in the order of the members, `counts` [k] of each.

        `places`: None if the matches are unknown; an actor that searches in them raises an error then.
        """
        actor = self.actor
        if isinstance(actor, PolicyGroup):
            return actor.decide(counts, look, rng, temperature)
        if places is not None and actor.wants_game:
            return actor.decide_at(places.game, places.slot, places.seat, look, rng, temperature)
        return actor.decide(look, rng, temperature)


def parties_of(
    actors: Sequence[Actor], temperatures: Sequence[float], precision: Precision = "float32"
) -> tuple[list[Party], list[int]]:
    """Return the parties, and for each place the index of its actor.

    `precision`: in which policies compute on the CPU.
    """
    kinds: dict[Hashable, list[int]] = {}
    for who, actor in enumerate(actors):
        kind = (actor.spec, actor.device, temperatures[who]) if isinstance(actor, Policy) else who
        kinds.setdefault(kind, []).append(who)
    parties: list[Party] = []
    places: list[int] = []
    for members in kinds.values():
        first = actors[members[0]]
        policies = [actor for actor in (actors[who] for who in members) if isinstance(actor, Policy)]
        decides = PolicyGroup(policies, precision) if policies else first
        parties.append(Party(decides, temperatures[members[0]], len(places), len(places) + len(members)))
        places += members
    return parties, places
