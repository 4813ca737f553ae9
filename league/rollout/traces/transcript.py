"""Transcript: every action of the recorded matches, stored as columns while they are played.

The seed and the actions determine a match completely: `league.watching.replay` plays it again from them, with
the answers of a `Prompter`. Actions are stored as float32, which is exact for choices (at most 2**20) and for
real numbers, which are float32 already.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from league.envs import chance
from league.envs.base import BatchedGame, Decisions
from league.envs.spaces import MOST_CHOICES
from storage.arrays import Bools, Floats, Floats32, Indices
from storage.records import Recordings

# row, time, seat, width of n actions, [n] each, and their numbers, [sum of widths]
Actions = tuple[npt.NDArray, npt.NDArray, npt.NDArray, npt.NDArray, npt.NDArray]
_NONE = np.zeros(0, dtype=np.int64)
NO_ACTIONS: Actions = (_NONE, _NONE, _NONE, _NONE, np.zeros(0, dtype=np.float32))

_CHOICE = 2**40 + 1  # a draw from the seed that no game uses, so the selection is independent of the deal
_SHARE, _FIRST, _MANY = 1e-3, 8, 1_000_000
MOST_NUMBERS = 65_536  # of a match that is recorded by the usual share


def chosen(seeds: Indices, share: float | Floats) -> Bools:
    """Return which matches [M] are recorded, about a `share` in [0, 1] of them, or by one of each [M].

    The choice depends only on the seeds [M], so a repeated run records the same matches.
    """
    return (chance.bits(seeds, _CHOICE) / 2.0**64 < share) | (np.asarray(share) >= 1.0)


def usual_share(match_id: Indices) -> Floats:
    """Return the share in (0, 1] of each match [M] where none is set, so that every run has some to show.

    It is 0.001, more among the first matches (8 / n of the n-th), and less beyond a million (1000 / n).
    Placing games are counted from -1 down.
    """
    number = np.maximum(np.abs(match_id), 1)
    return np.minimum(1.0, np.maximum(_FIRST / number, _SHARE * np.minimum(1.0, _MANY / number)))


class Transcript:
    """Actions of the matches of a batch that `chosen` [M] selects; costs nothing if it selects none."""

    def __init__(
        self, game: BatchedGame, chosen: Bools, actions: Actions = NO_ACTIONS, most: int | None = None
    ) -> None:
        """`actions`: those of an earlier transcript, of matches in the same rows here.

        `most`: numbers of a match, beyond which it is not recorded after all.
        """
        self._most = most
        self._game = game
        self._chosen = chosen
        self._any = bool(chosen.any())
        *block, numbers = actions
        self._blocks: list[tuple[npt.NDArray, ...]] = [tuple(block)]  # row, time, seat, width; [n] each
        self._actions: list[Floats32] = [numbers]

    def decided(self, block: Decisions, action: npt.NDArray, match_of: Indices) -> None:
        """Append the actions [n, *shape] of a block, before the game makes its step, illegal ones included.

        `match_of` [num_slots]: the row of the match in each slot.
        """
        if not self._any:
            return
        row = match_of[block.slot]
        kept = np.flatnonzero(self._chosen[row])
        if not len(kept):
            return
        # copies: a part of a block must not keep the whole of it
        taken = action[kept].astype(np.float32)
        time = self._game.env_steps[block.slot[kept]]
        width = np.full(len(kept), math.prod(action.shape[1:]), dtype=np.int64)
        self._blocks.append((row[kept], time, block.seat[kept], width))
        self._actions.append(taken.ravel())

    def actions(self) -> Actions:
        """Return all actions so far."""
        row, time, seat, width = (np.concatenate(column) for column in zip(*self._blocks, strict=True))
        return row, time, seat, width, np.concatenate(self._actions)

    def recordings(self) -> Recordings | None:
        """Return all recorded actions, match by match, or `None` if no match was to be recorded.

        A match that crashed before its first action has no actions.
        """
        if not self._any:
            return None
        row, time, seat, width, action = self.actions()
        start = np.cumsum(width) - width
        order = np.lexsort((seat, time, row))
        matches = np.flatnonzero(self._chosen)
        size = np.bincount(row, weights=width, minlength=len(self._chosen))[matches]
        if self._most is not None and (size > self._most).any():
            matches, size = matches[size <= self._most], size[size <= self._most]
            order = order[np.isin(row[order], matches)]
        return Recordings(
            row=matches,
            offset=np.concatenate([[0], np.cumsum(size)]).astype(np.int64),
            action=action[spans(start[order], width[order])],
        )


def moved(actions: Actions, place: Indices) -> Actions:
    """Return the actions of the matches that go to another row, `place` [M] by row; -1: left out."""
    row, time, seat, width, numbers = actions
    kept = np.flatnonzero(place[row] >= 0)
    start = np.cumsum(width) - width
    taken = numbers[spans(start[kept], width[kept])]
    return place[row[kept]], time[kept], seat[kept], width[kept], taken


def spans(start: Indices, width: Indices) -> Indices:
    """Return the indices start, ..., start + width - 1 of all n spans, concatenated: [sum of widths]."""
    before = np.cumsum(width) - width
    return np.repeat(start - before, width) + np.arange(width.sum())


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

    def begin(self, slot: Indices, recording: Indices) -> None:
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

    def _read(self, block: Decisions, start: Indices) -> npt.NDArray:
        """Return the actions of one block, whose numbers begin at `start` [n]."""
        spec = self._game.action_specs[int(block.seat[0])]
        at = start[:, None] + np.arange(self._width[block.seat[0]])
        numbers = self._numbers[np.where(at < self._end[block.slot, None], at, len(self._numbers) - 1)]
        if not spec.low:
            numbers = np.where(np.isnan(numbers), -1, np.clip(numbers, -MOST_CHOICES, MOST_CHOICES))
        return numbers.astype(spec.dtype).reshape(len(block), *spec.shape)

    def ran_out(self, slot: Indices) -> Bools:
        """Return [n] whether more actions were due in these slots [n] than were recorded."""
        return self._next[slot] > self._end[slot]
