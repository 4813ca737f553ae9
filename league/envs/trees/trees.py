"""The whole tree of a game, for exact answers about policies.

tree = tree_of("kuhn_poker")           built once in a process, then kept

It works for native games with `BatchedGame.starts` and `match_arrays`, and for games of OpenSpiel. In a
native game, an information set is given by all that the seat was shown when it had to act, its actions
and its rewards; in a game of OpenSpiel, by the information state.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Mapping
from typing import Any

from analysis.exploitability.tree import GameTree
from league.envs import registry
from league.envs.adapters.openspiel.game import OpenSpielGame
from league.envs.base import BatchedGame
from league.envs.trees import native, openspiel
from league.envs.trees.errors import Inexact

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
