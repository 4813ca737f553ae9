"""Prompter: supplies the actions of recorded matches, decision by decision."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame, Decisions
from league.envs.spaces import MOST_CHOICES
from storage.records import Recordings


class Prompter:
    """Answers decisions with recorded actions.

    Beyond the end of a recording every answer is an action that is never legal, which ends the match.
    """

    def __init__(self, game: BatchedGame, recordings: Recordings) -> None:
        self._game = game
        self._recordings = recordings
        self._numbers = np.append(recordings.action, np.float32(np.nan))
        self._width = np.array([math.prod(spec.shape) for spec in game.action_specs])  # by seat
        self._next = np.zeros(game.num_slots, dtype=np.int64)  # by slot, index into the numbers
        self._end = np.zeros(game.num_slots, dtype=np.int64)

    def begin(self, slot: npt.NDArray[np.int64], recording: npt.NDArray[np.int64]) -> None:
        """Play recording [n] in each of these slots [n] from the next decision on."""
        self._next[slot] = self._recordings.offset[recording]
        self._end[slot] = self._recordings.offset[recording + 1]

    def answer(self, blocks: Sequence[Decisions]) -> list[npt.NDArray]:
        """Return the actions of all blocks that are due, an array [n, *shape] for each."""
        if not blocks:
            return []
        slot = np.concatenate([block.slot for block in blocks])
        seat = np.concatenate([block.seat for block in blocks])
        start = np.zeros(len(slot), dtype=np.int64)
        for s in np.unique(seat):  # by seat, the order of recording: in a slot each seat acts once
            mine = seat == s
            start[mine] = self._next[slot[mine]]
            self._next[slot[mine]] += self._width[s]
        borders = np.cumsum([len(block) for block in blocks])[:-1]
        return [self._read(b, first) for b, first in zip(blocks, np.split(start, borders), strict=True)]

    def _read(self, block: Decisions, start: npt.NDArray[np.int64]) -> npt.NDArray:
        """Return the actions of one block, whose numbers begin at `start` [n]."""
        spec = self._game.action_specs[int(block.seat[0])]
        at = start[:, None] + np.arange(self._width[block.seat[0]])
        numbers = self._numbers[np.where(at < self._end[block.slot, None], at, len(self._numbers) - 1)]
        if spec.kind != "continuous":
            numbers = np.where(np.isnan(numbers), -1, np.clip(numbers, -MOST_CHOICES, MOST_CHOICES))
        return numbers.astype(spec.dtype).reshape(len(block), *spec.shape)

    def ran_out(self, slot: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return [n] whether more actions were due in these slots [n] than were recorded."""
        return self._next[slot] > self._end[slot]
