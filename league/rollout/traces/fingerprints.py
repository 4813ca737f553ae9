"""Fingerprints: which matches were the same, told by one number for each.

Where no player's choice is drawn at random, a pair of the same players and the same deal is the same
games again, and says nothing new. A match's number is a hash of everything that every seat that
decided saw and did, and of how it ended; it is 0 as soon as one choice could have been another.

In a game that draws by itself, a deal above all, no match has a number: deals are as likely as they
are, so one that comes twice counts twice. Few matches with equal moves and different seeds tell
whether a game does.

Words of 64 bits are mixed one by one and summed with odd factors; a decision's sum is mixed with
its time and seat, and the sums of all decisions are added: so the order of the decisions counts,
that of the rows in which they come does not. The mixing is that of splitmix64, as in `envs.chance`.
"""

from __future__ import annotations

import functools
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from league.envs import chance
from league.envs.base import BatchedGame, Decisions
from league.rollout.openings import random_legal

_SPREAD = np.uint64(0xBF58476D1CE4E5B9)
_SHIFTS = (np.uint64(32), np.uint64(29))
_SEATS = 2**16  # more than a game has
_END = 2**62  # the time of how a match ended
_TRIALS = 16  # matches in which a game that draws is expected to draw twice differently

_found: WeakKeyDictionary[BatchedGame, bool] = WeakKeyDictionary()  # what `draws` found out


class Fingerprints:
    """Of a batch of M matches of `game`, while they are played."""

    def __init__(self, game: BatchedGame, num_matches: int) -> None:
        self._game = game
        self._sum = np.zeros(num_matches, dtype=np.uint64)
        self._drawn = np.zeros(num_matches, dtype=np.bool_)

    def decided(
        self,
        block: Decisions,
        action: npt.NDArray,
        certain: npt.NDArray[np.bool_],
        match_of: npt.NDArray[np.int64],
    ) -> None:
        """Take in a block, before it is stepped: the actions [n, *shape], and which of them could have been
        no other [n]. `match_of` [num_slots]: the number of the match that is played there."""
        match = match_of[block.slot]
        self._drawn[match[~certain]] = True
        rows = np.flatnonzero(~self._drawn[match])
        if not len(rows):
            return
        sums = sum_of_words(block.observation[rows], block.mask[rows], action[rows])
        when = self._game.env_steps[block.slot[rows]].astype(np.int64) * _SEATS + block.seat[rows]
        np.add.at(self._sum, match[rows], chance.bits(sums.view(np.int64), when))

    def ended(self, match: npt.NDArray[np.int64], *how: npt.NDArray) -> None:
        """These matches [k] are over; `how` they ended, [k, ...] each."""
        rows = np.flatnonzero(~self._drawn[match])
        if len(rows):
            sums = sum_of_words(*(column[rows] for column in how))
            self._sum[match[rows]] += chance.bits(sums.view(np.int64), _END)

    def digests(self) -> npt.NDArray[np.int64]:
        """[M]: 0 where a choice was drawn, and of a game that draws. For when all matches are over."""
        if self._drawn.all() or draws(self._game):
            return np.zeros(len(self._sum), dtype=np.int64)
        return np.where(self._drawn, 0, self.mixed())

    def mixed(self) -> npt.NDArray[np.int64]:
        """[M]: a number of each match, other than 0."""
        return np.maximum(chance.bits(self._sum.view(np.int64), _END), np.uint64(1)).view(np.int64)


def draws(game: BatchedGame) -> bool:
    """Whether its matches differ though all moves are alike, when they differ in their seeds. Tried out once
    for each `game`, in which no match may be under way."""
    if game not in _found:
        slots = np.arange(min(game.num_slots, _TRIALS))
        trials = [_tried(game, slots, first + slots) for first in range(0, _TRIALS, len(slots))]
        _found[game] = len(np.unique(np.concatenate(trials))) > 1
    return _found[game]


def _tried(
    game: BatchedGame, slots: npt.NDArray[np.int64], seeds: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """[n] a number for each of n matches, one in each slot, in which all make the same random moves."""
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
    """Of n rows, all that they hold in `columns` [n, ...], as one number each: [n]."""
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
    """[words], the same every time: shared, so not to be written to."""
    return chance.bits(np.arange(words), 0) | np.uint64(1)
