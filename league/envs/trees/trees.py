"""The whole tree of a game that this process can play, for exact answers about policies in it.

tree = tree_of("kuhn_poker")           built once in a process, then kept

Native games that say how their matches may start (`BatchedGame.starts`) and can be copied, and games of
OpenSpiel. What a seat may know in it: all that it is shown when it must act, what it did and what it got; in
OpenSpiel's games all that is in their information state.
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

MOST_HISTORIES = 5_000_000  # each takes 0.2 KiB and a microsecond, in OpenSpiel's games five


def tree_of(
    env_id: str,
    options: Mapping[str, Any] | None = None,
    *,
    step_limit: int | None = None,
    most_histories: int = MOST_HISTORIES,
) -> GameTree:
    """The tree of the game `env_id`, whose matches are cut short after `step_limit` decisions.

    Raises TooLarge, Inexact for a game that cannot be walked, UnknownEnv, BadOption.
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
    """Raise Inexact for a game whose seats are shown different things, or do other than choose."""
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
            f"env '{env_id}': found {found}, expected a game whose tree can be walked: one choice at a time, "
            "alike for all seats; train a best response instead (league exploit --train)"
        )
