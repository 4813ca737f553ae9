"""Matches of more than two teams, rated in their order, hundreds at once.

The rating before a match is the one after the match before it, so matches cannot be rated apart. But a match
amounts to a normal observation of each skill in it, which depends little on the ratings before. So the
observations of many matches are found together with the ratings between them, in turns:

1. given the observations, the skill of each competitor is followed through its games (`followed`);
2. given the ratings before all matches, the sites of all matches are renewed (`Chains`), and with them the
   observations.

Once nothing moves, each match has the ratings that it would have if matches were rated one by one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.rules.rating.closed_form import RatingTable
from league.rules.rating.many_teams import Chains
from storage.arrays import Bools, Floats, Indices

AT_ONCE = 1024  # matches, if they settle in few turns
FEW_TURNS, MANY_TURNS = 16, 24  # twice as many matches are then rated at once, or half as many
MOST_TURNS = 40  # after so many, the same is tried with half of the matches
STILL = 1e-8  # move of a rating in a turn, in units of beta; the moves that are left are smaller in all


class Pairs(NamedTuple):
    """Each two teams of matches as a game [G] that was tied or not, as `DrawRecord.add` takes them."""

    gap: Floats
    scale: Floats
    tied: Bools


def rate_many_teams(
    table: RatingTable,
    seated: Indices,
    team: Indices,
    ranks: npt.NDArray[np.int8],
    *,
    beta: float,
    margin: float,
) -> Pairs | None:
    """Rate M matches of T > 2 teams: places [M, S], each seat's team [S], from 0 on, and ranks [M, T].

    `margin` is the draw margin of one seat, in mu: that of n seats is sqrt(n) times it. A competitor in
    several seats of a team has one skill, which counts as often; in several teams, it takes the mean of its
    results in each. A match of one competitor alone rates none. Return all pairs of teams if `table.watch`.
    """
    several = (seated != seated[:, :1]).any(axis=1)
    seated, ranks = seated[several].T, ranks[several].T
    pairs, start, size = [], 0, AT_ONCE
    while start < (matches := seated.shape[1]):
        part = slice(start, stop := min(start + size, matches))
        window = _Window(table, seated[:, part], team, ranks[:, part], beta, margin)
        turns = window.settle()
        if turns <= FEW_TURNS:
            size = min(AT_ONCE, 2 * size)
        elif turns > MANY_TURNS:
            size = max(1, (stop - start) // 2)
        if turns == MOST_TURNS and stop - start > 1:
            continue
        window.store(table)
        if table.watch:
            pairs.append(window.pairs())
        start = stop
    return Pairs(*map(np.concatenate, zip(*pairs, strict=True))) if pairs else None


class _Window:
    """Matches that are rated together: places [S, M], each seat's team [S], and ranks [T, M].

    Inside, seats are in order of their teams' ranks. A *game* is a match of one competitor: games [G] are in
    order of competitor and then of play, and those of competitors that may move, n in all, come first.
    """

    def __init__(
        self,
        table: RatingTable,
        seated: Indices,
        team: Indices,
        ranks: npt.NDArray[np.int8],
        beta: float,
        margin: float,
    ) -> None:
        self._beta = beta
        column = np.arange(ranks.shape[1])
        order = np.argsort(ranks, axis=0, kind="stable")  # teams, best first
        place = np.empty_like(order)
        np.put_along_axis(place, order, np.arange(len(order))[:, None], axis=0)
        seats = np.argsort(place[team], axis=0, kind="stable")
        seated = np.take_along_axis(seated, seats, axis=0)
        self._team = np.take_along_axis(place[team], seats, axis=0) * len(column) + column
        self._size: Indices = np.bincount(team)[order]
        self._rank = np.take_along_axis(ranks, order, axis=0)
        self._times = _times(seated, self._team)
        margins = margin * np.sqrt(self._size[1:] + self._size[:-1])
        self._chains = Chains(margins, self._rank[1:] == self._rank[:-1])

        fixed = np.array(table.fixed)
        line = np.argsort(fixed, kind="stable")
        place = np.empty_like(line)
        place[line] = np.arange(len(line))
        games, game = np.unique(place[seated] * len(column) + column, return_inverse=True)
        game = game.reshape(seated.shape)
        self._who = who = line[games // len(column)]
        self._moving = n = int((~fixed[who]).sum())
        self._seats = np.flatnonzero(game < n)  # those that move
        self._game = game.ravel()[self._seats]
        teams = np.bincount(game.ravel(), 1.0 / self._times.ravel())[:n]
        self._share = 1.0 / teams

        self._begins = np.r_[True, who[1:] != who[:-1]]
        start = np.flatnonzero(self._begins)
        length = np.diff(np.r_[start, len(who)])
        self._longest = int(length[~fixed[who[start]]].max(initial=0))
        before = (np.arange(len(who)) - np.repeat(start, length))[:n]
        played, placement = np.array(table.games)[who[:n]], np.array(table.placement)[who[:n]]
        self._counts = (before == 0) | (played + before < placement)  # else it has become fixed meanwhile
        self._drift = np.where(self._counts, np.array(table.drift)[who[:n]], 0.0)
        mean, variance = np.array(table.mu)[who], np.array(table.variance)[who]
        self._after = mean[:n].copy(), variance[:n].copy()
        variance[:n] += self._drift
        self._start = self._before = mean[:n], variance[:n]
        self._mean, self._variance = mean[game], variance[game] * self._times  # of each seat

    def settle(self) -> int:
        """Find the ratings after all games. Return the number of turns, of `MOST_TURNS`."""
        if not self._moving:
            return 0
        later = np.flatnonzero(~self._begins[: self._moving])
        self._observe()
        for turn in range(MOST_TURNS):
            seen = self._observe()
            mean, variance = followed(
                self._begins[: self._moving], *self._start, self._drift, *seen, self._longest
            )
            still = (
                np.abs(mean - self._after[0]).max() <= STILL * self._beta
                and np.abs(variance - self._after[1]).max() <= STILL * self._beta**2
            )
            self._after = mean, variance
            self._before = self._start[0].copy(), self._start[1].copy()
            self._before[0][later] = mean[later - 1]
            self._before[1][later] = variance[later - 1] + self._drift[later]
            self._mean.ravel()[self._seats] = self._before[0][self._game]
            self._variance.ravel()[self._seats] = (
                self._before[1][self._game] * self._times.ravel()[self._seats]
            )
            if still:
                return turn
        return MOST_TURNS

    def _observe(self) -> tuple[Floats, Floats]:
        """Renew the sites, and return the observations of what moves: precision and shift of games [n]."""
        mean, variance = self._teams()
        precision, shift = self._chains.renew(mean, variance)
        share = 1.0 / (1.0 + variance * precision)
        # A skill of variance s^2, in a seats of a team, moves by a s^2 pull, and its variance becomes
        # s^2 (1 - a^2 s^2 hold).
        pull, hold = (shift - precision * mean) * share, precision * share
        at = self._team.ravel()[self._seats]
        pulls = np.bincount(self._game, pull.ravel()[at]) * self._share
        holds = np.bincount(self._game, hold.ravel()[at] * self._times.ravel()[self._seats]) * self._share
        rest = self._counts / (1.0 - self._before[1] * holds)
        return holds * rest, (self._before[0] * holds + pulls) * rest

    def _teams(self) -> tuple[Floats, Floats]:
        """Return mean and variance of the performance of each team [T, M], best first."""
        noise = self._size * self._beta**2
        if len(self._team) == len(noise):
            return self._mean, self._variance + noise
        mean, variance = (
            np.bincount(self._team.ravel(), x.ravel()).astype(np.float64, copy=False).reshape(len(noise), -1)
            for x in (self._mean, self._variance)
        )
        return mean, variance + noise

    def store(self, table: RatingTable) -> None:
        """Store ratings after the games, and count these."""
        last = np.flatnonzero(np.r_[self._begins[1:], True])
        games = np.diff(np.r_[-1, last])
        for k, at, count in zip(self._who[last].tolist(), last.tolist(), games.tolist(), strict=True):
            table.games[k] += count
            if at < self._moving:
                table.mu[k], table.variance[k] = float(self._after[0][at]), float(self._after[1][at])
                table.fixed[k] = table.games[k] >= table.placement[k]

    def pairs(self) -> Pairs:
        """Return each two teams of each match."""
        mean, variance = self._teams()
        one, other = np.triu_indices(len(mean), k=1)
        c = np.sqrt(variance[one] + variance[other])
        noise = np.sqrt(self._size[one] + self._size[other]) * self._beta
        tied = self._rank[one] == self._rank[other]
        return Pairs(((mean[one] - mean[other]) / c).ravel(), (noise / c).ravel(), tied.ravel())


def _times(seated: Indices, team: Indices) -> Floats:
    """Return how many seats of a seat's team its competitor has [S, M], given each seat's team [S, M]."""
    times = np.ones(seated.shape)
    for one, other in zip(*np.triu_indices(len(team), k=1), strict=True):
        same = (team[one] == team[other]) & (seated[one] == seated[other])
        times[one] += same
        times[other] += same
    return times


def followed(
    begins: Bools,
    mean: Floats,
    variance: Floats,
    drift: Floats,
    precision: Floats,
    shift: Floats,
    longest: int,
) -> tuple[Floats, Floats]:
    """Follow skills through their games: return mean and variance after each [G].

    Games are in order of skill and then of play. `begins` [G] marks the first ones of a skill, of at most
    `longest`; `mean` and `variance` [G] are those before these, drift included. Each later game first adds
    `drift` [G] to the variance. Then the skill is observed with `precision` [G] and `shift` [G], precision
    times value. It is a Kalman filter, by prefix sums in place of game after game (Sarkka, Garcia-Fernandez:
    Temporal parallelization of Bayesian smoothers, 2021, lemma 8).
    """
    share = 1.0 / (1.0 + np.where(begins, variance, drift) * precision)
    a = np.where(begins, 0.0, share)
    c = np.where(begins, variance, drift) * share
    b = np.where(begins, mean * share, 0.0) + c * shift
    eta, j = shift * share, precision * share
    step = 1
    while step < longest:
        to, by = slice(step, None), slice(None, -step)
        share = 1.0 / (1.0 + c[by] * j[to])
        forward, backward = a[to] * share, a[by] * share
        b_new = forward * (b[by] + c[by] * eta[to]) + b[to]
        c_new = forward * a[to] * c[by] + c[to]
        eta[to], j[to] = backward * (eta[to] - j[to] * b[by]) + eta[by], backward * a[by] * j[to] + j[by]
        a[to] = forward * a[by]
        b[to], c[to] = b_new, c_new
        step *= 2
    return b, c
