"""Scripted bots: competitors that need no training, and act on the same arrays as a policy.

    random     any legal action
    one_ply    wins if it can at once, else stops the opponent from doing so, else random
    perfect    an action that keeps the game's value, by minimax

A bot is uniform over the actions it prefers, so its log-probabilities are exact.
"""

from __future__ import annotations

import functools
import itertools
from abc import abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs import connect_four, tic_tac_toe
from league.envs.registry import import_path
from league.envs.spaces import ActionSpec
from league.models.actor import Actor, Chosen
from storage.errors import Mistake

# (stones, cells that may be filled) -> where filling a cell completes a line; shapes in `_wins`
Completes = Callable[[npt.NDArray, npt.NDArray[np.bool_]], npt.NDArray[np.bool_]]


class UnknownBot(Mistake, ValueError):
    """No bot goes by that name or import path, or it cannot play the game."""


class ScriptedPolicy(Actor):
    """Chooses uniformly among the actions it prefers. For games in which an action is one choice."""

    @abstractmethod
    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Which of the legal actions it takes, at least one a row: [n, num_actions]."""

    def decide(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> Chosen:
        """An action for each row. `greedy` changes nothing: all that a bot prefers is equally good to it."""
        action, log_prob = _uniform(self.preferred(observation, mask), rng)
        return Chosen(action, log_prob, observation, action)


def _uniform(
    allowed: npt.NDArray[np.bool_], rng: np.random.Generator
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.float32]]:
    """Of each row of `allowed` [n, A] one, with its log-probability."""
    noise = rng.random(allowed.shape, dtype=np.float32)
    action = np.where(allowed, noise, np.float32(-1)).argmax(axis=1)
    return action, -np.log(allowed.sum(axis=1)).astype(np.float32)


class RandomBot(ScriptedPolicy):
    """Any legal action, whatever the kind. Without `action` it is one choice."""

    action: ActionSpec | None = None

    def __init__(self, action: ActionSpec | None = None) -> None:
        self.action = action

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        return mask

    def decide(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> Chosen:
        if self.action is None or self.action.kind == "discrete":
            return super().decide(observation, mask, rng)
        n = len(observation)
        log_prob = np.zeros(n, dtype=np.float32)
        action = np.empty((n, *self.action.shape), dtype=self.action.dtype)
        if self.action.kind == "multi_discrete":
            border = np.cumsum((0, *self.action.sizes))
            for factor, (start, end) in enumerate(itertools.pairwise(border)):
                action[:, factor], of_factor = _uniform(mask[:, start:end], rng)
                log_prob += of_factor
        else:
            low, high = self.action.bounds()
            action[:] = np.clip(rng.uniform(low, high, action.shape), low, high)
            log_prob -= np.log(high.astype(np.float64) - low).sum()
        return Chosen(action, log_prob, observation, action)


class OwnBot(Actor):
    """A user's bot that has `act(observation, mask, rng, greedy)` and no more."""

    def __init__(self, bot: Any) -> None:
        self.bot = bot

    def decide(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> Chosen:
        action, log_prob = self.bot.act(observation, mask, rng, greedy)
        return Chosen(action, log_prob, observation, action)


class OnePlyBot(ScriptedPolicy):
    """Wins at once if it can; else takes a cell with which the opponent would win; else anything."""

    def __init__(self, split: Callable[[npt.NDArray], npt.NDArray], completes: Completes) -> None:
        self._split = split  # observations -> the stones of both sides [n, 2], own first
        self._completes = completes

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        stones = self._split(observation)
        wins = self._completes(stones, mask)
        blocks = self._completes(stones[:, ::-1], mask)
        choice = np.where(blocks.any(axis=1, keepdims=True), blocks, mask)
        return np.where(wins.any(axis=1, keepdims=True), wins, choice)


class PerfectTicTacToe(ScriptedPolicy):
    """Any cell that keeps the value of the game under perfect play."""

    def preferred(self, observation: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        stones = _three_stones(observation)
        return mask & (tic_tac_toe.BITS[_optimal_cells()[stones[:, 0], stones[:, 1]]] != 0)


def _four_stones(observation: npt.NDArray) -> npt.NDArray[np.uint64]:
    return connect_four.bitboards(observation)


def _completes_four(stones: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Columns [n, 7] in which a stone of the first side gives it four in a line."""
    one, rows = np.uint64(1), np.uint64(connect_four.ROWS)
    column = np.arange(connect_four.COLUMNS, dtype=np.uint64) * rows
    height = np.bitwise_count(((stones[:, :1] | stones[:, 1:]) >> column) & ((one << rows) - one))
    return connect_four.has_four(stones[:, :1] | (one << (column + height))) & mask


def _three_stones(observation: npt.NDArray) -> npt.NDArray[np.int64]:
    cells = observation.reshape(len(observation), 2, tic_tac_toe.CELLS)
    return cells.astype(np.int64) @ (1 << np.arange(tic_tac_toe.CELLS))


def _completes_three(stones: npt.NDArray, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Cells [n, 9] in which a stone of the first side gives it three in a line."""
    return tic_tac_toe.WINS[stones[:, :1] | (1 << np.arange(tic_tac_toe.CELLS))] & mask


@functools.cache
def _optimal_cells() -> npt.NDArray[np.int64]:
    """[512, 512]: by the mover's stones and the opponent's, the cells that keep the value, as bits."""
    optimal = np.zeros((tic_tac_toe.FULL + 1,) * 2, dtype=np.int64)

    @functools.cache
    def value(mover: int, opponent: int) -> int:
        """1, 0, -1: the mover wins, draws, loses. Fills `optimal` on the way."""
        if tic_tac_toe.WINS[opponent]:
            return -1
        empty = [1 << c for c in range(tic_tac_toe.CELLS) if not (mover | opponent) >> c & 1]
        if not empty:
            return 0
        values = {cell: -value(opponent, mover | cell) for cell in empty}
        best = max(values.values())
        optimal[mover, opponent] = sum(cell for cell, v in values.items() if v == best)
        return best

    value(0, 0)
    return optimal


_BOTS: dict[str, dict[str, Callable[[], ScriptedPolicy]]] = {
    "connect_four": {"one_ply": lambda: OnePlyBot(_four_stones, _completes_four)},
    "tic_tac_toe": {
        "one_ply": lambda: OnePlyBot(_three_stones, _completes_three),
        "perfect": PerfectTicTacToe,
    },
}


def bots_for(env_id: str) -> list[str]:
    """The names of the bots that can play `env_id`, in order."""
    return sorted(["random", *_BOTS.get(env_id, {})])


def make_bot(name: str, env_id: str, action: ActionSpec | None = None) -> Actor:
    """The bot `name` for the game `env_id`; "module:Class" is called with `env_id`.

    `action`: what an action of the game is; without it, one choice.

    Raises UnknownBot when there is no such bot, or it cannot play the game.
    """
    if ":" in name:
        try:
            build = import_path(name)
        except ValueError as error:
            raise UnknownBot(f"bot {error}") from error
        if not callable(build):
            raise UnknownBot(f"bot '{name}' is {build!r}, expected a class or function that takes the env id")
        bot = build(env_id)
        if not callable(getattr(bot, "act", None)):
            raise UnknownBot(f"bot '{name}' is {bot!r}, which has no act(observation, mask, rng, greedy)")
        return bot if isinstance(bot, Actor) else OwnBot(bot)
    if name == "random":
        return RandomBot(action)
    make = _BOTS.get(env_id, {}).get(name)
    if make is None:
        known = any(name in bots for bots in _BOTS.values())
        problem = f"bot '{name}' cannot play '{env_id}'" if known else f"no bot '{name}'"
        raise UnknownBot(f"{problem}; for '{env_id}' there are: {', '.join(bots_for(env_id))}")
    return make()
