"""A run while it trains: who is in the league, how they stand, what is under way.

Only here does anything happen: rules propose (matches, decisions), the session carries out, and
every fact goes through the one door of the archive before anybody acts on it.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import numpy as np

from league.config.settings import Settings
from league.learning.groups.learner_group import LearnerGroup, LearnerStopped
from league.learning.learner import LearnerState
from league.rollout.requests import PlayRequest
from league.rollout.runner_group import RunnerGroup
from league.rules.building.builder import Clock, LeagueBuilder, find_builder
from league.training.initial import load_initial
from league.training.sources import Sources
from league.training.state.cache_log import CacheLog
from league.training.state.members import Member, Ticket, UpdateLog, player_seed
from league.training.state.state import State
from storage.archive import Archive
from storage.errors import Failure, Mistake
from storage.records import (
    MAIN,
    Add,
    Bot,
    Decision,
    Freeze,
    LivePlayer,
    MatchBatch,
    Remove,
    Reset,
    Retire,
    Snapshot,
    Stop,
)
from storage.snapshots.blobs import map_tensors

if TYPE_CHECKING:  # needs the extra `remote`
    from storage.remote.uploader import Uploader

WAIT_SECONDS = 0.1  # at most this long without a look at the clock, the screen and Ctrl-C


class Session:
    """One process's turn at training a run."""

    def __init__(
        self,
        settings: Settings,
        archive: Archive,
        runners: RunnerGroup,
        learners: LearnerGroup,
        uploader: Uploader | None = None,
        evaluators: RunnerGroup | None = None,
    ) -> None:
        """`evaluators`: runners that play for the record only."""
        self.settings = settings
        self.archive = archive
        self.uploader = uploader
        self.runners = runners
        self.evaluators = evaluators
        self.learners = learners
        self.roles = settings.league.resolve()
        teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
        self.state = State(self.roles, settings.ratings, settings.league.decay, teams)
        self.roster, self.standings = self.state.roster, self.state.standings
        self.members, self.totals = self.state.members, self.state.totals
        self.sources = Sources(settings, archive)
        self.matchmaker = settings.make_matchmaker(self.sources.seats_of)
        self.builder: LeagueBuilder = find_builder(settings.league.builder)(self.roles)
        self.log = UpdateLog()
        self.caches = CacheLog()
        self._tickets: dict[int, Ticket] = {}
        self._next_match_id = archive.last_match_id() + 1
        self._next_request = self._next_match_id
        self._rng = np.random.default_rng([settings.seed, self._next_match_id])
        self._began = self._saved = time.monotonic()

    # ------------------------------------------------------------------ begin and end

    def begin(self) -> None:
        """Seat the players: new ones, or those the ledger remembers, standing as they stood."""
        for event in self.archive.history():
            self.state.apply(event)
        for role, names in self.settings.league.player_names().items():
            for name in names:
                if name not in self.roster:
                    player = LivePlayer(name, role)
                    self.archive.add_player(player)
                    self.state.apply(player)
        for name in self.settings.league.bots():
            if name not in self.roster:
                self.archive.add_bot(Bot(name))
                self.state.apply(Bot(name))
        for name in self.learners.players():
            if name not in self.members:
                self.learners.remove(name)
        for name, member in self.members.items():
            if name not in self.learners.players():
                self._add_learner(member.player)
            self._restore(member)
        self._freeze_initial([member for member in self.members.values() if not member.initial])
        self._began = self._saved = self.log.since = time.monotonic()

    def _freeze_initial(self, newcomers: list[Member]) -> None:
        """Make the first snapshot of each; `init_from` gives its weights, else its learner drew them."""
        wanted = {member.player.player for member in newcomers}
        entries = [entry for entry in self.settings.init_from if entry.player in wanted]
        specs = {name: self.sources.spec_of(self.members[name].player) for name in wanted}
        given = load_initial(entries, specs)
        for name in sorted(wanted, key=self.roster.index):
            reason = "initial weights"
            if name in given:
                self.learners.reset(name, given[name].tensors)
                reason += f", from {given[name].origin}"
            self._freeze([Freeze(player=name, reason=reason)])

    def _add_learner(self, player: LivePlayer) -> None:
        seed = player_seed(self.settings.seed, self.roster.index(player.player))
        self.learners.add(
            player.player,
            seed,
            settings=self.settings.learner_of(player.role),
            spec=self.sources.spec_of(player),
        )

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
            learning = [member for member in self.members.values() if not member.stopped]
            behind = min(learning, key=lambda member: member.matches_asked / member.share)
            if self.learners.full(behind.player.player):
                return
            self._request(behind)

    def evaluate(self) -> None:
        """Keep the evaluation runners busy: for each player in turn, by its role's `evaluate`."""
        while self.evaluators is not None and self.evaluators.room() > 0:
            member = min(self.members.values(), key=lambda member: member.matches_evaluated)
            matches = self.matchmaker.evaluation_matches(
                member.player,
                self.settings.evaluation.matches_per_request,
                self.roster,
                self.standings,
                self._rng,
                self._next_match_id,
            )
            if matches is None:
                return
            member.matches_evaluated += len(matches)
            self._submit(matches, self.evaluators)

    def _request(self, member: Member) -> None:
        count = self.settings.rollout.matches_per_request
        matches = self.matchmaker.next_matches(
            member.player, count, self.roster, self.standings, self._rng, self._next_match_id
        )
        self._submit(matches, self.runners)
        member.matches_asked += count

    def _submit(self, matches: MatchBatch, runners: RunnerGroup) -> None:
        seated = [self.roster[competitor] for competitor in matches.competitors]
        live = {c.player: self.learners.live(c.player) for c in seated if isinstance(c, LivePlayer)}
        learning = {matches.competitors[i] for i in np.unique(matches.seat[matches.learning]).tolist()}
        versions = [live[c.player].version if isinstance(c, LivePlayer) else 0 for c in seated]
        request = PlayRequest(
            matches=matches,
            sources=tuple(self.sources.of(*each) for each in zip(seated, versions, strict=True)),
            learners=tuple(name for name in live if name in learning),
            seed=int(self._rng.integers(2**63)),
        )
        runners.submit(self._next_request, request, {n: w.handle for n, w in live.items()})
        generations = {name: self.members[name].generation for name in live}
        self._tickets[self._next_request] = Ticket(len(matches), generations)
        self._next_match_id += len(matches)
        self._next_request += 1

    def take(self) -> None:
        """Record what was played; pass the experience on to its learners."""
        rollouts = self.runners.ready(WAIT_SECONDS)
        if self.evaluators is not None:
            rollouts += self.evaluators.ready(0.0)
        for rollout in rollouts:
            ticket = self._tickets.pop(rollout.request_id)
            if any(
                name not in self.members or self.members[name].generation != generation
                for name, generation in ticket.generations.items()
            ):
                self.totals.dropped_matches += len(rollout.results)
                continue
            changes = self.state.apply(rollout.results)
            self.archive.append_results(rollout.results, changes)
            self.caches.add(rollout.info.process, rollout.info.tiers)
            for player, steps in rollout.info.trained_steps.items():
                if steps:
                    self.learners.submit(player, rollout.episodes[player], self.progress(), steps)
        lost = self.runners.lost() + ([] if self.evaluators is None else self.evaluators.lost())
        for request_id in lost:
            self.totals.dropped_matches += self._tickets.pop(request_id).matches

    def learn(self) -> None:
        """Take the learners' reports; wait for them only when nothing is being played."""
        for report in self.learners.ready(0.0 if self.runners.in_flight() else WAIT_SECONDS):
            if isinstance(report, LearnerStopped):
                self._stop(report)
                continue
            member = self.members[report.player]
            member.updates, member.env_steps = report.updates, report.env_steps
            if report.metrics is not None:
                self.log.add(report)
        if time.monotonic() - self.log.since > self.settings.log.seconds:
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
        deeds: list[list[Decision]] = []
        for decision in decisions:  # a Reset belongs to the Freeze before it
            if deeds and isinstance(decision, Reset) and deeds[-1][0].player == decision.player:
                deeds[-1].append(decision)
            else:
                deeds.append([decision])
        for deed in deeds:
            self._carry_out(deed)

    def save(self) -> None:
        """Save all learners' states when it is time. Raises RemoteTaken when another writes the remote."""
        if time.monotonic() - self._saved > self.settings.storage.save_seconds:
            self._save_learners()
        if self.uploader is not None:
            self.uploader.check()

    # ------------------------------------------------------------------ deeds

    def _carry_out(self, decisions: list[Decision]) -> None:
        """Do what was decided: one thing, or a Freeze and the Reset behind it."""
        match decisions[0]:
            case Add() as add:
                self._add(add)
            case Remove() as remove:
                self.archive.append_decisions([remove])
                self.state.apply(remove)
                self.learners.remove(remove.player)
                self.log.forget(remove.player)
                self._require_learning(remove.reason)
            case Retire() as retire:
                self.archive.append_decisions([retire])
                self.state.apply(retire)
            case _:
                self._freeze(decisions)

    def _add(self, decision: Add) -> None:
        """Take in a new player, with weights of its own, while the others go on."""
        if decision.role not in self.roles:
            known = ", ".join(self.roles)
            raise Mistake(
                f"add of player '{decision.player}': role '{decision.role}' has no rules in this league, "
                f"expected one of {known}; describe it as league.roles.{decision.role}"
            )
        player = LivePlayer(decision.player, decision.role)
        self.archive.add_player(player, [decision])
        self.state.apply(player)
        self._add_learner(player)
        self._freeze_initial([self.members[player.player]])

    def _stop(self, report: LearnerStopped) -> None:
        """Keep the batch that was refused and go on without the player; the last one ends the run."""
        path = self.archive.save_refused(report.player, report.update, report.tensors)
        message = f"{report.message}; the batch is kept in {path}"
        stop = Stop(player=report.player, reason=message, evidence={"update": report.update})
        self.archive.append_decisions([stop])
        self.members[report.player].stopped = message
        self._require_learning(message)

    def _require_learning(self, reason: str) -> None:
        """Without anybody who learns there is nothing to go on with: save everything, and say why."""
        if all(member.stopped for member in self.members.values()):
            self.end()
            raise Failure(f"no player is left that learns. {reason}")

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
        spec = self.sources.spec_of(member.player)
        snapshot = self.archive.add_snapshot(
            player=freeze.player,
            role=member.player.role,
            env_steps=state.env_steps,
            updates=state.updates,
            parent_id=member.parent,
            tensors=state.weights,
            spec=spec.to_json(),
            architecture=spec.architecture,
            reason=freeze.reason,
            decisions=decisions,
        )
        self.state.apply(snapshot)
        self.archive.append_ratings([self.standings.rating(snapshot.snapshot_id)])
        for decision in decisions:
            self.state.apply(decision)
            if isinstance(decision, Reset):
                self._give_weights(member, decision.target)

    def _give_weights(self, member: Member, target: str) -> None:
        snapshot = self.roster[target]
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"reset of {member.player.player}: '{target}' is no snapshot")
        tensors = map_tensors(self.archive.blob_path(snapshot), verify=True)
        self.learners.reset(member.player.player, tensors)
        self._report_updates()  # one row never mixes what was learned before and after
        self.log.forget(member.player.player)
        member.reset_at, member.stopped = member.env_steps, ""  # other weights, another chance
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
        """Record what learners and caches reported since the last time."""
        self.archive.append_updates(self.log.rows(self.learners.queues()))
        self.archive.append_caches(self.caches.rows())
