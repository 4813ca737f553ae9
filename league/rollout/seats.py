"""Seats: who acts in each, and what its actor keeps between two decisions.

Actors have no memory of their own. What one wants kept of a seat is a row of floats here, zero when
a match begins; beside it the reward since the seat's last decision. Where no actor wants either,
nothing is kept.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.models.actor import Actor, Chosen

NOBODY = -1


class Taken(NamedTuple):
    """The n decisions of one competitor in a block."""

    slot: npt.NDArray[np.int64]  # [n]
    seat: npt.NDArray[np.int64]  # [n]
    mask: npt.NDArray[np.bool_]  # [n, mask_width]
    chosen: Chosen


class Seats:
    """The seats of all slots of a game, taken by `actors`."""

    def __init__(
        self, game: BatchedGame, actors: Sequence[Actor], greedy: Sequence[bool], learner: int = NOBODY
    ) -> None:
        """`greedy`: who of `actors` takes its likeliest action. `learner`: whose decisions are handed out."""
        shape = (game.num_slots, game.num_seats)
        self._game = game
        self._actors = actors
        self._greedy = greedy
        self._learner = learner
        self._action = game.action_specs[0]
        self._competitor = np.zeros(shape, dtype=np.int16)  # 16 bits: sorts in linear time
        widest = max((actor.memory_size for actor in actors), default=0)
        self._memory = np.zeros((*shape, widest), dtype=np.float32)
        self._reward = np.zeros(shape, dtype=np.float32)  # since each seat's last decision
        self._wants_reward = any(actor.wants_reward for actor in actors)
        self._keeps = [actor.memory_size > 0 or actor.wants_reward for actor in actors]

    def begin(self, slot: npt.NDArray[np.int64], competitor: npt.NDArray[np.int32]) -> None:
        """New matches in these slots [n]; in their seats sit the actors `competitor` [n, num_seats]."""
        self._competitor[slot] = competitor
        if self._memory.size:
            self._memory[slot] = 0.0
        if self._wants_reward:
            self._reward[slot] = 0.0

    def decide(self, block: Decisions, rng: np.random.Generator) -> tuple[npt.NDArray, Taken | None]:
        """All actions of one block [n, *shape], by one call to each competitor that has a decision in it,
        and the learner's part of them, if it has any.
        """
        competitor = self._competitor[block.slot, block.seat]
        order = np.argsort(competitor, kind="stable")
        grouped = competitor[order]
        bounds = np.flatnonzero(np.diff(grouped, prepend=np.int16(-1), append=np.int16(-1)))
        observation, mask = block.observation[order], block.mask[order]
        action = np.empty((len(order), *self._action.shape), dtype=self._action.dtype)
        taken = None
        for who, (start, end) in zip(
            grouped[bounds[:-1]].tolist(), itertools.pairwise(bounds.tolist()), strict=True
        ):
            rows, seen, legal = order[start:end], observation[start:end], mask[start:end]
            if self._keeps[who]:
                chosen = self._remembering(who, block.slot[rows], block.seat[rows], seen, legal, rng)
            else:
                chosen = self._actors[who].decide(seen, legal, rng, self._greedy[who])
            action[rows] = chosen.action
            if who == self._learner:
                taken = Taken(block.slot[rows], block.seat[rows], legal, chosen)
        return action, taken

    def _remembering(
        self,
        who: int,
        slot: npt.NDArray[np.int64],
        seat: npt.NDArray[np.int64],
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
    ) -> Chosen:
        size = self._actors[who].memory_size
        memory, reward = self._memory[slot, seat, :size], self._reward[slot, seat]
        chosen = self._actors[who].decide(observation, mask, rng, self._greedy[who], memory, reward)
        self._memory[slot, seat, :size] = memory
        self._reward[slot, seat] = 0.0
        return chosen

    def rewarded(self, rewards: npt.NDArray[np.float32]) -> None:
        """Add the rewards [num_slots, num_seats] of one step."""
        if self._wants_reward:
            self._reward += rewards

    def shown_to_learner(self, slot: npt.NDArray[np.int64], seat: npt.NDArray[np.int64]) -> npt.NDArray:
        """What the learner would be shown now if it had to decide in these seats, which it does not."""
        learner = self._actors[self._learner]
        memory = self._memory[slot, seat, : learner.memory_size]
        return learner.see(self._game.look(slot, seat), memory, self._reward[slot, seat])
