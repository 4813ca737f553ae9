"""A user's own matchmaker: a function that finds the opponents of training matches, by its import path.

    def next_above(view, n, rng, most=3):
        '''The snapshots that are rated just above the player, at most `most` of them.'''
        snapshots = view.roster.snapshots()
        mu = view.standings.ratings.mu
        above = snapshots[mu[snapshots] > mu[view.home]]
        nearest = above[np.argsort(mu[above])][:most]
        return rng.choice(nearest, n) if len(nearest) else np.full(n, view.home)

A class does as well: it is made once, with the options, and its object is called in the same way.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from league.import_paths import import_callable, running, takes
from league.rules.matchmaking.branches import LeagueView, match_type_of
from league.rules.matchmaking.seating import Tables
from league.rules.roster import Roster
from storage.arrays import Indices
from storage.suggestions import nearest

WHERE = "league.matchmaker"


class OwnMatchmaker:
    """Function of a user that finds opponents, with checks of what it returns."""

    def __init__(self, path: str, draw: Callable[[LeagueView, int, np.random.Generator], Any]) -> None:
        self.path = path
        self._draw = draw

    @property
    def match_type(self) -> str:
        """Match type that its matches are recorded with: the name of the function or class."""
        return match_type_of(self.path)

    def opponents(self, view: LeagueView, n: int, others: int, rng: np.random.Generator) -> Indices:
        """Return the opponents of `n` matches against `others` teams: [n, others].

        Raise OwnCodeFailed for whatever the function raises, and if it returns anything but competitors that
        may be played.
        """
        with running(WHERE, self.path):
            found = self._draw(view, n, rng)
            return _checked(found, n, others, view.roster)


def find_matchmaker(path: str, options: Mapping[str, Any]) -> OwnMatchmaker:
    """Return the matchmaker at `path` with its options. Raise ValueError if it cannot be used."""
    expected = "a function (view, n, rng) that returns opponents, or a class of objects that are called so"
    found = import_callable(path, expected)
    given = ", ".join(["view, n, rng", *options])
    if not inspect.isclass(found):
        if not takes(found, 3, options):
            raise ValueError(f"'{path}' cannot be called as {found.__name__}({given}), expected {expected}")
        return OwnMatchmaker(path, lambda view, n, rng: found(view, n, rng, **options))
    if not takes(found, 0, options):
        raise ValueError(f"'{path}' cannot be made as {found.__name__}({', '.join(options)})")
    with running("", path, ValueError):
        made = found(**options)
    if not callable(made) or not takes(made, 3, {}):
        raise ValueError(f"'{path}': its objects cannot be called as (view, n, rng), expected {expected}")
    return OwnMatchmaker(path, made)


def _checked(found: Any, n: int, others: int, roster: Roster) -> Indices:
    """Return what a function found as indices of the roster [n, others]. Raise ValueError for rubbish."""
    shape = f"[{n}]" if others == 1 else f"[{n}, {others}]"
    try:
        table = np.asarray(found)
    except ValueError:  # rows of different lengths
        table = np.empty(0)
    if table.shape not in ([(n,), (n, 1)] if others == 1 else [(n, others)]) or table.dtype.kind not in "iuU":
        text = f"{found!r:.80}" if not isinstance(found, np.ndarray) else f"{found.dtype} {found.shape}"
        raise ValueError(f"returned {text}, expected {shape} competitors, by index in the roster or by name")
    if table.dtype.kind == "U":
        index = {name: _named(name, roster) for name in np.unique(table).tolist()}
        table = np.array([index[name] for name in table.ravel().tolist()], dtype=np.int64)
    table = table.astype(np.int64).reshape(n, others)
    for one in np.unique(table).tolist():
        if not 0 <= one < len(roster):
            raise ValueError(
                f"returned competitor {one}, expected indices of the roster, 0 to {len(roster) - 1}"
            )
        if roster.is_retired(roster.id(one)):
            raise ValueError(
                f"returned '{roster.id(one)}', which has left the league, expected one that may be played"
            )
    return table


def _named(name: str, roster: Roster) -> int:
    if name not in roster:
        near = nearest(name, [roster.id(index) for index in range(len(roster))])
        hint = f"; did you mean '{near[0]}'?" if near else ""
        raise ValueError(f"returned '{name}', which is no competitor of the league{hint}")
    return roster.index(name)


def seat_chosen(
    home: int,
    opponent: Indices,
    match_type: npt.NDArray[np.int16],
    may: npt.NDArray[np.bool_],
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
        ways = _ways((home, *row.tolist()), may)
        if not ways:
            names = " and ".join(f"'{roster.id(index)}'" for index in row.tolist())
            raise ValueError(
                f"returned {names} for '{roster.id(home)}', but they cannot take seats of one match"
            )
        turns = (np.arange(len(matches)) + rng.integers(len(ways))) % len(ways)
        by_team[matches] = np.array(ways)[turns]
    return Tables(by_team, by_team == home, match_type)


def _ways(competitors: Sequence[int], may: npt.NDArray[np.bool_]) -> list[tuple[int, ...]]:
    """Return the different ways in which the competitors may be all teams, each as competitors by team."""
    orders = dict.fromkeys(itertools.permutations(competitors))
    return [order for order in orders if all(may[one, team] for team, one in enumerate(order))]
