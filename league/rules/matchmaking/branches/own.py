"""A user's own branch: found by its import path, and checked when its code is imported."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from pydantic import ValidationError

from league.import_paths import import_path
from league.mistakes import explain
from league.rules.matchmaking.branches.base import Branch
from league.rules.matchmaking.pools import EMPTY, Pool
from league.rules.roster import Roster
from league.section import OwnPart


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
