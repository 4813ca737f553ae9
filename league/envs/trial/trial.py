"""Trial of a game before it trains: a second of random play that finds the first thing that is wrong.

An env of gymnasium or PettingZoo is played by itself first, because an adapter would hide what it returns.
Then matches are played through the batched interface: one alone, so that an error has one seat, then some at
once. A trial ends as soon as it has seen enough; only a game in which no match ends is played for longer.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Mapping
from typing import Any, Literal

from league.envs import registry, slots
from league.envs.adapters.gymnasium.game import GymnasiumGame
from league.envs.base import BatchedGame
from league.envs.slots import SlotGame
from league.envs.trial import libraries
from league.envs.trial.blame import cause_of, defined_at, place_of, sentence_of
from league.envs.trial.matches import MOST_DECISIONS, SLOTS, Account, Cost, Matches, cost_of, within
from league.envs.trial.promises import Found
from league.import_paths import RAISED
from storage.errors import Mistake

SECONDS = 0.8  # of play through the batched interface
OWN_SECONDS = 0.3  # of an env by itself
MORE_SECONDS = 2.5  # for a game in which no match has ended
ENOUGH = 32  # matches, if any of them was scored
UNSCORED = 200  # matches without a reward, after which a game counts as one that never pays

Make = Callable[[int], BatchedGame]
Endless = Literal["refused", "doubtful", "taken"]  # what a game is whose matches do not end


class GameBroken(Mistake):
    """A game that cannot be trained on: the message has the game, the seat, the cause, file and line.

    `certain`: no game without a fault looks so. `cost`: what play of a game costs that only may have one.
    """

    certain = True
    cost: Cost | None = None


def require_sound(
    env_id: str,
    options: Mapping[str, Any],
    *,
    step_limit: int | None,
    endless: Endless,
    most_seconds: float = math.inf,
) -> Cost | None:
    """Return what play of the game costs; `None` for games of this package, which are not tried.

    Raise GameBroken if a trial of the game finds a fault.

    `endless`: taken where matches are played in fragments. `most_seconds`: of a step.
    """
    if env_id in registry.ids():
        return None
    options = {**options, "step_limit": step_limit}

    def make(num_slots: int) -> BatchedGame:
        return registry.make(env_id, num_slots, **options)

    cost, fault = None, find_fault(make, endless=endless, most_seconds=most_seconds)
    if fault is None or not fault.certain:
        try:
            cost = cost_of(make)
        except RAISED as error:  # in one of many more matches
            fault = Found(cause_of(error))
    if fault is not None:
        broken = GameBroken(f"env '{env_id}': {fault.sentence} (league envs check {env_id} shows more)")
        broken.certain, broken.cost = fault.certain, cost
        raise broken
    return cost


def find_fault(make: Make, *, endless: Endless = "refused", most_seconds: float = math.inf) -> Found | None:
    """Return the first fault of the game that `make(num_slots)` returns; `None` if a trial finds none.

    The fault of a doubtful game, in which no match ends, is not certain.
    """
    crashes = logging.getLogger(slots.__name__)  # the fault names them
    was, crashes.disabled = crashes.disabled, True
    try:
        _find(make, endless, most_seconds)
    except Found as found:
        return found
    finally:
        crashes.disabled = was
    return None


def _find(make: Make, endless: Endless, most_seconds: float) -> None:
    game = make(1)
    authors = game.authors() if isinstance(game, SlotGame) else (type(game),)
    try:
        _try_envs(game)
    except Found:
        raise
    except RAISED as error:  # such as an env that cannot be made twice
        raise Found(f"{sentence_of(error)}, in one of several envs", (), place_of(error, authors)) from error
    account = Account()
    one = Matches(game, authors, most_seconds)
    one.play(account, 0, within(SECONDS / 2, lambda seen: seen.ended >= 2 or seen.longest > 300))
    several = Matches(make(SLOTS), authors)
    several.play(account, 100, within(SECONDS, _enough))
    if account.ended == 0 and endless != "taken":
        several.play(account, 1000, within(MORE_SECONDS, lambda seen: seen.ended > 0 or _endless(seen)))
    if account.ended == 0 and _endless(account) and endless != "taken":
        raise Found(
            f"no match ends: one goes on after {MOST_DECISIONS:,} decisions of random play (let it end, or "
            "set rollout.step_limit)",
            (),
            defined_at(authors, "_play", "step"),
            certain=endless == "refused",
        )
    if account.ended >= UNSCORED and not account.scored:
        raise Found(
            f"no seat got a reward in {account.ended} matches of random play: nothing is learned from it",
            (),
            defined_at(authors, "_play", "step"),
            certain=False,
        )


def _enough(seen: Account) -> bool:
    return seen.ended >= UNSCORED or (seen.scored and seen.ended >= ENOUGH) or _endless(seen)


def _endless(seen: Account) -> bool:
    return seen.longest > MOST_DECISIONS


def _try_envs(game: BatchedGame) -> None:
    """Try the envs of a library's kind behind a game by themselves."""
    if isinstance(game, GymnasiumGame):
        for seat, env in enumerate(game.fresh_envs()):
            with contextlib.closing(env):
                libraries.try_gymnasium(env, seat, game.views[seat], OWN_SECONDS / game.num_seats)
    elif hasattr(game, "views") and hasattr(game, "fresh_env"):
        with contextlib.closing(game.fresh_env()) as env:
            libraries.try_pettingzoo(env, game.views, OWN_SECONDS)
