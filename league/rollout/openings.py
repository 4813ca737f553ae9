"""Openings: the first moves of matches, which come from a book or at random and not from the players.

Deterministic players would repeat one game over and over. So matches may begin with moves from a book,
with random moves, or with both. Random moves depend only on the match's seed: matches of one seed begin
with the same moves, whatever competitors, slot and batch they have.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field

from league.envs import chance
from league.envs.base import BatchedGame, Decisions, is_legal
from league.envs.spaces import MOST_CHOICES, ActionSpec
from league.rollout.traces.transcript import Prompter
from league.section import SettingsGroup
from storage.arrays import Bools, Indices
from storage.errors import Mistake
from storage.records import Recordings

_MOVE = 2**41  # the first draw from the seed for a random move: beyond those that any game uses
_HOW_MANY = 2**62  # the draw for the number of random moves; the one after it decides if there are any
_OPEN = 2**62  # a move number that no match reaches
_TRIED = 8  # matches played to check that an opening leaves moves to play


class TrainingOpenings(SettingsGroup):
    """Random first moves of training matches, so that players learn from positions that they avoid."""

    share: float = Field(
        default=0.0, ge=0, le=1, description="Share of training matches that begin with random moves"
    )
    plies: int = Field(
        default=12,
        ge=1,
        description="Most random moves of one match, of all seats together; their number is drawn evenly "
        "from 1 to this. They are not learned from",
    )

    def openings(self) -> Openings | None:
        """Return the openings for runners; `None` if no match has one."""
        return Openings(self.plies, share=self.share) if self.share else None


@dataclass(frozen=True, slots=True)
class Openings:
    """Beginning of matches: first a line of the book, if there is a book, then random plies.

    A ply is one decision of one seat. Moves of an opening are not learned from. Bots and competitors with a
    memory still get every decision of the opening. The connector `previous` shows a policy, right after the
    opening, the action that the policy itself would have taken.
    """

    plies: int = 0  # number of random legal actions, drawn from the match's seed alone
    # lines of actions, in order of time, then of seats; an action may take several numbers
    book: tuple[tuple[float, ...], ...] = ()
    line: Indices | None = None  # [M] index into `book` for each match of the request
    # share of matches with random plies, 1 to `plies` of them; `None`: all matches have `plies`
    share: float | None = None

    def random_plies(self, seeds: Indices) -> Indices | int:
        """Return the number of random plies of the matches with these seeds [n]: [n], or one for all."""
        if self.share is None:
            return self.plies
        has_some = chance.below(seeds, _HOW_MANY + 1, 2**32) < self.share * 2**32
        return np.where(has_some, 1 + chance.below(seeds, _HOW_MANY, self.plies), 0)

    def check(self, game: BatchedGame) -> None:
        """Play each line of the book once in `game`, from one seed.

        Raise Mistake for a line with an illegal move, for a line that ends the match, and for so many random
        plies that no moves are left to the players.
        """
        for number, line in enumerate(self.book, 1):
            for move, numbers, spec, mask in _played(game, number, line):
                expect_legal(number, move, numbers, spec, mask)
        if self.plies and not self.book:
            longest = max(_random_plies(game, seed, self.plies) for seed in range(_TRIED))
            if longest <= self.plies:
                raise Mistake(
                    f"opening.plies: found {self.plies}, but of {_TRIED} matches with random moves alone the "
                    f"longest was over after {longest}, expected fewer: an opening that leaves moves to play"
                )


class OpeningMoves:
    """Opening moves of a batch of matches of `game` with these `seeds` [M]."""

    def __init__(self, game: BatchedGame, openings: Openings, seeds: Indices) -> None:
        """Raise ValueError if there is a book and `openings.line` has no index for each match."""
        if openings.book and (openings.line is None or len(openings.line) != len(seeds)):
            raise ValueError(
                f"openings: expected the index of a line of the book for each of {len(seeds)} matches"
            )
        self._game, self._openings, self._seeds = game, openings, seeds
        self._prompter = Prompter(game, _recordings(openings.book))
        self._match = np.zeros(game.num_slots, dtype=np.int64)
        self._move = np.zeros(game.num_slots, dtype=np.int64)  # number of the next decision, by slot
        self._end = np.zeros(
            game.num_slots, dtype=np.int64
        )  # number of the first decision after the opening; _OPEN while its line goes on

    def begin(self, slot: Indices, match: Indices, move: Indices | Literal[0] = 0) -> None:
        """Open the matches [n], given by their index in the batch, in these slots [n].

        `move` [n]: the number of the next decision. Random moves go on at any; a line of a book begins.
        """
        self._match[slot] = match
        self._move[slot] = move
        self._end[slot] = self._openings.random_plies(self._seeds[match])
        if self._openings.line is not None:
            self._prompter.begin(slot, self._openings.line[match])
            self._end[slot] = _OPEN

    def leave_out(self, slot: Indices) -> None:
        """Give the matches that begin in these slots [n] no opening."""
        self._end[slot] = 0

    def moves(self, slot: Indices) -> Indices:
        """Return the number of the next decision of the matches in these slots [n], while they open."""
        return self._move[slot]

    def make(self, block: Decisions) -> tuple[Indices, npt.NDArray]:
        """Return the rows [k] of a block that are opening moves, and these moves [k, *shape].

        Call it once for every block of every step. Raise Mistake for a move of the book that is not legal.
        """
        spec = self._game.action_specs[int(block.seat[0])]
        rows = np.flatnonzero(self._end[block.slot] > self._move[block.slot])
        action = np.zeros((len(rows), *spec.shape), dtype=spec.dtype)
        if not len(rows):
            return rows, action
        own = Decisions(block.slot[rows], block.seat[rows], block.observation[:0], block.mask[rows])
        before = np.arange(len(rows)) - np.searchsorted(
            own.slot, own.slot
        )  # number of earlier rows of the same match
        move = self._move[own.slot] + before
        self._move[own.slot] = move + 1  # the last of a match, which is its highest, stays
        by_book = self._follow(own, move, spec, action)
        drawn = ~by_book & (move < self._end[own.slot])
        seeds = self._seeds[self._match[own.slot[drawn]]]
        action[drawn] = random_legal(spec, own.mask[drawn], seeds, move[drawn])
        made = by_book | drawn
        return rows[made], action[made]

    def _follow(self, own: Decisions, move: Indices, spec: ActionSpec, action: npt.NDArray) -> Bools:
        """Write the moves of the book into `action`, and return which of the decisions [k] have one."""
        if self._openings.line is None:
            return np.zeros(len(own), dtype=np.bool_)
        (moves,) = self._prompter.answer([own])
        flat = moves.reshape(len(own), -1)
        found = ~np.isnan(flat).any(axis=1) & (flat[:, : len(spec.sizes)] >= 0).all(axis=1)
        for row in np.flatnonzero(found & ~is_legal(spec, own.mask, moves))[:1]:
            line = int(self._openings.line[self._match[own.slot[row]]])
            expect_legal(line + 1, int(move[row]) + 1, flat[row], spec, own.mask[row])
        action[found] = moves[found]
        np.minimum.at(self._end, own.slot[~found], move[~found] + self._openings.plies)
        return found


def random_legal(spec: ActionSpec, mask: Bools, seeds: Indices, move: Indices) -> npt.NDArray:
    """Return uniformly drawn legal actions [n, *shape] by the masks [n, mask_width].

    Each depends only on its seed [n], the number of its move [n] and its mask.
    """
    k = len(spec.sizes)
    counter = _MOVE + (move * MOST_CHOICES)[:, None] + np.arange(k + len(spec.low))
    high = chance.bits(seeds[:, None], counter) >> np.uint64(32)  # [n, k + d]
    choices = np.zeros((len(mask), k), dtype=np.int64)
    for part, (start, end) in enumerate(spec.columns):
        legal = np.cumsum(mask[:, start:end], axis=1)
        nth = (high[:, part] * legal[:, -1].astype(np.uint64)) >> np.uint64(32)
        choices[:, part] = (legal > nth.astype(np.int64)[:, None]).argmax(axis=1)
    return spec.joined(choices, spec.numbers_at(high[:, k:] / 2.0**32)[0])


def expect_legal(line: int, move: int, numbers: npt.NDArray, spec: ActionSpec, mask: Bools) -> None:
    """Raise Mistake unless `numbers` are one action that is legal by the mask [mask_width].

    The message names the `line` of the book and the `move` in it, both counted from 1.
    """
    found = " ".join(f"{number:g}" for number in numbers)
    width = math.prod(spec.shape)
    chosen = numbers[: len(spec.sizes)]
    whole = bool((chosen == np.floor(chosen)).all() and (np.abs(chosen) <= MOST_CHOICES).all())
    is_one = len(numbers) == width and whole and bool((np.abs(numbers) <= np.finfo(np.float32).max).all())
    if is_one and is_legal(spec, mask[None], numbers.astype(spec.dtype).reshape(1, *spec.shape))[0]:
        return
    expected = f"{width} numbers" if width > 1 else "a number"
    if spec.kind == "discrete":
        legal = [str(choice) for choice in np.flatnonzero(mask)]
        expected = f"one of {', '.join(legal[:12])}{', ...' if len(legal) > 12 else ''}"
    raise Mistake(
        f"opening.book: opening {line}, move {move}: found {found}, which is not legal there, expected "
        f"{expected}"
    )


def _played(
    game: BatchedGame, number: int, line: tuple[float, ...]
) -> Iterator[tuple[int, npt.NDArray, ActionSpec, Bools]]:
    """Play one line in slot 0, and yield before each move its number, its numbers in the line, spec and mask.

    Raise Mistake if the match ends before the line does, or with its last move.
    """
    left, move = np.array(line), 0
    game.reset(np.array([0]), np.array([0]))
    while len(left):
        if not game.active[0]:
            raise Mistake(
                f"opening.book: opening {number}: the match is over after move {move}, and the line goes on; "
                "end it before"
            )
        actions = []
        for block in game.due():
            spec = game.action_specs[int(block.seat[0])]
            taken = random_legal(spec, block.mask, np.zeros(len(block), np.int64), np.arange(len(block)))
            for row in range(len(block)):
                if len(left):
                    numbers, left = np.split(left, [math.prod(spec.shape)])
                    move += 1
                    yield move, numbers, spec, block.mask[row]
                    taken[row] = numbers.astype(spec.dtype).reshape(spec.shape)
            actions.append(taken)
        game.step(actions)
    if not game.active[0]:
        raise Mistake(
            f"opening.book: opening {number}: the match is over with its last move, and nothing is left to "
            "play; end it before"
        )


def _random_plies(game: BatchedGame, seed: int, most: int) -> int:
    """Return the number of decisions of a random match in slot 0, or `most` + 1 if there are more."""
    move = 0
    game.reset(np.array([0]), np.array([seed]))
    while game.active[0] and move < most:
        actions = []
        for block in game.due():
            spec, seeds = game.action_specs[int(block.seat[0])], np.full(len(block), seed)
            actions.append(random_legal(spec, block.mask, seeds, move + np.arange(len(block))))
            move += len(block)
        game.step(actions)
    return move if not game.active[0] else most + 1


def _recordings(book: tuple[tuple[float, ...], ...]) -> Recordings:
    """Return the lines of the book in the form of recordings."""
    offset = np.cumsum([0, *map(len, book)])
    numbers = np.array([number for line in book for number in line], dtype=np.float32)
    return Recordings(np.arange(len(book)), offset, numbers)
