"""Matches of one request: the order in which they begin, and the results of those that ended.

A policy call with a handful of decisions takes nearly as long as one with dozens, so the cost of a step
is the number of policies that have a decision in it. Two rules of the order keep that number low:

- Matches of the same competitors begin together, so the matches under way seat few of all competitors.
- Where seats take turns, matches begin on such a beat that the competitor with the most matches has its
  turn in all of them at once. Its opponents' decisions then come together too, twice as many to a call.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from league.envs.base import Transition
from storage.arrays import Bools, Floats, Indices
from storage.records import EndReason, MatchBatch, Outcome, Recordings, ResultBatch


class OrderOfPlay:
    """Matches of one request that have not begun. Each match is returned once."""

    def __init__(self, matches: MatchBatch, age: Indices | None = None, most: Mapping[int, int] = {}) -> None:
        """`age` [M]: the matches with the lowest number begin first; `None`: all are of one age.

        `most`: matches that some competitors can play side by side, by their index.
        """
        self._sits = {who: (matches.seat == who).any(axis=1) for who in most}
        self._most = most
        seats = matches.num_seats
        home = np.bincount(matches.seat.ravel()).argmax() if len(matches) else 0
        beat = -(matches.seat == home).argmax(axis=1) % seats  # seat s moves s steps after the start
        seated = np.sort(matches.seat, axis=1).T
        along = np.lexsort(seated if age is None else [*seated, age])
        self._waiting = [along[beat[along] == b] for b in range(seats)]
        self._step = 0

    def begin(self, room: int, idle: bool, under_way: Mapping[int, int] = {}) -> Indices:
        """Return the indices of the matches, at most `room`, that begin at this step. Call it at every step.

        `idle`: no match is under way, so any beat will do. `under_way`: matches of those who can play `most`.
        """
        beats = len(self._waiting)
        if self._step < beats:  # at first, the same share of the room for each beat
            room = -(-room // (beats - self._step))
        if idle and not len(self._waiting[self._step % beats]):
            self._step = max(range(beats), key=lambda beat: len(self._waiting[beat]))
        beat = self._step % beats
        self._step += 1
        own = self._waiting[beat]
        if not self._most:
            fresh, self._waiting[beat] = np.split(own, [room])
            return fresh
        fits = np.ones(len(own), dtype=np.bool_)
        for who, most in self._most.items():
            sits = self._sits[who][own]
            fits &= ~sits | (np.cumsum(sits) <= most - under_way.get(who, 0))
        fits &= np.cumsum(fits) <= room
        self._waiting[beat] = own[~fits]
        return own[fits]

    def leave(self, rows: Bools) -> None:
        """Begin no more of these matches [M]."""
        self._waiting = [own[~rows[own]] for own in self._waiting]


class Results:
    """Results of M matches, collected while they end; a match without a result has crashed."""

    def __init__(self, matches: MatchBatch, started_at: Floats | None = None) -> None:
        """`started_at` [M]: starts of those that began earlier, in seconds since the epoch; 0: not begun."""
        m, s = matches.seat.shape
        self._matches = matches
        self._score = np.zeros((m, s), dtype=np.float64)
        self._forfeited = np.zeros((m, s), dtype=np.bool_)
        self._env_steps = np.zeros(m, dtype=np.int32)
        self._reason = np.full(m, EndReason.CRASH, dtype=np.int8)
        self.started_at = np.zeros(m, dtype=np.float64) if started_at is None else started_at.copy()
        self._ended_at = np.zeros(m, dtype=np.float64)

    def began(self, rows: Indices) -> None:
        """Record the start of these matches [k]."""
        self.started_at[rows] = time.time()

    @property
    def finished(self) -> Indices:
        """Rows of the matches that ended [k]."""
        return np.flatnonzero(self._ended_at)

    def ended(
        self, rows: Indices, score: Floats, env_steps: npt.NDArray[np.int32], transition: Transition
    ) -> None:
        """Record the end of these matches [k] with the scores [k, S], in the step `transition`."""
        self._score[rows] = score
        self._env_steps[rows] = env_steps
        self._reason[rows] = transition.reason
        self._forfeited[rows] = transition.forfeited
        self._ended_at[rows] = time.time()

    def batch(
        self, recordings: Recordings | None, digest: Indices | None = None, draw_margin: float = 0.0
    ) -> ResultBatch:
        """Return all results in the order of the matches; `draw_margin` is that of the game."""
        teams = self._matches.team_of_seat
        team = None if teams is None else np.array(teams)
        outcome, rank = placed(self._score, self._forfeited, team, draw_margin)
        return ResultBatch(
            matches=self._matches,
            outcome=outcome,
            score=self._score.astype(np.float32),
            rank=rank,
            env_steps=self._env_steps,
            reason=self._reason,
            started_at=self.started_at,
            seconds=(self._ended_at - self.started_at).astype(np.float32),
            recordings=recordings,
            digest=digest,
        )


EQUAL = 1e-6  # scores that differ by less, relative to the largest of a match and at least to 1, are equal


def placed(
    score: npt.NDArray[np.floating],
    forfeited: Bools,
    team_of_seat: Indices | None = None,
    draw_margin: float = 0.0,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Return the outcome (values of Outcome) and the rank (0 is best) of every seat, [M, S] each.

    The best score wins, or draws if several seats have it. A seat that forfeited loses with any score.
    Seats of one team (`team_of_seat` [S]) share a rank, which is by the mean of their scores. Scores are
    equal where the next lower one is at most `draw_margin` away, or as far as rounded rewards explain.
    """
    team = np.arange(score.shape[1]) if team_of_seat is None else team_of_seat
    together = team[:, None] == team
    of_team = score.astype(np.float64)
    if team_of_seat is not None:
        of_team = of_team @ together.astype(np.float64) / together.sum(axis=0)
    rank = _ranks(of_team, draw_margin)
    first = rank == 0
    beside = first.sum(axis=1, keepdims=True) - first @ together.astype(np.int64)  # of other teams
    tied = beside > 0
    outcome = np.where(first, np.where(tied, Outcome.DRAW, Outcome.WIN), Outcome.LOSS)
    return np.where(forfeited, Outcome.FORFEIT, outcome).astype(np.int8), rank


def _ranks(score: Floats, draw_margin: float) -> npt.NDArray[np.int8]:
    """Return the number of seats [M, S] that are better than each; equal ones follow each other closely."""
    order = np.argsort(-score, axis=1, kind="stable")
    sorted_score = np.take_along_axis(score, order, axis=1)
    least = EQUAL * np.maximum(1.0, np.abs(sorted_score[:, [0, -1]]).max(axis=1, initial=0.0, keepdims=True))
    lower = np.zeros(score.shape, dtype=np.int64)
    lower[:, 1:] = -np.diff(sorted_score, axis=1) > np.maximum(least, draw_margin)
    place = np.maximum.accumulate(lower * np.arange(score.shape[1]), axis=1)
    rank = np.empty(score.shape, dtype=np.int8)
    np.put_along_axis(rank, order, place.astype(np.int8), axis=1)
    return rank
