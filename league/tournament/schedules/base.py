"""What a schedule is, and the order in which the pairs of a round are played."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from analysis.statistics.games import Games

Pairings = npt.NDArray[np.int64]
"""[n, T]: who meets in each of n pairs of a round; a row may be there several times."""

MOST_PAIRS = 2**16  # of one round that nothing is learnt from: what is asked for lies in memory at once
_TILE = 32  # entrants on one side of a tile
_TILE_PAIRS = _TILE * _TILE  # about a runner's request


class Schedule(ABC):
    """Rounds of a tournament. Nothing is remembered: whoever was killed asks again, and gets the same."""

    goes_by_results: ClassVar[bool] = True  # False: `games` need not be counted for its rounds

    @abstractmethod
    def next_round(
        self, history: Sequence[Pairings], games: Games, rng: np.random.Generator
    ) -> Pairings | None:
        """Round number len(history), from all rounds before it and what came of them; None: that was all.

        The same arguments give the same round. `games` may lack pairs of `history`: those that were left
        out, or repeat others.
        """

    @abstractmethod
    def total_pairs(self) -> int:
        """Pairs of all rounds, at most."""

    def conclusion(self, games: Games) -> str | None:
        """What the schedule itself has found out by the end, in a sentence; None: it asked nothing."""
        return None


def pairs_until_all_met(field: int, num_teams: int) -> int:
    """Rows of `num_teams` in which each two of the field can meet once, if it comes out even."""
    return math.ceil(math.comb(field, 2) / math.comb(num_teams, 2))


def in_tiles(pairings: Pairings) -> Pairings:
    """The rows, those of a request's size that stand together seating few different entrants.

    The matrix of who meets whom is walked through tile by tile, there and back, as often as about
    _TILE_PAIRS rows of each tile are a walk. In a tile rows keep their order: a small field's is kept
    altogether, so that a tournament that is stopped has let all meet about as often.
    """
    if not len(pairings):
        return pairings
    block = np.sort(pairings, axis=1) // _TILE
    blocks = int(block.max()) + 1
    place = np.zeros(len(pairings), dtype=np.int64)
    for column in block.T:  # there and back: every other row of tiles from its end
        place = place * blocks + np.where(place % 2 == 1, blocks - 1 - column, column)
    tiles = len(np.unique(place))
    walks = max(1, round(len(pairings) / (tiles * _TILE_PAIRS)))
    walk = np.arange(len(pairings)) * walks // len(pairings)
    return pairings[np.lexsort((place, walk))]
