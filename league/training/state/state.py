"""State of a league: roster, standings, players and counters, all a fold of recorded facts.

While a run trains, each fact is applied as it happens. A resumed run applies all facts again in the
same order and reaches the same state.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from league.rules.building.resets import OF_LEARNER
from league.rules.rating.rating import RatingSettings
from league.rules.roles import RoleSettings
from league.rules.roster import Roster, rules_of
from league.rules.standings import Standings
from league.training.state.tally import MatchTally, Placed, is_round_robin
from storage.arrays import Indices
from storage.records import (
    Bot,
    Competitor,
    Decision,
    Freeze,
    LivePlayer,
    RatingChange,
    Remove,
    Reset,
    ResultBatch,
    Retire,
    Role,
    Snapshot,
)


@dataclass(slots=True)
class TrainingPlayer:
    """A player in training, with its counters."""

    player: LivePlayer
    share: float  # of all matches asked for, relative to the other players
    initial: str = ""  # its first snapshot
    parent: str | None = None  # the snapshot that its present weights come from
    generation: int = 0  # resets so far: matches begun before one are dropped
    # each counts for more than one while only a part of the share is earned; a newcomer starts with as many,
    # relative to its share, as the others
    matches_asked: float = 0
    matches_evaluated: int = 0  # by runners of evaluation, this session
    env_steps: int = 0
    updates: int = 0
    frozen_at: int = 0  # env_steps
    reset_at: int = 0  # env_steps
    # oldest version of its weights whose experience still counts; raised when its learner dies
    since_version: int = 0
    resets: bool = False  # once its state has come: what it learned until then would be forgotten
    changed: dict[str, float] = field(default_factory=dict)  # settings that resets have changed
    stopped: str = ""  # why it no longer learns, until it gets other weights


@dataclass(slots=True)
class RunTotals:
    """Counters of the whole run, resumed parts included, except where noted."""

    env_steps: int = 0  # of the matches that are over
    unfinished_steps: int = 0  # of matches under way that are played in fragments, as they arrive
    matches: int = 0
    dropped_matches: int = 0  # in this session: their player left or was reset, or they were in fragments
    seconds: float = 0.0  # of training, before this session

    @property
    def played_steps(self) -> int:
        """Steps of all matches, unfinished ones included."""
        return self.env_steps + self.unfinished_steps


def player_seed(run_seed: int, index: int) -> int:
    """Return the seed of the first weights of the player with that index in the roster."""
    return run_seed * 1_000_003 + index


NEWEST = 8  # snapshots and decisions that are kept as the newest


class LeagueState:
    """Fold of all facts of a run."""

    def __init__(
        self,
        roles: Mapping[Role, RoleSettings],
        ratings: RatingSettings,
        decay: float,
        teams: Indices | None = None,
        scale: float | None = None,
    ) -> None:
        """`teams` [num_seats]: the team of each seat; `None`: each seat is a team.

        `scale` is that of payoffs that count scores; `None`: payoffs count games won.
        """
        self._rules = rules_of(roles)
        self._settings = ratings
        self.roster = Roster()
        own_decay = {role: rules.decay for role, rules in roles.items() if rules.decay is not None}
        plateaus = (rules.freeze.plateau for rules in self._rules.places().values())
        form_games = max((plateau.games for plateau in plateaus if plateau is not None), default=0)
        self.standings = Standings(self.roster, ratings, decay, teams, own_decay, scale, form_games)
        self.members: dict[str, TrainingPlayer] = {}
        self.totals = RunTotals()
        self.match_mix: Counter[str] = Counter()
        self.tally = MatchTally()
        self.placed = Placed()
        self.newest: deque[Snapshot] = deque(maxlen=NEWEST)
        # decisions, newest first: (decision, reason)
        self.news: deque[tuple[str, str]] = deque(maxlen=NEWEST)

    def rules(self) -> dict[str, Any]:
        """Return the settings that results are folded by, as JSON."""
        payoff = self.standings.payoff
        own = {str(role): decay for role, decay in sorted(self.standings.decay_of_role.items())}
        found = {"decay": payoff.decay, "scale": self.standings.scale, "decay_of_role": own}
        ratings = self._settings.model_dump(mode="json")
        return {"ratings": ratings, "payoff": found, "form": {"games": self.standings.form.games}}

    def apply(self, event: Competitor | Decision | ResultBatch) -> list[RatingChange]:
        """Apply one fact and return the ratings that it changed.

        The snapshot of a Freeze and the player of an Add are facts of their own, which come before it.
        """
        if isinstance(event, Decision):
            about = self.newest[0].snapshot_id if isinstance(event, Freeze) else event.player
            target = f" to {event.target}" if isinstance(event, Reset) else ""
            self.news.appendleft((f"{event.kind} {about}{target}", event.reason))
        match event:
            case ResultBatch() if is_round_robin(event):
                self.placed.apply(event)
            case ResultBatch():
                changes = self.standings.record(event)
                self._count(event)
                return changes
            case LivePlayer():
                self._admit(event)
            case Snapshot():
                self._seat(event)
            case Bot():
                self.roster.admit(event)
                self.standings.on_admit(event)
            case Reset():
                member = self.members[event.player]
                member.generation += 1
                member.parent = event.target
                member.reset_at = member.frozen_at
                member.changed |= {k: v for k, v in event.evidence.items() if k.startswith(OF_LEARNER)}
                self.standings.on_reset(event.player, event.target)
            case Retire():
                self.roster.retire(event.target)
            case Remove():
                self.roster.remove(event.player)
                del self.members[event.player]
        return []

    def _admit(self, player: LivePlayer) -> None:
        self.roster.admit(player)
        self.standings.on_admit(player)
        share = self._rules.of(player).share
        level = min((m.matches_asked / m.share for m in self.members.values()), default=0.0)
        self.members[player.player] = TrainingPlayer(player, share=share, matches_asked=level * share)

    def _seat(self, snapshot: Snapshot) -> None:
        """Admit a snapshot. An imported one belongs to no member and is an opponent of unknown strength."""
        member = self.members.get(snapshot.player)
        self.roster.admit(snapshot)
        self.standings.on_admit(snapshot, parent=None if member is None else snapshot.player)
        if member is not None:
            member.initial = member.initial or snapshot.snapshot_id
            member.parent = snapshot.snapshot_id
            member.frozen_at = snapshot.env_steps
        self.newest.appendleft(snapshot)

    def _count(self, results: ResultBatch) -> None:
        self.totals.env_steps += int(results.env_steps.sum())
        self.totals.matches += len(results)
        types = np.bincount(results.matches.match_type, minlength=len(results.matches.match_types))
        mix = zip(results.matches.match_types, types.tolist(), strict=True)
        self.match_mix.update({match_type: count for match_type, count in mix if count})
        self.tally.count(results.matches)
