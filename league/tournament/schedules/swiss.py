"""Swiss: competitors with similar scores meet."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence

import numpy as np

from analysis.statistics.games import Games
from league.tournament.schedules.designs import meetings
from league.tournament.schedules.matching import largest_matching
from league.tournament.schedules.schedule import Pairings, Round, Schedule, among, at_random, in_tiles
from storage.arrays import Floats, Indices

_WINDOW = 4  # tables ahead within which a new opponent is searched
_REDRAWS = 50  # by which the probability of a meeting is estimated
_LEAST_REDRAWS = 10
_REDRAWN = 10_000  # entrants, in all of these


class Swiss(Schedule):
    """In each round competitors with similar scores meet, with as few repeated meetings as possible.

    A score is the sum over rounds of the points per game. Equal scores are ordered by the scores of their
    opponents (Buchholz), then at random. From the top, each meets the nearest one below that it has not met.
    If the field does not divide into tables, the last of those with the fewest pauses pause for half a point.

    Only the order of those with equal scores is random. The probability of a meeting is therefore estimated:
    the share of other random orders in which the same meet, with the one that was drawn counted.
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

    def total_pairs(self) -> int:
        return self._pairs_before + self._own_rounds * self._per_round

    def next_round(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
        if len(history) >= self._rounds:
            return None
        took_part = (np.bincount(np.unique(pairings), minlength=self._field) for pairings in history)
        played = sum(took_part, np.zeros(self._field, dtype=np.int64))
        met = meetings(history, self._field)
        score = self._score(history, games, played)
        buchholz = np.round(met @ score, 9)

        def tables(by: np.random.Generator) -> Pairings:
            order = np.lexsort((by.permutation(self._field), -buchholz, -score))
            return self._seated(order, met // self._pairs, played)

        drawn = tables(rng)
        if not history:
            probability = np.full(len(drawn), at_random(len(drawn), self._field, self._num_teams))
        elif len(np.unique(np.stack([score, buchholz]), axis=1).T) == self._field:  # nothing is random
            probability = np.ones(len(drawn))
        else:
            redraws = max(_LEAST_REDRAWS, min(_REDRAWS, _REDRAWN // self._field))
            others = copy.deepcopy(rng)  # so that `rng` goes on as if nothing had been drawn again
            alike = sum((among(drawn, tables(others)) for _ in range(redraws)), np.zeros(len(drawn)))
            probability = (1.0 + alike) / (1.0 + redraws)
        rows = np.repeat(np.arange(len(drawn)), self._pairs)
        return in_tiles(drawn[rows], probability[rows], score if history else None)

    def _seated(self, order: Indices, met: Indices, played: Indices) -> Pairings:
        """Return the tables of the entrants in `order` [N], the best first, by meetings so far [N, N]."""
        size = self._num_teams
        # The last among those with the most rounds: none pauses twice before all have paused once.
        last = np.lexsort((np.arange(self._field), played[order]))
        pausing = order[last][self._field - self._field % size :]
        seated = order[~np.isin(order, pausing)]
        met = met[np.ix_(seated, seated)]
        return seated[_couples(met) if size == 2 else _tables(met, size)]

    def _score(self, history: Sequence[Pairings], games: Games, played: Indices) -> Floats:
        """Return [N] the points so far, of each round's mean; a pause is half a point."""
        number = np.bincount(games.home, minlength=self._field) + np.bincount(
            games.away, minlength=self._field
        )
        points = np.bincount(games.home, games.points, self._field) + np.bincount(
            games.away, 1.0 - games.points, self._field
        )
        mean = np.where(number > 0, points / np.maximum(number, 1), 0.5)
        return np.round(mean * played + 0.5 * (len(history) - played), 9).astype(np.float64)


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
