"""Results of a batch of matches, while they come in."""

from __future__ import annotations

import time

import numpy as np
import numpy.typing as npt

from league.envs.base import Transition
from league.rollout.traces.outcomes import placed
from storage.records import EndReason, MatchBatch, Recordings, ResultBatch


class Results:
    """Of M matches; what has not come in by the end crashed."""

    def __init__(self, matches: MatchBatch) -> None:
        m, s = matches.seat.shape
        self._matches = matches
        self._score = np.zeros((m, s), dtype=np.float32)
        self._forfeited = np.zeros((m, s), dtype=np.bool_)
        self._env_steps = np.zeros(m, dtype=np.int32)
        self._reason = np.full(m, EndReason.CRASH, dtype=np.int8)
        self._started_at = np.zeros(m, dtype=np.float64)
        self._ended_at = np.zeros(m, dtype=np.float64)

    def began(self, rows: npt.NDArray[np.int64]) -> None:
        """These matches [k] begin now."""
        self._started_at[rows] = time.time()

    def ended(
        self,
        rows: npt.NDArray[np.int64],
        score: npt.NDArray[np.float32],
        env_steps: npt.NDArray[np.int32],
        transition: Transition,
    ) -> None:
        """These matches [k] are over with the scores [k, S], by the step that `transition` tells of."""
        self._score[rows] = score
        self._env_steps[rows] = env_steps
        self._reason[rows] = transition.reason
        self._forfeited[rows] = transition.forfeited
        self._ended_at[rows] = time.time()

    def batch(
        self, recordings: Recordings | None, digest: npt.NDArray[np.int64] | None = None
    ) -> ResultBatch:
        """Everything, in the order of the matches."""
        teams = self._matches.team_of_seat
        team = None if teams is None else np.array(teams)
        outcome, rank = placed(self._score, self._forfeited, team)
        return ResultBatch(
            matches=self._matches,
            outcome=outcome,
            score=self._score,
            rank=rank,
            env_steps=self._env_steps,
            reason=self._reason,
            started_at=self._started_at,
            seconds=(self._ended_at - self._started_at).astype(np.float32),
            recordings=recordings,
            digest=digest,
        )
