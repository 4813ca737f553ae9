"""Pairs: one seed, played with every seating of the competitors. The unit of all statistics.

The deal, the opening and all other chance events of a pair are the same in all of its games. So luck
and the advantage of the first move are shared equally among its competitors.
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
    """Conversion of the pairs of a tournament to matches."""

    def __init__(
        self, competitors: Sequence[str], team_of_seat: Indices, *, env: str, match_type: str, seed: int
    ) -> None:
        """`team_of_seat` [num_seats]; `match_type` is recorded with the matches."""
        self._competitors = np.array(competitors, dtype=object)
        self.team_of_seat = team_of_seat
        self.num_teams = int(team_of_seat.max()) + 1
        self._alone = len(np.unique(team_of_seat)) == len(team_of_seat)
        self._env, self._match_type, self._seed = env, match_type, seed
        self.seatings = seatings(self.num_teams)

    @property
    def games(self) -> int:
        """Number of matches in one pair."""
        return len(self.seatings)

    def matches(self, pairings: Pairings, first: int) -> MatchBatch:
        """Return the matches of `pairings` [n, num_teams], the pairs with numbers from `first` on.

        Matches of one pair are adjacent and have the same seed.
        """
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
    """Return [games, num_teams] the position in the pairing of each team, for each game of a pair.

    The games are all orders, beginning with that of the pairing, or all rotations (see `games_per_pair`).
    """
    members = np.arange(num_teams)
    if games_per_pair(num_teams) == num_teams:
        return (members + members[:, None]) % num_teams
    return np.array(list(itertools.permutations(members)), dtype=np.int64)
