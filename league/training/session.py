"""A session: one process's turn at training a run, from its first request to its last save.

The rules propose matches and decisions; `Session` takes the turns of the loop, and `Deeds` carries
out decisions. Standings are updated first, because a batch of results and the ratings that it
changed are one frame of the ledger; the loop acts on neither before the frame is stored.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from league.cluster.elastic import Elastic
from league.config.settings import Settings
from league.envs.trial.fault import GameBroken
from league.import_paths import OwnCodeFailed, running
from league.learning.groups.learners import Learners
from league.learning.groups.shard_learners import LearnerStopped
from league.rollout.requests import Fragment, PlayRequest
from league.rollout.runner_group import Loss, Rollout, RunnerGroup
from league.rules.building.builder import DEFAULT, Clock
from league.rules.earnings import earned
from league.training.deeds import CORRECT, Deeds, no_progress
from league.training.losses import aside
from league.training.losses.again import Again, Part
from league.training.losses.crashes import Crashes
from league.training.losses.incident_log import IncidentLog
from league.training.measuring import Measuring
from league.training.placing.placing import Placing
from league.training.remote import Upload
from league.training.state.folding import folded, recall
from league.training.state.members import Member, Ticket
from league.training.state.pace import Pace
from league.training.state.played import Played
from league.training.state.state import State
from league.training.state.under_way import UnderWay
from league.yardsticks.opened import Opened
from storage.archive import Archive
from storage.disk import Progress
from storage.ends import End
from storage.errors import Failure
from storage.incidents import Incident
from storage.ledger.together import together
from storage.records import Bot, LivePlayer, MatchBatch, Purpose, ResultBatch, Snapshot

NO_YARDSTICKS = Opened()
FEWEST_STEPS = 100_000  # of a request whose matches do not end, before it is left
LONG_SECONDS = 1.0  # a request in this process that takes longer is shown meanwhile
TO_THE_END = 2**31 - 1  # steps of a fragment in which every match ends
WAIT_SECONDS = 0.1  # at most this long without a look at the clock, the screen and Ctrl-C


class Session:
    """The turns of the loop: measure, ask, evaluate, take, learn, decide, save."""

    def __init__(
        self,
        settings: Settings,
        archive: Archive,
        runners: RunnerGroup,
        learners: Learners,
        uploader: Upload | None = None,
        evaluators: RunnerGroup | None = None,
        yardsticks: Opened = NO_YARDSTICKS,
        elastic: Elastic | None = None,
    ) -> None:
        """Join the parts of a run. Matches of `evaluators` are recorded but not learned from.

        Snapshots of mains are measured on `yardsticks`. On a cluster, runners and learners follow its nodes
        by `elastic`.
        """
        self.settings = settings
        self.archive = archive
        self.uploader = uploader
        self.runners = runners
        self.evaluators = evaluators
        self.learners = learners
        self.elastic = elastic
        roles = self._roles = settings.league.resolve()
        teams = settings.matchmaking.team_of_seat(settings.game.num_seats)
        self.state = State(roles, settings.ratings, settings.league.decay, teams, settings.payoff_scale)
        self.roster, self.standings = self.state.roster, self.state.standings
        self.members, self.totals = self.state.members, self.state.totals
        self.played = Played(self.roster)
        self._deeds = Deeds(settings, archive, learners, self.state, self.seconds)
        self.log, self.caches = self._deeds.log, self._deeds.caches
        self._sources = self._deeds.sources
        self.incidents = IncidentLog(archive)
        self.measuring = Measuring(settings, yardsticks, archive, self._sources, evaluators or runners)
        self._deeds.frozen, self.measuring.died = self.measuring.frozen, self.incidents.record
        self.placing = Placing(settings, archive, self._sources, self.state, evaluators or runners)
        self.placing.died = self.incidents.record
        self._openings = settings.opening.openings()
        self._envs = settings.following()
        self._matchmaker = settings.make_matchmaker(self._sources.allowed_seats)
        self._builder = settings.league.make_builder()
        self._tickets: dict[int, Ticket] = {}
        self._again = Again()
        self.crashes = Crashes(settings.env.id, settings.rollout.crash_share)
        self._fragments = settings.rollout.fragment_steps is not None
        self._under_way = UnderWay(self.members)
        self.pace = Pace(settings)
        self._depth = settings.rollout.requests_in_flight if settings.most_runners else 1
        self._next_match_id = archive.last_match_id() + 1
        self._next_request = self._next_match_id
        self._rng = np.random.default_rng([settings.seed, self._next_match_id])
        self._began = self._saved = time.monotonic()
        self.changed: list[str] = []  # settings that differ from those of the session before
        self._shown = 0.0

    # ------------------------------------------------------------------ begin and end

    def begin(self, progress: Progress = no_progress) -> None:
        """Fold the facts of the ledger, add the players and bots that are new, and fill the learners."""
        recall(self.state, self.archive)
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
        self._deeds.begin_learners(progress)
        self.measuring.begin()
        self._began = self._saved = self.log.since = time.monotonic()

    def end(self) -> None:
        """Freeze the mains as they are now, save everything and place them; matches under way are dropped."""
        self._deeds.end()
        self.measuring.end()
        self.placing.end(self.seconds())
        self._note_deaths()
        if self.archive.wants_last_fold:  # so that the next session begins at once
            self.archive.note_fold(*folded(self.state))

    def finished(self) -> bool:
        """Return whether the run has reached its `stop`."""
        return self.progress() >= 1.0

    def overdue(self, steps: int, show: Callable[[Session], None]) -> bool:
        """Return whether the run is over, while a request is played in this process: `steps` of it so far.

        Meanwhile `show` the session now and then. A request is not left because it brings more env steps than
        are wanted, unless its matches do not end.
        """
        now = time.monotonic()
        if steps == 1:
            self._shown = now
        elif now - self._shown > LONG_SECONDS:
            self._shown = now
            show(self)
        stop = self.settings.stop
        if stop.env_steps is not None and steps > max(stop.env_steps, FEWEST_STEPS):
            return True
        return stop.minutes is not None and self.seconds() >= 60.0 * stop.minutes

    def how_it_ends(self, error: BaseException | None = None) -> End:
        """Return how this session ends, now: after its last turn, or with an error."""
        stop = self.settings.stop
        failed = error is not None and not isinstance(error, KeyboardInterrupt)
        state: Literal["trained", "stopped", "failed"] = "failed" if failed else "stopped"
        reason = "" if error is None else " ".join(str(error).split()) or type(error).__name__
        return End(
            state="trained" if error is None and self.finished() else state,
            reason=reason,
            seconds=self.seconds(),
            of_seconds=None if stop.minutes is None else 60.0 * stop.minutes,
            env_steps=self.totals.played_steps,
            of_env_steps=stop.env_steps,
            ended_at=time.time(),
        )

    def progress(self) -> float:
        """Return the share of the run that is done: 0 at its beginning, 1 at its end; 0 without a `stop`."""
        stop = self.settings.stop
        by_time = 0.0 if stop.minutes is None else self.seconds() / (60.0 * stop.minutes)
        by_steps = 0.0 if stop.env_steps is None else self.totals.played_steps / stop.env_steps
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
        With fragments the runner's other matches go on too, so the learners of all of them must have room.
        Players whose learner died and is not back yet hold up no other.
        """
        with self._kept():
            self._ask_again(self.runners, evaluated=False)
            self._ask()

    def _ask_again(self, runners: RunnerGroup, *, evaluated: bool) -> None:
        """Submit matches that were lost with a runner while others have room, unless a player has left."""
        while runners.room() > 0 and (part := self._again.next(evaluated=evaluated)) is not None:
            seated = [self.roster[competitor] for competitor in part.matches.competitors]
            if all(not isinstance(c, LivePlayer) or c.player in self.members for c in seated):
                self._submit_one(part.matches, part.env_options, runners, None, part)
            else:
                self.totals.dropped_matches += len(part.matches)

    def _ask(self) -> None:
        self.pace.follow({name: (own.player.role, own.share) for name, own in self.members.items()})
        away, room = self.learners.away(), self.runners.room(self.pace.each_runner())
        while room > 0:
            before = self._next_request
            learning = self._asked_for(away)
            behind = min(learning, key=lambda member: member.matches_asked / member.share)
            if self._fragments:
                runner = self.runners.next_runner()
                wait_for = {*self._under_way.players(runner, learning=True)}.difference(away)
                wait_for = (wait_for & self.members.keys()) | {behind.player.player}
                if any(self.learners.full(name) for name in wait_for):
                    return
                self._request(behind, runner)
            elif self.learners.full(behind.player.player) or self.pace.enough(
                behind.player.player, self.runners.in_flight()
            ):
                return
            else:
                self._request(behind)
            room -= self._next_request - before

    def _asked_for(self, away: Sequence[str]) -> list[Member]:
        """Return the players that matches are asked for; those `away` only if all that learn are.

        A player that is away keeps level with the others, so that these need not wait for it once it is back.
        """
        learning = [member for member in self.members.values() if not member.stopped]
        here = [member for member in learning if member.player.player not in away]
        if not here or not away:
            return learning
        level = min(member.matches_asked / member.share for member in here)
        for member in learning:
            if member.player.player in away:
                member.matches_asked = max(member.matches_asked, level * member.share)
        return here

    def evaluate(self) -> None:
        """Submit evaluation matches while evaluation runners have room, for each player in turn."""
        with self._kept():
            self._evaluate()

    def _evaluate(self) -> None:
        if self.evaluators is not None:
            self._ask_again(self.evaluators, evaluated=True)
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
        """Submit games of snapshots against fixed yardsticks, if there are any, and of the round robin."""
        self.measuring.ask()
        self.placing.ask()

    def _request(self, member: Member, runner: int | None = None) -> None:
        """Request matches for a player; of a `runner` that plays fragments, as many as it has room for."""
        count = self.pace.matches(member.player.player)
        if runner is not None:
            slots = self.settings.rollout_of_runners.slots
            count = self._under_way.wanted(runner, slots, count, self._depth, len(self.members))
        if count:
            matches = self._matchmaker.next_matches(
                member.player, count, self.roster, self.standings, self._rng, self._next_match_id
            )
        else:
            matches = self._under_way.none_new(runner or 0)
        self.pace.asked(len(matches.competitors))
        self._submit(matches, self.runners, runner)
        since_reset = member.env_steps - member.reset_at
        rule = self._roles.of(member.player).earns
        # a match is dearer for a player that has earned only a part of its share
        member.matches_asked += count / earned(member.player, rule, self.roster, self.standings, since_reset)

    def _submit(self, matches: MatchBatch, runners: RunnerGroup, runner: int | None = None) -> None:
        """Submit matches, in a request for each game where the env of a seat follows its competitor.

        With a `runner` that plays fragments, its unfinished matches go on; then all play one game.
        """
        for part, env_options in self._envs.split(matches, self._brings):
            self._submit_one(part, env_options, runners, runner)

    def _brings(self, competitor: str) -> str | None:
        """Return the role of a competitor, whose env it may bring; `None` for a bot."""
        found = self.roster[competitor]
        return found.role if isinstance(found, LivePlayer | Snapshot) else None

    def _submit_one(
        self,
        matches: MatchBatch,
        env_options: Mapping[str, Any] | None,
        runners: RunnerGroup,
        runner: int | None,
        again: Part | None = None,
        steps: int | None = None,
    ) -> None:
        seated = [self.roster[competitor] for competitor in matches.competitors]
        learning = {matches.competitors[i] for i in np.unique(matches.seat[matches.learning]).tolist()}
        own = [c.player for c in seated if isinstance(c, LivePlayer)]
        others: list[str] = []
        fragment = None
        if runner is not None:
            goes_on = self._under_way.going_on(runner)
            others = [name for name in self._under_way.players(runner) if name not in own]
            learning |= set(self._under_way.players(runner, learning=True))
        live = {name: self.learners.live(name) for name in [*own, *others]}
        if runner is not None:
            sources = [self._sources.live(self.members[name].player, live[name].version) for name in others]
            rollout = self.settings.rollout
            assert rollout.fragment_steps is not None
            steps = steps or rollout.fragment_steps
            fragment = Fragment(steps, goes_on, tuple(sources), rollout.fragment_weights)
            self._under_way.add(runner, self._next_request, matches, own)
        versions = [live[c.player].version if isinstance(c, LivePlayer) else 0 for c in seated]
        request = PlayRequest(
            matches=matches,
            sources=tuple(self._sources.of(*each) for each in zip(seated, versions, strict=True)),
            learners=tuple(name for name in live if name in learning and not self.members[name].stopped),
            seed=int(self._rng.integers(2**63)),
            openings=self._openings if matches.purpose is Purpose.TRAINING else None,
            env_options=env_options,
            fragment=fragment,
        )
        runners.submit(self._next_request, request, {n: w.handle for n, w in live.items()}, runner)
        generations = {name: self.members[name].generation for name in live}
        part = again or Part(matches, env_options, evaluated=runners is self.evaluators)
        used = {name: w.version for name, w in live.items()}
        self._tickets[self._next_request] = Ticket(len(matches), generations, runner, part, used)
        if again is None:
            self._next_match_id += len(matches)
        self._next_request += 1

    def take(self) -> None:
        """Record what was played, and submit the experience to its learners; follow the cluster's nodes."""
        rollouts = self.runners.ready(WAIT_SECONDS)
        if self.evaluators is not None:
            rollouts += self.evaluators.ready(0.0)
        if rollouts:
            self._again.played()
        used: list[tuple[Rollout, Ticket, int]] = []
        batches: list[ResultBatch] = []
        for rollout in self.placing.take(self.measuring.take(rollouts)):
            ticket = self._tickets.pop(rollout.request_id)
            if ticket.runner is not None:
                over = self._over(rollout, ticket.runner)
            elif all(self._has_not_changed(*of_player) for of_player in ticket.generations.items()):
                over = [rollout.results]
            else:
                self.totals.dropped_matches += len(rollout.results)
                continue
            batches += over
            used.append((rollout, ticket, sum(map(len, over))))
        self._record(batches)
        for each in used:
            self._use(*each)
        for loss in self.runners.losses() + ([] if self.evaluators is None else self.evaluators.losses()):
            self._lose(loss)
        self._count_under_way()
        self._follow()

    def _over(self, rollout: Rollout, runner: int) -> list[ResultBatch]:
        """Return the results of the matches that ended in a fragment, but for those whose players changed."""
        info = rollout.info
        return self._under_way.settle(
            runner, rollout.request_id, rollout.results, info.unfinished, info.unfinished_steps
        )

    def _has_not_changed(self, player: str, generation: int) -> bool:
        """Return whether the player still trains, and has not been reset since that generation."""
        return player in self.members and self.members[player].generation == generation

    def _record(self, batches: Sequence[ResultBatch]) -> None:
        """Fold results in, in order, and store them with the ratings after them, synced together."""
        if batches:
            joined = together(batches)
            self.archive.append_all_results([(each, self.state.apply(each)) for each in joined])
            for each in joined:
                self.played.count(each)

    def _use(self, rollout: Rollout, ticket: Ticket, num_matches: int) -> None:
        """Note what a recorded rollout reports, and submit its experience to the learners."""
        info = rollout.info
        self._note_crashes(num_matches, info.crashes)
        if ticket.runner is None:
            self.pace.played(num_matches, info)
        self.caches.add(info.process, info.tiers)
        trained = sum(info.trained_steps.values())
        for player, steps in info.trained_steps.items():
            if steps and self._has_not_changed(player, ticket.generations[player]):
                self.log.spend(player, playing=info.seconds * steps / trained)
                self._learn_from(player, rollout, ticket, steps)

    def _follow(self) -> None:
        """Follow the nodes of the cluster: those that have joined, those that are gone or about to leave.

        A runner that is to end first plays its unfinished matches to their end.
        """
        if self.elastic is None:
            return
        for line in self.elastic.follow():
            self.incidents.say(line)
        for runner in self.runners.parting():
            if len(self._under_way.going_on(runner)):
                self._submit_one(
                    self._under_way.none_new(runner), None, self.runners, runner, steps=TO_THE_END
                )
            else:
                self.runners.part(runner)
        if self.evaluators is not None:
            for runner in self.evaluators.parting():
                self.evaluators.part(runner)

    def _note_crashes(self, num_matches: int, causes: Mapping[str, int]) -> None:
        """Record new causes of crashes. Raise GameBroken, with everything saved, if there are too many."""
        for incident in self.crashes.note(num_matches, causes):
            self.incidents.record(incident)
        if causes and self.crashes.too_many:
            self._deeds.save_learners()
            raise GameBroken(f"{self.crashes.too_many}. The run is kept: {CORRECT.replace('code', 'game')}")

    def _learn_from(self, player: str, rollout: Rollout, ticket: Ticket, steps: int) -> None:
        """Submit experience to its learner, unless it was played by weights that died with one.

        While a learner is away, what its queue has no room for is dropped: others play on.
        """
        stale = ticket.versions[player] < self.members[player].since_version
        if stale or (player in self.learners.away() and self.learners.full(player)):
            self.learners.lost(player, steps)
        else:
            self.learners.submit(player, rollout.episodes[player], self._progress(player), steps)

    def _lose(self, loss: Loss) -> None:
        """Record a death and its cost; have its matches played again, or set them aside.

        Raise Failure, with everything saved, if nothing can be played.
        """
        cost = 0
        set_aside: list[Part] = []
        for request_id in self.placing.lost(self.measuring.lost(loss.requests)):
            ticket = self._tickets.pop(request_id)
            blamed = request_id == loss.suspect
            if ticket.runner is not None:
                before = self._under_way.dropped
                self._under_way.lost(ticket.runner, request_id)
                cost += self._under_way.dropped - before
                if blamed:
                    self._again.lost_in_fragments()
            elif ticket.part is not None:
                cost += ticket.matches
                if not self._again.lost(ticket.part, blamed=blamed):
                    set_aside.append(replace(ticket.part, deaths=ticket.part.deaths + 1))
        self.incidents.record(replace(loss.incident, matches=cost))
        for part in set_aside:
            self._set_aside(part, loss.incident.cause)
        if self._again.hopeless:
            self._deeds.save_learners()
            raise Failure(
                f"nothing can be played: runners have died at everything that was asked of them lately, the "
                f"last one: {loss.incident.cause}. Everything that was recorded is kept (league sql "
                f"{self.archive.run} 'FROM incidents'): correct the cause and go on with --resume"
            )

    def _set_aside(self, part: Part, cause: str) -> None:
        """Record matches at which several runners died as crashes, and keep them in the run folder."""
        kept = aside.save(self.archive, part, cause)
        self._record([aside.crashed(part.matches)])
        incident = Incident(
            kind="set_aside",
            who=f"{len(part.matches)} matches of {', '.join(part.matches.competitors[:4])}",
            cause=f"{part.deaths} runners died while they played them: {cause}",
            matches=len(part.matches),
            remedy="they are recorded as crashes",
            kept=str(kept.relative_to(self.archive.run)),
            happened_at=time.time(),
        )
        self.incidents.record(incident)

    def _count_under_way(self) -> None:
        self.totals.unfinished_steps = self._under_way.steps
        self.totals.dropped_matches += self._under_way.dropped
        self._under_way.dropped = 0

    def learn(self) -> None:
        """Note the learners' reports; wait for them only when nothing is being played."""
        reports = self.learners.ready(0.0 if self.runners.in_flight() else WAIT_SECONDS)
        for report in reports:
            if isinstance(report, LearnerStopped):
                continue
            member = self.members[report.player]
            member.updates, member.env_steps = report.updates, report.env_steps
            self.log.spend(report.player, **report.spent._asdict())
            if report.metrics is not None:
                self.log.add(report)
                self.pace.learned(report.player, report.metrics["lag"])
        self._note_deaths()  # after the reports that came before them
        for report in reports:
            if isinstance(report, LearnerStopped):
                self._deeds.stop(report)
        if time.monotonic() - self.log.since > self.settings.log.seconds:
            self._deeds.report_updates()

    def _note_deaths(self) -> None:
        """Record deaths of learners, and where their players are now: back at a copy of their state."""
        for loss in self.learners.losses():
            for name, back in loss.back.items():
                self._deeds.report_updates()  # one row never mixes what was learned before and after
                self.log.forget(name)
                if name in self.members:
                    member = self.members[name]
                    member.updates, member.env_steps = back.updates, back.env_steps
                    member.since_version = back.updates
            self.incidents.record(loss.incident)

    def decide(self) -> None:
        """Carry out what the league builder decides. Raise Mistake for what no builder may decide.

        Nothing is decided while learners wait for a place on another node: their answer would be waited for.
        """
        if self.elastic is not None and self.elastic.waiting:
            return
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
        """Save all learners when it is time: each when its state has come, so that play waits for none.

        Raise RunTaken if this process was cut off and another one went on with the run, RemoteTaken if
        another process writes the remote.
        """
        self.archive.require_own()
        if self.archive.wants_fold:
            self.archive.note_fold(*folded(self.state))
        if time.monotonic() - self._saved > self.settings.storage.save_seconds:
            self._deeds.ask_states()
            self._saved = time.monotonic()
        self._deeds.save_arrived()
        if self.uploader is not None:
            self.uploader.check()
