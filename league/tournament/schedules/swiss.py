"""Swiss: competitors with similar scores meet."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games
from league.tournament.schedules.base import Pairings, Schedule, in_tiles
from league.tournament.schedules.pairing.designs import meetings
from league.tournament.schedules.pairing.matching import largest_matching
from storage.arrays import Indices

_WINDOW = 4  # tables ahead within which a new opponent is searched


class Swiss(Schedule):
    """In each round competitors with similar scores meet, with as few repeated meetings as possible.

    A score is the sum over rounds of the points per game. Equal scores are ordered by the scores of their
    opponents (Buchholz), then at random. From the top, each meets the nearest one below that it has not met.
    If the field does not divide into tables, the last of those with the fewest pauses pause for half a point.
    """

    def __init__(
        self,
        field: int,
        num_teams: int,
        pairs: int,
        rounds: int | None,
        before: Sequence[Pairings] = (),
    ) -> None:
        """Plan `rounds` rounds; `None`: twice those of a knock-out, at most those with new opponents.

        Pairs that were played `before` take the place of as many rounds.
        """
        self._field, self._num_teams, self._pairs = field, num_teams, pairs
        enough = 2 * math.ceil(math.log2(field))
        planned = rounds or max(1, min(enough, math.ceil((field - 1) / (num_teams - 1))))
        self._pairs_before, self._per_round = sum(map(len, before)), (field // num_teams) * pairs
        missing = max(0, math.ceil(planned - self._pairs_before / self._per_round))
        self._own_rounds, self._rounds = missing, len(before) + missing

    def next_round(
        self, history: Sequence[Pairings], games: Games, rng: np.random.Generator
    ) -> Pairings | None:
        if len(history) >= self._rounds:
            return None
        order = self._order(history, games, rng)
        size = self._num_teams
        met = meetings(history, self._field) // self._pairs
        played = _rounds_played(history, self._field)
        too_many = self._field % size
        # The last among those with the most rounds: none pauses twice before all have paused once.
        pausing = order[np.lexsort((np.arange(self._field), played[order]))][self._field - too_many :]
        seated = order[~np.isin(order, pausing)]
        met = met[np.ix_(seated, seated)]
        tables = seated[_couples(met) if size == 2 else _tables(met, size)]
        return in_tiles(np.repeat(tables, self._pairs, axis=0))

    def total_pairs(self) -> int:
        return self._pairs_before + self._own_rounds * self._per_round

    def _order(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Indices:
        """Return [N] the entrants, the best so far first."""
        number = np.bincount(games.home, minlength=self._field) + np.bincount(
            games.away, minlength=self._field
        )
        points = np.bincount(games.home, games.points, self._field) + np.bincount(
            games.away, 1.0 - games.points, self._field
        )
        mean = np.where(number > 0, points / np.maximum(number, 1), 0.5)
        played = _rounds_played(history, self._field)
        score = np.round(mean * played + 0.5 * (len(history) - played), 9)
        buchholz = np.round(meetings(history, self._field) @ score, 9)
        return np.lexsort((rng.permutation(self._field), -buchholz, -score))


def _rounds_played(history: Sequence[Pairings], field: int) -> Indices:
    """Return [N] the number of rounds in which each took part."""
    played = np.zeros(field, dtype=np.int64)
    for pairings in history:
        played[np.unique(pairings)] += 1
    return played


def _couples(met: Indices) -> Pairings:
    """Return [n/2, 2] couples of all n, in their order, given the number of their meetings [n, n]."""
    n = len(met)
    apart = ~np.eye(n, dtype=np.bool_)
    partner = largest_matching((met == met[apart].min()) & apart)
    left_over = np.flatnonzero(partner < 0)
    partner[left_over] = left_over.reshape(-1, 2)[:, ::-1].ravel()
    first = np.flatnonzero(np.arange(n) < partner)
    return np.stack([first, partner[first]], axis=1)


def _tables(met: Indices, size: int) -> Pairings:
    """Return [n/size, size] tables from the top, of near neighbours with the fewest meetings."""
    waiting = list(range(len(met)))
    tables = []
    while waiting:
        table = [waiting.pop(0)]
        while len(table) < size:
            near = waiting[: _WINDOW * size]
            table.append(waiting.pop(int(met[np.ix_(near, table)].sum(axis=1).argmin())))
        tables.append(table)
    return np.array(tables, dtype=np.int64)
