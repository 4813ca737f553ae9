"""Seating: competitors that were named, loaded and put in the seats of one match."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from league.competitors.names import (
    Names,
    bot_settings,
    config_of_league,
    name_of,
    role_of,
    seats_for,
    trained_actor,
)
from league.envs import registry
from league.envs.adapters.gymnasium.seats import following
from league.envs.base import BatchedGame
from league.models.actor import Actor
from league.models.bots.scripted import seated_bot
from league.rollout.requests import BotSource, MixtureSource
from league.rollout.seats import Seats
from league.rollout.snapshots import SnapshotSource
from league.watching.replay import require_text, team_of_seat
from league.watching.words import ordinal
from storage import open_reader
from storage.arrays import Indices
from storage.errors import Mistake

HUMAN = "human"
Source = SnapshotSource | BotSource | MixtureSource


@dataclass(frozen=True, slots=True)
class Seating:
    """Game of one match, and the competitor of each seat; a seat of `human` has no source."""

    game: BatchedGame
    env_id: str
    sources: tuple[Source | None, ...]
    actors: tuple[Actor, ...]
    team_of_seat: Indices | None

    @property
    def names(self) -> list[str]:
        """The full names of the competitors, such as "main-0@120000:greedy"."""
        return [HUMAN if source is None else name_of(source) for source in self.sources]

    def seats(self) -> Seats:
        """Return the seats with their actors, at the temperatures of their names."""
        temperatures = [s.temperature if isinstance(s, SnapshotSource) else 1.0 for s in self.sources]
        return Seats(self.game, self.actors, temperatures)


def seat_competitors(
    run: str | Path, names: Sequence[str], person: Callable[[BatchedGame, int], Actor]
) -> Seating:
    """Return the game of `run` with one of `names` in each seat: see `league.competitors.names`, or `human`.

    `person` makes the actor of a seat of `human`. Raise UnknownCompetitor, CorruptBlob, Mistake for a game
    that cannot be shown or has another number of seats, and for a competitor that does not fit its seat.
    """
    reader = open_reader(run)
    config, env = config_of_league(reader, run), reader.env()
    known = Names(reader)
    sources = [None if name == HUMAN else known.source(name) for name in names]
    if envs := following(config):  # the env of each seat is that of its competitor
        keys = [None if source is None else role_of(reader, source) for source in sources]
        if len(keys) == envs.num_seats:
            env = {"id": envs.env_id(keys), "options": envs.options(envs.env_id(keys))}
    game = registry.make(env["id"], 1, step_limit=config["rollout"]["step_limit"], **env["options"])
    require_text(game, env["id"])
    if len(names) != game.num_seats:
        raise Mistake(
            f"play: found {len(names)} competitors, '{env['id']}' has {game.num_seats} seats; "
            f"name who sits in each ('{HUMAN}' for yourself)"
        )
    actors: list[Actor] = []
    for seat, source in enumerate(sources):
        if source is None:
            actors.append(person(game, seat))
        elif isinstance(source, BotSource):
            bot = seated_bot(source.name, env["id"], game, bot_settings(config))
            _require_seat(source.name, seat, seat in bot.seats)
            actors.append(bot.actor)
        else:
            _require_seat(names[seat], seat, seat in seats_for(source, game))
            actors.append(trained_actor(source))
    return Seating(game, env["id"], tuple(sources), tuple(actors), team_of_seat(config))


def _require_seat(name: str, seat: int, fits: bool) -> None:
    if not fits:
        raise Mistake(
            f"play: '{name}' cannot take the {ordinal(seat)} seat, whose observations or actions differ from "
            "its own; give it another seat"
        )
