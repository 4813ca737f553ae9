"""Measurement of competitors of a run on yardsticks, one after the other; each is stored when it is done.

for figures in measure("runs/connect_four", ["main-0", "one_ply"]):
    figures[0].competitor, figures[0].value
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from league.arena.arena import Arena
from league.competitors.mixtures import NamedMixture
from league.competitors.names import actor_of, wanted
from league.import_paths import trust
from league.models.actor import Actor
from league.rollout.requests import StoredSource
from league.yardsticks.figures import figure_of_games
from league.yardsticks.positions import STORED
from league.yardsticks.prepared import mode_of_source, on_positions, open_yardsticks, request_of
from league.yardsticks.settings import STORED_POSITIONS, YardstickSettings
from storage import run_folder
from storage.errors import Mistake
from storage.records import Bot, Snapshot, YardstickRecord
from storage.snapshots.figures import YARDSTICKS, add_yardsticks, prepare


@dataclass(frozen=True, slots=True, kw_only=True)
class YardstickOptions:
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
    options: YardstickOptions = YardstickOptions(),
) -> Iterator[list[YardstickRecord]]:
    """Measure competitors of `run`, which may be in training; yield and store the figures of each.

    `names`: snapshots by id or unique prefix, players for their newest one, bots. Without names: every
    `every`-th snapshot of `player` (`None`: of all mains), counted back from the newest.

    Raise Mistake, before anything is measured, for names that fit nothing and for positions that are missing
    or of another game; StorageError for weights that cannot be read.
    """
    run = run_folder(run)
    trust(*options.trust)
    bench = _Bench(run, options)
    competitors = bench.chosen(names, player, every)
    prepare(run, YARDSTICKS)
    for competitor in competitors:
        figures = bench.figures_of(competitor)
        if figures:
            add_yardsticks(run, figures)
            yield figures


class _Bench:
    """The game, the names and the yardsticks of one run."""

    def __init__(self, run: Path, options: YardstickOptions) -> None:
        self._options = options
        self._arena = Arena.of_runs(run, trust=options.trust)
        self._origin, self._agreed = self._arena.origins[0], self._arena.agreed
        env_id = self._agreed.env_id
        positions = STORED_POSITIONS if options.positions is None else str(options.positions)
        wanted = [YardstickSettings(positions=positions)]
        if options.against and options.positions is None and env_id not in STORED:
            wanted = []
        self._opened = open_yardsticks(wanted, self._agreed.game, env_id, self._agreed.env_options)
        self._opponents = {name: self._opponent(name) for name in dict.fromkeys(options.against)}

    def chosen(self, names: Sequence[str], player: str | None, every: int | None) -> list[Snapshot | Bot]:
        """Return the competitors to measure. Raise Mistake for names that fit nothing."""
        asked = wanted(self._origin.reader, "yardstick", names, player, every)
        return list(dict.fromkeys(self._named(name) for name in asked))

    def _named(self, name: str) -> Snapshot | Bot:
        who, temperature = self._origin.names.find(name)
        if temperature is not None:
            raise Mistake(
                f"'{name}': found a mode, expected a name alone: its likeliest actions and its probabilities "
                "are both measured"
            )
        if isinstance(who, NamedMixture):
            raise Mistake(
                f"'{name}' is a mixture, expected a snapshot, player or bot: in a single position no member "
                "was drawn; let it play games (league compare), or name it behind --against"
            )
        return who

    def figures_of(self, competitor: Snapshot | Bot) -> list[YardstickRecord]:
        """Return all figures of one competitor."""
        name, source = competitor.competitor, self._arena.find(competitor.competitor)
        actor, agreed, options = self._actor(source), self._agreed, self._options
        figures = [
            figure for reached in self._opened.reached for figure in on_positions(name, actor, reached)
        ]
        for opponent, other in self._opponents.items():
            if opponent != name:
                request, seeds = request_of(
                    agreed.env_id, agreed.team_of_seat, source, other, options.games, options.seed
                )
                results = self._arena.answer(request)
                found = figure_of_games(name, opponent, results, mode_of_source(source), seeds)
                figures += [] if found is None else [found]
        return figures

    def _opponent(self, name: str) -> StoredSource:
        if self._agreed.num_teams < 2 or not self._agreed.game.shared_spaces:
            raise Mistake(
                f"--against {name}: found the game '{self._agreed.env_id}', expected one of several teams in "
                "which every competitor can take every seat"
            )
        source = self._arena.find(name)
        self._actor(source)  # raises for what cannot play
        return source

    def _actor(self, source: StoredSource) -> Actor:
        agreed = self._agreed
        return actor_of(source, agreed.env_id, agreed.env_options, self._arena.bots)
