"""Games by id: `make("connect_four", 1024)`.

Other ids name a user's own game, "module:Class" (a `BatchedGame`, or an env class of PettingZoo's kind),
or a game of a library: "gymnasium:CartPole-v1", "openspiel:hex(board_size=5)",
"pettingzoo:classic/chess_v6", "pgx:othello".

This is the only list of native games and adapters. Each is imported when it is first used.
"""

from __future__ import annotations

import importlib
import inspect
import math
import sys
from collections.abc import Mapping
from typing import Any

from league.envs.base import BatchedGame
from league.envs.trial.blame import cause_of
from league.import_paths import RAISED, import_path
from storage.errors import Mistake
from storage.suggestions import nearest

_NATIVE = {
    "blotto": "league.envs.games.blotto:Blotto",
    "connect_four": "league.envs.games.connect_four:ConnectFour",
    "kuhn_poker": "league.envs.games.kuhn_poker:KuhnPoker",
    "leduc_poker": "league.envs.games.leduc_poker:LeducPoker",
    "liars_dice": "league.envs.games.liars_dice:LiarsDice",
    "recall": "league.envs.games.recall:Recall",
    "rock_paper_scissors": "league.envs.games.rock_paper_scissors:RockPaperScissors",
    "rush": "league.envs.games.rush:Rush",
    "tic_tac_toe": "league.envs.games.tic_tac_toe:TicTacToe",
    "tron": "league.envs.games.tron:Tron",
    "whist": "league.envs.games.whist:Whist",
}
DRAW_MARGIN = "draw_margin"  # option of every game: returns this close are equal (`BatchedGame.draw_margin`)
_ADAPTERS = {
    "gymnasium": "league.envs.adapters.gymnasium.game:game_of",
    "openspiel": "league.envs.adapters.openspiel:game_of",
    "pettingzoo": "league.envs.adapters.pettingzoo.game:game_of",
    "pgx": "league.envs.adapters.pgx:game_of",
}


class UnknownEnv(Mistake, ValueError):
    """There is no game with this id or import path."""


class BadOption(Mistake, ValueError):
    """The game has no such option, or refuses its value."""


def ids() -> list[str]:
    """Return the ids of all native games, in order."""
    return sorted(_NATIVE)


def make(env_id: str, num_slots: int, /, **options: Any) -> BatchedGame:
    """Return the game `env_id` with `num_slots` slots, none of them started.

    Raise UnknownEnv, or BadOption for an option that the game does not have or refuses.
    """
    check_options(env_id, options)
    game = game_class(env_id)
    margin = options.pop(DRAW_MARGIN, None)
    try:
        made = game(num_slots, **options)
        if not hasattr(made, "active"):
            raise AttributeError(
                "its __init__ does not call that of BatchedGame: super().__init__(num_slots)"
            )
    except (Mistake, MemoryError):
        raise
    except RAISED as error:
        if str(error).startswith(f"{getattr(game, 'id', env_id)}: "):  # a sentence of ours
            raise BadOption(f"env {error}") from error
        cause = cause_of(error, (), [game])
        raise BadOption(f"env '{env_id}' cannot be made with options {options}: {cause}") from error
    if margin:
        made.draw_margin, made.draw_possible = margin, True
    return made


def check_options(env_id: str, options: Mapping[str, Any]) -> None:
    """Raise UnknownEnv, or BadOption for the first of `options` that the game does not have."""
    margin = options.get(DRAW_MARGIN, 0.0)
    if isinstance(margin, bool) or not isinstance(margin, int | float) or not 0.0 <= margin < math.inf:
        raise BadOption(f"env '{env_id}': {DRAW_MARGIN} is {margin!r}, expected a number of at least 0")
    parameters = inspect.signature(game_class(env_id)).parameters
    if any(p.kind is p.VAR_KEYWORD for p in parameters.values()):
        return
    accepted = [*(name for name in parameters if name != "num_slots"), DRAW_MARGIN]
    for option in options:
        if option == "step_limit" and option not in accepted:
            raise BadOption(
                f"env '{env_id}': its __init__ takes no step_limit, which every game must: "
                "def __init__(self, num_slots, *, step_limit=None)"
            )
        if option not in accepted:
            # a config sets the step limit elsewhere (rollout.step_limit), so it is not offered here
            offered = ", ".join(name for name in accepted if name != "step_limit") or "none"
            raise BadOption(f"env '{env_id}' has no option '{option}'; its options: {offered}")


def game_class(env_id: str) -> type[BatchedGame]:
    """Return the class of a native id, "<library>:<game>" or "module:Class". Raise UnknownEnv."""
    library, _, name = env_id.partition(":")
    if library in _ADAPTERS:
        try:
            return import_path(_ADAPTERS[library])(name)
        except LookupError as error:
            raise UnknownEnv(f"env '{env_id}': {error.args[0]}") from error
    if env_id not in _NATIVE and ":" not in env_id:
        near = nearest(env_id, _NATIVE, n=3, cutoff=0.5)
        remedy = f"did you mean {' or '.join(near)}?" if near else f"expected {', '.join(ids())}"
        raise UnknownEnv(
            f"no env '{env_id}': {remedy} (or 'module:Class' for your own; 'gymnasium:', 'openspiel:', "
            "'pettingzoo:' or 'pgx:' and a name for theirs)"
        )
    try:
        game = import_path(_NATIVE.get(env_id, env_id))
    except ValueError as error:
        raise UnknownEnv(f"env {error}") from error
    if isinstance(game, type) and issubclass(game, BatchedGame):
        return game
    if "pettingzoo" in sys.modules:  # otherwise it cannot be one of its envs
        pettingzoo_game = importlib.import_module("league.envs.adapters.pettingzoo.game")
        if pettingzoo_game.is_pettingzoo(game):
            return pettingzoo_game.game_from(game, env_id)
    raise UnknownEnv(
        f"env '{env_id}' is {game!r}, expected a subclass of league.envs.base.BatchedGame, or an AEC or "
        "Parallel env of PettingZoo's kind"
    )
