"""Results of each couple of competitors that met."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from analysis.statistics.elo import EloEstimate
from analysis.statistics.games import Games
from analysis.statistics.valid import check_games
from storage.arrays import Floats, Indices

_MOST_GAMES = 60  # of a pair whose score is exact, where pairs have different numbers of games


class Worst(NamedTuple):
    """The opponent against which each of N competitors scored least."""

    opponent: Indices  # [N], -1: has not played
    score: Floats  # [N] mean points against it
    games: Indices  # [N] against it


@dataclass(frozen=True, slots=True)
class Meetings:
    """The m couples of N competitors that met.

    Results are those of `first`, which has the lower number.
    """

    num_competitors: int
    first: Indices  # [m]
    second: Indices  # [m]
    pairs: Indices  # [m]
    games: Indices  # [m]
    wins: Indices  # [m]
    draws: Indices  # [m]
    losses: Indices  # [m]
    counts: Indices  # [m, K] pairs by the score of `first`, K evenly spaced ones: with two games a pair, 5

    @property
    def score(self) -> Floats:
        """Mean points of `first`, [m]."""
        return (self.wins + 0.5 * self.draws) / self.games

    def worst(self) -> Worst:
        """Return the opponent with the lowest mean score for each competitor.

        Each score is first shrunk to the competitor's average. The shrinkage weighs as many pairs as the
        competitor has against one opponent on average. So one unlucky pair does not make an opponent the
        worst where others are known well. Where all met equally often, the lowest score is the lowest.
        """
        who = np.concatenate([self.first, self.second])
        other = np.concatenate([self.second, self.first])
        score = np.concatenate([self.score, 1.0 - self.score])
        pairs, games = np.tile(self.pairs, 2), np.tile(self.games, 2)
        opponents = np.maximum(np.bincount(who, minlength=self.num_competitors), 1)
        total = np.bincount(who, pairs, self.num_competitors)
        average = np.bincount(who, score * pairs, self.num_competitors) / np.maximum(total, 1.0)
        usual = (total / opponents)[who]
        shrunk = (score * pairs + average[who] * usual) / (pairs + usual)
        order = np.lexsort((average[other], shrunk, who))  # of several, the one with the lowest average
        found, lowest = np.unique(who[order], return_index=True)
        opponent = np.full(self.num_competitors, -1, dtype=np.int64)
        against = np.full(self.num_competitors, np.nan)
        met = np.zeros(self.num_competitors, dtype=np.int64)
        rows = order[lowest]
        opponent[found], against[found], met[found] = other[rows], score[rows], games[rows]
        return Worst(opponent, against, met)


@dataclass(frozen=True, slots=True)
class Direct:
    """Results of one competitor against another."""

    pairs: int
    games: int
    score: float  # points per game
    elo: EloEstimate  # of these games alone


def meetings_of(games: Games) -> Meetings:
    """Return all couples of `games`, in the order of their numbers. Raise ValueError as `check_games`."""
    check_games(games)
    n, num_pairs = len(games.competitors), games.num_pairs
    turned = games.home > games.away
    first, second = np.where(turned, [games.away, games.home], [games.home, games.away])
    points = np.where(turned, 1.0 - games.points, games.points)
    couple, of_couple = np.unique(first * n + second, return_inverse=True)
    met, of_meeting = np.unique(of_couple * num_pairs + games.pair, return_inverse=True)
    m, couple_met = len(couple), met // max(num_pairs, 1)
    size = np.bincount(of_meeting)  # games of each meeting: of our own pairs all have as many
    k = 2 * min(math.lcm(*np.unique(size).tolist()), _MOST_GAMES) + 1
    score = np.rint((k - 1) * np.bincount(of_meeting, points) / size).astype(np.int64)
    return Meetings(
        num_competitors=n,
        first=couple // n,
        second=couple % n,
        pairs=np.bincount(couple_met, minlength=m),
        games=np.bincount(of_couple, minlength=m),
        wins=np.bincount(of_couple[points == 1.0], minlength=m),
        draws=np.bincount(of_couple[points == 0.5], minlength=m),
        losses=np.bincount(of_couple[points == 0.0], minlength=m),
        counts=np.bincount(couple_met * k + score, minlength=m * k).reshape(m, k),
    )
