"""Measurement of competitors of a run on yardsticks, one after the other; each is stored when it is done.

for figures in measure("runs/connect_four", ["main-0", "one_ply"]):
    figures[0].competitor, figures[0].value
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from league.competitors.mixtures import Mixture
from league.competitors.modes import SAMPLE
from league.competitors.names import (
    Names,
    bot_settings,
    curve,
    load_snapshot,
    mixture_actor,
    mixture_source,
    source_of,
)
from league.envs import registry
from league.envs.base import BatchedGame
from league.models.actor import Actor
from league.models.bots.seated import seated_bot
from league.models.networks.networks import trust_network
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import BotSource, MixtureSource, PlaySetup, Source
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import SnapshotSource
from league.yardsticks.figures import figure_of_games
from league.yardsticks.games import mode_of_source, request_of
from league.yardsticks.opened import Opened, on_positions, open_yardsticks
from league.yardsticks.settings import STORED_POSITIONS, YardstickSettings
from storage import open_reader, run_folder
from storage.arrays import Indices
from storage.errors import Mistake, NotARun
from storage.reader import ArchiveReader
from storage.records import Bot, Snapshot, YardstickRecord
from storage.snapshots import yardsticks

SLOTS = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What to measure on."""

    positions: Path | None = None  # a file; None: the positions that are stored for the game
    against: tuple[str, ...] = ()  # opponents of the run to play against
    games: int = 256  # least number of games against each of them
    seed: int = 0
    trust: tuple[str, ...] = ()  # custom networks, as module:Class


def measure(
    run: str | Path,
    names: Sequence[str] = (),
    *,
    player: str | None = None,
    every: int | None = None,
    options: Options = Options(),
) -> Iterator[list[YardstickRecord]]:
    """Measure competitors of `run`, which may be in training; yield and store the figures of each.

    `names`: snapshots by id or unique prefix, players for their newest one, bots. Without names: every
    `every`-th snapshot of `player` (`None`: of all mains), counted back from the newest.

    Raise Mistake, before anything is measured, for names that fit nothing and for positions that are missing
    or of another game; StorageError for weights that cannot be read.
    """
    run = run_folder(run)
    for network in options.trust:
        trust_network(network)
    bench = _Bench(open_reader(run), options)
    competitors = bench.chosen(names, player, every)
    yardsticks.prepare(run)
    for competitor in competitors:
        figures = bench.figures_of(competitor)
        if figures:
            yardsticks.add(run, figures)
            yield figures


class _Bench:
    """The game, the names and the yardsticks of one run."""

    def __init__(self, reader: ArchiveReader, options: Options) -> None:
        self._reader, self._options = reader, options
        self._config = reader.config() or {}
        if "competitors" in self._config:
            raise NotARun(
                f"{reader.run}: found the run of a tournament, expected that of a league; name the run that "
                "its entrants come from"
            )
        env = reader.env()
        self._env_id, self._env_options = env["id"], env["options"]
        self._limit = (self._config.get("rollout") or {}).get("step_limit")
        self._game: BatchedGame = registry.make(self._env_id, 1, step_limit=self._limit, **self._env_options)
        self._bots = bot_settings(self._config)
        self._names = Names(reader, self._env_id)
        positions = STORED_POSITIONS if options.positions is None else str(options.positions)
        wanted = [YardstickSettings(positions=positions)]
        if options.against and options.positions is None and not self._has_positions():
            wanted = []
        self._opened: Opened = open_yardsticks(wanted, self._game, self._env_id, self._env_options)
        self._opponents = {name: self._opponent(name) for name in dict.fromkeys(options.against)}
        self._runner: EnvRunner | None = None

    def _has_positions(self) -> bool:
        from league.yardsticks.positions import STORED

        return self._env_id in STORED

    def chosen(self, names: Sequence[str], player: str | None, every: int | None) -> list[Snapshot | Bot]:
        """Return the competitors to measure. Raise Mistake for names that fit nothing."""
        if names and (player is not None or every is not None):
            given = "--player" if player is not None else "--every"
            raise Mistake(f"yardstick: found {given} beside '{names[0]}', expected one of the two")
        if names:
            return list(dict.fromkeys(self._named(name) for name in names))
        if player is None and every is None:
            raise Mistake(
                "yardstick: found no ID, expected a snapshot, player or bot of the run; or --every K, "
                "--player P, for a curve over snapshots"
            )
        return list(curve(self._reader, player, every))

    def _named(self, name: str) -> Snapshot | Bot:
        who, temperature = self._names.find(name)
        if temperature is not None:
            raise Mistake(
                f"'{name}': found a mode, expected a name alone: its likeliest actions and its probabilities "
                "are both measured"
            )
        if isinstance(who, Mixture):
            raise Mistake(
                f"'{name}' is a mixture, expected a snapshot, player or bot: in a single position no member "
                "was drawn; let it play games (league compare), or name it behind --against"
            )
        return who

    def figures_of(self, competitor: Snapshot | Bot) -> list[YardstickRecord]:
        """Return all figures of one competitor."""
        name, source = competitor.competitor, self._source(competitor)
        actor = self._actor(source)
        figures = [
            figure for reached in self._opened.reached for figure in on_positions(name, actor, reached)
        ]
        for opponent, other in self._opponents.items():
            if opponent != name:
                found = self._play(name, source, opponent, other)
                figures += [] if found is None else [found]
        return figures

    def _play(self, name: str, source: Source, opponent: str, other: Source) -> YardstickRecord | None:
        if self._runner is None:
            settings = RolloutSettings(slots=SLOTS, step_limit=self._limit)
            trust = self._options.trust
            setup = PlaySetup(self._env_id, self._env_options, settings, bots=self._bots, trust=trust)
            self._runner = EnvRunner(setup)
        request, seeds = request_of(
            self._env_id, self._teams(), source, other, self._options.games, self._options.seed
        )
        results, _, _ = self._runner.play(request, {})
        return figure_of_games(name, opponent, results, mode_of_source(source), seeds)

    def _teams(self) -> Indices:
        """Return the team of each seat [S]."""
        sizes = (self._config.get("matchmaking") or {}).get("teams") or (1,) * self._game.num_seats
        return np.repeat(np.arange(len(sizes)), sizes)

    def _opponent(self, name: str) -> Source:
        if int(self._teams()[-1]) < 1 or not self._game.shared_spaces:
            raise Mistake(
                f"--against {name}: found the game '{self._env_id}', expected one of several teams in which "
                "every competitor can take every seat"
            )
        who, temperature = self._names.find(name)
        source = self._source(who, SAMPLE if temperature is None else temperature)
        self._actor(source)  # raises for what cannot play
        return source

    def _source(self, who: Snapshot | Bot | Mixture, temperature: float = SAMPLE) -> Source:
        if isinstance(who, Bot):
            return BotSource(who.name)
        if isinstance(who, Mixture):
            return mixture_source(self._reader, who, self._reader.remote())
        return source_of(self._reader, who, temperature, self._reader.remote())

    def _actor(self, source: Source) -> Actor:
        if isinstance(source, BotSource):
            return seated_bot(source.name, self._env_id, self._game, self._bots).actor
        if isinstance(source, MixtureSource):
            return mixture_actor(source)
        assert isinstance(source, SnapshotSource)
        return load_snapshot(source)
