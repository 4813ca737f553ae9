"""A run while it trains: who is in the league, how they stand, what is under way.

Only here does anything happen: rules propose (matches, decisions), the session carries out, and
every fact goes through the one door of the archive before anybody acts on it.
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from league.learning.learner import LearnerState
from league.learning.learner_group import LearnerGroup
from league.models.policy import PolicySpec
from league.rollout.env_runner import BotSource, LiveSource, PlayRequest, RolloutInfo, SnapshotSource, Source
from league.rollout.runner_group import RunnerGroup
from league.rules.builder import Clock, LeagueBuilder
from league.rules.matchmaker import Matchmaker
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.archive import Archive
from storage.blobs import map_tensors
from storage.records import (
    MAIN,
    Bot,
    Competitor,
    Decision,
    Freeze,
    LivePlayer,
    Reset,
    ResultBatch,
    Snapshot,
    UpdateRecord,
)

if TYPE_CHECKING:  # config knows the parts, not the other way round
    from league.config import Settings

WAIT_SECONDS = 0.1  # at most this long without a look at the clock, the screen and Ctrl-C


@dataclass(slots=True)
class Member:
    """A player in training, and what the session must remember of it beside its standings."""

    player: LivePlayer
    share: float  # of all matches asked for, relative to the other players
    initial: str = ""  # its first snapshot
    parent: str | None = None  # where its present weights come from
    generation: int = 0  # resets so far: matches begun before one are dropped
    matches_asked: int = 0
    env_steps: int = 0
    updates: int = 0
    frozen_at: int = 0  # env_steps
    reset_at: int = 0  # env_steps


@dataclass(frozen=True, slots=True)
class Ticket:
    """What must still hold when a request comes back."""

    player: str
    generations: dict[str, int]  # of the live players seated in it


@dataclass(slots=True)
class Totals:
    """Counters of the whole run, resumed parts included, except where said."""

    env_steps: int = 0
    matches: int = 0
    dropped_matches: int = 0  # this session: their player was reset under them, or their runner died
    seconds: float = 0.0  # of training, before this session


class Session:
    """One process's turn at training a run."""

    def __init__(
        self, settings: Settings, archive: Archive, runners: RunnerGroup, learners: LearnerGroup
    ) -> None:
        self.settings = settings
        self.archive = archive
        self.runners = runners
        self.learners = learners
        self.spec: PolicySpec = settings.policy_spec()
        self.num_seats = settings.make_game().num_seats
        self.roles = settings.league.resolve()
        self.roster = Roster()
        self.standings = Standings(self.roster, settings.ratings, settings.league.decay)
        self.matchmaker = Matchmaker(
            self.roles,
            settings.matchmaking,
            num_seats=self.num_seats,
            env=settings.env.id,
            seed=settings.seed,
        )
        self.builder = LeagueBuilder(self.roles)
        self.members: dict[str, Member] = {}
        self.totals = Totals()
        self.match_mix: Counter[str] = Counter()
        self.last_metrics: dict[str, UpdateRecord] = {}
        self.last_rollout: RolloutInfo | None = None
        self.newest: list[Snapshot] = []
        self._tickets: dict[int, Ticket] = {}
        self._next_match_id = archive.last_match_id() + 1
        self._next_request = self._next_match_id
        self._rng = np.random.default_rng([settings.seed, self._next_match_id])
        self._unreported: dict[str, list[UpdateRecord]] = {}
        self._began = self._saved = self._reported = time.monotonic()

    # ------------------------------------------------------------------ begin and end

    def begin(self) -> None:
        """Seat the players: new ones, or those the ledger remembers, standing as they stood."""
        for event in self.archive.history():
            self._replay(event)
        for role, names in self.settings.league.player_names().items():
            for name in names:
                if name not in self.members:
                    player = LivePlayer(name, role)
                    self.archive.add_player(player)
                    self._replay(player)
        for member in self.members.values():
            self._restore(member)
            if not member.initial:
                self._freeze([Freeze(player=member.player.player, reason="initial weights")])
        self._began = self._saved = self._reported = time.monotonic()

    def _replay(self, event: Competitor | Decision | ResultBatch) -> None:
        """Fold one remembered fact into roster, standings and members, as when it happened."""
        if isinstance(event, ResultBatch):
            self.standings.record(event)
            self._count(event)
        elif isinstance(event, LivePlayer):
            self.roster.admit(event)
            self.standings.on_admit(event)
            self.members[event.player] = Member(event, share=self.roles[event.role].share)
        elif isinstance(event, Bot):
            self.roster.admit(event)
            self.standings.on_admit(event)
        elif isinstance(event, Snapshot):
            self._seat(event)
        elif isinstance(event, Reset):
            self.members[event.player].generation += 1
            self.members[event.player].parent = event.target
            self.standings.on_reset(event.player, event.target)

    def _seat(self, snapshot: Snapshot) -> None:
        member = self.members[snapshot.player]
        self.roster.admit(snapshot)
        self.standings.on_admit(snapshot, parent=snapshot.player)
        member.initial = member.initial or snapshot.snapshot_id
        member.parent = snapshot.snapshot_id
        member.frozen_at = snapshot.env_steps
        self.newest = [snapshot, *self.newest[:4]]

    def _restore(self, member: Member) -> None:
        """Give the learner the state it was saved in; carry out a reset that a kill cut short."""
        name = member.player.player
        saved = self.archive.load_learner(name)
        if saved is None:
            return
        tensors, meta = saved
        state = LearnerState.from_tensors(tensors, int(meta["updates"]), int(meta["env_steps"]))
        self.learners.load_state(name, state)
        member.updates, member.env_steps = state.updates, state.env_steps
        member.reset_at = int(meta["reset_at"])
        self.totals.seconds = max(self.totals.seconds, float(meta["seconds"]))
        if member.generation > int(meta["generation"]) and member.parent is not None:
            self._give_weights(member, member.parent)

    def end(self) -> None:
        """Freeze the mains as they are now and save everything. What is under way is dropped."""
        for member in self.members.values():
            if member.player.role == MAIN:
                self._freeze([Freeze(player=member.player.player, reason="end of training")])
        self._save_learners()
        self._report_updates()
        self.archive.flush()

    def finished(self) -> bool:
        return self.progress() >= 1.0

    def progress(self) -> float:
        """How much of the run is done: 0 at its beginning, 1 when it is to stop, always 0 without a stop."""
        stop = self.settings.stop
        by_time = 0.0 if stop.minutes is None else self.seconds() / (60.0 * stop.minutes)
        by_steps = 0.0 if stop.env_steps is None else self.totals.env_steps / stop.env_steps
        return max(by_time, by_steps)

    def seconds(self) -> float:
        """Seconds of training so far, resumed ones included."""
        return self.totals.seconds + time.monotonic() - self._began

    # ------------------------------------------------------------------ the turns of the loop

    def ask(self) -> None:
        """Submit requests while runners have room, each for the player furthest behind its share.

        If that player's learner has enough to do, everybody waits: shares are what is played.
        """
        while self.runners.room() > 0:
            behind = min(self.members.values(), key=lambda member: member.matches_asked / member.share)
            if self.learners.backlog(behind.player.player) >= self.settings.learner.max_backlog:
                return
            self._request(behind)

    def _request(self, member: Member) -> None:
        count = self.settings.rollout.matches_per_request
        matches = self.matchmaker.next_matches(
            member.player, count, self.roster, self.standings, self._rng, self._next_match_id
        )
        self._next_match_id += count
        seated = [self.roster[competitor] for competitor in matches.competitors]
        live = [c.player for c in seated if isinstance(c, LivePlayer)]
        weights = {name: self.learners.live(name) for name in live}
        request = PlayRequest(
            matches=matches,
            sources=tuple(self._source(competitor) for competitor in seated),
            learner=member.player.player,
            seed=int(self._rng.integers(2**63)),
        )
        self.runners.submit(self._next_request, request, {n: w.handle for n, w in weights.items()})
        generations = {name: self.members[name].generation for name in live}
        self._tickets[self._next_request] = Ticket(member.player.player, generations)
        self._next_request += 1
        member.matches_asked += count

    def _source(self, competitor: Competitor) -> Source:
        if isinstance(competitor, LivePlayer):
            return LiveSource(competitor.player, self.learners.live(competitor.player).version, self.spec)
        if isinstance(competitor, Snapshot):
            path = str(self.archive.blob_path(competitor))
            return SnapshotSource(competitor.snapshot_id, competitor.blob_hash, path, self.spec)
        return BotSource(competitor.name)

    def take(self) -> None:
        """Record what was played; pass the experience on to its learner."""
        for rollout in self.runners.ready(WAIT_SECONDS):
            ticket = self._tickets.pop(rollout.request_id)
            if any(self.members[name].generation != g for name, g in ticket.generations.items()):
                self.totals.dropped_matches += len(rollout.results)
                continue
            changes = self.standings.record(rollout.results)
            self.archive.append_results(rollout.results, changes)
            self._count(rollout.results)
            self.last_rollout = rollout.info
            if rollout.info.trained_steps:
                self.learners.submit(ticket.player, rollout.episodes, self.progress())
        for request_id in self.runners.lost():
            del self._tickets[request_id]
            self.totals.dropped_matches += self.settings.rollout.matches_per_request

    def _count(self, results: ResultBatch) -> None:
        self.totals.env_steps += int(results.env_steps.sum())
        self.totals.matches += len(results)
        types = np.bincount(results.matches.match_type, minlength=len(results.matches.match_types))
        self.match_mix.update(dict(zip(results.matches.match_types, types.tolist(), strict=True)))

    def learn(self) -> None:
        """Take the learners' reports; wait for them only when nothing is being played."""
        for report in self.learners.ready(0.0 if self.runners.in_flight() else WAIT_SECONDS):
            member = self.members[report.player]
            member.updates, member.env_steps = report.updates, report.env_steps
            if report.metrics is None:
                continue
            metrics = dict(report.metrics)
            record = UpdateRecord(
                report.player, report.updates, report.env_steps, metrics.pop("lag"), metrics
            )
            self.last_metrics[report.player] = record
            self._unreported.setdefault(report.player, []).append(record)
        if time.monotonic() - self._reported > self.settings.log.seconds:
            self._report_updates()

    def decide(self) -> None:
        """Ask the league builder what to do, and do it."""
        clocks = {
            name: Clock(
                env_steps=m.env_steps,
                updates=m.updates,
                since_freeze=m.env_steps - m.frozen_at,
                since_reset=m.env_steps - m.reset_at,
            )
            for name, m in self.members.items()
        }
        decisions = self.builder.decide(self.roster, self.standings, clocks, self._rng)
        for _, of_player in itertools.groupby(decisions, key=lambda decision: decision.player):
            self._freeze(list(of_player))

    def save(self) -> None:
        """Save all learners' states when it is time."""
        if time.monotonic() - self._saved > self.settings.storage.save_seconds:
            self._save_learners()

    # ------------------------------------------------------------------ deeds

    def _freeze(self, decisions: list[Decision]) -> None:
        """Store the player's weights as a snapshot and seat it; then reset the player, if that was decided.

        The learner's state is saved first: after a kill in between, training goes on from this
        very step, and no step is ever frozen twice. Freeze and Reset are one frame of the ledger:
        after a kill between the two deeds, `begin` makes up for the second.
        """
        freeze = decisions[0]
        member = self.members[freeze.player]
        state = self._save_learner(member)
        if member.initial and state.env_steps == member.frozen_at:
            return  # nothing was learned since the last snapshot
        snapshot = self.archive.add_snapshot(
            player=freeze.player,
            role=member.player.role,
            env_steps=state.env_steps,
            updates=state.updates,
            parent_id=member.parent,
            tensors=state.weights,
            spec=self.spec.to_json(),
            architecture=self.spec.architecture,
            reason=freeze.reason,
            decisions=decisions,
        )
        self._seat(snapshot)
        self.archive.append_ratings([self.standings.rating(snapshot.snapshot_id)])
        for decision in decisions:
            self._replay(decision)
            if isinstance(decision, Reset):
                self._give_weights(member, decision.target)

    def _give_weights(self, member: Member, target: str) -> None:
        snapshot = self.roster[target]
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"reset of {member.player.player}: '{target}' is no snapshot")
        tensors = map_tensors(self.archive.blob_path(snapshot), verify=True)
        self.learners.reset(member.player.player, tensors)
        self._unreported.pop(member.player.player, None)
        member.reset_at = member.env_steps
        self._save_learner(member)

    def _save_learners(self) -> None:
        for member in self.members.values():
            self._save_learner(member)
        self._saved = time.monotonic()

    def _save_learner(self, member: Member) -> LearnerState:
        name = member.player.player
        state = self.learners.state(name)
        member.updates, member.env_steps = state.updates, state.env_steps
        meta = {
            "updates": state.updates,
            "env_steps": state.env_steps,
            "reset_at": member.reset_at,
            "generation": member.generation,
            "seconds": self.seconds(),
        }
        self.archive.save_learner(name, state.to_tensors(), meta)
        return state

    def _report_updates(self) -> None:
        """One row per player for all of its updates since the last row."""
        rows = []
        for name, records in self._unreported.items():
            means = {key: float(np.mean([r.metrics[key] for r in records])) for key in records[0].metrics}
            lag = float(np.mean([r.lag for r in records]))
            rows.append(UpdateRecord(name, records[-1].updates, records[-1].env_steps, lag, means))
        if rows:
            self.archive.append_updates(rows)
        self._unreported = {}
        self._reported = time.monotonic()
