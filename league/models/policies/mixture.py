"""Mixture: a distribution over actors that plays as one.

The member that plays is drawn when a seat first decides in a match, and then plays that seat to the end. So
a mixture of policies is their average in sequence form, which fictitious play and no-regret methods promise
(Heinrich, Lanctot, Silver: Fictitious self-play in extensive-form games, ICML 2015, theorem 7), and not an
average of their probabilities in each situation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from league.models.actor import Actor, Chosen, Look
from league.models.policies.policy_group import parties_of
from storage.arrays import Bools, Floats, Indices

_DRAWN = 1  # floats of memory that say who plays: 0 before the draw, else 1 + the member's number
_OWN = 1.0  # temperature at which members play at their own


@dataclass(frozen=True, slots=True)
class MixtureMember:
    """An actor of a mixture, its weight, and the temperature at which it plays."""

    actor: Actor
    weight: float
    temperature: float = 1.0

    def at(self, temperature: float) -> float:
        """Return the temperature at which it plays when the mixture is asked to play at `temperature`."""
        return self.temperature if temperature == _OWN else temperature


class MixtureActor(Actor):
    """Actor that draws one of its members for each seat of each match.

    Its memory of a seat holds the member's number and that member's memory. A caller that passes no memory
    gets a new draw at every decision, which is another strategy.
    """

    def __init__(self, members: Sequence[MixtureMember], name: str = "mixture") -> None:
        """Raise ValueError without members, and for weights that are not positive and finite."""
        weights = np.array([member.weight for member in members], dtype=np.float64)
        if not len(weights) or not (np.isfinite(weights).all() and (weights > 0.0).all()):
            raise ValueError(f"{name}: found weights {weights.tolist()}, expected positive numbers")
        self.name = name
        self.members = tuple(members)
        self.weights: Floats = weights / weights.sum()
        actors = [member.actor for member in members]
        self.memory_size = _DRAWN + max(actor.memory_size for actor in actors)
        self.wants_reward = any(actor.wants_reward for actor in actors)
        self.wants_game = any(actor.wants_game for actor in actors)
        self._parties, order = parties_of(actors, [member.temperature for member in members])
        self._place = np.empty(len(order), dtype=np.int64)
        self._place[order] = np.arange(len(order))
        self._until = np.cumsum(self.weights)[:-1]

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Draw an action for each row. A `temperature` other than 1 takes the place of the members' own."""
        memory = look.memory
        if memory is None:
            memory = np.zeros((len(look), self.memory_size), dtype=np.float32)
        begins = memory[:, 0] == 0.0
        if begins.any():
            drawn = np.searchsorted(self._until, rng.random(int(begins.sum())), side="right")
            memory[begins, 0] = 1 + drawn
        place = self._place[memory[:, 0].astype(np.int64) - 1]
        order = np.argsort(place, kind="stable")
        border = np.searchsorted(place[order], np.arange(len(self.members) + 1))
        parts: list[Chosen] = []
        for party in self._parties:
            rows = order[border[party.first] : border[party.end]]
            if not len(rows):
                continue
            counts = np.diff(border[party.first : party.end + 1])
            own = _DRAWN + party.actor.memory_size
            kept = memory[rows, _DRAWN:own]  # a copy
            reward = None if look.reward is None else look.reward[rows]
            places = look.places[rows] if look.places is not None and self.wants_game else None
            its = Look(look.observation[rows], look.mask[rows], kept, reward, places=places)
            mode = party.temperature if temperature == _OWN else temperature
            parts.append(party.decide(counts, its, rng, mode))
            memory[rows, _DRAWN:own] = kept
        return self._joined(parts, order, begins, look)

    def _joined(self, parts: Sequence[Chosen], order: Indices, begins: Bools, look: Look) -> Chosen:
        """Return all rows in their first order, of `parts` in that of `order`."""
        back = np.empty(len(order), dtype=np.int64)
        back[order] = np.arange(len(order))
        action, log_prob, raw = (
            np.concatenate([getattr(part, name) for part in parts])[back]
            for name in ("action", "log_prob", "raw")
        )
        certain = np.concatenate(
            [np.zeros(len(part.log_prob), bool) if part.certain is None else part.certain for part in parts]
        )[back]
        if len(self.members) > 1:
            certain &= ~begins  # a match in which a member was drawn is no repetition of another
        return Chosen(action, log_prob, look.observation, raw, certain)
