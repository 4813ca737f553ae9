"""FreezeYardsticks: the mains' snapshots on fixed yardsticks, beside training.

Each snapshot of a main is measured when it is frozen: on positions at once, in one call of its policy, and in
games by a request to the runners of evaluation (else to the other ones), one at a time. The games are neither
recorded nor rated nor learned from, and have seeds of their own, so training is the same with and without
them. With `runners: 0` they are played in this process, by a runner of their own.

Figures are stored in the ledger before they are shown. A resumed run measures what a kill left unmeasured.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from league.config.loading import check_yardsticks
from league.config.settings import Settings
from league.envs.trial.matches import Cost
from league.models.bots.bot import UnknownBot
from league.models.bots.scripted import bots_for, seated_bot
from league.models.policies.policy import Policy
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import LocalRunnerGroup, RunnerGroup
from league.rollout.snapshots import SnapshotSource, load_tensors
from league.training.engine import play_setup
from league.training.requests import Owner, Played, Requests, Ticket
from league.training.sources import Sources
from league.training.state.pace import rounded
from league.yardsticks.figures import ALL, figure_of_games
from league.yardsticks.prepared import Opened, mode_of_source, on_positions, request_of
from league.yardsticks.settings import YardstickSettings
from storage.archive import Archive
from storage.records import MAIN, Snapshot, YardstickRecord

SECONDS, FEWEST = 1.0, 16  # of the games on the yardstick of a config that names none


class ShownFigure(NamedTuple):
    """A figure, and the snapshot that it is of."""

    snapshot: Snapshot
    record: YardstickRecord


class _Asked(NamedTuple):
    """Games under way."""

    snapshot: Snapshot
    opponent: str
    seeds: int


class FreezeYardsticks:
    """Measurement of snapshots on the yardsticks of one run."""

    owner: Owner = "yardsticks"

    def __init__(
        self,
        settings: Settings,
        opened: Opened,
        archive: Archive,
        sources: Sources,
        requests: Requests,
        runners: RunnerGroup,
    ) -> None:
        """`runners`: they play the games, unless `runners: 0`."""
        self.first: dict[str, dict[str, ShownFigure]] = {}  # by player, then by name of the figure
        self.newest: dict[str, dict[str, ShownFigure]] = {}
        self._settings = settings
        self._opened = opened
        self._archive = archive
        self._sources = sources
        self._requests = requests
        if opened.opponents and settings.most_runners == 0:
            runners = LocalRunnerGroup(setup_beside(settings, settings.evaluation.yardstick_games))
        requests.runners[self.owner] = runners
        self._waiting: deque[tuple[Snapshot, str]] = deque()  # games to ask for: (snapshot, opponent)
        self._asked: _Asked | None = None
        self._took: dict[str, float] = {}  # seconds of the newest games, by opponent
        self._begun = False

    def begin(self) -> None:
        """Measure what the run has and lacks a figure; bots for comparison, on positions alone."""
        before = self._archive.yardsticks() if self._opened.names else []
        self._show(before)
        done = {(record.competitor, record.yardstick) for record in before}
        self._measure_bots(done)
        for snapshot in self._archive.snapshots():
            self._add(snapshot, done)
        self._begun = True

    def frozen(self, snapshot: Snapshot) -> None:
        """Measure a snapshot that was just stored."""
        if self._begun:  # else `begin` finds it
            self._add(snapshot, set())

    def _add(self, snapshot: Snapshot, done: set[tuple[str, str]]) -> None:
        if snapshot.role != MAIN:
            return
        wanted = [name for name in self._opened.names if (snapshot.snapshot_id, name) not in done]
        self._waiting += [(snapshot, name) for name in self._opened.opponents or {} if name in wanted]
        records: list[YardstickRecord] = []
        for reached in self._opened.reached:
            if reached.positions.name in wanted:
                source = self._source(snapshot)
                policy = Policy(source.spec, load_tensors(source), snapshot.snapshot_id)
                records += on_positions(snapshot.snapshot_id, policy, reached)
        self._record(records)

    def _measure_bots(self, done: set[tuple[str, str]]) -> None:
        env_id, game = self._settings.env.id, self._settings.game
        for reached in self._opened.reached:
            for name in bots_for(env_id):
                if (name, reached.positions.name) in done:
                    continue
                try:
                    actor = seated_bot(name, env_id, game, {}).actor
                except UnknownBot:
                    continue
                self._archive.append_yardsticks(on_positions(name, actor, reached))

    # ------------------------------------------------------------------ games

    def ask(self, *, last: bool = False) -> bool:
        """Submit the next games, if none are under way and a runner has room; return whether any were left.

        `last`: as training has ended; the games are the same.
        """
        if not self._waiting:
            return False
        if self._requests.under_way(self.owner) or self._requests.room(self.owner) < 1:
            return True
        snapshot, opponent = self._waiting.popleft()
        settings = self._settings
        request, seeds = request_of(
            settings.env.id,
            settings.matchmaking.team_of_seat(settings.game.num_seats),
            self._source(snapshot),
            (self._opened.opponents or {})[opponent],
            settings.evaluation.yardstick_games,
            settings.seed,
        )
        self._asked = _Asked(snapshot, opponent, seeds)
        self._requests.submit(Ticket(self.owner), request, {})
        return True

    def take(self, played: Iterable[Played]) -> None:
        """Record the games that were played.

        Games that were lost with a runner are not asked for again, since they might kill the next one too; a
        resumed run tries once more.
        """
        for _, rollout in played:
            assert self._asked is not None
            snapshot, opponent, seeds = self._asked
            self._took[opponent] = rollout.info.seconds
            mode = mode_of_source(self._source(snapshot))
            figure = figure_of_games(snapshot.snapshot_id, opponent, rollout.results, mode, seeds)
            self._record([] if figure is None else [figure])

    def last_seconds(self) -> float:
        """Return the seconds that the games of a last snapshot of each main take, by the newest games."""
        return sum(self._took.values()) * len(self.newest)

    def keep_newest(self) -> None:
        """Leave the older snapshots that wait to a resumed run, and keep the newest of each main."""
        newest = {snapshot.player: snapshot for snapshot, _ in self._waiting}
        self._waiting = deque(each for each in self._waiting if newest[each[0].player] is each[0])

    def _record(self, records: list[YardstickRecord]) -> None:
        self._archive.append_yardsticks(records)
        self._show(records)

    def _show(self, records: Iterable[YardstickRecord]) -> None:
        """Update the first and the newest figures of each player, on whole yardsticks."""
        for record in records:
            snapshot = self._archive.find(record.competitor)
            if record.part != ALL or not isinstance(snapshot, Snapshot):
                continue
            name, shown = name_of(record), ShownFigure(snapshot, record)
            first = self.first.setdefault(snapshot.player, {}).setdefault(name, shown)
            if snapshot.env_steps < first.snapshot.env_steps:
                self.first[snapshot.player][name] = shown
            newest = self.newest.setdefault(snapshot.player, {}).setdefault(name, shown)
            if snapshot.env_steps >= newest.snapshot.env_steps:
                self.newest[snapshot.player][name] = shown

    def _source(self, snapshot: Snapshot) -> SnapshotSource:
        source = self._sources.of(snapshot)
        assert isinstance(source, SnapshotSource)
        return source


def with_yardstick(settings: Settings, cost: Cost | None) -> Settings:
    """Return `settings` with the yardstick `random`, unless they name others or its games would take long.

    It is for games that are tried, of this `cost`; those of this package have other yardsticks.
    """
    given, evaluation = settings.evaluation.model_fields_set, settings.evaluation
    if cost is None or cost.match_steps is None or "yardsticks" in given:
        return settings
    if any(rules.env is not None for rules in settings.league.resolve().values()):
        return settings  # yardsticks play in the run's env alone
    affordable = SECONDS / (cost.match_steps * cost.step_seconds)
    games = evaluation.yardstick_games
    if "yardstick_games" not in given:
        games = rounded(min(games, affordable))
    found = {"yardsticks": (YardstickSettings(bot="random"),), "yardstick_games": games}
    changed = settings.model_copy(update={"evaluation": evaluation.model_copy(update=found)})
    try:
        check_yardsticks(changed, settings.game)
    except ValueError:  # one seat, or seats that differ
        return settings
    return changed if affordable >= FEWEST else settings


def name_of(record: YardstickRecord) -> str:
    """Return a name that every tracker takes, such as positions/best_greedy or one_ply/score_sample."""
    yardstick = re.sub(r"[^A-Za-z0-9._-]+", "_", record.yardstick)
    return f"{yardstick}/{record.measure}_{record.mode}"


def setup_beside(settings: Settings, most_slots: int) -> PlaySetup:
    """Return how games beside training are played in this process, up to `most_slots` at a time."""
    slots = min(settings.rollout_of_runners.slots, most_slots)
    rollout = settings.rollout_of_runners.model_copy(update={"slots": slots, "record": 0.0})
    return replace(play_setup(settings), rollout=rollout, precision="float32", gives_way=False)
