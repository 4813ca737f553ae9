"""Rock-paper-scissors, once or repeated: both seats act at once.

A cyclic game: scalar ratings are equal for strategies that beat one another in a circle.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs.base import BatchedGame
from league.envs.scene import Hand, Item, Tabletop
from storage.arrays import Bools, Floats, Indices

ROCK, PAPER, SCISSORS = 0, 1, 2
NAMES = ("rock", "paper", "scissors")
_ONE_HOT = np.vstack([np.eye(3), np.zeros(3)]).astype(np.float32)  # row -1: no action yet
_GAIN = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], dtype=np.float32)  # [own action, the opponent's]


class RockPaperScissors(BatchedGame):
    """Action: rock 0, paper 1, scissors 2. Each round gives +1 or -1, divided by `rounds`, to its
    winner and loser at once. So returns are in [-1, 1] for any number of rounds.

    Observation, float32: the opponent's previous action one-hot (3), the own one (3), and the
    share of rounds already played. Earlier actions are not shown.
    """

    id: ClassVar[str] = "rock_paper_scissors"
    num_seats = 2
    observation_spaces = (Box(0.0, 1.0, (7,), np.float32),) * 2
    action_spaces = (Discrete(3),) * 2
    renders = True
    open_actions = True
    match_arrays = ("_previous", "_played")

    def __init__(self, num_slots: int, *, rounds: int = 1, step_limit: int | None = None) -> None:
        super().__init__(num_slots, step_limit=step_limit)
        if not isinstance(rounds, int) or rounds < 1:
            raise ValueError(f"{self.id}: rounds is {rounds!r}, expected a whole number, at least 1")
        self.rounds = rounds
        self._previous = np.full((num_slots, 2), -1, dtype=np.int64)  # by seat
        self._played = np.zeros(num_slots, dtype=np.int64)  # rounds

    def starts(self) -> Floats:
        return np.ones(1)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._previous[slots] = -1
        self._played[slots] = 0

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return np.repeat(slot, 2), np.tile([0, 1], len(slot))

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        theirs = _ONE_HOT[self._previous[slot, 1 - seat]]
        own = _ONE_HOT[self._previous[slot, seat]]
        share = (self._played[slot] / self.rounds).astype(np.float32)
        return np.concatenate([theirs, own, share[:, None]], axis=1)

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return np.ones((len(slot), 3), dtype=np.bool_)

    def _play(self, slot: Indices, seat: Indices, action: Indices) -> None:
        self._previous[slot, seat] = action
        slot = slot[::2]  # both seats of each slot have acted
        first, second = self._previous[slot].T
        gains = np.stack([_GAIN[first, second], _GAIN[second, first]], axis=1)
        self._rewards[slot] = gains / np.float32(self.rounds)
        self._played[slot] += 1
        self._over[slot] = self._played[slot] == self.rounds

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return the number of rounds played, and the last action of both seats."""
        played = int(self._played[slot])
        last = (
            [f"seat {s} {NAMES[action]}" for s, action in enumerate(self._previous[slot])] if played else []
        )
        return f"{played} of {self.rounds} rounds played\nlast: {', '.join(last) or '-'}"

    def scene(self, slot: int, seat: int | None = None) -> Tabletop:
        """Return the signs of the last round; the same for both seats."""
        played = int(self._played[slot])
        last = [NAMES[action] for action in self._previous[slot]] if played else []
        hands = [
            Hand(s, [Item(last[s], "sign")] if last else [], bool(self.active[slot]))
            for s in range(self.num_seats)
        ]
        words = [f"Seat {s} showed {sign}." for s, sign in enumerate(last)]
        rounds = f"{played} of {self.rounds} {'round' if self.rounds == 1 else 'rounds'} played"
        return Tabletop(hands, " ".join([*words, f"{rounds}."]), notes=[rounds])

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return "rock", "paper" or "scissors"."""
        return NAMES[action]
