"""The tree of a native game, walked level by level: histories of equal length are one batch of matches."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.exploitability.tree import Endings, GameTree, Questions, TreeDecisions, game_tree
from league.envs.base import BatchedGame
from league.envs.base import Decisions as Due
from league.envs.trees import TooLarge
from storage.arrays import Bools, Floats, Indices


@dataclass(slots=True)
class _Level:
    """The n histories of one length, each in a slot of `game`. Finished histories are not active."""

    game: BatchedGame
    chance: Floats  # [n] probability of the chance events
    sequence: Indices  # [n, num_seats] number of each seat's sequence so far
    returns: Floats  # [n, num_seats]
    since: Floats  # [n, num_seats] rewards since the seat's last decision


@dataclass(slots=True)
class _Branches:
    """The m histories that follow a level."""

    slot: Indices  # [m] slot of the parent in the level
    action: Indices  # [m, num_seats]
    sequence: Indices  # [m, num_seats]


def walk(env_id: str, game: BatchedGame, most_histories: int) -> GameTree:
    """Return the tree of `game`, which must have `starts` and `match_arrays`. Raise TooLarge."""
    chance = game.starts()
    if chance is None:
        raise ValueError(f"{env_id}: found no starts, expected their probabilities")
    n, seats = len(chance), game.num_seats
    game = game.copies(np.zeros(n, dtype=np.int64))
    game.start_at(np.arange(n), np.arange(n))
    level = _Level(game, chance, np.zeros((n, seats), np.int64), np.zeros((n, seats)), np.zeros((n, seats)))
    notes = _Notes()
    histories = 1 + n if n > 1 else 1
    while level.game.active.any():
        (due,) = level.game.due()  # all seats have the same spaces, so one block
        following = np.ones(level.game.num_slots, dtype=np.int64)
        np.multiply.at(following, due.slot, due.mask.sum(axis=1))
        histories += int(following[level.game.active].sum())
        if histories > most_histories:
            raise TooLarge(env_id, f"more than {most_histories:,}", most_histories)
        branches = _branches(level, due, notes.decide(level, due))
        level = _next(level, due, branches)
        over = ~level.game.active
        notes.end(level.sequence[over], level.chance[over, None] * level.returns[over])
    return notes.tree(histories)


def _branches(level: _Level, due: Due, first: Indices) -> _Branches:
    """Return all combinations of legal actions. `first` [n]: the first sequence of each due decision."""
    actions = np.nonzero(due.mask)[1]  # of all decisions, side by side
    num_actions = due.mask.sum(axis=1)
    start = np.cumsum(num_actions) - num_actions
    decision = np.full(level.sequence.shape, -1, dtype=np.int64)
    decision[due.slot, due.seat] = np.arange(len(due))
    slot = np.flatnonzero(level.game.active)
    action, sequence = np.zeros((len(slot), level.sequence.shape[1]), np.int64), level.sequence[slot]
    for seat in range(action.shape[1]):
        own = decision[slot, seat]
        count = np.where(own >= 0, num_actions[own], 1)
        row = np.repeat(np.arange(len(slot)), count)
        ordinal = np.arange(len(row)) - (np.cumsum(count) - count)[row]
        slot, action, sequence, own = slot[row], action[row], sequence[row], own[row]
        acts = own >= 0
        action[acts, seat] = actions[(start[own] + ordinal)[acts]]
        sequence[acts, seat] = (first[own] + ordinal)[acts]
    return _Branches(slot, action, sequence)


def _next(level: _Level, due: Due, branches: _Branches) -> _Level:
    slot = branches.slot
    since = level.since
    since[due.slot, due.seat] = 0.0
    game = level.game.copies(slot)
    (again,) = game.due()
    rewards = game.step([branches.action[again.slot, again.seat]]).rewards.astype(np.float64)
    return _Level(
        game, level.chance[slot], branches.sequence, level.returns[slot] + rewards, since[slot] + rewards
    )


class _Notes:
    """Everything found so far."""

    def __init__(self) -> None:
        self._questions = _Asked()
        self._next_sequence = 1
        self._decided: list[tuple[Indices, Indices, Indices, Floats]] = []  # seat, parent, question, reward
        self._ended: list[tuple[Indices, Floats]] = []

    def decide(self, level: _Level, due: Due) -> Indices:
        """Note all due decisions, and return the first sequence of each [n]."""
        question = self._questions.numbers(due.observation, due.mask)
        parent, reward = level.sequence[due.slot, due.seat], level.since[due.slot, due.seat]
        self._decided.append((due.seat.copy(), parent, question, reward))
        num_actions = due.mask.sum(axis=1)
        first = self._next_sequence + np.cumsum(num_actions) - num_actions
        self._next_sequence += int(num_actions.sum())
        return first

    def end(self, sequence: Indices, worth: Floats) -> None:
        self._ended.append((sequence, worth))

    def tree(self, histories: int) -> GameTree:
        seat, parent, question, reward = (
            np.concatenate(column) for column in zip(*self._decided, strict=True)
        )
        # a seat knows its rewards as well as its observations
        _, amount = np.unique(reward, return_inverse=True)
        label = question * (amount.max() + 1) + amount
        _, label = np.unique(label, return_inverse=True)
        endings = Endings(*(np.concatenate(column) for column in zip(*self._ended, strict=True)))
        return game_tree(
            self._questions.all(), TreeDecisions(seat, parent, label, question, reward), endings, histories
        )


class _Asked:
    """Questions by number: equal observations with equal legal actions are one question."""

    def __init__(self) -> None:
        self._number: dict[bytes, int] = {}
        self._observations: list[npt.NDArray] = []
        self._masks: list[Bools] = []

    def numbers(self, observation: npt.NDArray, mask: Bools) -> Indices:
        """Return the number of each question [n], for observations [n, *shape] and masks [n, A]."""
        seen = np.ascontiguousarray(observation).reshape(len(mask), -1).view(np.uint8)
        rows = np.concatenate([seen, mask.view(np.uint8)], axis=1)
        as_one = rows.view(np.dtype((np.void, rows.shape[1]))).ravel()
        _, example, alike = np.unique(as_one, return_index=True, return_inverse=True)
        found = np.empty(len(example), dtype=np.int64)
        for place, row in enumerate(example.tolist()):
            found[place] = self._number.setdefault(rows[row].tobytes(), len(self._number))
            if found[place] == len(self._masks):
                self._observations.append(observation[row].copy())
                self._masks.append(mask[row].copy())
        return found[alike]

    def all(self) -> Questions:
        return Questions(np.stack(self._observations), np.stack(self._masks))
