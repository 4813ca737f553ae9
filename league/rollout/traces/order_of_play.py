"""Order of play: which of a request's matches begin when.

A policy with a handful of decisions takes nearly as long as one with dozens, so what counts is how
many policies have a decision at each step. Two things keep them few. Matches of the same competitors
begin together: those at the table are some of those seated in the request. And where seats take
turns, matches begin on such a beat that the competitor who plays most of them has its turn in all of
them at once: its opponents' decisions then come together too, twice as many to a call.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storage.records import MatchBatch


class OrderOfPlay:
    """The matches of one request that have not begun. Every match comes out once."""

    def __init__(self, matches: MatchBatch) -> None:
        seats = matches.num_seats
        home = np.bincount(matches.seat.ravel()).argmax() if len(matches) else 0
        beat = -(matches.seat == home).argmax(axis=1) % seats  # seat s moves s steps after the beginning
        along = np.lexsort(np.sort(matches.seat, axis=1).T)
        self._waiting = [along[beat[along] == b] for b in range(seats)]
        self._step = 0

    def begin(self, room: int, idle: bool) -> npt.NDArray[np.int64]:
        """The matches, at most `room`, that begin at this step, by their index. To be asked at every step.

        `idle`: nothing is being played, so that there is nothing to keep time with.
        """
        beats = len(self._waiting)
        if self._step < beats:  # at first, the same share of the room for each beat
            room = -(-room // (beats - self._step))
        if idle and not len(self._waiting[self._step % beats]):
            self._step = max(range(beats), key=lambda beat: len(self._waiting[beat]))
        beat = self._step % beats
        self._step += 1
        fresh, self._waiting[beat] = np.split(self._waiting[beat], [room])
        return fresh
