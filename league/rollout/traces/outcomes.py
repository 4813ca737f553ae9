"""Who won: outcomes and ranks of matches, from their scores."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from storage.records import Outcome


def placed(
    score: npt.NDArray[np.floating],
    forfeited: npt.NDArray[np.bool_],
    team_of_seat: npt.NDArray[np.int64] | None = None,
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8]]:
    """Outcome and rank of every seat [M, S], values of Outcome and 0 for the best. The best score wins, or
    draws where several have it; who forfeited has lost whatever its score.

    Seats of one team [S] share its rank, which goes by the mean of their scores.
    """
    team = np.arange(score.shape[1]) if team_of_seat is None else team_of_seat
    together = team[:, None] == team
    if team_of_seat is not None:
        # float64 adds scores exactly: equal teams are equal, in whatever order their seats have them
        score = score.astype(np.float64) @ together.astype(np.float64) / together.sum(axis=0)
    rank = (score[:, None, :] > score[:, :, None]).sum(axis=2).astype(np.int8)
    first = rank == 0
    beside = first.sum(axis=1, keepdims=True) - first @ together.astype(np.int64)  # of other teams
    tied = beside > 0
    outcome = np.where(first, np.where(tied, Outcome.DRAW, Outcome.WIN), Outcome.LOSS)
    return np.where(forfeited, Outcome.FORFEIT, outcome).astype(np.int8), rank
