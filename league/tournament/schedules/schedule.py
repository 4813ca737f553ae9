"""Base class of schedules, and the order in which the pairs of a round are played."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from analysis.statistics.games import Games
from storage.arrays import Bools, Floats, Indices

Pairings = Indices
"""[n, T] indices of the competitors in each of n pairs of a round; rows may repeat."""

MOST_PAIRS = 2**16  # of one round, if rounds do not depend on results: its requests are in memory together
_TILE = 32  # entrants on one side of a tile
_TILE_PAIRS = _TILE * _TILE  # about a runner's request


@dataclass(frozen=True, slots=True)
class Round:
    """The pairs of a round, and how they were drawn."""

    pairings: Pairings
    # [n] with which those of each row were to meet in this round, given all results before it; 1: these
    # decided it. None: the schedule goes by no results
    probability: Floats | None = None
    standing: Floats | None = None  # [N] what it went by: points or Elo; None: nothing was known yet


class Schedule(ABC):
    """Rounds of a tournament. Schedules are stateless, so a resumed tournament gets the same rounds."""

    goes_by_results: ClassVar[bool] = True  # False: rounds do not depend on `games`

    @abstractmethod
    def next_round(self, history: Sequence[Pairings], games: Games, rng: np.random.Generator) -> Round | None:
        """Return the round after `history`, given the `games` so far, or `None` if there are no more rounds.

        The same arguments give the same round. `games` may lack pairs of `history` that were left out or that
        repeat others.
        """

    @abstractmethod
    def total_pairs(self) -> int:
        """Return the number of pairs of all rounds, or an upper bound."""

    def conclusion(self, games: Games) -> str | None:
        """Return the result of the schedule itself as a sentence, or `None` if it has none."""
        return None


def at_random(rows: int, field: int, num_teams: int) -> float:
    """Return the probability that given ones are one of so many different rows, if any are equally likely."""
    return min(1.0, rows / math.comb(field, num_teams))


def among(rows: Pairings, others: Pairings) -> Bools:
    """Return [n] whether those of each row are together in one of the `others`, in any order."""
    there = set(map(tuple, np.sort(others, axis=1).tolist()))
    return np.array([tuple(row) in there for row in np.sort(rows, axis=1).tolist()], dtype=np.bool_)


def pairs_until_all_met(field: int, num_teams: int) -> int:
    """Return the least number of rows of `num_teams` in which any two of the field could meet once."""
    return math.ceil(math.comb(field, 2) / math.comb(num_teams, 2))


def in_tiles(pairings: Pairings, probability: Floats | None = None, standing: Floats | None = None) -> Round:
    """Return the round of these rows, in `tile_order`."""
    order = tile_order(pairings)
    return Round(pairings[order], None if probability is None else probability[order], standing)


def tile_order(pairings: Pairings) -> Indices:
    """Return [n] the rows in an order in which each request seats few different entrants.

    The matrix of pairings is traversed tile by tile, back and forth, several times if needed, so that each
    traversal takes about _TILE_PAIRS rows of a tile. Within a tile rows keep their order. A small field is
    one tile, so in a tournament that is stopped early all have met about equally often.
    """
    if not len(pairings):
        return np.zeros(0, dtype=np.int64)
    block = np.sort(pairings, axis=1) // _TILE
    blocks = int(block.max()) + 1
    place = np.zeros(len(pairings), dtype=np.int64)
    for column in block.T:  # back and forth: every other row of tiles is reversed
        place = place * blocks + np.where(place % 2 == 1, blocks - 1 - column, column)
    tiles = len(np.unique(place))
    walks = max(1, round(len(pairings) / (tiles * _TILE_PAIRS)))
    walk = np.arange(len(pairings)) * walks // len(pairings)
    return np.lexsort((place, walk))
