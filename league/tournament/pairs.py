"""Pairs: one seed, played with every seating of those who meet. The unit of all statistics.

The deal, the opening and every other chance of a pair are the same in all of its games, so what
remains of luck and of the first move falls on everybody alike.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from analysis.statistics.games import games_per_pair
from league.rules.matchmaking.seating import match_seeds
from league.tournament.schedules.base import Pairings
from storage.arrays import Indices
from storage.records import MatchBatch, Purpose


class Pairs:
    """How pairs of a tournament become matches."""

    def __init__(
        self, competitors: Sequence[str], team_of_seat: Indices, *, env: str, match_type: str, seed: int
    ) -> None:
        """`team_of_seat` [num_seats]; `match_type` is what the matches are recorded as."""
        self._competitors = np.array(competitors, dtype=object)
        self.team_of_seat = team_of_seat
        self.num_teams = int(team_of_seat.max()) + 1
        self._alone = len(np.unique(team_of_seat)) == len(team_of_seat)
        self._env, self._match_type, self._seed = env, match_type, seed
        self.seatings = seatings(self.num_teams)

    @property
    def games(self) -> int:
        """Matches of one pair."""
        return len(self.seatings)

    def matches(self, pairings: Pairings, first: int) -> MatchBatch:
        """The matches of the pairs number `first` and following, who meet in `pairings` [n, num_teams]:
        those of one pair stand together, and share its seed."""
        present, index = np.unique(pairings, return_inverse=True)
        n, games = len(pairings), self.games
        by_team = index.reshape(pairings.shape)[:, self.seatings].reshape(n * games, -1)
        pair = np.arange(first, first + n, dtype=np.int64)
        return MatchBatch(
            env=self._env,
            purpose=Purpose.TOURNAMENT,
            match_types=(self._match_type,),
            competitors=tuple(self._competitors[present]),
            match_id=np.arange(first * games, (first + n) * games, dtype=np.int64),
            seed=np.repeat(match_seeds(self._seed, pair), games),
            match_type=np.zeros(n * games, dtype=np.int16),
            seat=by_team.astype(np.int32)[:, self.team_of_seat],
            learning=np.zeros((n * games, len(self.team_of_seat)), dtype=np.bool_),
            team_of_seat=None if self._alone else tuple(self.team_of_seat.tolist()),
        )


def seatings(num_teams: int) -> npt.NDArray[np.int64]:
    """Who of those who meet is which team, once for each game of a pair [games, num_teams]: every order,
    beginning with that of the pairing, or the rotations (`games_per_pair`)."""
    members = np.arange(num_teams)
    if games_per_pair(num_teams) == num_teams:
        return (members + members[:, None]) % num_teams
    return np.array(list(itertools.permutations(members)), dtype=np.int64)
