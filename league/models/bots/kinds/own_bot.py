"""A user's own bots: a class with `act`, or a function."""

from __future__ import annotations

import contextlib
import functools
import inspect
import signal
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from league.envs.trial.blame import place_in
from league.forked import CAN_FORK, Died, Forked
from league.import_paths import RAISED, import_callable, import_path, line_of, takes
from league.models.actor import Actor, BadChoice, Chosen, Look
from league.models.bots.bot import UnknownBot, on_one_line, silent, waited_for
from storage.errors import Mistake
from storage.records import EndReason

EXPECTED = "function choose(observation, mask, rng)"
ACT = "act(observation, mask, rng, greedy)"


class Apart:
    """A user's function in a process of its own, which is forked when it is first called.

    What it keeps, it keeps there. Where processes cannot be forked, it is called here.
    """

    def __init__(self, where: str, call: Callable[..., Any], path: str) -> None:
        """`call(*rows, rng)` is the function, imported from `path`. `where`: its name in messages."""
        self._where, self._call, self._path = where, call, path
        self._process: Forked | None = None
        self.seconds = 0.0  # that its latest answer took

    def __call__(self, *rows: Any, rng: np.random.Generator, look: Look) -> Any:
        """Return what the function gives; the state of `rng` is what it was left in. Raise BadChoice."""
        limit = float(waited_for(look).min())
        try:
            ended, found, state = self._ask((*rows, rng), limit)
        except Died as died:
            self._process = None
            how = silent(look) if died.hung else str(died)
            reason = EndReason.TIME if died.hung else EndReason.ERROR
            place = place_in(died.trace) or defined(self._path)
            raise BadChoice(f"{self._where}: {how}{place}", reason, costly=True) from None
        rng.bit_generator.state = state
        if ended:
            return found
        raise BadChoice(f"{self._where}: {found}")

    def _ask(self, question: Any, limit: float) -> Any:
        if not CAN_FORK:
            began = time.monotonic()
            answer, self.seconds = self._answer(question), time.monotonic() - began
            return answer
        if self._process is None or not self._process.lives():  # killed while it was idle
            self._process = Forked(self._made)
            self._process.receive()
        answer, self.seconds = self._process.ask(question, limit)
        return answer

    def _made(self) -> Callable[[Any], Any]:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the process that plays
        return self._answer

    def _answer(self, question: Any) -> Any:
        """Return whether the function returned, what it gave or raised, and the state of its generator."""
        state = question[-1].bit_generator
        try:
            return True, self._call(*question), state.state
        except SystemExit as error:
            return False, f"it ended itself with exit code {error.code}{defined(self._path)}", state.state
        except Exception as error:  # a user's code may raise anything
            return False, f"it raised {on_one_line(error)}{line_of(error, self._path)}", state.state
        finally:
            with contextlib.suppress(Exception):  # what it printed would be lost with its process
                sys.stdout.flush()


class OwnBot(Actor):
    """A user's bot that has nothing but `act(observation, mask, rng, greedy)`.

    Temperature 0 is greedy; all others are the same as 1. An action counts as certain if the bot drew
    nothing from `rng`, whatever log-probabilities it returns. Raise BadChoice for an error in the bot, or
    for a result other than actions and log-probabilities.
    """

    def __init__(self, bot: Any, where: str = "bot", path: str = "") -> None:
        """Wrap `bot`. `where`: its name in messages; `path`: where its class was imported from."""
        self.bot, self._where = bot, where
        self._act = Apart(where, self._given, path)

    def _given(self, observation: npt.NDArray, mask: npt.NDArray, greedy: bool, rng: Any) -> Any:
        action, log_prob = map(np.asarray, self.bot.act(observation, mask, rng, greedy))
        return action, log_prob

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        before, n = rng.bit_generator.state, len(look)
        action, log_prob = self._act(look.observation, look.mask, temperature == 0.0, rng=rng, look=look)
        if action.shape[:1] != (n,) or log_prob.shape != (n,):
            raise BadChoice(
                f"{self._where}: gave actions {list(action.shape)} and log-probabilities "
                f"{list(log_prob.shape)}, expected one of each for each of the {n} observations",
                EndReason.ILLEGAL_ACTION,
            )
        return _chosen(look, action, log_prob, rng.bit_generator.state == before, self._act.seconds)


class FunctionBot(Actor):
    """Bot from a function `choose(observation [n, *shape], mask [n, mask_width], rng)` -> actions.

    Actions are [n, *action.shape]. Their log-probabilities are unknown and recorded as 0; they count as
    certain if the function drew nothing from `rng`. Raise BadChoice for an error in the function.
    """

    def __init__(self, where: str, choose: Callable[..., Any], path: str = "") -> None:
        """Wrap `choose`, imported from `path`. `where`: its name in messages."""
        self._choose = Apart(where, lambda *rows: np.asarray(choose(*rows)), path)

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        before = rng.bit_generator.state
        action = self._choose(look.observation, look.mask, rng=rng, look=look)
        log_prob = np.zeros(len(look), dtype=np.float32)
        return _chosen(look, action, log_prob, rng.bit_generator.state == before, self._choose.seconds)


def defined(path: str) -> str:
    """Return " (FILE, line N)" of the function or class at an import path, or ""."""
    with contextlib.suppress(Exception):
        found = import_path(path)
        return f" ({inspect.getsourcefile(found)}, line {inspect.getsourcelines(found)[1]})"
    return ""


def _chosen(look: Look, action: npt.NDArray, log_prob: npt.NDArray, certain: bool, seconds: float) -> Chosen:
    """Return the choice of n actions that took `seconds` together, all of them `certain` or none."""
    n = len(look)
    each = np.full(n, seconds / n)
    return Chosen(action, log_prob, look.observation, action, np.full(n, certain), seconds=each)


def own_bot(where: str, path: str, env_id: str, options: Mapping[str, Any] = {}) -> Actor:
    """Return the user's bot at `path`: made by a class, or a function that chooses. Raise UnknownBot.

    `where`: its name in messages.
    """
    found = _imported(where, path, f"a {EXPECTED} that gives actions, or a class of the env id")
    if inspect.isclass(found) or (takes(found, 1, options) and not takes(found, 3, options)):
        return _made(where, path, found, env_id, options)
    if not takes(found, 3, options):
        given = f" with the options {dict(options)}" if options else ""
        signature = inspect.signature(found)
        raise UnknownBot(f"{where} function '{path}' takes {signature}, expected a {EXPECTED}{given}")
    return FunctionBot(f"{where} function '{path}'", functools.partial(found, **options), path)


def _made(where: str, path: str, make: Callable[..., Any], env_id: str, options: Mapping[str, Any]) -> Actor:
    try:
        bot = make(env_id, **options)
    except Mistake:
        raise
    except RAISED as error:
        raise UnknownBot(
            f"{where} '{path}' cannot be made for '{env_id}': {on_one_line(error)}{line_of(error, path)}"
        ) from error
    if isinstance(bot, Actor):
        return bot
    if not callable(act := getattr(bot, "act", None)):
        raise UnknownBot(f"{where} '{path}' is {bot!r}, which has no {ACT}")
    if not takes(act, 4, {}):
        raise UnknownBot(f"{where} '{path}': its act takes {inspect.signature(act)}, expected {ACT}")
    return OwnBot(bot, f"{where} '{path}'", path)


def _imported(where: str, path: str, expected: str) -> Callable[..., Any]:
    try:
        return import_callable(path, expected)
    except ValueError as error:
        raise UnknownBot(f"{where} {error}") from error
