"""Opened yardsticks: positions played out in the game, and opponents whose policies were checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

import numpy as np

from league.arena.arena import Seated
from league.arena.matches import MeasureTable, one_against_others, stream_of
from league.competitors.modes import SAMPLE, mode_of
from league.competitors.names import Names, UnknownCompetitor, load_snapshot, seats_for
from league.envs.base import BatchedGame
from league.models.actor import Actor
from league.rollout.requests import BotSource, MixtureSource, PlayRequest, Source
from league.rollout.snapshots import SnapshotSource
from league.yardsticks.figures import figures_of_positions
from league.yardsticks.outcomes import Reached, has_likeliest, probabilities, reach
from league.yardsticks.positions import read, stored
from league.yardsticks.settings import STORED_POSITIONS, YardstickSettings
from storage import open_reader, run_folder
from storage.arrays import Indices
from storage.errors import Mistake
from storage.records import YardstickRecord

STREAM = 7  # of seeds, apart from those of training


@dataclass(frozen=True, slots=True)
class Opened:
    """Yardsticks of one game, ready to measure with."""

    reached: tuple[Reached, ...] = ()
    opponents: Mapping[str, SnapshotSource | BotSource] | None = None  # by the name of the yardstick

    @property
    def names(self) -> list[str]:
        """The names of all yardsticks."""
        return [*(reached.positions.name for reached in self.reached), *(self.opponents or {})]


def open_yardsticks(
    yardsticks: Sequence[YardstickSettings], game: BatchedGame, env_id: str, options: Mapping[str, Any]
) -> Opened:
    """Return the `yardsticks` of a game, which `game` shows with its spaces.

    Raise Mistake for positions or a snapshot that are not found or are of another game, StorageError for a
    run or weights that cannot be read.
    """
    reached: list[Reached] = []
    opponents: dict[str, SnapshotSource | BotSource] = {}
    for yardstick in yardsticks:
        if yardstick.positions is not None:
            own = yardstick.positions != STORED_POSITIONS
            positions = read(yardstick.positions) if own else stored(env_id)
            reached.append(reach(positions, env_id, options))
        elif yardstick.bot is not None:
            opponents[yardstick.bot] = BotSource(yardstick.bot)
        else:
            name, source = _snapshot(yardstick, game, env_id, options)
            opponents[name] = source
    return Opened(tuple(reached), opponents)


def request_of(
    env_id: str, team_of_seat: Indices, competitor: Source, opponent: Source, games: int, seed: int
) -> tuple[PlayRequest, int]:
    """Return a request for at least `games` matches, and the number of seeds in it.

    The competitor is each team in turn, the opponent all others. All randomness comes from `seed`: every
    competitor meets the same deals.
    """
    table = MeasureTable(env_id, team_of_seat, "yardstick", stream_of(seed, STREAM))
    seeds = -(-games // table.num_teams)
    seated = Seated({"competitor": competitor, "opponent": opponent})
    matches = table.matches(seated.names, one_against_others(table.num_teams), np.arange(seeds))
    return seated.request(matches, table.seed), seeds


def mode_of_source(source: Source) -> str:
    """Return the mode in which a competitor plays."""
    return mode_of(source.temperature) if isinstance(source, SnapshotSource) else mode_of(SAMPLE)


def on_positions(competitor: str, actor: Actor, reached: Reached) -> list[YardstickRecord]:
    """Return what a competitor scores on positions. Equal actors score the same."""
    probability = probabilities(actor, reached, np.random.default_rng(0))
    return figures_of_positions(competitor, reached.positions, probability, has_likeliest(actor))


def _snapshot(
    yardstick: YardstickSettings, game: BatchedGame, env_id: str, options: Mapping[str, Any]
) -> tuple[str, SnapshotSource]:
    """Return the name and the checked source of a snapshot of another run."""
    where, run = f"evaluation.yardsticks: {yardstick.label}", str(yardstick.run)
    reader = open_reader(run_folder(run))
    found = reader.env()
    if (found["id"], found["options"]) != (env_id, dict(options)):
        raise Mistake(
            f"{where}: found a run of '{found['id']}' with options {found['options']}, expected '{env_id}' "
            f"with {dict(options)}"
        )
    try:
        source = Names(reader).source(str(yardstick.snapshot))
    except UnknownCompetitor as error:
        raise Mistake(f"{where}: {error}") from None
    if isinstance(source, BotSource):
        raise Mistake(f"{where}: found a bot, expected a snapshot of {run}; give the bot's name alone")
    if isinstance(source, MixtureSource):
        raise Mistake(
            f"{where}: found a mixture, expected a snapshot of {run}; export it, and name the folder in the "
            "table bots"
        )
    if len(seats_for(source, game)) < game.num_seats:
        raise Mistake(f"{where}: it was trained with other observations or actions; was the game changed?")
    load_snapshot(source)  # raises for what could not play
    return f"{source.snapshot_id} of {PurePath(run).name}", source
