"""Matches of the arena: seeds, each played with several seatings of competitors. The unit of all statistics.

The deal, the opening and all other chance events of a seed are the same in all of its matches. So luck and
the advantage of the first move are shared equally among its competitors.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.games import games_per_pair
from league.rules.matchmaking.seating import match_seeds
from storage.arrays import Floats, Indices
from storage.records import MatchBatch, Purpose, ResultBatch, by_team


@dataclass(frozen=True, slots=True)
class MeasureTable:
    """What the matches of a measure have in common."""

    env: str
    team_of_seat: Indices  # [S]
    match_type: str  # recorded with the matches
    seed: int  # from which those of the matches come
    purpose: Purpose = Purpose.EVALUATION

    @property
    def num_teams(self) -> int:
        """Number of teams, T."""
        return int(self.team_of_seat.max()) + 1

    @property
    def games(self) -> int:
        """Number of matches in one pair: a seed with all seatings of its competitors."""
        return len(seatings(self.num_teams))

    def pairs(self, competitors: Sequence[str], pairings: Indices, first: int) -> MatchBatch:
        """Return the matches of `pairings` [n, T] of `competitors`, numbered from `first` on."""
        present, index = np.unique(pairings, return_inverse=True)
        by_team = index.reshape(pairings.shape)[:, seatings(self.num_teams)]
        number = np.arange(first, first + len(pairings), dtype=np.int64)
        return self.matches([competitors[i] for i in present.tolist()], by_team, number)

    def matches(
        self,
        competitors: Sequence[str],
        by_team: npt.ArrayLike,
        number: Indices,
        match_id: Indices | None = None,
    ) -> MatchBatch:
        """Return n G matches: those of one seed are adjacent. The `number` [n] of a seed determines it.

        `by_team` [n, G, T] has the index of the competitor in each team, in the G matches of each seed, or
        [G, T], if they are the same for all seeds. Without `match_id` [n G] matches go by the seed's number.
        """
        seated = np.asarray(by_team)
        n, games = len(number), seated.shape[-2]
        flat = np.broadcast_to(seated, (n, games, self.num_teams)).reshape(n * games, -1)
        if match_id is None:
            match_id = (number[:, None] * games + np.arange(games)).ravel()
        return MatchBatch(
            env=self.env,
            purpose=self.purpose,
            match_types=(self.match_type,),
            competitors=tuple(competitors),
            match_id=match_id.astype(np.int64),
            seed=np.repeat(match_seeds(self.seed, number), games),
            match_type=np.zeros(n * games, dtype=np.int16),
            seat=flat.astype(np.int32)[:, self.team_of_seat],
            learning=np.zeros((n * games, len(self.team_of_seat)), dtype=np.bool_),
            team_of_seat=None
            if self.num_teams == len(self.team_of_seat)
            else tuple(self.team_of_seat.tolist()),
        )


def seatings(num_teams: int) -> Indices:
    """Return [games, num_teams] the position in the pairing of each team, for each game of a pair.

    The games are all orders, beginning with that of the pairing, or all rotations (see `games_per_pair`).
    """
    members = np.arange(num_teams)
    if games_per_pair(num_teams) == num_teams:
        return (members + members[:, None]) % num_teams
    return np.array(list(itertools.permutations(members)), dtype=np.int64)


def one_against_others(num_teams: int) -> Indices:
    """Return [num_teams, num_teams] seatings: competitor 0 is each team in turn, competitor 1 all others."""
    return 1 - np.eye(num_teams, dtype=np.int64)


def points_of(results: ResultBatch) -> Floats:
    """Return the points [M, T] of each team: the share of other teams that it beat, a draw counts half."""
    place = by_team(results)[2]
    ahead = 0.5 + 0.5 * np.sign(place[:, None, :] - place[:, :, None])  # a lower place is better
    return (ahead.sum(axis=2) - 0.5) / (place.shape[1] - 1)  # less the half point against itself


def drawn_seed(seed: int, number: int) -> int:
    """Return the seed of the actions that are sampled in matches that begin with `number`."""
    return int(match_seeds(seed + 1, np.array([number]))[0])


def stream_of(seed: int, stream: int) -> int:
    """Return the seed of a stream of its own, apart from others of `seed`."""
    return int(np.random.SeedSequence([seed, stream]).generate_state(1, np.uint64)[0] >> 1)
