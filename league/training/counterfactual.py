"""Counterfactual: the matches and decisions that another preset would have made in a recorded run.

Nothing is played. The ledger is folded again, fact by fact. Wherever matches of a player were
recorded, the preset's matchmaker draws as many for it from the league of that moment, and its builder
decides. Standings are the run's own: a snapshot that only the preset would have frozen was never
played, so it is never drawn. Players whose role the preset does not have are left out with their
snapshots; a snapshot that the run retired stays seated until the preset retires it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import ValidationError

from league.config.file import Model, as_read_now
from league.envs import registry
from league.mistakes import explain
from league.rules.building.builder import Clock, LeagueBuilder, as_recorded
from league.rules.matchmaking.matchmaker import Matchmaker
from league.rules.matchmaking.seat_limits import NobodyFits
from league.rules.matchmaking.seating import MatchmakingSettings
from league.rules.presets import PRESETS, LeagueSettings
from league.rules.rating.rating import RatingSettings
from league.rules.roles import RoleSettings
from league.rules.roster import Roster
from league.training.state.state import LeagueState
from league.training.state.tally import MatchTally, is_round_robin, matches_of
from storage.archive import open_reader
from storage.errors import Mistake
from storage.layout import LEDGER
from storage.ledger.ledger import read_frames, summed_until
from storage.records import (
    IMPORTED,
    Bot,
    Competitor,
    Decision,
    Freeze,
    LivePlayer,
    Purpose,
    Remove,
    Reset,
    ResultBatch,
    Retire,
    Role,
    Snapshot,
)
from storage.suggestions import did_you_mean
from storage.tables import columns
from storage.tables.columns import competitors_of

_TABLES = ("runs", "players", "competitors", "snapshots", "decisions", "matches", "seats", "updates")


class DrawRow(NamedTuple):
    """Number and share of one player's matches of one match type.

    Shares are of all of its training matches; `preset` is `None` if the preset leaves the player out.
    """

    player: str
    role: str
    match_type: str
    matches: int
    recorded: float
    preset: float | None


class OpponentRow(NamedTuple):
    """Number and share of one player's opponent seats that one opponent filled (itself in self-play)."""

    player: str
    opponent: str
    seats: int
    recorded: float
    preset: float | None


class DecisionRow(NamedTuple):
    """One decision of the run (`recorded`) or of the preset."""

    source: str
    seconds: float  # since the run began, by the clock
    env_steps: int  # of the whole league, recorded so far
    kind: str
    player: str
    player_env_steps: int  # that the player had learned from by then
    snapshot_id: str | None  # frozen (as recorded), reset to, or retired
    reason: str
    evidence: Mapping[str, float]


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """Both leagues side by side, by player in order of admission; decisions in order of time."""

    recorded: str  # the run's own preset
    preset: str
    left_out: tuple[str, ...]  # players whose role the preset does not have
    draws: list[DrawRow]
    opponents: list[OpponentRow]
    decisions: list[DecisionRow]


def _section(model: type[Model], config: Mapping[str, Any], name: str, run: str | Path) -> Model:
    try:
        return model.model_validate(config[name])
    except ValidationError as error:
        raise Mistake(
            f"{run}/config.yaml: {explain(error, model, name)}; "
            "another version trained this run: replay it with that one"
        ) from None


def replay(
    run: str | Path, preset: str, *, freeze_every: int | None = None, every: int = 1
) -> Counterfactual:
    """Fold the ledger of `run`, and draw and decide by `preset` at every `every`-th batch of results.

    The sections `matchmaking` and `ratings` are the run's own; so is N, unless `freeze_every` is given.
    Raise NotARun, and Mistake for a preset that is unknown or cannot be played in the run's game.
    """
    if preset not in PRESETS:
        raise Mistake(f"rules: no preset is called '{preset}'; {did_you_mean(preset, PRESETS)}")
    config = as_read_now(open_reader(run).config(), f"{run}/config.yaml")
    if "league" not in config:
        raise Mistake(f"{run}: found a tournament, expected the run of a league: only there presets decide")
    config["league"].pop("builder", None)  # its decisions are recorded, so a user's code is not needed
    league = _section(LeagueSettings, config, "league", run)
    ratings = _section(RatingSettings, config, "ratings", run)
    matchmaking = _section(MatchmakingSettings, config, "matchmaking", run)
    env: Mapping[str, Any] = config["env"]
    game = registry.make(env["id"], 1, **env["options"])
    teams = matchmaking.team_of_seat(game.num_seats)
    scale = league.payoff.scale_for(game.score_bounds, game.score_unit)
    state = LeagueState(league.resolve(), ratings, league.decay, teams, scale)
    other = LeagueSettings(preset=preset, freeze_every=freeze_every or league.freeze_every)
    roles, seed = other.resolve(), config["seed"]
    try:
        matchmaker = Matchmaker(
            roles,
            matchmaking,
            num_seats=game.num_seats,
            env=env["id"],
            seed=seed,
            seats_of=league.seats_by_competitor(),
            waits=False,
        )
    except ValueError as error:
        raise Mistake(f"rules: this preset cannot be played here: {error}") from None
    fold = _Fold(state, roles, matchmaker, seed)
    batches = 0
    for fact, time in _facts(Path(run)):
        if isinstance(fact, ResultBatch) and not is_round_robin(fact):
            if batches % every == 0:
                fold.ask(fact, time)
            batches += 1
        fold.apply(fact, time)
    return Counterfactual(
        recorded=league.preset,
        preset=preset,
        left_out=tuple(fold.left_out),
        draws=[DrawRow(row[0], fold.roles[row[0]], *row[1:]) for row in fold.side_by_side("types")],
        opponents=[OpponentRow(*row) for row in fold.side_by_side("opponents")],
        decisions=fold.decisions,
    )


@dataclass(frozen=True, slots=True)
class _Learned:
    """Reported progress of a player's learner."""

    player: str
    env_steps: int
    updates: int


_Fact = Competitor | Decision | ResultBatch | _Learned


def _facts(run: Path) -> Iterator[tuple[_Fact, float]]:
    """Yield every fact of a run in the order of recording, each with its time.

    The time is in seconds since the first session began; that of results is the end of the last one.
    """
    if summed_until(run / LEDGER):
        raise Mistake(
            f"{run}: its old matches were summed up (storage.retention), expected a run with all of them: "
            "other rules are tried on its matches one by one"
        )
    began: float | None = None
    now = 0.0
    for frame in read_frames(run / LEDGER, tables=_TABLES):
        tables = frame.tables
        if "runs" in tables and began is None:
            began = float(tables["runs"]["started_at"][0].as_py())
        since = began or 0.0
        for competitor in competitors_of(tables):
            now = max(now, competitor.created_at - since) if isinstance(competitor, Snapshot) else now
            yield competitor, now
        if "decisions" in tables:
            times = tables["decisions"]["decided_at"].to_pylist()
            for (_, decision), time in zip(columns.decisions_of(tables["decisions"]), times, strict=True):
                now = max(now, time - since)
                yield decision, now
        if "matches" in tables:
            results = columns.results_of(tables)
            now = max(now, float((results.started_at + results.seconds).max()) - since)
            yield results, now
        if "updates" in tables:
            for row in tables["updates"].select(["player", "env_steps", "updates"]).to_pylist():
                yield _Learned(**row), now


class _Fold:
    """Fold of the run, and beside it the league as the preset would have it."""

    def __init__(
        self, state: LeagueState, roles: Mapping[Role, RoleSettings], matchmaker: Matchmaker, seed: int
    ) -> None:
        """`roles`, `matchmaker`: the preset's, which draw by `seed`."""
        self._state = state
        self._roles = roles
        self._roster = Roster()  # the preset's: the same indices, others seated
        self._builder = LeagueBuilder(roles)
        self._matchmaker = matchmaker
        self._rng = np.random.default_rng(seed)
        self._next_match_id = 0
        self._clocks = _Clocks()
        self._recorded, self._drawn = MatchTally(), MatchTally()
        self.roles: dict[str, Role] = {}  # by player
        self.left_out: list[str] = []
        self.decisions: list[DecisionRow] = []

    def apply(self, fact: _Fact, time: float) -> None:
        """Apply one fact of the run."""
        if isinstance(fact, _Learned):
            self._clocks.known(fact.player, fact.env_steps, fact.updates)
            return
        self._state.apply(fact)
        match fact:
            case LivePlayer() | Snapshot() | Bot():
                self._admit(fact)
            case ResultBatch() if not is_round_robin(fact):
                self._recorded.count(fact.matches)
                self._clocks.count(fact)
            case Remove() if not self._roster.is_retired(fact.player):
                self._roster.remove(fact.player)
        if isinstance(fact, Decision):
            self._note("recorded", fact, time)

    def _admit(self, competitor: Competitor) -> None:
        self._roster.admit(competitor)
        if isinstance(competitor, Snapshot):
            self._clocks.known(competitor.player, competitor.env_steps, competitor.updates)
            self._clocks.frozen_at.setdefault(competitor.player, competitor.env_steps)
            if competitor.role not in self._roles and competitor.role != IMPORTED:
                self._roster.retire(competitor.snapshot_id)
        elif isinstance(competitor, LivePlayer):
            self.roles[competitor.player] = competitor.role
            if competitor.role not in self._roles:
                self._roster.remove(competitor.player)
                self.left_out.append(competitor.player)

    def ask(self, results: ResultBatch, time: float) -> None:
        """Draw by the preset as many matches as `results` has, then let its builder decide."""
        standings = self._state.standings
        for name, count in matches_of(results.matches).items():
            player = self._roster[name]
            if isinstance(player, LivePlayer) and player in self._roster.players:
                try:
                    matches = self._matchmaker.next_matches(
                        player, count, self._roster, standings, self._rng, self._next_match_id
                    )
                except NobodyFits as error:
                    raise Mistake(f"rules: this preset cannot be played here: {error}") from None
                self._next_match_id += count
                self._drawn.count(matches)
        clocks = {player.player: self._clocks.of(player.player) for player in self._roster.players}
        decisions = self._builder.decide(self._roster, standings, clocks, self._rng)
        for decision in as_recorded(decisions):
            self._note("preset", decision, time)
            match decision:
                case Freeze():
                    self._clocks.frozen_at[decision.player] = clocks[decision.player].env_steps
                case Reset():
                    self._clocks.reset_at[decision.player] = clocks[decision.player].env_steps
                case Retire():
                    self._roster.retire(decision.target)

    def _note(self, source: str, decision: Decision, time: float) -> None:
        snapshot_id = decision.target if isinstance(decision, Reset | Retire) else None
        if isinstance(decision, Freeze) and source == "recorded":  # its snapshot was applied just before it
            snapshot_id = self._state.members[decision.player].parent
        self.decisions.append(
            DecisionRow(
                source=source,
                seconds=time,
                env_steps=self._state.totals.env_steps,
                kind=decision.kind,
                player=decision.player,
                player_env_steps=self._clocks.of(decision.player).env_steps,
                snapshot_id=snapshot_id,
                reason=decision.reason,
                evidence=dict(decision.evidence),
            )
        )

    def side_by_side(
        self, tally: Literal["types", "opponents"]
    ) -> list[tuple[str, str, int, float, float | None]]:
        """Return (player, key, recorded count, recorded share, the preset's share), most frequent first."""
        recorded, drawn = getattr(self._recorded, tally), getattr(self._drawn, tally)
        totals: list[Counter[str]] = [Counter(), Counter()]
        for total, counts in zip(totals, (recorded, drawn), strict=True):
            for (player, _), count in counts.items():
                total[player] += count
        rows = []
        for player, what in {**recorded, **drawn}:
            count = recorded[player, what]
            share = count / max(totals[0][player], 1)
            preset = drawn[player, what] / totals[1][player] if totals[1][player] else None
            rows.append((player, what, count, share, preset))
        return sorted(rows, key=lambda row: (self._roster.index(row[0]), -row[3], -(row[4] or 0.0), row[1]))


class _Clocks:
    """Progress of players: the last report, plus the decisions of their learning seats since then."""

    def __init__(self) -> None:
        self._steps: Counter[str] = Counter()
        self._updates: Counter[str] = Counter()
        self.frozen_at: dict[str, int] = {}
        self.reset_at: dict[str, int] = {}

    def known(self, player: str, env_steps: int, updates: int) -> None:
        """Set the progress of `player` to what was reported."""
        self._steps[player], self._updates[player] = env_steps, updates

    def count(self, results: ResultBatch) -> None:
        """Add the decisions of learning seats; all seats of a match count as deciding equally often."""
        if results.matches.purpose is not Purpose.TRAINING:
            return
        per_seat = results.env_steps[:, None] / results.matches.num_seats * results.matches.learning
        seats = results.matches.seat.ravel()
        for i, steps in enumerate(np.bincount(seats, weights=per_seat.ravel()).tolist()):
            if steps:
                self._steps[results.matches.competitors[i]] += round(steps)

    def of(self, player: str) -> Clock:
        """Return the clock of `player`."""
        steps = self._steps[player]
        return Clock(
            env_steps=steps,
            updates=self._updates[player],
            since_freeze=max(steps - self.frozen_at.get(player, 0), 0),
            since_reset=max(steps - self.reset_at.get(player, 0), 0),
        )
