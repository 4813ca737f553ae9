"""Bots of a user's own: a class that acts, or a function that chooses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.registry import import_path
from league.envs.spaces import ActionSpec
from league.models.actor import Actor, Chosen
from league.models.bots.base import BadChoice, UnknownBot, on_one_line


class OwnBot(Actor):
    """A user's bot that has `act(observation, mask, rng, greedy)` and no more."""

    def __init__(self, bot: Any) -> None:
        self.bot = bot

    def decide(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> Chosen:
        action, log_prob = self.bot.act(observation, mask, rng, greedy)
        return Chosen(action, log_prob, observation, action)


class FunctionBot(Actor):
    """`choose(observation [n, *shape], mask [n, mask_width], rng)` gives actions [n, *action.shape].

    It says nothing of how likely they were: their log-probabilities are those of a certain choice, 0.
    An illegal action forfeits its match; what are no actions at all raises BadChoice.
    """

    def __init__(self, where: str, choose: Callable[..., Any], action: ActionSpec | None = None) -> None:
        """`where`: what messages call it. Without `action`, an action is one choice."""
        self._where = where
        self._choose = choose
        self._shape = () if action is None else action.shape
        self._dtype = np.dtype(np.int64 if action is None else action.dtype)

    def decide(
        self,
        observation: npt.NDArray,
        mask: npt.NDArray[np.bool_],
        rng: np.random.Generator,
        greedy: bool = False,
        memory: npt.NDArray[np.float32] | None = None,
        reward: npt.NDArray[np.float32] | None = None,
    ) -> Chosen:
        n = len(observation)
        try:
            action = np.asarray(self._choose(observation, mask, rng))
        except Exception as error:  # whatever a user's function raises is for the user to read
            raise BadChoice(
                f"{self._where}: of observations {list(observation.shape)} and masks {list(mask.shape)} it "
                f"raised {on_one_line(error)}"
            ) from error
        expected = (n, *self._shape)
        if action.shape != expected or not np.can_cast(action.dtype, self._dtype, "same_kind"):
            raise BadChoice(
                f"{self._where}: gave an array {list(action.shape)} of {action.dtype}, expected "
                f"{list(expected)} of {self._dtype}: one action for each of the {n} observations"
            )
        action = action.astype(self._dtype)
        return Chosen(action, np.zeros(n, dtype=np.float32), observation, action)


def own_bot(path: str, env_id: str) -> Actor:
    """What "module:Class" makes of the env's id. Raises UnknownBot."""
    bot = _imported("bot", path, "a class or function that takes the env id")(env_id)
    if not callable(getattr(bot, "act", None)):
        raise UnknownBot(f"bot '{path}' is {bot!r}, which has no act(observation, mask, rng, greedy)")
    return bot if isinstance(bot, Actor) else OwnBot(bot)


def function_bot(name: str, path: str, action: ActionSpec | None) -> FunctionBot:
    """The function "module:function" as a bot. Raises UnknownBot."""
    where = f"bot '{name}': function"
    choose = _imported(where, path, "a function choose(observation, mask, rng) that gives actions")
    return FunctionBot(f"{where} '{path}'", choose, action)


def _imported(where: str, path: str, expected: str) -> Callable[..., Any]:
    try:
        found = import_path(path)
    except ValueError as error:
        raise UnknownBot(f"{where} {error}") from error
    if not callable(found):
        raise UnknownBot(f"{where} '{path}' is {found!r}, expected {expected}")
    return found
