"""Hints: the probabilities that a policy gives to legal actions in the person's seat, and values.

A hint follows from what that seat sees, so it gives nothing away. The value of each action is shown where
every seat sees everything: then the match is copied, the action is taken, and the policy values what follows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.models.actor import Look
from league.models.policies.policy import Policy

_RNG_SEED = 0  # of draws that are certain


class Thoughts(NamedTuple):
    """What a policy makes of one decision."""

    value: float | None  # of the situation, for the seat that must act; `None` if it is unknown
    moves: list[tuple[int, float, float | None]]  # action, its probability, its value; the likeliest first


class Adviser:
    """Policy that follows one seat of a match, with the memory that it would have."""

    def __init__(self, policy: Policy, name: str, seat: int) -> None:
        self.name = name
        self._policy = policy
        self._seat = seat
        self._memory = np.zeros((1, policy.memory_size), dtype=np.float32)
        self._reward = np.zeros(1, dtype=np.float32)  # since the seat's last decision

    def think(self, game: BatchedGame, block: Decisions) -> Thoughts:
        """Return the policy's thoughts on the decision in `block`, which is this seat's."""
        shares, values = self._policy.evaluate(block.observation, block.mask, self._memory, self._reward)
        legal = np.flatnonzero(block.mask[0])
        worth = self._values(game, block, legal)
        order = np.argsort(-shares[0, legal], kind="stable").tolist()
        moves = [(int(legal[i]), round(float(shares[0, legal[i]]), 4), worth[i]) for i in order]
        return Thoughts(_number(values[0]), moves)

    def acted(self, block: Decisions, action: npt.NDArray) -> None:
        """Follow the person's action [1], so that memory holds what was done and seen."""
        if self._policy.memory_size:
            only = np.zeros_like(block.mask)
            only[0, int(action[0])] = True  # the draw is certain: the policy remembers this action as its own
            look = Look(block.observation, only, self._memory, self._reward)
            self._policy.decide(look, np.random.default_rng(_RNG_SEED))
        self._reward[:] = 0.0

    def state(self) -> tuple[npt.NDArray, npt.NDArray]:
        """Return what the policy remembers of the match, for `restore`."""
        return self._memory.copy(), self._reward.copy()

    def restore(self, state: tuple[npt.NDArray, npt.NDArray]) -> None:
        """Go back to an earlier `state`."""
        self._memory[:], self._reward[:] = state

    def rewarded(self, reward: float) -> None:
        """Add the seat's reward of one step."""
        self._reward += reward

    def _values(self, game: BatchedGame, block: Decisions, legal: npt.NDArray) -> list[float | None]:
        """Return the value of each legal action [k] to this seat, or `None` where it is unknown."""
        unknown: list[float | None] = [None] * len(legal)
        turns = game.num_seats == 2 and sum(map(len, game.due())) == 1
        if not (turns and game.open_state and game.shared_spaces and game.match_arrays):
            return unknown
        if self._policy.memory_size or self._policy.wants_reward:
            return unknown  # of the other seat they are not known
        after = game.copies(np.zeros(len(legal), dtype=np.int64))
        after.due()
        done = after.step([legal])
        values = [float(reward) for reward in done.rewards[:, self._seat]]
        for due in after.due() if after.active.any() else ():
            _, worth = self._policy.evaluate(due.observation, due.mask)
            for slot, seat, value in zip(due.slot.tolist(), due.seat.tolist(), worth.tolist(), strict=True):
                values[slot] += value if seat == self._seat else -value  # what one wins the other loses
        return [_number(value) for value in values]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else round(float(value), 3)
