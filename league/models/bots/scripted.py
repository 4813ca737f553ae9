"""Bots by name: competitors without training, which act on the same arrays as a policy.

These names need no settings, each in its own games:

    random            any legal action, in every game
    one_ply           wins at once if possible, else prevents the opponent's win, else random
    perfect           an action that keeps the game's value, by minimax; in recall, by memory
    equilibrium       an equilibrium of the whole game: no response gains against it
    tight             bets with strong hands, and never bluffs
    roomy             moves to where there is most room
    thrifty           takes tricks as cheaply as it can
    rock, paper, scissors, beat_last
    rusher, researcher, defender    build soldiers, weapons or towers, whatever the other does

"module:Class" names a user's own class; "onnx:FILE", "export:FOLDER", "sb3:FILE" and "cleanrl:FILE" name
agents in files. Bots with settings (a tree search, an exported snapshot, a
network in a file, a function) have names from the config: `bots.settings`.

Bots that are uniform over preferred actions, or draw from probabilities, report exact probabilities.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, NamedTuple

import numpy as np
import numpy.typing as npt
from pydantic import AfterValidator

from league.envs.base import BatchedGame
from league.envs.games import rock_paper_scissors, rush
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Actor, Chosen, Look
from league.models.bots.bot import RandomBot, ScriptedPolicy, UnknownBot
from league.models.bots.games import (
    Always,
    BeatLast,
    Builder,
    KuhnEquilibrium,
    PerfectRecall,
    PerfectTicTacToe,
    Roomy,
    Thrifty,
    TightLeduc,
    one_ply_connect_four,
    one_ply_tic_tac_toe,
)
from league.models.bots.kinds.own_bot import defined, own_bot
from league.models.bots.referee import Referee
from league.models.bots.settings import (
    NO_LIMITS,
    BotSettings,
    EngineSettings,
    ExportSettings,
    Limits,
    MctsSettings,
    OnnxSettings,
    OpenSpielSettings,
    OwnBotSettings,
    ProgramSettings,
    StateDictSettings,
    settings_in,
)
from storage.arrays import Floats, Floats32, Indices

__all__ = ["Bots", "RandomBot", "ScriptedPolicy", "UnknownBot", "bots_for", "make_bot"]

MANY = 1000  # more than any seat of rush has
_NAME = re.compile(r"[A-Za-z0-9._-]+")
_BOTS: dict[str, dict[str, Callable[[], Actor]]] = {
    "connect_four": {"one_ply": one_ply_connect_four},
    "kuhn_poker": {"equilibrium": KuhnEquilibrium},
    "leduc_poker": {"tight": TightLeduc},
    "recall": {"perfect": PerfectRecall},
    "rock_paper_scissors": {
        "rock": lambda: Always(rock_paper_scissors.ROCK),
        "paper": lambda: Always(rock_paper_scissors.PAPER),
        "scissors": lambda: Always(rock_paper_scissors.SCISSORS),
        "beat_last": BeatLast,
    },
    "rush": {
        "rusher": lambda: Builder((rush.SOLDIERS, MANY), army=6),
        "researcher": lambda: Builder((rush.RESEARCH, 3), (rush.SOLDIERS, MANY), army=4),
        "defender": lambda: Builder((rush.TOWERS, 3), (rush.WORKER, 8), (rush.TOWERS, MANY), army=MANY),
    },
    "tic_tac_toe": {"one_ply": one_ply_tic_tac_toe, "perfect": PerfectTicTacToe},
    "tron": {"roomy": Roomy},
    "whist": {"thrifty": Thrifty},
}


def _checked(bots: dict[str, BotSettings]) -> dict[str, BotSettings]:
    """Raise ValueError for a name that is invalid or already has a meaning."""
    for name in bots:
        if name in _built_in():
            raise ValueError(f"'{name}' is the name of a built-in bot; choose another name")
        if not _NAME.fullmatch(name):
            raise ValueError(
                f"'{name}' is not a valid name of a bot, expected letters, digits, '.', '_' and '-'"
            )
    return bots


Bots = Annotated[dict[str, BotSettings], AfterValidator(_checked)]
"""The table `bots` of a config: settings by name."""


def _built_in() -> set[str]:
    return {"random", *(name for bots in _BOTS.values() for name in bots)}


def bots_for(env_id: str) -> list[str]:
    """Return the names of the bots that can play `env_id` without settings, in order."""
    return sorted(["random", *_BOTS.get(env_id, {})])


def make_bot(
    name: str,
    env_id: str,
    action: ActionSpec | None = None,
    settings: Mapping[str, BotSettings] = {},
    observation: ObservationSpec | None = None,
    limits: Limits = NO_LIMITS,
) -> Actor:
    """Return the bot `name` for the game `env_id`; "module:Class" is called with `env_id`.

    `action`, `observation`: spaces of the seat. `None` means one choice, or any observation; bots of kind
    export and onnx need both. `settings`: settings of bots by name. `limits`: of bots that have none of their
    own; bots of ours need none.

    Raise UnknownBot if there is no such bot, or if it cannot play the game.
    """
    given = settings.get(name) or settings_in(name)
    if given is None and ":" in name:
        given = OwnBotSettings.model_construct(use=name)  # what is wrong with the path is found below
    if given is not None:
        bot = _make_of_settings(name, env_id, given, observation, action)
        if isinstance(given, (ExportSettings, StateDictSettings)):
            return bot
        place = defined(given.use) if isinstance(given, OwnBotSettings) else ""
        return Referee(f"bot '{name}'", bot, given.limits.within(limits), action, place)
    if name == "random":
        return RandomBot(action)
    make = _BOTS.get(env_id, {}).get(name)
    if make is None:
        problem = f"bot '{name}' cannot play '{env_id}'" if name in _built_in() else f"no bot '{name}'"
        there = sorted({*bots_for(env_id), *settings})
        raise UnknownBot(f"{problem}; for '{env_id}' there are: {', '.join(there)}")
    return make()


def _make_of_settings(
    name: str,
    env_id: str,
    settings: BotSettings,
    observation: ObservationSpec | None,
    action: ActionSpec | None,
) -> Actor:
    """Make a bot with settings. Import only what its kind needs."""
    match settings:
        case OwnBotSettings():
            where = "bot" if name == settings.use else f"bot '{name}':"
            return own_bot(where, settings.use, env_id, settings.options)
        case MctsSettings():
            from league.models.bots.kinds.openspiel import mcts_bot

            return mcts_bot(name, env_id, settings)
        case OpenSpielSettings():
            from league.models.bots.kinds.openspiel import registered_bot

            return registered_bot(name, env_id, settings)
    if observation is None or action is None:
        raise ValueError(f"bot '{name}' of kind {settings.kind}: found no spaces of a seat, expected both")
    match settings:
        case ProgramSettings():
            from league.models.bots.kinds.program import ProgramBot

            return ProgramBot(name, env_id, settings, observation, action)
        case EngineSettings():
            from league.models.bots.kinds.engines import engine_bot

            return engine_bot(name, env_id, settings, action)
        case ExportSettings():
            from league.models.bots.kinds.exported import exported_bot

            return exported_bot(name, settings, observation, action)
        case OnnxSettings():
            from league.models.bots.kinds.onnx_file import onnx_bot

            return onnx_bot(name, settings, observation, action)
        case StateDictSettings():
            from league.models.bots.kinds.state_dict import state_dict_bot

            return state_dict_bot(name, settings, observation, action)


class SeatedBot(NamedTuple):
    """A bot and the seats that it may take."""

    actor: Actor
    seats: tuple[int, ...]


def seated_bot(
    name: str, env_id: str, game: BatchedGame, settings: Mapping[str, BotSettings], limits: Limits = NO_LIMITS
) -> SeatedBot:
    """Return the bot `name` for `game`, which has the id `env_id`. Raise UnknownBot if no seat suits it."""
    by_spaces: dict[object, list[int]] = {}
    for seat, spaces in enumerate(zip(game.observation_specs, game.action_specs, strict=True)):
        by_spaces.setdefault(spaces, []).append(seat)
    bots: dict[int, Actor] = {}
    refusal: Exception | None = None
    for seats in by_spaces.values():
        action, observation = game.action_specs[seats[0]], game.observation_specs[seats[0]]
        try:
            bot = make_bot(name, env_id, action, settings, observation, limits)
        except UnknownBot as error:  # it may be a bot for the other seats
            refusal = error
            continue
        bots |= dict.fromkeys(seats, bot)
    if not bots:
        raise refusal or UnknownBot(f"bot '{name}': '{env_id}' has no seats")
    actors = list({id(bot): bot for bot in bots.values()}.values())
    if len(actors) == 1:
        return SeatedBot(actors[0], tuple(bots))
    return SeatedBot(BotOfSeats([bots.get(seat) for seat in range(game.num_seats)]), tuple(bots))


class BotOfSeats(Actor):
    """Actor that uses another bot for each seat, because the seats differ."""

    wants_game = True  # for the seat

    def __init__(self, bots: Sequence[Actor | None]) -> None:
        """Make it of `bots` by seat; `None`: no bot for that seat."""
        self._bots = bots
        there = [bot for bot in bots if bot is not None]
        self.memory_size = max(bot.memory_size for bot in there)
        self.wants_reward, self.wants_end = (
            any(getattr(bot, name) for bot in there) for name in ("wants_reward", "wants_end")
        )
        self.most_matches = min((bot.most_matches for bot in there if bot.most_matches), default=None)

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        if look.places is None:
            raise UnknownBot("a bot for seats that differ needs the seat: call decide_at")
        seat = int(look.places.seat[0])  # one call never has seats that differ
        if (bot := self._bots[seat]) is None:
            raise UnknownBot(f"no bot for seat {seat}")
        own = None if look.memory is None else look.memory[:, : bot.memory_size]
        return bot.decide(replace(look, memory=own), rng, temperature)

    def over(self, memory: Floats32, seat: Indices, score: Floats, reason: npt.NDArray[np.int8]) -> None:
        for own in np.unique(seat).tolist():
            if (bot := self._bots[own]) is not None and bot.wants_end:
                rows = seat == own
                bot.over(memory[rows, : bot.memory_size], seat[rows], score[rows], reason[rows])
