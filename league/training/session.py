"""A session: one process's turn at training a run, from its first request to its last save.

The rules propose matches and decisions; `Session` takes the turns of the loop, and `Actions` carries
out decisions. Standings are updated first, because a batch of results and the ratings that it
changed are one frame of the ledger; the loop acts on neither before the frame is stored.
"""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from league.config.settings import Settings
from league.envs.trial.trial import GameBroken
from league.import_paths import OwnCodeFailed, running
from league.interrupts import stopping
from league.learning.groups.shard_learners import LearnerStopped
from league.rollout.guard import GRACE_SECONDS
from league.rollout.runner_group import LostRequests, Rollout
from league.rules.building.builder import Clock
from league.training.actions import CORRECT, Actions, no_progress
from league.training.engine import Engine
from league.training.freeze_yardsticks import FreezeYardsticks
from league.training.incidents import quarantine
from league.training.incidents.incident_log import Crashes, Failing, IncidentLog, LimitedMatches, remedy_of
from league.training.league_matches import LeagueMatches, TakenRollout
from league.training.requests import Requests, Ticket
from league.training.round_robin import LeagueRoundRobin
from league.training.run_clock import RunClock
from league.training.state.fold import folded, recall
from league.training.state.session_sums import Played
from league.training.state.state import LeagueState
from league.training.state.under_way import Part
from league.yardsticks.prepared import Opened
from storage.archive import Archive
from storage.disk import Progress
from storage.errors import Failure
from storage.incidents import Incident
from storage.ledger.merge import together
from storage.records import Bot, LivePlayer, ResultBatch

if TYPE_CHECKING:
    from storage.remote.uploader import Uploader  # needs the extra `remote`

NO_YARDSTICKS = Opened()
RESCUE_SECONDS = 8.0  # where the cluster is lost, Ray ends this process soon
WAIT_SECONDS = 0.1  # at most this long without a look at the clock, the screen and Ctrl-C


class Session:
    """The turns of the loop: measure, ask, evaluate, take, learn, decide, save."""

    def __init__(
        self,
        settings: Settings,
        archive: Archive,
        engine: Engine,
        uploader: Uploader | None = None,
        opened: Opened = NO_YARDSTICKS,
    ) -> None:
        """Join the parts of a run. Snapshots of mains are measured on the `opened` yardsticks."""
        self.settings = settings
        self.archive = archive
        self.uploader = uploader
        self.runners, self.learners, self.evaluators, self.elastic = engine
        roles = self._roles = settings.league.resolve()
        teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
        self.state = LeagueState(roles, settings.ratings, settings.league.decay, teams, settings.payoff_scale)
        self.roster, self.standings = self.state.roster, self.state.standings
        self.members, self.totals = self.state.members, self.state.totals
        self.played = Played(self.roster)
        self.clock = RunClock(settings.stop, self.state)
        self._actions = Actions(settings, archive, self.learners, self.state, self.clock.seconds)
        self.log, self.caches = self._actions.log, self._actions.caches
        self.incidents = IncidentLog(archive)
        self.crashes = Crashes(settings.env.id, settings.rollout.crash_share)
        self._failing = Failing(settings.bots, self.roster)
        self.limited = LimitedMatches(settings.rollout.step_limit)
        first_id = archive.last_match_id() + 1
        self._rng = np.random.default_rng([settings.seed, first_id])
        sources, self._requests = self._actions.sources, Requests()
        self._requests.runners["training"] = self.runners
        if self.evaluators is not None:
            self._requests.runners["evaluation"] = self.evaluators
        self.matches = LeagueMatches(
            settings, self.state, self.learners, self._requests, sources, self._rng, first_id
        )
        beside = self._requests, self.evaluators or self.runners
        self.yardsticks = FreezeYardsticks(settings, opened, archive, sources, *beside)
        self.round_robin = LeagueRoundRobin(settings, archive, sources, self.state, *beside)
        self._actions.frozen = self.yardsticks.frozen
        self._builder = settings.league.make_builder()
        self._saved = time.monotonic()
        self._request_seconds = 0.0  # of the newest request
        self._learn_seconds: dict[str, float] = {}  # of the newest block, by player
        self.changed: list[str] = []  # settings that differ from those of the session before

    # ------------------------------------------------------------------ begin and end

    def begin(self, progress: Progress = no_progress) -> None:
        """Fold the facts of the ledger, add the players and bots that are new, and fill the learners."""
        recall(self.state, self.archive)
        for name, role in self.settings.players().items():
            if name not in self.roster:
                player = LivePlayer(name, role)
                self.archive.add_player(player)
                self.state.apply(player)
        for name in self.settings.league.bots():
            if name not in self.roster:
                self.archive.add_bot(Bot(name))
                self.state.apply(Bot(name))
        if self._failing.may_withdraw:
            self._failing.recall(self.archive.incidents())
        self._actions.begin_learners(progress)
        for line in self._actions.not_restored:
            self.incidents.say(line)
        self.yardsticks.begin()
        self.clock.begin()
        self._saved = self.log.since = time.monotonic()

    def end(self) -> None:
        """Freeze the mains as they are now, save everything and place them; matches under way are dropped."""
        self._actions.end()
        self.learn()  # the reports of what was learned before the states that were frozen
        self._actions.report_updates()
        self.yardsticks.keep_newest()
        self._play_out(self.yardsticks, stopping)
        self._play_out(self.round_robin, self.round_robin.deadline(self.clock.seconds()))
        self._note_deaths()
        if self.archive.wants_last_fold:  # so that the next session begins at once
            self.archive.note_fold(*folded(self.state))

    def _seconds_to_end(self) -> float:
        """Return the seconds from here to the end of this session, if training ended now.

        They are measured: those of what is under way then, of freezing and of the last games.
        """
        last = self.yardsticks.last_seconds() + self.round_robin.last_seconds(self.clock.seconds())
        fragment = self.settings.rollout.fragment
        if self.settings.most_runners:
            play = self._request_seconds * self.matches.pace.each_runner()
        elif fragment is not None:  # it ends after a step
            play = self._request_seconds / fragment / 2
        else:
            play = min(self._request_seconds, GRACE_SECONDS)
        seconds = self._learn_seconds
        learn = [
            sum(self.learners.under_way(name) * seconds.get(name, 0.0) for name in shard.players)
            for shard in self.learners.plan()
        ]
        return max(play, *learn, 0.0) + self._actions.last_seconds() + last

    def rescue(self) -> None:
        """Save what learners have learned, as far as it comes within RESCUE_SECONDS."""
        self.learners.ask_states()
        missing = {name for name, member in self.members.items() if not member.stopped}
        until = time.monotonic() + RESCUE_SECONDS
        while missing and time.monotonic() < until:
            arrived = self.learners.arrived()
            self._actions.save(arrived)
            missing -= arrived.keys()
            time.sleep(WAIT_SECONDS / 10)
        copies = self.learners.copies()
        self._actions.save({name: copies[name] for name in missing & copies.keys()})

    def _play_out(self, games: FreezeYardsticks | LeagueRoundRobin, over: Callable[[], bool]) -> None:
        """Play what is left of games beside training until `over`."""
        while not over() and (games.ask(last=True) or self._requests.under_way(games.owner)):
            games.take(self._requests.ready(WAIT_SECONDS, games.owner)[games.owner])
            for lost, _ in self._requests.losses():
                self.incidents.record_loss(lost.incident)

    def show_meanwhile(self, show: Callable[[Session], None]) -> None:
        """Show the session while this process plays or learns for long; leave that if the run is over."""

        def overdue(steps: int) -> bool:
            return self.clock.overdue(steps, lambda: show(self))

        self.runners.until(overdue)
        self.learners.until(lambda: self.clock.looked(lambda: show(self)))
        self.round_robin.until(overdue)

    def _progress(self, player: str) -> float:
        """Return where the schedules of the player's learner are: in the run, or on the way to a snapshot."""
        member = self.members[player]
        rules = self._roles.of(member.player)
        return rules.progress(self.clock.share(), member.env_steps - member.frozen_at)

    # ------------------------------------------------------------------ the turns of the loop

    def measure(self) -> None:
        """Submit games of snapshots against fixed yardsticks, if there are any, and of the round robin."""
        self.yardsticks.ask()
        self.round_robin.ask()

    def ask(self) -> None:
        """Submit requests while runners have room and learners have too little to do."""
        self.matches.ask()

    def evaluate(self) -> None:
        """Submit evaluation matches while evaluation runners have room."""
        self.matches.evaluate()

    def take(self) -> None:
        """Record what was played, and submit the experience to its learners; follow the cluster's nodes."""
        played = self._requests.ready(WAIT_SECONDS)
        if played:
            self.matches.replayed.played()
        for _, rollout in itertools.chain.from_iterable(played.values()):
            for incident in self._failing.note(rollout.info.failures):
                self.incidents.record(incident)
        self.yardsticks.take(played["yardsticks"])
        self.round_robin.take(played["round_robin"])
        taken = self.matches.take([*played["training"], *played["evaluation"]])
        self._record([batch for each in taken for batch in each.results])
        for each in taken:
            self._use(each)
        for lost, tickets in self._requests.losses():
            self._lose(lost, tickets)
        self.matches.count()
        self._follow()

    def _record(self, batches: Sequence[ResultBatch]) -> None:
        """Fold results in, in order, and store them with the ratings after them, synced together."""
        if batches:
            joined = together(batches)
            self.archive.append_all_results([(each, self.state.apply(each)) for each in joined])
            for each in joined:
                self.played.count(each)
                if line := self.limited.note(each):
                    self.incidents.say(line)

    def _use(self, taken: TakenRollout) -> None:
        """Note what a recorded rollout reports, and submit its experience to the learners."""
        info, num_matches = taken.rollout.info, sum(map(len, taken.results))
        self._request_seconds = info.seconds
        self._note_crashes(num_matches, info.crashes)
        if not taken.ticket.alone:  # else it is of an unusual size
            self.matches.pace.played(num_matches, info)
        self.caches.add(info.process, info.tiers)
        trained = sum(info.trained_steps.values())
        for player, steps in info.trained_steps.items():
            member = self.members.get(player)  # which may have been removed, or reset since
            if steps and member is not None and member.generation == taken.ticket.generations[player]:
                self.log.spend(player, playing=info.seconds * steps / trained)
                self._learn_from(player, taken.rollout, taken.ticket, steps)

    def _follow(self) -> None:
        """Follow the nodes of the cluster: those that have joined, those that are gone or about to leave."""
        if self.elastic is not None:
            for line in self.elastic.follow():
                self.incidents.say(line)
            self.matches.part()

    def _note_crashes(self, num_matches: int, causes: Mapping[str, int]) -> None:
        """Record new causes of crashes. Raise GameBroken, with everything saved, if there are too many."""
        for incident in self.crashes.note(num_matches, causes):
            self.incidents.record(incident)
        if causes and self.crashes.too_many:
            self._actions.save_learners()
            raise GameBroken(f"{self.crashes.too_many}. The run is kept: {CORRECT.replace('code', 'game')}")

    def _learn_from(self, player: str, rollout: Rollout, ticket: Ticket, steps: int) -> None:
        """Submit experience to its learner, unless it was played by weights that died with one.

        While a learner is away, what its queue has no room for is dropped: others play on. What comes before
        a reset that waits would be forgotten with it.
        """
        member = self.members[player]
        stale = member.resets or ticket.versions[player] < member.since_version
        if stale or (player in self.learners.away() and self.learners.full(player)):
            self.learners.lost(player, steps)
        else:
            self.learners.submit(player, rollout.episodes[player], self._progress(player), steps)

    def _lose(self, lost: LostRequests, tickets: Mapping[int, Ticket]) -> None:
        """Record a death and its cost; have its matches played again, or set them aside.

        Raise Failure, with everything saved, if nothing can be played.
        """
        cost, set_aside = self.matches.lost(lost, tickets)
        self.incidents.record_loss(replace(lost.incident, matches=cost))
        for part in set_aside:
            self._set_aside(part, lost.incident.cause)
        if self.matches.replayed.hopeless:
            self._actions.save_learners()
            cause = lost.incident.cause + remedy_of(lost.incident.cause, self.settings.env.id)
            raise Failure(
                f"nothing can be played: runners have died or hung at everything that was asked of them "
                f"lately, the last one: {cause}. "
                f"Everything that was recorded is kept (league sql {self.archive.run} 'FROM incidents'): "
                "correct the cause and go on with --resume"
            )

    def _set_aside(self, part: Part, cause: str) -> None:
        """Record a match at which runners died as a crash, and keep the first ones in the run folder."""
        self._record([quarantine.crashed(part.matches)])
        if (count := self.incidents.counts["set_aside"]) >= quarantine.MOST_KEPT:
            return
        kept = quarantine.save(self.archive, part, cause)
        last = "; further ones are only recorded" if count + 1 == quarantine.MOST_KEPT else ""
        incident = Incident(
            kind="set_aside",
            who=f"match {int(part.matches.match_id[0])} of {', '.join(part.matches.competitors[:4])}",
            cause=f"{part.deaths} runners died or hung while they played it: {cause}",
            matches=len(part.matches),
            remedy=f"it is recorded as a crash{last}",
            kept=str(kept.relative_to(self.archive.run)),
        )
        self.incidents.record(incident)

    def learn(self) -> None:
        """Note the learners' reports; wait for them only when nothing is being played."""
        busy = self.runners.in_flight() or self._requests.waiting
        reports = self.learners.ready(0.0 if busy else WAIT_SECONDS)
        for report in reports:
            if isinstance(report, LearnerStopped):
                continue
            member = self.members[report.player]
            member.updates, member.env_steps = report.updates, report.env_steps
            self.log.spend(report.player, **report.spent._asdict())
            self._learn_seconds[report.player] = report.spent.learning
            if report.metrics is not None:
                self.log.add(report)
                self.matches.pace.learned(report.player, report.metrics["lag"])
        for line in self.learners.news():
            self.incidents.say(line)
        self._note_deaths()  # after the reports that came before them
        for report in reports:
            if isinstance(report, LearnerStopped):
                self._actions.stop(report)
        if time.monotonic() - self.log.since > self.settings.log.seconds:
            self._actions.report_updates()

    def _note_deaths(self) -> None:
        """Record deaths of learners, and where their players are now: back at a copy of their state."""
        for loss in self.learners.losses():
            for name, back in loss.back.items():
                self._actions.report_updates()  # one row never mixes what was learned before and after
                self.log.forget(name)
                if name in self.members:
                    member = self.members[name]
                    member.updates, member.env_steps = back.updates, back.env_steps
                    member.since_version = back.updates
            self.incidents.record(loss.incident)

    def decide(self) -> None:
        """Carry out what the league builder decides. Raise Mistake for what no builder may decide.

        Nothing is decided while learners wait for a place on another node, or an earlier decision for the
        state of a learner: play and learning go on meanwhile.
        """
        if self.elastic is not None and self.elastic.waiting:
            return
        if self._actions.waiting:
            self._actions.go_on()
            return
        clocks = {
            name: Clock(
                env_steps=m.env_steps,
                updates=m.updates,
                since_freeze=m.env_steps - m.frozen_at,
                since_reset=m.env_steps - m.reset_at,
                settings=self._actions.numbers(m),
            )
            for name, m in self.members.items()
        }
        own, name = self._builder.decide, self.settings.league.builder.kind
        with running("league.builder", name):
            decisions = own(self.roster, self.standings, clocks, self._rng)
        self._actions.carry_out(decisions)

    @contextlib.contextmanager
    def kept(self) -> Iterator[None]:
        """Save all learners if code of the user's own fails, and add to its message that the run goes on."""
        try:
            yield
        except OwnCodeFailed as error:
            self._actions.save_learners()
            raise OwnCodeFailed(f"{error}. The run is kept: {CORRECT}") from error

    def save(self) -> None:
        """Save all learners when it is time: each when its state has come, so that play waits for none.

        Training ends as much before the end of the run as saving and the last games take then.

        Raise RunTaken if this process was cut off and another one went on with the run, RemoteTaken if
        another process writes the remote.
        """
        self.archive.require_own()
        if self.archive.wants_fold:
            self.archive.note_fold(*folded(self.state))
        self.clock.reserve = self._seconds_to_end()
        if time.monotonic() - self._saved > self.settings.storage.save_seconds:
            self.learners.ask_states()
            self._saved = time.monotonic()
        self._actions.save(self.learners.arrived())
        if self.uploader is not None:
            self.uploader.check()
