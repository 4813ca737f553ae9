"""OpenSpiel's bots, in games of OpenSpiel: tree search, and its registered bots.

They use the state of the match itself, not the observation of a seat.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from league.envs.adapters.openspiel import OpenSpielGame
from league.envs.registry import game_class
from league.models.actor import Actor, BadChoice, Chosen, Look, is_certain
from league.models.bots.bot import UnknownBot, drawn, on_one_line
from league.models.bots.settings import MctsSettings, OpenSpielSettings
from storage.errors import Mistake

MAX_TREE_MIB = 512  # beyond this size a search drops nodes with few visits


class _OneChoice(NamedTuple):
    """The same as `Chosen`, for one decision."""

    action: int
    log_prob: float
    certain: bool


class OpenSpielBot(Actor):
    """Bot that decides on the pyspiel.State of a match, which is `game.native(slot)`."""

    wants_game = True

    def __init__(self, name: str, game: Any) -> None:
        """Make the bot for `game`, a pyspiel.Game."""
        self._name = name
        self._game = game

    @abstractmethod
    def _choose(self, state: Any, seat: int, rng: np.random.Generator, temperature: float) -> _OneChoice:
        """Return the choice of `seat`, which must act in `state`."""

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        if (at := look.places) is None:
            raise Mistake(
                f"bot '{self._name}' cannot act on observations, because it uses the state of the match; "
                "call decide_at(game, ...), or let it play in a run"
            )
        action = np.empty(len(look), dtype=np.int64)
        log_prob = np.empty(len(look), dtype=np.float32)
        certain = np.empty(len(look), dtype=np.bool_)
        for row, (slot, seat) in enumerate(zip(at.slot.tolist(), at.seat.tolist(), strict=True)):
            # bots search in their own clones of the state
            state = at.game.native(slot)
            action[row], log_prob[row], certain[row] = self._choose(state, seat, rng, temperature)
        return Chosen(action, log_prob, look.observation, action, certain)


class MctsBot(OpenSpielBot):
    """OpenSpiel's Monte Carlo tree search, in C++.

    Kocsis and Szepesvari: Bandit based Monte-Carlo planning, ECML 2006. Each decision draws from a seed
    of its own, which `rng` gives. Nothing is kept between decisions.
    """

    def __init__(self, name: str, game: Any, settings: MctsSettings) -> None:
        super().__init__(name, game)
        self._settings = settings

    def _choose(self, state: Any, seat: int, rng: np.random.Generator, temperature: float) -> _OneChoice:
        import pyspiel

        settings = self._settings
        of_rollouts, of_search = rng.integers(2**31, size=2).tolist()
        search = pyspiel.MCTSBot(
            self._game,
            pyspiel.RandomRolloutEvaluator(settings.rollouts, of_rollouts),
            settings.uct_c,
            settings.simulations,
            MAX_TREE_MIB,
            settings.solve,
            of_search,
            False,  # not verbose
        )
        return _OneChoice(search.step(state), 0.0, certain=False)  # a search gives no probability


class RegisteredBot(OpenSpielBot):
    """Registered bot of OpenSpiel that gives probabilities of its actions and keeps no state of a match."""

    def __init__(self, name: str, game: Any, bots: Sequence[Any]) -> None:
        """Make the bot of `bots`, a pyspiel.Bot for each seat."""
        super().__init__(name, game)
        self._bots = bots

    def _choose(self, state: Any, seat: int, rng: np.random.Generator, temperature: float) -> _OneChoice:
        try:
            policy = self._bots[seat].get_policy(state)
        except Exception as error:  # pyspiel.SpielError, or any error of a bot written in Python
            raise BadChoice(f"bot '{self._name}': in a match it raised {on_one_line(error)}") from error
        actions, probability = zip(*policy, strict=True)
        chosen, log_prob = drawn(np.array([probability], dtype=np.float32), rng, temperature)
        certain = is_certain(log_prob, temperature)
        return _OneChoice(actions[int(chosen[0])], float(log_prob[0]), bool(certain[0]))


def mcts_bot(name: str, env_id: str, settings: MctsSettings) -> Actor:
    """Return tree search in `env_id`. Raise UnknownBot if it is impossible or would see hidden cards."""
    where = f"bot '{name}' of kind mcts cannot play '{env_id}'"
    game = _game(where, env_id)
    kind = game.get_type()
    hindrances = {
        "simultaneous moves": kind.dynamics.name != "SEQUENTIAL",
        "hidden information": kind.information.name != "PERFECT_INFORMATION",
        "rewards before the end": kind.reward_model.name != "TERMINAL",
    }
    found = [hindrance for hindrance, there in hindrances.items() if there]
    if found:
        raise UnknownBot(
            f"{where}: found {', '.join(found)}, expected turns, perfect information and rewards at the end; "
            "choose another bot"
        )
    return MctsBot(name, game, settings)


def registered_bot(name: str, env_id: str, settings: OpenSpielSettings) -> Actor:
    """Return the registered bot `settings.bot`. Raise UnknownBot if it cannot play `env_id`."""
    where = f"bot '{name}' of kind openspiel cannot play '{env_id}'"
    game = _game(where, env_id)
    import pyspiel

    seats = range(game.num_players())
    there = set.intersection(*(set(pyspiel.bots_that_can_play_game(game, seat)) for seat in seats))
    if settings.bot not in there:
        expected = ", ".join(sorted(there)) or "none"
        raise UnknownBot(f"{where}: OpenSpiel has no '{settings.bot}' for it; expected one of: {expected}")
    try:
        bots = [pyspiel.load_bot(settings.bot, game, seat, settings.parameters) for seat in seats]
    except pyspiel.SpielError as error:
        raise UnknownBot(
            f"{where}: OpenSpiel cannot load '{settings.bot}' with parameters {settings.parameters}: "
            f"{on_one_line(error)}"
        ) from error
    if not bots[0].provides_policy():
        raise UnknownBot(f"{where}: '{settings.bot}' gives no probabilities of its actions; choose another")
    return RegisteredBot(name, game, bots)


def _game(where: str, env_id: str) -> Any:
    """Return the pyspiel.Game behind `env_id`."""
    game = game_class(env_id)
    if not issubclass(game, OpenSpielGame):
        raise UnknownBot(
            f"{where}: found a game that is not OpenSpiel's, expected one such as openspiel:tic_tac_toe"
        )
    return game.game
