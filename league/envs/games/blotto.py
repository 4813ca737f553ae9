"""Colonel Blotto (Borel: La théorie du jeu, 1921): soldiers are divided among fields, both seats at once.

The seat with more soldiers on a field wins it, and the seat that wins more fields wins the match. No
division is best: each is beaten by another. With 10 soldiers and 3 fields it is OpenSpiel's `blotto`.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from league.envs.scene import Hand, Item, Tabletop
from storage.arrays import Bools, Floats, Indices

MOST_DIVISIONS = 10_000


class Blotto(BatchedGame):
    """Action: the number of a division, in lexicographic order from [0, ..., 0, soldiers] on. A win pays 1, a
    loss -1.

    Observation, float32 [2]: the own seat, one-hot, as there is nothing else to see.
    """

    id: ClassVar[str] = "blotto"
    num_seats = 2
    observation_spaces = (Box(0.0, 1.0, (2,), np.float32),) * 2
    renders = True
    match_arrays = ("_action",)

    def __init__(
        self, num_slots: int, *, soldiers: int = 10, fields: int = 3, step_limit: int | None = None
    ) -> None:
        for name, given in (("soldiers", soldiers), ("fields", fields)):
            if not isinstance(given, int) or given < 1:
                raise ValueError(f"{self.id}: {name} is {given!r}, expected a whole number, at least 1")
        count = math.comb(soldiers + fields - 1, fields - 1)
        if count > MOST_DIVISIONS:
            raise ValueError(
                f"{self.id}: soldiers of {soldiers:,} and fields of {fields:,} are {count:,} divisions, "
                f"expected at most {MOST_DIVISIONS:,}"
            )
        self.action_spaces = (Discrete(count),) * 2
        super().__init__(num_slots, step_limit=step_limit)
        bars = itertools.combinations(range(soldiers + fields - 1), fields - 1)
        ends = np.array([(-1, *own, soldiers + fields - 1) for own in bars])
        self.divisions = np.diff(ends) - 1  # [count, fields]
        self._action = np.full((num_slots, 2), -1, dtype=np.int64)  # by seat; -1: none yet

    def starts(self) -> Floats:
        return np.ones(1)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._action[slots] = -1

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile([0, 1], len(slot))

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        return np.eye(2, dtype=np.float32)[seat]

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return np.ones((len(slot), len(self.divisions)), dtype=np.bool_)

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        slot, action = slot[::2], action.reshape(-1, 2)  # both seats of each slot have acted
        self._action[slot] = action
        first, second = self.divisions[action].swapaxes(0, 1)
        won = np.sign(np.sign(first - second).sum(axis=1))
        self._rewards[slot] = np.stack([won, -won], axis=1)
        self._over[slot] = True

    def _sent(self, slot: int) -> list[list[int]]:
        """Return the division of each seat, once both have acted."""
        taken = self._action[slot]
        return [] if (taken < 0).any() else self.divisions[taken].tolist()

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the soldiers of both seats on each field; the same for both."""
        rows = [f"seat {owner}: {' '.join(map(str, sent))}" for owner, sent in enumerate(self._sent(slot))]
        return "\n".join(rows) or f"{len(self.divisions[0])} fields, no soldiers sent yet"

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return the soldiers of both seats on each field as dice, marked where they won."""
        sent = self._sent(slot)
        hands = [
            Hand(
                owner,
                [
                    Item(str(n), "die", marked=n > other)
                    for n, other in (zip(sent[owner], sent[1 - owner], strict=True) if sent else ())
                ],
                bool(self.active[slot]),
            )
            for owner in range(2)
        ]
        return Tabletop(hands, self.render(slot, seat).replace("\n", ". ") + ".")

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return the soldiers on each field, such as "3 3 4"."""
        return " ".join(map(str, self.divisions[action]))
