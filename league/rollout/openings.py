"""Openings: the first moves of matches, which nobody chooses.

Players that always answer alike would play one game over and over, so matches begin with moves from a
book, or with random ones. Those come from the match's seed alone: matches of one seed begin alike,
whoever sits where, in whatever slot or batch they are played.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from league.envs import chance
from league.envs.base import BatchedGame, Decisions, is_legal
from league.envs.spaces import MOST_CHOICES, ActionSpec
from league.rollout.prompter import Prompter
from storage.errors import Mistake
from storage.records import Recordings

_MOVE = 2**41  # the first draw from the seed for a random move: further than any game comes
_OPEN = 2**62  # a move that no match comes to
_TRIED = 8  # matches, to see whether an opening leaves anything to play


@dataclass(frozen=True, slots=True)
class Openings:
    """How matches begin: with a line of the book, if there is one, and then with random plies. A ply is
    one decision of one seat. Nobody learns from such matches.

    Who sits there sees every decision all the same, and remembers it. A policy that is shown its previous
    action (connector `previous`) is shown, right after the opening, what it would have done.
    """

    plies: int = 0  # random legal actions, drawn from the match's seed alone
    # lines of actions, in order of time, then of seats; the numbers of one action side by side
    book: tuple[tuple[float, ...], ...] = ()
    line: npt.NDArray[np.int64] | None = None  # [M] of the request's matches: index into book

    def check(self, game: BatchedGame) -> None:
        """Play each line of the book once in `game`, from one seed. Raises Mistake for a line with a move
        that is not legal there, or with which the match is over, and for more random plies than matches
        have: what nobody chose says nothing of anybody."""
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
    """Makes the opening moves of a batch of matches of `game`, with these `seeds` [M]."""

    def __init__(self, game: BatchedGame, openings: Openings, seeds: npt.NDArray[np.int64]) -> None:
        """Raises ValueError for a book without a line of it for each match."""
        if openings.book and (openings.line is None or len(openings.line) != len(seeds)):
            raise ValueError(f"openings: expected the line in the book of each of {len(seeds)} matches")
        self._game, self._openings, self._seeds = game, openings, seeds
        self._prompter = Prompter(game, _recordings(openings.book))
        self._match = np.zeros(game.num_slots, dtype=np.int64)
        self._move = np.zeros(game.num_slots, dtype=np.int64)  # the next decision's number
        self._end = np.zeros(game.num_slots, dtype=np.int64)  # of the opening; known once its line is

    def begin(self, slot: npt.NDArray[np.int64], match: npt.NDArray[np.int64]) -> None:
        """New matches [n], by their index in the batch, in these slots [n]."""
        self._match[slot] = match
        self._move[slot] = 0
        self._end[slot] = self._openings.plies
        if self._openings.line is not None:
            self._prompter.begin(slot, self._openings.line[match])
            self._end[slot] = _OPEN

    def make(self, block: Decisions, action: npt.NDArray, certain: npt.NDArray[np.bool_]) -> None:
        """Put opening moves in the place of what was chosen in a block: `action` [n, *shape], `certain` [n].

        To be told of all blocks of all steps. Raises Mistake for a move of the book that is not legal.
        """
        rows = np.flatnonzero(self._end[block.slot] > self._move[block.slot])
        if not len(rows):
            return
        own = Decisions(block.slot[rows], block.seat[rows], block.observation[:0], block.mask[rows])
        before = np.arange(len(rows)) - np.searchsorted(own.slot, own.slot)  # seats of the same match
        move = self._move[own.slot] + before
        np.maximum.at(self._move, own.slot, move + 1)
        by_book = self._follow(own, move, rows, action)
        np.minimum.at(self._end, own.slot[~by_book], move[~by_book] + self._openings.plies)
        drawn = ~by_book & (move < self._end[own.slot])
        seeds, spec = self._seeds[self._match[own.slot[drawn]]], self._game.action_specs[int(block.seat[0])]
        action[rows[drawn]] = random_legal(spec, own.mask[drawn], seeds, move[drawn])
        certain[rows[by_book | drawn]] = True

    def _follow(
        self, own: Decisions, move: npt.NDArray[np.int64], rows: npt.NDArray[np.int64], action: npt.NDArray
    ) -> npt.NDArray[np.bool_]:
        """Make the moves of the book; for which of the decisions [k], those in `rows` of the block, it has
        one."""
        if self._openings.line is None:
            return np.zeros(len(own), dtype=np.bool_)
        spec = self._game.action_specs[int(own.seat[0])]
        (told,) = self._prompter.answer([own])
        flat = told.reshape(len(own), -1)
        found = np.logical_and.reduce(~np.isnan(flat) & ((flat >= 0) | (spec.kind == "continuous")), axis=1)
        for row in np.flatnonzero(found & ~is_legal(spec, own.mask, told))[:1]:
            line = int(self._openings.line[self._match[own.slot[row]]])
            expect_legal(line + 1, int(move[row]) + 1, flat[row], spec, own.mask[row])
        action[rows[found]] = told[found]
        return found


def random_legal(
    spec: ActionSpec,
    mask: npt.NDArray[np.bool_],
    seeds: npt.NDArray[np.int64],
    move: npt.NDArray[np.int64],
) -> npt.NDArray:
    """Legal actions [n, *shape] by the masks [n, mask_width], all as likely as one another: one for each
    seed [n] and number of the move [n], from those alone."""
    parts = len(spec.sizes) or len(spec.low)
    counter = _MOVE + (move * MOST_CHOICES)[:, None] + np.arange(parts)
    high = chance.bits(seeds[:, None], counter) >> np.uint64(32)  # [n, parts]
    if spec.kind == "continuous":
        low, top = spec.bounds()
        return np.clip((low + (top - low) * (high / 2.0**32)).astype(np.float32), low, top)
    choices = []
    for part, end in enumerate(np.cumsum(spec.sizes)):
        legal = np.cumsum(mask[:, end - spec.sizes[part] : end], axis=1)
        nth = (high[:, part] * legal[:, -1].astype(np.uint64)) >> np.uint64(32)
        choices.append((legal > nth.astype(np.int64)[:, None]).argmax(axis=1))
    return np.stack(choices, axis=1).reshape(len(mask), *spec.shape)


def expect_legal(
    line: int, move: int, numbers: npt.NDArray, spec: ActionSpec, mask: npt.NDArray[np.bool_]
) -> None:
    """Raise Mistake unless the numbers of one action, the move number `move` of the book's line number
    `line` (both from 1), are one that is legal by the mask [mask_width]."""
    found = " ".join(f"{number:g}" for number in numbers)
    width = math.prod(spec.shape)
    whole = spec.kind == "continuous" or bool((numbers == np.floor(numbers)).all())
    most = np.finfo(np.float32).max if spec.kind == "continuous" else MOST_CHOICES
    is_one = len(numbers) == width and whole and bool((np.abs(numbers) <= most).all())
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
) -> Iterator[tuple[int, npt.NDArray, ActionSpec, npt.NDArray[np.bool_]]]:
    """Play one line in slot 0: before each move its number, what the line has for it, and what may be done.
    Raises Mistake when the match is over before the line is, or with it."""
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
    """Decisions of a match in slot 0 in which all are random; of one that has more, more than `most`."""
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
    """The lines of the book as if they had been recorded."""
    offset = np.cumsum([0, *map(len, book)])
    numbers = np.array([number for line in book for number in line], dtype=np.float32)
    return Recordings(np.arange(len(book)), offset, numbers)
