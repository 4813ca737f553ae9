"""A user's own bots: a class with `act`, or a function."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.spaces import ActionSpec
from league.import_paths import import_callable, line_of, takes
from league.models.actor import Actor, Chosen, Look
from league.models.bots.bot import BadChoice, UnknownBot, on_one_line
from storage.errors import Mistake


class OwnBot(Actor):
    """A user's bot that has nothing but `act(observation, mask, rng, greedy)`.

    Temperature 0 is greedy; all others are the same as 1. An action counts as certain if the bot drew
    nothing from `rng`, whatever log-probabilities it returns. Raise BadChoice for an error in the bot, or
    for a result other than actions and log-probabilities.
    """

    def __init__(self, bot: Any, where: str = "bot", path: str = "") -> None:
        """Wrap `bot`. `where`: its name in messages; `path`: where its class was imported from."""
        self.bot, self._where, self._path = bot, where, path

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        observation, mask, before = look.observation, look.mask, rng.bit_generator.state
        try:
            action, log_prob = map(np.asarray, self.bot.act(observation, mask, rng, temperature == 0.0))
        except Exception as error:  # an error in a user's class is reported to the user
            raise BadChoice(
                f"{self._where}: for observations {list(observation.shape)} and masks "
                f"{list(mask.shape)}, expected actions and their log-probabilities, found "
                f"{on_one_line(error)}{line_of(error, self._path)}"
            ) from error
        n = len(observation)
        if action.shape[:1] != (n,) or log_prob.shape != (n,):
            raise BadChoice(
                f"{self._where}: gave actions {list(action.shape)} and log-probabilities "
                f"{list(log_prob.shape)}, expected one of each for each of the {n} observations"
            )
        return Chosen(action, log_prob, observation, action, _undrawn(rng, before, n))


class FunctionBot(Actor):
    """Bot from a function `choose(observation [n, *shape], mask [n, mask_width], rng)` -> actions.

    Actions are [n, *action.shape]. Their log-probabilities are unknown and recorded as 0; they count as
    certain if the function drew nothing from `rng`. An illegal action forfeits its match. Raise BadChoice
    for an error in the function, or for results that are not actions.
    """

    def __init__(
        self, where: str, choose: Callable[..., Any], action: ActionSpec | None = None, path: str = ""
    ) -> None:
        """Wrap `choose`, imported from `path`. `where`: its name in messages.

        Without `action`, an action is one choice.
        """
        self._where, self._path = where, path
        self._choose = choose
        self._shape = () if action is None else action.shape
        self._dtype = np.dtype(np.int64 if action is None else action.dtype)

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        observation, mask, before = look.observation, look.mask, rng.bit_generator.state
        n = len(look)
        try:
            action = np.asarray(self._choose(observation, mask, rng))
        except Exception as error:  # an error in a user's function is reported to the user
            raise BadChoice(
                f"{self._where}: of observations {list(observation.shape)} and masks {list(mask.shape)} it "
                f"raised {on_one_line(error)}{line_of(error, self._path)}"
            ) from error
        expected = (n, *self._shape)
        if action.shape != expected or not np.can_cast(action.dtype, self._dtype, "same_kind"):
            raise BadChoice(
                f"{self._where}: gave an array {list(action.shape)} of {action.dtype}, expected "
                f"{list(expected)} of {self._dtype}: one action for each of the {n} observations"
            )
        action = action.astype(self._dtype)
        return Chosen(action, np.zeros(n, dtype=np.float32), observation, action, _undrawn(rng, before, n))


def _undrawn(rng: np.random.Generator, before: Mapping[str, Any], n: int) -> npt.NDArray[np.bool_]:
    """Return whether the state of `rng` is still `before`, n times."""
    return np.full(n, rng.bit_generator.state == before)


def own_bot(
    where: str, path: str, env_id: str, action: ActionSpec | None, options: Mapping[str, Any] = {}
) -> Actor:
    """Return the user's bot at `path`: made by a class, or a function that chooses. Raise UnknownBot.

    `where`: its name in messages.
    """
    expected = "a function choose(observation, mask, rng) that gives actions, or a class of the env id"
    found = _imported(where, path, expected)
    if inspect.isclass(found) or (takes(found, 1, options) and not takes(found, 3, options)):
        return _made(where, path, found, env_id, options)
    return FunctionBot(f"{where} function '{path}'", functools.partial(found, **options), action, path)


def _made(where: str, path: str, make: Callable[..., Any], env_id: str, options: Mapping[str, Any]) -> Actor:
    try:
        bot = make(env_id, **options)
    except Mistake:
        raise
    except Exception as error:  # the user's own code
        raise UnknownBot(
            f"{where} '{path}' cannot be made for '{env_id}': {on_one_line(error)}{line_of(error, path)}"
        ) from error
    if not callable(getattr(bot, "act", None)):
        raise UnknownBot(f"{where} '{path}' is {bot!r}, which has no act(observation, mask, rng, greedy)")
    return bot if isinstance(bot, Actor) else OwnBot(bot, f"{where} '{path}'", path)


def _imported(where: str, path: str, expected: str) -> Callable[..., Any]:
    try:
        return import_callable(path, expected)
    except ValueError as error:
        raise UnknownBot(f"{where} {error}") from error
