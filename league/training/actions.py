"""Actions of a run in training: carry out decisions, keep the learners' states, record their reports.

Each deed is stored in the archive first and applied to the league after that, so a run that is
killed between the two makes up for it when it resumes.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import NoReturn

from league.config.settings import Settings
from league.import_paths import OwnCodeFailed
from league.learning.groups.learners import Learners
from league.learning.groups.shard_learners import LearnerStopped
from league.learning.learner.learner import LearnerState
from league.learning.settings import LearnerSettings, SnapshotMagnet
from league.rules.building.builder import as_recorded
from league.rules.building.resets import OF_LEARNER
from league.training.sources import Sources, load_initial, recruit_of
from league.training.state.reports import CacheLog, UpdateLog
from league.training.state.state import LeagueState, TrainingPlayer, player_seed
from storage.archive import Archive
from storage.disk import Progress
from storage.errors import Failure
from storage.records import MAIN, Add, Decision, Freeze, LivePlayer, Remove, Reset, Retire, Snapshot, Stop
from storage.snapshots.blobs import map_tensors
from storage.suggestions import did_you_mean

CORRECT = "correct the code and go on with --resume"


def no_progress(what: str, done: int, total: int) -> None:
    """Show no progress of a long operation."""


class Actions:
    """Freeze, reset, add, remove, retire and stop players; save what they have learned."""

    def __init__(
        self,
        settings: Settings,
        archive: Archive,
        learners: Learners,
        state: LeagueState,
        seconds: Callable[[], float],
    ) -> None:
        """`seconds` returns the seconds of training so far, resumed ones included."""
        self.frozen: Callable[[Snapshot], None] = lambda snapshot: None  # called with each stored snapshot
        self.sources = Sources(settings, archive)
        self.log = UpdateLog()
        self.caches = CacheLog()
        self.not_restored: list[str] = []  # of what learners had before, a line for each
        self.waiting: deque[Decision] = deque()  # decisions to carry out when a learner's state has come
        self._settings = settings
        self._archive = archive
        self._learners = learners
        self._state = state
        self._seconds = seconds
        self._numbers: dict[str, dict[str, float]] = {}  # by player, as the config has them
        self._freeze_seconds = 0.0  # that the newest snapshot took, with its learner's state

    def carry_out(self, decisions: Sequence[Decision]) -> None:
        """Carry out what a league builder has decided, in this order.

        Raise OwnCodeFailed, before anything is carried out, if there is something that no builder may decide;
        the learners' states are saved then.
        """
        if not isinstance(decisions, Sequence) or isinstance(decisions, str):
            self._refuse(f"{decisions!r:.80}", "a list of decisions")
        for decision in decisions:
            self._require_allowed(decision)
        self.waiting += decisions
        self.go_on()

    def go_on(self, *, wait: bool = False) -> None:
        """Carry out the decisions that wait, in order, until one needs a state that has not come yet.

        `wait`: for such a state, and carry out all.
        """
        state_of = self._learners.state if wait else self._learners.state_soon
        while self.waiting:
            decision, state = self.waiting[0], None
            if isinstance(decision, Freeze) and decision.player not in self._state.members:
                self.waiting.popleft()  # its player was removed meanwhile
                continue
            if isinstance(decision, Freeze):
                state = state_of(decision.player)
                self._state.members[decision.player].resets = state is None and decision.reset is not None
                if state is None:
                    return
            self.waiting.popleft()
            match decision:
                case Freeze():
                    self.freeze(decision, state)
                case Add():
                    self._add(decision)
                case Remove():
                    self._remove(decision)
                case Retire():
                    self._archive.append_decisions([decision])
                    self._state.apply(decision)

    def _require_allowed(self, decision: object) -> None:
        reset = decision.reset if isinstance(decision, Freeze) else None
        if reset is not None and isinstance(decision, Freeze) and reset.player != decision.player:
            found = f"a Freeze of player '{decision.player}' with a Reset of player '{reset.player}'"
        elif isinstance(decision, Freeze | Add | Remove | Retire):
            self._require_known(decision)
            return
        elif isinstance(decision, Decision):
            kind, player, reason = type(decision).__name__, decision.player, decision.reason
            found = f"a {kind} of player '{player}' ({reason})"
        else:
            found = repr(decision)
        self._refuse(
            found,
            "Freeze, Add, Remove or Retire; a Reset belongs to the Freeze of the same player: "
            "Freeze(..., reset=Reset(...))",
        )

    def _require_known(self, decision: Freeze | Add | Remove | Retire) -> None:
        """Raise OwnCodeFailed for a decision on what the league does not have."""
        league, kind, name = self._state, type(decision).__name__, decision.player
        rules = self._settings.league.resolve()
        if isinstance(decision, Add):
            if decision.role not in rules:
                self._refuse(
                    f"an Add of player '{name}' with role '{decision.role}', which the league does not have",
                    f"one of {', '.join(rules)}; add '{decision.role}: 0' to league.players, and describe it "
                    f"as league.roles.{decision.role} unless the preset has it",
                )
            if name in league.roster:
                self._refuse(f"an Add of player '{name}', which is in the league", "a new name")
        elif isinstance(decision, Retire):
            seated = [league.roster.id(index) for index in league.roster.snapshots().tolist()]
            if decision.target not in seated:
                self._refuse(f"a Retire of '{decision.target}'", "a snapshot that has not left the league")
        elif name not in league.members:
            self._refuse(
                f"a {kind} of player '{name}'",
                f"a player of the league; {did_you_mean(name, league.members)}",
            )
        reset = decision.reset if isinstance(decision, Freeze) else None
        if reset is not None and reset.target not in league.roster:
            self._refuse(f"a Reset of player '{name}' to '{reset.target}'", "a snapshot of the league")

    def _refuse(self, found: str, expected: str) -> NoReturn:
        """Raise OwnCodeFailed."""
        kind = self._settings.league.builder.kind
        raise OwnCodeFailed(f"league.builder {kind}: decided {found}, expected {expected}")

    # ------------------------------------------------------------------ players come, go and stop

    def begin_learners(self, progress: Progress = no_progress) -> None:
        """Give every player of the league a learner in the state in which it was saved, if it was."""
        players, totals = self._state.members, self._state.totals
        totals.seconds = max((branch.seconds for branch in self._archive.branches()), default=0.0)
        for name in self._learners.players():
            if name not in players:
                self._learners.remove(name)
        for number, (name, member) in enumerate(players.items(), 1):
            if name not in self._learners.players():
                self._add_learner(member.player)
            self._restore(member)
            progress("players that are prepared", number, len(players))
        self._freeze_initial([member for member in players.values() if not member.initial], progress)

    def stop(self, report: LearnerStopped) -> None:
        """Keep the batch that was refused and go on without the player.

        Raise Failure, with everything saved, if no other player learns.
        """
        message = report.message
        if report.tensors:
            path = self._archive.save_refused(report.player, report.update, report.tensors)
            message += f"; the batch is kept in {path}"
        stop = Stop(player=report.player, reason=message, evidence={"update": report.update})
        self._archive.append_decisions([stop])
        self._state.members[report.player].stopped = message
        self._require_learning(message)

    def _add(self, decision: Add) -> None:
        """Add a new player, with first weights of its own, while the others go on."""
        player = LivePlayer(decision.player, decision.role)
        self._archive.add_player(player, [decision])
        self._state.apply(player)
        self._add_learner(player)
        self._freeze_initial([self._state.members[player.player]])

    def _remove(self, decision: Remove) -> None:
        self._archive.append_decisions([decision])
        self._state.apply(decision)
        self._learners.remove(decision.player)
        self.log.forget(decision.player)
        self._require_learning(decision.reason)

    def _add_learner(self, player: LivePlayer) -> None:
        seed = player_seed(self._settings.seed, self._state.roster.index(player.player))
        settings = self._learner_settings(self._state.members[player.player])
        self._learners.add(recruit_of(player.player, self.sources.spec_of(player), settings, seed))

    def _restore(self, member: TrainingPlayer) -> None:
        """Load the saved state into the member's learner; carry out a reset that a kill cut short."""
        name = member.player.player
        saved = self._archive.load_learner(name)
        if member.changed:
            weights = self._learners.state(name).weights
            self._learners.reset(name, weights, self._learner_settings(member))
        if saved is None:
            self._go_on_from_snapshot(member)
            return
        self._archive.keep_learner(name, self._settings.storage.kept_states)
        tensors, meta = saved
        left_out = meta.get("left_out")
        if left_out is None and self._learner_settings(member).replay.proportion:
            left_out = "without replay, as an older version saved it"
        if left_out:
            self.not_restored.append(f"{name}: goes on from its saved state {left_out}")
        state = LearnerState.from_tensors(tensors, int(meta["updates"]), int(meta["env_steps"]))
        if meta.get("teacher", "") != self._teacher_of(member):  # the settings have named another since
            state = replace(state, teacher={})
        self._learners.load_state(name, state)
        member.updates, member.env_steps = state.updates, state.env_steps
        member.reset_at = int(meta["reset_at"])
        totals = self._state.totals
        totals.seconds = max(totals.seconds, float(meta["seconds"]))
        if member.generation > int(meta["generation"]) and member.parent is not None:
            self._give_weights(member, member.parent)

    def _go_on_from_snapshot(self, member: TrainingPlayer) -> None:
        """Give a learner of which no state is left the weights of the snapshot that its last ones came from.

        It counts on from the player's newest snapshot, with a fresh optimizer. A newcomer has none.
        """
        name = member.player.player
        own = [s for s in self._archive.snapshots() if s.player == name and s.env_steps == member.frozen_at]
        if not own or member.parent is None:
            return
        self.not_restored.append(
            f"{name}: goes on from the weights of {member.parent} with a fresh optimizer and no experience, "
            "as no state of its learner is left"
        )
        weights = self._state.roster[member.parent]
        assert isinstance(weights, Snapshot)
        self._learners.reset(name, map_tensors(self._archive.blob_path(weights), verify=True))
        state = self._learners.state(name)
        newest = own[-1]
        state = replace(state, updates=newest.updates, env_steps=newest.env_steps)
        self._learners.load_state(name, state)
        member.updates, member.env_steps = state.updates, state.env_steps

    def _learner_settings(self, member: TrainingPlayer) -> LearnerSettings:
        """Return the settings of the member's learner, with what resets have changed."""
        settings = self._settings.learner_of(member.player.player, member.player.role)
        changed = {key.removeprefix(OF_LEARNER): value for key, value in member.changed.items()}
        return settings.with_numbers(changed) if changed else settings

    def numbers(self, member: TrainingPlayer) -> dict[str, float]:
        """Return the present settings of a member that a reset may perturb, by their keys."""
        name = member.player.player
        if name not in self._numbers:
            own = self._settings.learner_of(name, member.player.role).numbers()
            perturbed = self._settings.league.resolve().of(member.player).reset.perturb
            self._numbers[name] = {key: own[key.removeprefix(OF_LEARNER)] for key in perturbed}
        return self._numbers[name] | member.changed

    def _teacher_of(self, member: TrainingPlayer) -> str:
        """Return the source of the member's magnet of kind `snapshot`; "" if it has none."""
        magnet = self._learner_settings(member).magnet
        return magnet.source if isinstance(magnet, SnapshotMagnet) else ""

    def _require_learning(self, reason: str) -> None:
        """Raise Failure, with everything saved, if no player is left that learns."""
        if all(member.stopped for member in self._state.members.values()):
            self.end()
            raise Failure(f"no player is left that learns. {reason}")

    # ------------------------------------------------------------------ snapshots

    def freeze(self, freeze: Freeze, state: LearnerState | None = None) -> None:
        """Store the player's weights as a snapshot and seat it; then carry out the Freeze's reset, if any.

        `state`: that of its learner, if it is known; else it is waited for.
        The learner's state is saved first: after a kill in between, training goes on from this
        very step, and no step is ever frozen twice. Freeze and Reset are one frame of the ledger:
        after a kill between the two deeds, `begin_learners` makes up for the second.
        """
        began = time.monotonic()
        member = self._state.members[freeze.player]
        learner = self._save_learner(member, state)
        self._archive.keep_learner(freeze.player, self._settings.storage.kept_states)
        if member.initial and learner.env_steps == member.frozen_at:
            return  # nothing was learned since the last snapshot
        spec = self.sources.spec_of(member.player)
        decisions = as_recorded([freeze])
        snapshot = self._archive.add_snapshot(
            player=freeze.player,
            role=member.player.role,
            env_steps=learner.env_steps,
            updates=learner.updates,
            parent_id=member.parent,
            tensors=learner.to_freeze(self._learner_settings(member).freeze),
            spec=spec.to_json(),
            architecture=spec.architecture,
            reason=freeze.reason,
            decisions=decisions,
        )
        self._state.apply(snapshot)
        self._archive.append_ratings([self._state.standings.rating(snapshot.snapshot_id)])
        for decision in decisions:
            self._state.apply(decision)
            if isinstance(decision, Reset):
                self._give_weights(member, decision.target)
        self.frozen(snapshot)
        self._freeze_seconds = time.monotonic() - began

    def _freeze_initial(self, newcomers: Iterable[TrainingPlayer], progress: Progress = no_progress) -> None:
        """Freeze the first snapshot of each newcomer: weights of `init_from`, or those its learner drew."""
        wanted = {member.player.player for member in newcomers}
        entries = [entry for entry in self._settings.init_from if entry.player in wanted]
        specs = {name: self.sources.spec_of(self._state.members[name].player) for name in wanted}
        given = load_initial(entries, specs)
        for number, name in enumerate(sorted(wanted, key=self._state.roster.index), 1):
            reason = "initial weights"
            if name in given:
                self._learners.reset(name, given[name].tensors)
                reason += f", from {given[name].origin}"
            self.freeze(Freeze(player=name, reason=reason))
            progress("first snapshots", number, len(wanted))

    def _give_weights(self, member: TrainingPlayer, target: str) -> None:
        """Replace the weights of the member's learner by those of the snapshot `target`."""
        snapshot = self._state.roster[target]
        if not isinstance(snapshot, Snapshot):
            raise TypeError(f"reset of {member.player.player}: '{target}' is no snapshot")
        tensors = map_tensors(self._archive.blob_path(snapshot), verify=True)
        settings = self._learner_settings(member) if member.changed else None
        self._learners.reset(member.player.player, tensors, settings)
        self.report_updates()  # one row never mixes what was learned before and after
        self.log.forget(member.player.player)
        member.reset_at, member.stopped = member.env_steps, ""  # other weights, another chance
        self._learners.ask_states([member.player.player])

    # ------------------------------------------------------------------ what is kept

    def last_seconds(self) -> float:
        """Return the seconds that `end` takes, by the newest snapshot."""
        return self._freeze_seconds * len(self._state.members)

    def end(self) -> None:
        """Carry out what waits, freeze the mains as they are now and save everything."""
        self.go_on(wait=True)
        for member in self._state.members.values():
            if member.player.role == MAIN:
                self.freeze(Freeze(player=member.player.player, reason="end of training"))
            else:
                self._save_learner(member)

    def save_learners(self) -> None:
        """Save the states of all learners."""
        for member in self._state.members.values():
            self._save_learner(member)

    def save(self, states: Mapping[str, LearnerState]) -> None:
        """Save these states of learners, by player."""
        for name, state in states.items():
            member = self._state.members.get(name)
            if member is not None:
                if state.updates > member.updates:  # the reports of them are on the way
                    member.updates, member.env_steps = state.updates, state.env_steps
                self._save_state(member, state)

    def report_updates(self) -> None:
        """Record what learners and caches have reported since the last call."""
        self._archive.append_updates(self.log.rows(self._learners.queues()))
        self._archive.append_caches(self.caches.rows())

    def _save_learner(self, member: TrainingPlayer, state: LearnerState | None = None) -> LearnerState:
        name = member.player.player
        state = state or self._learners.state(name)
        member.updates, member.env_steps = state.updates, state.env_steps
        self._save_state(member, state)
        return state

    def _save_state(self, member: TrainingPlayer, state: LearnerState) -> None:
        meta = {
            "updates": state.updates,
            "env_steps": state.env_steps,
            "reset_at": member.reset_at,
            "generation": member.generation,
            "seconds": self._seconds(),
            "teacher": self._teacher_of(member),
            "left_out": state.left_out,
        }
        self._archive.save_learner(member.player.player, state.to_tensors(), meta)
