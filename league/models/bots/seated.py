"""A bot for all seats of a game that it can play, also where seats differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from league.envs.base import BatchedGame
from league.models.actor import Actor, Chosen, Look
from league.models.bots.base import UnknownBot
from league.models.bots.scripted import make_bot
from league.models.bots.settings import BotSettings


class Seated(NamedTuple):
    """A bot and the seats that it may take."""

    actor: Actor
    seats: tuple[int, ...]


def seated_bot(name: str, env_id: str, game: BatchedGame, settings: Mapping[str, BotSettings]) -> Seated:
    """Return the bot `name` for `game`, which has the id `env_id`. Raise UnknownBot if no seat suits it."""
    by_spaces: dict[object, list[int]] = {}
    for seat, spaces in enumerate(zip(game.observation_specs, game.action_specs, strict=True)):
        by_spaces.setdefault(spaces, []).append(seat)
    bots: dict[int, Actor] = {}
    refusal: Exception | None = None
    for seats in by_spaces.values():
        action, observation = game.action_specs[seats[0]], game.observation_specs[seats[0]]
        try:
            bot = make_bot(name, env_id, action, settings, observation)
        except UnknownBot as error:  # it may be a bot for the other seats
            refusal = error
            continue
        bots |= dict.fromkeys(seats, bot)
    if not bots:
        raise refusal or UnknownBot(f"bot '{name}': '{env_id}' has no seats")
    actors = list({id(bot): bot for bot in bots.values()}.values())
    if len(actors) == 1:
        return Seated(actors[0], tuple(bots))
    if any(actor.memory_size or actor.wants_game for actor in actors):
        raise UnknownBot(f"bot '{name}' remembers or searches, so it cannot play seats that differ")
    return Seated(BotOfSeats([bots.get(seat) for seat in range(game.num_seats)]), tuple(bots))


class BotOfSeats(Actor):
    """Actor that uses another bot for each seat, because the seats differ."""

    wants_game = True  # only `decide_at` is given the seat

    def __init__(self, bots: Sequence[Actor | None]) -> None:
        """Make it of `bots` by seat; `None`: no bot for that seat."""
        self._bots = bots

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        raise UnknownBot("a bot for seats that differ needs the seat: call decide_at")

    def decide_at(
        self,
        game: BatchedGame,
        slot: npt.NDArray[np.int64],
        seat: npt.NDArray[np.int64],
        look: Look,
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> Chosen:
        bot = self._bots[int(seat[0])]  # one call never has seats that differ
        if bot is None:
            raise UnknownBot(f"no bot for seat {seat[0]}")
        return bot.decide(look, rng, temperature)
