"""Measuring: the mains' snapshots on fixed yardsticks, beside training.

Each snapshot of a main is measured when it is frozen: on positions at once, in one call of its policy, and in
games by a request to the runners of evaluation (else to the other ones), one at a time. The games are neither
recorded nor rated nor learned from, and have seeds of their own, so training is the same with and without
them. With `runners: 0` they are played in this process, by a runner of their own.

Figures are stored in the ledger before they are shown. A resumed run measures what a kill left unmeasured.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from league.config.settings import Settings
from league.models.bots.base import UnknownBot
from league.models.bots.scripted import bots_for
from league.models.bots.seated import seated_bot
from league.models.policies.policy import Policy
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import LocalRunnerGroup, Rollout, RunnerGroup
from league.rollout.snapshots import SnapshotSource, load_tensors
from league.training.sources import Sources
from league.yardsticks.figures import ALL, figure_of_games
from league.yardsticks.opened import Opened, mode_of_source, on_positions, request_of
from storage.archive import Archive
from storage.incidents import Incident
from storage.records import MAIN, Snapshot, YardstickRecord

WAIT_SECONDS = 0.1


class Shown(NamedTuple):
    """A figure, and the snapshot that it is of."""

    snapshot: Snapshot
    record: YardstickRecord


@dataclass(frozen=True, slots=True)
class _Asked:
    """Games under way."""

    snapshot: Snapshot
    opponent: str
    seeds: int


class Measuring:
    """Measurement of snapshots on the yardsticks of one run."""

    def __init__(
        self, settings: Settings, opened: Opened, archive: Archive, sources: Sources, runners: RunnerGroup
    ) -> None:
        """`runners`: they play the games, unless `runners: 0`."""
        self.first: dict[str, dict[str, Shown]] = {}  # by player, then by name of the figure
        self.newest: dict[str, dict[str, Shown]] = {}
        self.died: Callable[[Incident], object] = lambda incident: None  # called with deaths at the end
        self._settings = settings
        self._opened = opened
        self._archive = archive
        self._sources = sources
        self._games = bool(opened.opponents)
        self._own: LocalRunnerGroup | None = None
        if self._games and settings.most_runners == 0:
            self._own = LocalRunnerGroup(setup_beside(settings, settings.evaluation.yardstick_games))
        self._runners = self._own or runners
        self._waiting: deque[tuple[Snapshot, str]] = deque()  # games to ask for: (snapshot, opponent)
        self._asked: dict[int, _Asked] = {}
        self._next = -1  # request ids below 0 are of no other request
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

    def ask(self) -> None:
        """Submit the next games, if none are under way and a runner has room."""
        if not self._waiting or self._asked or self._runners.room() < 1:
            return
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
        self._asked[self._next] = _Asked(snapshot, opponent, seeds)
        self._runners.submit(self._next, request, {})
        self._next -= 1

    def take(self, rollouts: Iterable[Rollout]) -> list[Rollout]:
        """Record the games among these rollouts and among those of its own runner; return the others."""
        own = [] if self._own is None else self._own.ready(0.0)
        others = []
        for rollout in [*rollouts, *own]:
            asked = self._asked.pop(rollout.request_id, None)
            if asked is None:
                others.append(rollout)
                continue
            mode = mode_of_source(self._source(asked.snapshot))
            figure = figure_of_games(
                asked.snapshot.snapshot_id, asked.opponent, rollout.results, mode, asked.seeds
            )
            self._record([] if figure is None else [figure])
        return others

    def lost(self, request_ids: Iterable[int]) -> list[int]:
        """Forget games that were lost with a runner; return the ids of other requests.

        They are not asked for again, lest they kill the next runner too; a resumed run tries once more.
        """
        return [number for number in request_ids if self._asked.pop(number, None) is None]

    def end(self) -> None:
        """Finish the newest snapshot of each main; older ones that wait are left to a resumed run."""
        newest = {snapshot.player: snapshot for snapshot, _ in self._waiting}
        self._waiting = deque(each for each in self._waiting if newest[each[0].player] is each[0])
        while self._waiting or self._asked:
            self.ask()
            self.take([] if self._own is not None else self._runners.ready(WAIT_SECONDS))
            for loss in [] if self._own is not None else self._runners.losses():
                self.lost(loss.requests)
                self.died(loss.incident)

    def _record(self, records: list[YardstickRecord]) -> None:
        self._archive.append_yardsticks(records)
        self._show(records)

    def _show(self, records: Iterable[YardstickRecord]) -> None:
        """Update the first and the newest figures of each player, on whole yardsticks."""
        for record in records:
            snapshot = self._archive.find(record.competitor)
            if record.part != ALL or not isinstance(snapshot, Snapshot):
                continue
            name, shown = name_of(record), Shown(snapshot, record)
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


def name_of(record: YardstickRecord) -> str:
    """Return a name that every tracker takes, such as positions/best_greedy or one_ply/score_sample."""
    yardstick = re.sub(r"[^A-Za-z0-9._-]+", "_", record.yardstick)
    return f"{yardstick}/{record.measure}_{record.mode}"


def setup_beside(settings: Settings, most_slots: int) -> PlaySetup:
    """Return how games beside training are played in this process, up to `most_slots` at a time."""
    slots = min(settings.rollout_of_runners.slots, most_slots)
    rollout = settings.rollout_of_runners.model_copy(update={"slots": slots, "record": 0.0})
    return PlaySetup(
        settings.env.id,
        settings.env.options,
        rollout,
        settings.resources.threads,
        settings.storage.cache(),
        settings.bots,
        trust=settings.own_code(),
    )
