"""Gains: how much a response scores above the target in the target's place, measured on matches.

Each seed is played once for each team, with the response in that team and copies of the target in all
others, and once with copies of the target alone. The unit of statistics is the seed: its gain is the mean
over teams of the response's score less the target's score. Over all policies as responses the largest
expectation is NashConv / num_players (Lanctot et al.: A unified game-theoretic approach to multiagent
reinforcement learning, NeurIPS 2017, section 2). So any response gives a lower bound of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from league.arena.arena import Arena
from league.arena.matches import drawn_seed, points_of
from league.rollout.requests import StoredSource
from storage.arrays import Bools, Floats
from storage.errors import Failure
from storage.records import EndReason, ResultBatch

SEEDS_AT_ONCE = 256
Z = 1.959963984540054  # standard errors on each side of a 95 % interval
RARE = 3.7  # an event absent from n seeds has a chance under RARE / n, by 1 - 0.025 ** (1 / n) (97.5 %)


class Interval(NamedTuple):
    """Mean with its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Gains:
    """Gains of a response in n seeds."""

    gain: Floats  # [n] score per seat, less the target's score there
    points: Floats  # [n] points per game: share of opponents beaten, a draw counts half
    spread: float  # difference of the best and the worst score of any team, forfeits included
    deviation: float  # standard deviation of the target's own scores
    left_out: int  # number of seeds that do not count, because one of their matches crashed

    def score(self) -> Interval:
        """Return the mean gain in score per seat, with its interval."""
        return interval(self.gain, self.spread)

    def points_per_game(self) -> Interval:
        """Return the mean points per game in [0, 1], with their interval."""
        value, low, high = interval(self.points, 1.0)
        return Interval(value, max(low, 0.0), min(high, 1.0))


def interval(sample: Floats, spread: float) -> Interval:
    """Return the mean of `sample` [n] and its interval by the normal approximation.

    The interval is at least as wide as n equal values with a range of `spread` allow.
    """
    mean, n = float(sample.mean()), len(sample)
    error = float(sample.std(ddof=1)) / math.sqrt(n) if n > 1 else spread
    half = max(Z * error, RARE * spread / n)
    return Interval(mean, mean - half, mean + half)


def measure(arena: Arena, response: StoredSource, target: StoredSource, *, seeds: int, seed: int) -> Gains:
    """Return the gains of `response` against copies of `target` in `seeds` matches of each seating.

    All randomness comes from `seed`. Raise Failure if every seed has a crashed match.
    """
    gains, points, own, scores, left_out = [], [], [], [], 0
    agreed, seated = arena.agreed, arena.seated([response, target])
    teams = np.arange(agreed.num_teams)
    by_team = 1 - np.eye(len(teams) + 1, len(teams), dtype=np.int64)  # at last the target alone
    table = arena.table("exploit", seed)
    for first in range(0, seeds, SEEDS_AT_ONCE):
        number = np.arange(first, min(first + SEEDS_AT_ONCE, seeds))
        (batch,) = arena.play(seated, table.matches(seated.names, by_team, number), drawn_seed(seed, first))
        score, point, whole = _by_seed(batch, len(number), agreed.num_teams)
        left_out += int((~whole).sum())
        gains.append((score[:, teams, teams] - score[:, -1]).mean(axis=1)[whole])
        points.append(point[:, teams, teams].mean(axis=1)[whole])
        own.append(score[whole, -1].ravel())
        scores.append(score[whole].ravel())
    if not any(map(len, gains)):
        raise Failure(
            f"exploit: a match of each of {seeds} seeds crashed; nothing counts (see: league envs check "
            f"{agreed.env_id})"
        )
    return Gains(
        gain=np.concatenate(gains),
        points=np.concatenate(points),
        # a few matches that are all drawn show no spread
        spread=max(float(np.ptp(np.concatenate(scores))), 2.0 * abs(agreed.game.loss_reward)),
        deviation=float(np.concatenate(own).std()),
        left_out=left_out,
    )


def _by_seed(batch: ResultBatch, seeds: int, teams: int) -> tuple[Floats, Floats, Bools]:
    """Return scores per seat and points of each team [seeds, T + 1, T], and which seeds count [seeds]."""
    team_of_seat = np.array(batch.matches.team_of_seat or range(batch.matches.num_seats))
    member = np.equal.outer(team_of_seat, np.arange(teams)).astype(np.float64)
    score = batch.score.astype(np.float64) @ (member / member.sum(axis=0))
    whole = (batch.reason != EndReason.CRASH).reshape(seeds, teams + 1).all(axis=1)
    shape = (seeds, teams + 1, teams)
    return score.reshape(shape), points_of(batch).reshape(shape), whole
