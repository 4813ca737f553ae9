"""Games whose seats differ, and leagues in which a competitor may take some seats only.

A match then begins with the home player's team. Each other team gets a competitor that may be it, from
the pool of the match's branch, by the weights of the pool. If no candidate of the pool may be the team,
a player as it plays now fills it, else any other competitor that fits.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping

import numpy as np
import numpy.typing as npt

from league.rules.matchmaking.pools import Pool, alike, snapshots_and_bots
from league.rules.matchmaking.seating import Tables
from league.rules.roster import Roster
from storage.arrays import Bools, Indices
from storage.records import Competitor

SeatsOf = Callable[[Competitor], tuple[int, ...] | None]
"""Function that returns the seats that a competitor may take; `None` for all seats."""


class NobodyFits(ValueError):
    """No competitor in the league may be one of a match's teams."""


class TeamLimits:
    """Teams that each competitor may be: those of which it may take all seats."""

    def __init__(self, team_of_seat: Indices, seats_of: SeatsOf) -> None:
        self._team_of_seat = team_of_seat
        self._seats_of = seats_of
        self._may = np.zeros((0, int(team_of_seat[-1]) + 1), dtype=np.bool_)

    def may(self, roster: Roster) -> Bools:
        """Return whether each competitor may be each team: [len(roster), num_teams]."""
        newcomers = range(len(self._may), len(roster))  # competitors never change: each is looked up once
        if newcomers:
            added = [self._teams(self._seats_of(roster.at(index))) for index in newcomers]
            self._may = np.concatenate([self._may, added])
        return self._may

    def _teams(self, seats: tuple[int, ...] | None) -> Bools:
        teams = np.ones(int(self._team_of_seat[-1]) + 1, dtype=np.bool_)
        if seats is not None:
            teams[self._team_of_seat[np.isin(np.arange(len(self._team_of_seat)), seats, invert=True)]] = False
        return teams


def fitting(pool: Pool, may: Bools) -> Pool:
    """Return the candidates of a pool for which `may` [len(roster)] is `True`, with their weights."""
    fit = may[pool.candidates]
    p = pool.p[fit]
    if not p.sum() > 0.0:  # no candidate with a weight fits
        return Pool(pool.candidates[:0], pool.p[:0])
    return Pool(pool.candidates[fit], p / p.sum())


def arrange(
    home: int,
    match_type: npt.NDArray[np.int16],
    pools: Mapping[int, Pool],
    self_play: int,
    may: Bools,
    roster: Roster,
    distinct_opponents: int,
    rng: np.random.Generator,
    *,
    learning: bool,
) -> Tables:
    """Seat M matches of `home`: its teams in turn, every other team by the pool of the match's type.

    `pools` are by match type. `self_play` has none: home is every team that it may be, players as they play
    now are the others, and all of them learn. `may` is [len(roster), num_teams]. Raise NobodyFits if there
    is no competitor for a team, and ValueError if `home` may be no team.
    """
    n, num_teams = len(match_type), may.shape[1]
    teams = np.flatnonzero(may[home])
    if not len(teams):
        raise ValueError(f"'{roster.id(home)}' may take no seat of a whole team")
    home_team = np.empty(n, dtype=np.int64)
    in_turn = np.argsort(match_type, kind="stable")
    home_team[in_turn] = teams[(np.arange(n) + rng.integers(len(teams))) % len(teams)]
    by_team = np.full((n, num_teams), home, dtype=np.int64)
    alone = match_type == self_play
    for kind in np.unique(match_type).tolist():
        for team in range(num_teams):
            rows = rng.permutation(np.flatnonzero((match_type == kind) & (home_team != team)))
            if not len(rows) or (kind == self_play and may[home, team]):
                continue
            pool = _candidates(pools.get(kind), may[:, team], roster, home)
            most = max(1, distinct_opponents * len(rows) // (n * max(num_teams - 1, 1)))
            draws = rng.choice(pool.candidates, size=min(len(rows), most), p=pool.p)
            by_team[rows, team] = draws[np.arange(len(rows)) % len(draws)]
    live = np.isin(by_team, roster.indices(player.player for player in roster.players))
    learns = live & ((by_team == home) | alone[:, None]) & learning
    return Tables(by_team, learns, match_type)


def _candidates(pool: Pool | None, may: Bools, roster: Roster, home: int) -> Pool:
    """Return the candidates for a team: of the pool, else other players, else any competitor."""
    if pool is not None and (fit_of_pool := fitting(pool, may)):
        return fit_of_pool
    live = roster.indices(player.player for player in roster.players)
    for candidates in (live[may[live] & (live != home)], snapshots_and_bots(roster).candidates, live):
        fit = candidates[may[candidates]]
        if len(fit):
            return alike(fit)
    raise NobodyFits("there are seats that no competitor of its league may take")


def seat_chosen(
    home: int,
    opponent: Indices,
    match_type: npt.NDArray[np.int16],
    may: Bools,
    roster: Roster,
    rng: np.random.Generator,
) -> Tables:
    """Seat M matches of `home` against `opponent` [M, T - 1], where competitors may be some teams only.

    `may` is [len(roster), T]. Each match with the same opponents is seated in all possible ways in turn.
    Raise ValueError for opponents that cannot be seated beside `home`.
    """
    by_team = np.empty((len(opponent), may.shape[1]), dtype=np.int64)
    for row in np.unique(opponent, axis=0):
        matches = np.flatnonzero((opponent == row).all(axis=1))
        orders = dict.fromkeys(itertools.permutations((home, *row.tolist())))
        ways = [order for order in orders if all(may[one, team] for team, one in enumerate(order))]
        if not ways:
            names = " and ".join(f"'{roster.id(index)}'" for index in row.tolist())
            raise ValueError(
                f"returned {names} for '{roster.id(home)}', but they cannot take seats of one match"
            )
        turns = (np.arange(len(matches)) + rng.integers(len(ways))) % len(ways)
        by_team[matches] = np.array(ways)[turns]
    return Tables(by_team, by_team == home, match_type)
