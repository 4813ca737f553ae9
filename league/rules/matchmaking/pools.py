"""Pools: competitors that opponents are drawn from, and how likely each is, as arrays over the roster.

Few opponents are drawn from a pool, and dealt out evenly to the seats of many matches.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np

from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.arrays import Floats, Indices


@dataclass(frozen=True, slots=True)
class Pool:
    """`candidates` [k], indices into the roster, and `p` [k], the probability of each; k may be 0."""

    candidates: Indices
    p: Floats

    def __bool__(self) -> bool:
        return len(self.candidates) > 0


EMPTY = Pool(np.zeros(0, dtype=np.int64), np.zeros(0))


def alike(candidates: Indices) -> Pool:
    """Return a pool of `candidates` [k] that are all equally likely."""
    return Pool(candidates, np.full(len(candidates), 1.0 / max(len(candidates), 1)))


def newcomers(roster: Roster, standings: Standings) -> Pool:
    """Return the snapshots that have too few games to be placed, all equally likely."""
    snapshots = roster.snapshots()
    games = standings.ratings.games[snapshots]
    return alike(snapshots[games < standings.settings.placement_games])


def snapshots_and_bots(roster: Roster) -> Pool:
    """Return all seated snapshots and bots, all equally likely."""
    return alike(np.concatenate([roster.snapshots(), roster.indices(bot.name for bot in roster.bots)]))


def rarest_pairs(roster: Roster, standings: Standings) -> Floats:
    """Return the probability of each pair of snapshots [n, n] to be played for the record.

    It is in proportion to 1 / (1 + games of the pair), and 0 for a snapshot against itself. The sum is 1
    for n of at least 2.
    """
    snapshots = roster.snapshots()
    weights = 1.0 / (1.0 + standings.payoff.recorded(cast(int, snapshots[:, None]), snapshots))
    np.fill_diagonal(weights, 0.0)
    return weights / weights.sum()


@dataclass(frozen=True, slots=True)
class Deal:
    """Matches [m] of one match type whose opponents come from one pool."""

    match_type: int
    matches: Indices
    pool: Pool


def deal(deals: Sequence[Deal], opponent: Indices, most: int, rng: np.random.Generator) -> Indices:
    """Return `opponent` [M, T - 1] with those of all `deals`, of which about `most` are different."""
    opponent = opponent.copy()
    others = opponent.shape[1]
    for each, draws in zip(deals, _budget(deals, most), strict=True):
        seats = len(each.matches) * others
        drawn = rng.choice(each.pool.candidates, size=min(seats, draws), p=each.pool.p)
        opponent[each.matches] = drawn[np.arange(seats) % len(drawn)].reshape(-1, others)
    return opponent


def _budget(deals: Sequence[Deal], most: int) -> list[int]:
    """Return how many draws each deal may make: in proportion to its matches, at least one."""
    total = sum(len(each.matches) for each in deals)
    budget = [max(1, most * len(each.matches) // total) for each in deals]
    while sum(budget) > max(most, len(deals)):
        budget[budget.index(max(budget))] -= 1
    return budget
