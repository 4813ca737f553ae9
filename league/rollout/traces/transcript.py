"""Transcript: every action of the matches that are recorded, while they are played, as columns.

With the match's seed the actions are the whole match: `league.watching.replay` plays it again from them. They
are kept as float32, in which choices are exact (there are at most 2**20 of them) and real numbers are
what they were.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from league.envs import chance
from league.envs.base import BatchedGame, Decisions
from storage.records import Recordings

_CHOICE = 2**40 + 1  # a draw from the seed that no game comes to: who is recorded tells nothing of the deal


def chosen(seeds: npt.NDArray[np.int64], share: float) -> npt.NDArray[np.bool_]:
    """Which matches are recorded, about a `share` in [0, 1] of them: [M]. By their seeds [M] alone, so that
    the same are chosen when the run is repeated.
    """
    return chance.bits(seeds, _CHOICE) / 2.0**64 < share if share < 1.0 else np.ones(len(seeds), np.bool_)


class Transcript:
    """Records a batch of matches of `game`: those that `chosen` [M] names, at no cost if it names none."""

    def __init__(self, game: BatchedGame, chosen: npt.NDArray[np.bool_]) -> None:
        self._game = game
        self._chosen = chosen
        self._any = bool(chosen.any())
        self._blocks: list[tuple[npt.NDArray, ...]] = []  # row, time, seat, numbers of an action; [n] each
        self._actions: list[npt.NDArray[np.float32]] = []

    def decided(self, block: Decisions, action: npt.NDArray, match_of: npt.NDArray[np.int64]) -> None:
        """Append the actions [n, *shape] of a block, before they are stepped, as they were given: also
        illegal ones. `match_of` [num_slots]: the row of the match that is played there."""
        if not self._any:
            return
        row = match_of[block.slot]
        kept = np.flatnonzero(self._chosen[row])
        # copies: a part of a block must not keep the whole of it
        taken = action[kept].astype(np.float32)
        time = self._game.env_steps[block.slot[kept]]
        width = np.full(len(kept), math.prod(action.shape[1:]), dtype=np.int64)
        self._blocks.append((row[kept], time, block.seat[kept], width))
        self._actions.append(taken.ravel())

    def recordings(self) -> Recordings | None:
        """Everything recorded, match by match: none of one that broke before its first action. None when no
        match was to be recorded."""
        if not self._any:
            return None
        nothing = (np.zeros(0, dtype=np.int64),) * 4
        columns = zip(*[nothing, *self._blocks], strict=True)
        row, time, seat, width = (np.concatenate(column) for column in columns)
        action = np.concatenate([np.zeros(0, dtype=np.float32), *self._actions])
        start = np.cumsum(width) - width
        order = np.lexsort((seat, time, row))
        matches = np.flatnonzero(self._chosen)
        size = np.bincount(row, weights=width, minlength=len(self._chosen))[matches]
        return Recordings(
            row=matches,
            offset=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
            action=action[spans(start[order], width[order])],
        )


def spans(start: npt.NDArray[np.int64], width: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The indices start, ..., start + width - 1 of each of n spans, one behind the other: [sum of widths]."""
    before = np.cumsum(width) - width
    return np.repeat(start - before, width) + np.arange(width.sum())
