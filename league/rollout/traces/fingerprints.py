"""Fingerprints: one number for each match, equal for identical matches.

If no player draws its actions at random, a second pair of the same players with the same deal repeats
the same games and adds no information. The number of a match is a hash of all observations and actions
in it and of its result. It is 0 if any action could have been a different one.

In a game that makes random draws of its own, such as a deal, all numbers are 0: an outcome that chance
produces twice counts twice. A few matches with equal moves and different seeds show whether a game draws.

Words of 64 bits are mixed one by one and summed with odd factors. The sum of a decision is mixed with
its time and seat, and the sums of all decisions are added. So the order of the decisions matters, and
the order of rows within a block does not. The mixing is splitmix64, as in `envs.chance`.
"""

from __future__ import annotations

import functools
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from league.envs import chance
from league.envs.base import BatchedGame, Decisions
from league.rollout.openings import random_legal
from storage.arrays import Bools, Indices

_SPREAD = np.uint64(0xBF58476D1CE4E5B9)
_SHIFTS = (np.uint64(32), np.uint64(29))
_SEATS = 2**16  # more seats than any game has
_END = 2**62  # in place of a time: the end of a match
_TRIALS = 16  # matches; enough for a game that draws to show two different draws

_found: WeakKeyDictionary[BatchedGame, bool] = WeakKeyDictionary()  # results of `draws`


class Fingerprints:
    """Fingerprints of a batch of M matches of `game`, updated while they are played."""

    def __init__(self, game: BatchedGame, num_matches: int) -> None:
        self._game = game
        self._sum = np.zeros(num_matches, dtype=np.uint64)
        self._drawn = np.zeros(num_matches, dtype=np.bool_)

    def decided(self, block: Decisions, action: npt.NDArray, certain: Bools, match_of: Indices) -> None:
        """Add the actions [n, *shape] of a block, before the game makes its step.

        `certain` [n]: which actions had no alternative; `match_of` [num_slots]: the match in each slot.
        """
        match = match_of[block.slot]
        self._drawn[match[~certain]] = True
        rows = np.flatnonzero(~self._drawn[match])
        if not len(rows):
            return
        sums = sum_of_words(block.observation[rows], block.mask[rows], action[rows])
        when = self._game.env_steps[block.slot[rows]].astype(np.int64) * _SEATS + block.seat[rows]
        np.add.at(self._sum, match[rows], chance.bits(sums.view(np.int64), when))

    def ended(self, match: Indices, *how: npt.NDArray) -> None:
        """Add the results of the matches [k] that are over: any number of arrays `how` [k, ...]."""
        rows = np.flatnonzero(~self._drawn[match])
        if len(rows):
            sums = sum_of_words(*(column[rows] for column in how))
            self._sum[match[rows]] += chance.bits(sums.view(np.int64), _END)

    def digests(self) -> Indices:
        """Return the numbers [M] once all matches are over; 0 if a player or the game made a random draw."""
        if self._drawn.all() or draws(self._game):
            return np.zeros(len(self._sum), dtype=np.int64)
        return np.where(self._drawn, 0, self.mixed())

    def mixed(self) -> Indices:
        """Return a number other than 0 for each match [M]."""
        return np.maximum(chance.bits(self._sum.view(np.int64), _END), np.uint64(1)).view(np.int64)


def draws(game: BatchedGame) -> bool:
    """Return whether matches of `game` with equal moves and different seeds differ.

    The first call for a `game` plays trial matches in it, so no match may be under way.
    """
    if game not in _found:
        slots = np.arange(min(game.num_slots, _TRIALS))
        trials = [_tried(game, slots, first + slots) for first in range(0, _TRIALS, len(slots))]
        _found[game] = len(np.unique(np.concatenate(trials))) > 1
    return _found[game]


def _tried(game: BatchedGame, slots: Indices, seeds: Indices) -> Indices:
    """Return [n] a number for each of n matches, one in each slot, all with the same random moves."""
    prints = Fingerprints(game, len(slots))
    score = np.zeros((game.num_slots, game.num_seats), dtype=np.float32)
    game.reset(slots, seeds)
    while game.active.any():
        actions = []
        for block in game.due():
            spec = game.action_specs[int(block.seat[0])]
            move = game.env_steps[block.slot].astype(np.int64) * game.num_seats + block.seat
            action = random_legal(spec, block.mask, np.zeros(len(block), np.int64), move)
            prints.decided(block, action, np.ones(len(block), np.bool_), slots)
            actions.append(action)
        transition = game.step(actions)
        score += transition.rewards
        prints.ended(transition.ended, score[transition.ended], transition.reason)
    return prints.mixed()


def sum_of_words(*columns: npt.NDArray) -> npt.NDArray[np.uint64]:
    """Return [n] one number for each row, computed from all its values in `columns` [n, ...]."""
    n = len(columns[0])
    rows = [np.ascontiguousarray(column).reshape(n, -1).view(np.uint8) for column in columns]
    width = sum(row.shape[1] for row in rows)
    words = -(-width // 8)
    rows.append(np.zeros((n, 8 * words - width), dtype=np.uint8))
    x = np.concatenate(rows, axis=1).view(np.uint64)
    x ^= x >> _SHIFTS[0]
    x *= _SPREAD
    x ^= x >> _SHIFTS[1]
    return x @ _factors(words)


@functools.lru_cache(maxsize=64)
def _factors(words: int) -> npt.NDArray[np.uint64]:
    """Return [words] odd factors, always the same; the array is shared, so do not write to it."""
    return chance.bits(np.arange(words), 0) | np.uint64(1)
