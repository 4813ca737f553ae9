"""A session: one process's turn at training a run, from its first request to its last save.

The rules propose matches and decisions; `Session` takes the turns of the loop, and `Deeds` carries
out decisions. Standings are updated first, because a batch of results and the ratings that it
changed are one frame of the ledger; the loop acts on neither before the frame is stored.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from league.config.settings import Settings
from league.import_paths import OwnCodeFailed, running
from league.learning.groups.learner_group import LearnerGroup
from league.learning.groups.shard_learners import LearnerStopped
from league.rollout.requests import PlayRequest
from league.rollout.runner_group import RunnerGroup
from league.rules.building.builder import DEFAULT, Clock
from league.rules.earnings import earned
from league.training.deeds import CORRECT, Deeds
from league.training.measuring import Measuring
from league.training.remote import Upload
from league.training.state.members import Member, Ticket
from league.training.state.state import State
from league.yardsticks.opened import Opened
from storage.archive import Archive
from storage.records import Bot, LivePlayer, MatchBatch, Purpose, Snapshot

NO_YARDSTICKS = Opened()
WAIT_SECONDS = 0.1  # at most this long without a look at the clock, the screen and Ctrl-C


class Session:
    """The turns of the loop: measure, ask, evaluate, take, learn, decide, save."""

    def __init__(
        self,
        settings: Settings,
        archive: Archive,
        runners: RunnerGroup,
        learners: LearnerGroup,
        uploader: Upload | None = None,
        evaluators: RunnerGroup | None = None,
        yardsticks: Opened = NO_YARDSTICKS,
    ) -> None:
        """Join the parts of a run. Matches of `evaluators` are recorded but not learned from.

        Snapshots of mains are measured on `yardsticks`.
        """
        self.settings = settings
        self.archive = archive
        self.uploader = uploader
        self.runners = runners
        self.evaluators = evaluators
        self.learners = learners
        roles = self._roles = settings.league.resolve()
        teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
        self.state = State(roles, settings.ratings, settings.league.decay, teams, settings.payoff_scale)
        self.roster, self.standings = self.state.roster, self.state.standings
        self.members, self.totals = self.state.members, self.state.totals
        self._deeds = Deeds(settings, archive, learners, self.state, self.seconds)
        self.log, self.caches = self._deeds.log, self._deeds.caches
        self._sources = self._deeds.sources
        self.measuring = Measuring(settings, yardsticks, archive, self._sources, evaluators or runners)
        self._deeds.frozen = self.measuring.frozen
        self._openings = settings.opening.openings()
        self._envs = settings.following()
        self._matchmaker = settings.make_matchmaker(self._sources.allowed_seats)
        self._builder = settings.league.make_builder()
        self._tickets: dict[int, Ticket] = {}
        self._next_match_id = archive.last_match_id() + 1
        self._next_request = self._next_match_id
        self._rng = np.random.default_rng([settings.seed, self._next_match_id])
        self._began = self._saved = time.monotonic()

    # ------------------------------------------------------------------ begin and end

    def begin(self) -> None:
        """Fold the facts of the ledger, add the players and bots that are new, and fill the learners."""
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
        self._deeds.begin_learners()
        self.measuring.begin()
        self._began = self._saved = self.log.since = time.monotonic()

    def end(self) -> None:
        """Freeze the mains as they are now and save everything; matches under way are dropped."""
        self._deeds.end()
        self.measuring.end()

    def finished(self) -> bool:
        """Return whether the run has reached its `stop`."""
        return self.progress() >= 1.0

    def progress(self) -> float:
        """Return the share of the run that is done: 0 at its beginning, 1 at its end; 0 without a `stop`."""
        stop = self.settings.stop
        by_time = 0.0 if stop.minutes is None else self.seconds() / (60.0 * stop.minutes)
        by_steps = 0.0 if stop.env_steps is None else self.totals.env_steps / stop.env_steps
        return max(by_time, by_steps)

    def _progress(self, player: str) -> float:
        """Return where the schedules of the player's learner are: in the run, or on the way to a snapshot."""
        member = self.members[player]
        rules = self._roles.of(member.player)
        return rules.progress(self.progress(), member.env_steps - member.frozen_at)

    def seconds(self) -> float:
        """Return the seconds of training so far, resumed ones included."""
        return self.totals.seconds + time.monotonic() - self._began

    # ------------------------------------------------------------------ the turns of the loop

    def ask(self) -> None:
        """Submit requests while runners have room, each for the player furthest behind its share.

        Stop as soon as that player's learner has enough to do, so that the shares hold for what is played.
        """
        with self._kept():
            self._ask()

    def _ask(self) -> None:
        while self.runners.room() > 0:
            learning = [member for member in self.members.values() if not member.stopped]
            behind = min(learning, key=lambda member: member.matches_asked / member.share)
            if self.learners.full(behind.player.player):
                return
            self._request(behind)

    def evaluate(self) -> None:
        """Submit evaluation matches while evaluation runners have room, for each player in turn."""
        with self._kept():
            self._evaluate()

    def _evaluate(self) -> None:
        while self.evaluators is not None and self.evaluators.room() > 0:
            member = min(self.members.values(), key=lambda member: member.matches_evaluated)
            matches = self._matchmaker.evaluation_matches(
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

    def measure(self) -> None:
        """Submit games of snapshots against fixed yardsticks, if there are any to play."""
        self.measuring.ask()

    def _request(self, member: Member) -> None:
        count = self.settings.rollout.matches_per_request
        matches = self._matchmaker.next_matches(
            member.player, count, self.roster, self.standings, self._rng, self._next_match_id
        )
        self._submit(matches, self.runners)
        since_reset = member.env_steps - member.reset_at
        rule = self._roles.of(member.player).earns
        # a match is dearer for a player that has earned only a part of its share
        member.matches_asked += count / earned(member.player, rule, self.roster, self.standings, since_reset)

    def _submit(self, matches: MatchBatch, runners: RunnerGroup) -> None:
        """Submit matches, in a request for each game where the env of a seat follows its competitor."""
        for part, env_options in self._envs.split(matches, self._brings):
            self._submit_one(part, env_options, runners)

    def _brings(self, competitor: str) -> str | None:
        """Return the role of a competitor, whose env it may bring; `None` for a bot."""
        found = self.roster[competitor]
        return found.role if isinstance(found, LivePlayer | Snapshot) else None

    def _submit_one(
        self, matches: MatchBatch, env_options: Mapping[str, Any] | None, runners: RunnerGroup
    ) -> None:
        seated = [self.roster[competitor] for competitor in matches.competitors]
        live = {c.player: self.learners.live(c.player) for c in seated if isinstance(c, LivePlayer)}
        learning = {matches.competitors[i] for i in np.unique(matches.seat[matches.learning]).tolist()}
        versions = [live[c.player].version if isinstance(c, LivePlayer) else 0 for c in seated]
        request = PlayRequest(
            matches=matches,
            sources=tuple(self._sources.of(*each) for each in zip(seated, versions, strict=True)),
            learners=tuple(name for name in live if name in learning and not self.members[name].stopped),
            seed=int(self._rng.integers(2**63)),
            openings=self._openings if matches.purpose is Purpose.TRAINING else None,
            env_options=env_options,
        )
        runners.submit(self._next_request, request, {n: w.handle for n, w in live.items()})
        generations = {name: self.members[name].generation for name in live}
        self._tickets[self._next_request] = Ticket(len(matches), generations)
        self._next_match_id += len(matches)
        self._next_request += 1

    def take(self) -> None:
        """Record what was played, and submit the experience to its learners."""
        rollouts = self.runners.ready(WAIT_SECONDS)
        if self.evaluators is not None:
            rollouts += self.evaluators.ready(0.0)
        for rollout in self.measuring.take(rollouts):
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
            trained = sum(rollout.info.trained_steps.values())
            for player, steps in rollout.info.trained_steps.items():
                if steps:
                    self.log.spend(player, playing=rollout.info.seconds * steps / trained)
                    self.learners.submit(player, rollout.episodes[player], self._progress(player), steps)
        lost = self.runners.lost() + ([] if self.evaluators is None else self.evaluators.lost())
        for request_id in self.measuring.lost(lost):
            self.totals.dropped_matches += self._tickets.pop(request_id).matches

    def learn(self) -> None:
        """Note the learners' reports; wait for them only when nothing is being played."""
        for report in self.learners.ready(0.0 if self.runners.in_flight() else WAIT_SECONDS):
            if isinstance(report, LearnerStopped):
                self._deeds.stop(report)
                continue
            member = self.members[report.player]
            member.updates, member.env_steps = report.updates, report.env_steps
            self.log.spend(report.player, **report.spent._asdict())
            if report.metrics is not None:
                self.log.add(report)
        if time.monotonic() - self.log.since > self.settings.log.seconds:
            self._deeds.report_updates()

    def decide(self) -> None:
        """Carry out what the league builder decides. Raise Mistake for what no builder may decide."""
        clocks = {
            name: Clock(
                env_steps=m.env_steps,
                updates=m.updates,
                since_freeze=m.env_steps - m.frozen_at,
                since_reset=m.env_steps - m.reset_at,
            )
            for name, m in self.members.items()
        }
        own, name = self._builder.decide, self.settings.league.builder
        with self._kept(), contextlib.nullcontext() if name == DEFAULT else running("league.builder", name):
            decisions = own(self.roster, self.standings, clocks, self._rng)
        self._deeds.carry_out(decisions)

    @contextlib.contextmanager
    def _kept(self) -> Iterator[None]:
        """Save all learners if code of the user's own fails, and add to its message that the run goes on."""
        try:
            yield
        except OwnCodeFailed as error:
            self._deeds.save_learners()
            raise OwnCodeFailed(f"{error}. The run is kept: {CORRECT}") from error

    def save(self) -> None:
        """Save all learners when it is time. Raise RemoteTaken if another process writes the remote."""
        if time.monotonic() - self._saved > self.settings.storage.save_seconds:
            self._deeds.save_learners()
            self._saved = time.monotonic()
        if self.uploader is not None:
            self.uploader.check()
