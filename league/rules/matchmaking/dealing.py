"""Dealing: few opponents are drawn from a pool, and dealt out evenly to the seats of many matches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from league.rules.matchmaking.pools import Pool
from storage.arrays import Indices


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
