"""A user's own branch or matchmaker, found by its import path, with checks of what it returns.

A branch is a class (see `Branch`); a matchmaker is a function that finds the opponents of training matches:

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
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from league.import_paths import import_callable, import_path, running, takes
from league.mistakes import explain
from league.rules.matchmaking.branches.branch import Branch, LeagueView
from league.rules.matchmaking.pools import EMPTY, Pool
from league.rules.roster import Roster
from league.section import OwnPart
from storage.arrays import Indices
from storage.suggestions import or_near

WHERE = "league.matchmaker"  # place in the config


class OwnBranch(Branch, OwnPart):
    """A user's own branch as a config has it: the keys are checked when its class is imported."""


def match_type_of(path: str) -> str:
    """Return the match type that the matches of a matchmaker at `path` are recorded with."""
    return path.partition(":")[2]


def own_types(branches: Iterable[tuple[str, str]], known: Iterable[str]) -> list[str]:
    """Return the match types of the users' own among `branches`, beside those `known`.

    `branches`: names and import paths. Raise ValueError for two branches of one type.
    """
    path_of = dict.fromkeys(known, "the branch of that name")
    own = []
    for name, path in branches:
        if name not in path_of:
            own.append(name)
        if path_of.setdefault(name, path) != path:
            raise ValueError(
                f"branches: matches of '{path}' would be recorded as '{name}', like those of "
                f"{path_of[name]}; choose another name"
            )
    return own


def import_branch(path: str, given: Mapping[str, Any]) -> Branch:
    """Return the branch at `path` with the settings `given`. Raise ValueError if it cannot be used."""
    found = import_path(path)
    if not (isinstance(found, type) and issubclass(found, Branch)):
        raise ValueError(
            f"'{path}': found {found!r}, expected a subclass of {Branch.__module__.rpartition('.')[0]}.Branch"
        )
    if found.candidates is Branch.candidates and found.pool is Branch.pool:
        raise ValueError(f"'{path}': has no candidates(view); see the example in configs/own_branch.py")
    try:
        return found.model_validate(dict(given))
    except ValidationError as error:
        raise ValueError(f"'{path}': {explain(error, found)}") from None


def checked(name: str, pool: Pool, roster: Roster) -> Pool:
    """Return the pool of a user's own branch with indices as int64. Raise ValueError for other candidates."""
    found = np.asarray(pool.candidates)
    if not found.size:
        return EMPTY
    if found.ndim != 1 or not np.issubdtype(found.dtype, np.integer):
        raise ValueError(f"branch '{name}': candidates are {found!r}, expected indices of the roster [k]")
    if found.min() < 0 or found.max() >= len(roster):
        raise ValueError(
            f"branch '{name}': candidates are between {found.min()} and {found.max()}, expected indices of "
            f"the roster, from 0 to {len(roster) - 1}"
        )
    for competitor in map(roster.id, found.tolist()):
        if roster.is_retired(competitor):
            raise ValueError(
                f"branch '{name}': candidate '{competitor}' is retired, expected one that may be played; "
                "take view.roster.snapshots() or view.snapshots_of(player)"
            )
    return Pool(found.astype(np.int64), pool.p)


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
            return _competitors(found, n, others, view.roster)


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


def _competitors(found: Any, n: int, others: int, roster: Roster) -> Indices:
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
        raise ValueError(
            f"returned '{name}', which is no competitor of the league{or_near(name, roster.ids)}"
        )
    return roster.index(name)
