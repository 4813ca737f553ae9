"""The whole tree of a game, for exact answers about policies.

tree = tree_of("kuhn_poker")              of single histories; built once in a process, then kept
tree = smallest_tree_of("liars_dice", {"dice": 2, "faces": 5})     of public histories if that is too large

`tree_of` works for native games with `BatchedGame.starts` and `match_arrays`, and for games of OpenSpiel.
In a native game, an information set is given by all that the seat was shown when it had to act, its actions
and its rewards; in a game of OpenSpiel, by the information state. `smallest_tree_of` also works for larger
games that derive from `DealtGame` (`league/envs/dealt.py`).
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from analysis.exploitability import GameTree, PublicTree
from league.envs import registry
from league.envs.adapters.openspiel import OpenSpielGame
from league.envs.base import BatchedGame
from league.envs.dealt import DealtGame
from league.envs.trees import Inexact, native, openspiel, public

MOST_HISTORIES = 5_000_000  # each takes 0.2 KiB and 1 us; in games of OpenSpiel 5 us


def tree_of(
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    step_limit: int | None = None,
    most_histories: int = MOST_HISTORIES,
) -> GameTree:
    """Return the tree of the game `env_id`, with matches truncated after `step_limit` decisions.

    Raise TooLarge, Inexact for a game that cannot be walked, UnknownEnv, BadOption.
    """
    return _tree(env_id, json.dumps(dict(options or {}), sort_keys=True), step_limit, most_histories)


def smallest_tree_of(
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    step_limit: int | None = None,
    most_histories: int = MOST_HISTORIES,
) -> GameTree | PublicTree:
    """Return the tree of single histories if they are at most `most_histories`, else that of public ones.

    The values of both are equal. Single histories also serve policies with memory. Raise as `tree_of` does.
    """
    if issubclass(registry.game_class(env_id), DealtGame):
        named = json.dumps(dict(options or {}), sort_keys=True)
        tree = _public_tree(env_id, named, step_limit)
        if tree is not None and tree.histories > most_histories:
            return tree
    return tree_of(env_id, options, step_limit=step_limit, most_histories=most_histories)


@functools.lru_cache(maxsize=1)
def _public_tree(env_id: str, options: str, step_limit: int | None) -> PublicTree | None:
    game = registry.make(env_id, 1, step_limit=step_limit, **json.loads(options))
    if not isinstance(game, DealtGame) or game.starts() is None or game.match_arrays is None:
        return None
    _check(env_id, game)
    return public.walk_public(env_id, game)


@functools.lru_cache(maxsize=4)
def _tree(env_id: str, options: str, step_limit: int | None, most_histories: int) -> GameTree:
    game = registry.make(env_id, 1, step_limit=step_limit, **json.loads(options))
    _check(env_id, game)
    if isinstance(game, OpenSpielGame):
        return openspiel.walk(env_id, game, most_histories)
    return native.walk(env_id, game, most_histories)


def _check(env_id: str, game: BatchedGame) -> None:
    """Raise Inexact unless all seats have the same spaces, with Discrete actions."""
    kinds = {action.kind for action in game.action_specs}
    found = None
    if not game.shared_spaces:
        found = "seats that see or act differently"
    elif kinds != {"discrete"}:
        found = f"{', '.join(sorted(kinds))} actions"
    elif not isinstance(game, OpenSpielGame) and (game.starts() is None or game.match_arrays is None):
        found = "a game that does not say how its matches may start and be copied (starts, match_arrays)"
    if found is not None:
        raise Inexact(
            f"env '{env_id}': found {found}, expected a game with a tree that can be walked: one choice at "
            "a time, alike for all seats; train a best response instead (league exploit --train)"
        )
