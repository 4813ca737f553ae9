"""The shared nouns, frozen: what flows between the rooms and what is remembered.

Every competitor has one id, a string: a snapshot's id (`main-0@120000`), a player's name
(`main-0`) or a bot's name (`random`). Ids are never parsed: role and kind are fields.

Matches and results travel by the thousand, as arrays (`MatchBatch`, `ResultBatch`). `MatchBatch[i]` is one
match as a record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import IntEnum, StrEnum
from typing import ClassVar, NewType

import numpy as np
import numpy.typing as npt

Role = NewType("Role", str)
"""Name of a set of rules that players share: `main`, `main_exploiter`, or a user's own."""

MAIN = Role("main")
MAIN_EXPLOITER = Role("main_exploiter")
LEAGUE_EXPLOITER = Role("league_exploiter")
IMPORTED = Role("imported")  # of snapshots that came from another run or person

GIVEN = "given"
"""The `match_type` of games that were played elsewhere; matches with equal seeds are one unit of them."""


class Purpose(StrEnum):
    """The purpose of a match. Only training matches are learned from."""

    TRAINING = "training"
    EVALUATION = "evaluation"
    TOURNAMENT = "tournament"


class Outcome(IntEnum):
    """The result of a match for one seat. A forfeit counts as a loss."""

    WIN = 0
    DRAW = 1
    LOSS = 2
    FORFEIT = 3


class EndReason(IntEnum):
    """The reason for the end of a match."""

    FINISHED = 0
    ILLEGAL_ACTION = 1
    STEP_LIMIT = 2
    CRASH = 3  # of the game
    ERROR = 4  # of a competitor, which forfeits: an exception, or the end of its process
    TIME = 5  # a competitor did not answer in time, and forfeits


FORFEITS = (EndReason.ILLEGAL_ACTION, EndReason.ERROR, EndReason.TIME)
"""Ends of matches that a seat forfeited."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """An immutable policy at a step of its player's training."""

    snapshot_id: str
    player: str
    role: Role
    env_steps: int
    updates: int
    parent_id: str | None
    blob_hash: str
    bytes: int
    architecture: str
    created_at: float  # seconds since the epoch
    reason: str

    @property
    def competitor(self) -> str:
        """The id of this competitor."""
        return self.snapshot_id


@dataclass(frozen=True, slots=True)
class LivePlayer:
    """A member that learns, as it plays now."""

    player: str
    role: Role

    @property
    def competitor(self) -> str:
        """The id of this competitor."""
        return self.player


@dataclass(frozen=True, slots=True)
class Bot:
    """A scripted competitor."""

    name: str

    @property
    def competitor(self) -> str:
        """The id of this competitor."""
        return self.name


@dataclass(frozen=True, slots=True)
class Entrant:
    """A participant of a tournament, and how it plays."""

    competitor: str  # its name there, mode included
    kind: str  # snapshot, bot, mixture; external: its games were played elsewhere
    role: Role | None = None  # of a snapshot's player
    player: str | None = None  # of a snapshot
    run: str | None = None  # where it comes from: a run folder, its address, or an exported folder
    snapshot_id: str | None = None  # of a mixture: all its members with their weights
    blob_hash: str | None = None  # of a mixture: of all its members' hashes
    env_steps: int | None = None  # of its player, when it was frozen
    created_at: float | None = None  # when it was frozen, seconds since the epoch
    architecture: str | None = None
    temperature: float = 1.0  # 1: as it samples; 0: its likeliest action


@dataclass(frozen=True, slots=True)
class DrawnPair:
    """How a pair of a tournament came to meet, where its schedule went by earlier results."""

    match_id: int  # of its first match
    round: int  # 0 is the first
    # with which its competitors were to meet in this round, given all results before it; 1: these decided it
    probability: float
    standing: Mapping[str, float]  # of each of them, what the schedule went by: points or Elo


Competitor = Snapshot | LivePlayer | Bot | Entrant


@dataclass(frozen=True, slots=True)
class Seat:
    """The competitor in one place of a match, and whether it learns from what it sees there."""

    competitor: str
    learning: bool


@dataclass(frozen=True, slots=True)
class Match:
    """One pairing, all seats drawn at once."""

    match_id: int
    seed: int
    purpose: Purpose
    match_type: str
    env: str
    seats: tuple[Seat, ...]


OF_MATCHES = ("match_id", "seed", "match_type", "seat", "learning")
OF_RESULTS = ("outcome", "score", "rank", "env_steps", "reason", "started_at", "seconds")
"""The arrays of a batch that have a row for each match."""


@dataclass(frozen=True, slots=True)
class MatchBatch:
    """M matches of S seats, drawn together, as arrays."""

    env: str
    purpose: Purpose
    match_types: tuple[str, ...]
    competitors: tuple[str, ...]
    match_id: npt.NDArray[np.int64]  # [M]
    seed: npt.NDArray[np.int64]  # [M], non-negative
    match_type: npt.NDArray[np.int16]  # [M], indices into match_types
    seat: npt.NDArray[np.int32]  # [M, S], indices into competitors
    learning: npt.NDArray[np.bool_]  # [M, S]
    team_of_seat: tuple[int, ...] | None = None  # [S]: one competitor fills a team; None: one seat each

    def __len__(self) -> int:
        return len(self.match_id)

    @property
    def num_seats(self) -> int:
        """The number of seats S."""
        return self.seat.shape[1]

    def __getitem__(self, i: int) -> Match:
        row = zip(self.seat[i], self.learning[i], strict=True)
        seats = tuple(Seat(self.competitors[c], bool(learns)) for c, learns in row)
        return Match(
            match_id=int(self.match_id[i]),
            seed=int(self.seed[i]),
            purpose=self.purpose,
            match_type=self.match_types[self.match_type[i]],
            env=self.env,
            seats=seats,
        )

    def take(self, rows: npt.NDArray[np.int64]) -> MatchBatch:
        """Return the matches in these rows [k], in this order."""
        return replace(self, **{name: getattr(self, name)[rows] for name in OF_MATCHES})


@dataclass(frozen=True, slots=True)
class Recordings:
    """The actions of k matches of a batch, each in order of time, then of seat: enough to play it again."""

    row: npt.NDArray[np.int64]  # [k] of the batch
    offset: npt.NDArray[np.int64]  # [k + 1]; match i is action[offset[i] : offset[i + 1]]
    action: npt.NDArray[np.float32]  # [N]: choices are whole numbers, which float32 holds exactly

    def __len__(self) -> int:
        return len(self.row)

    def take(self, rows: npt.NDArray[np.int64]) -> Recordings:
        """Return the recordings of these rows [k] of the batch, as `row` of the batch of these rows."""
        place = {int(row): number for number, row in enumerate(self.row)}
        kept = [(i, place[int(row)]) for i, row in enumerate(rows) if int(row) in place]
        spans = [self.action[self.offset[own] : self.offset[own + 1]] for _, own in kept]
        return Recordings(
            row=np.array([i for i, _ in kept], dtype=np.int64),
            offset=np.cumsum([0, *map(len, spans)]),
            action=np.concatenate([self.action[:0], *spans]),
        )


@dataclass(frozen=True, slots=True)
class ResultBatch:
    """The results of the M matches of one `MatchBatch`, in the same order, as arrays."""

    matches: MatchBatch
    outcome: npt.NDArray[np.int8]  # [M, S], values of Outcome
    score: npt.NDArray[np.float32]  # [M, S], sum of rewards
    rank: npt.NDArray[np.int8]  # [M, S], 0 is best
    env_steps: npt.NDArray[np.int32]  # [M], decisions taken by all seats
    reason: npt.NDArray[np.int8]  # [M], values of EndReason
    started_at: npt.NDArray[np.float64]  # [M], seconds since the epoch
    seconds: npt.NDArray[np.float32]  # [M]
    recordings: Recordings | None = None
    # [M], of all observations and actions; 0: some choice was drawn
    digest: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.matches)

    def take(self, rows: npt.NDArray[np.int64]) -> ResultBatch:
        """Return the results in these rows [k], in this order."""
        return ResultBatch(
            matches=self.matches.take(rows),
            recordings=None if self.recordings is None else self.recordings.take(rows),
            digest=None if self.digest is None else self.digest[rows],
            **{name: getattr(self, name)[rows] for name in OF_RESULTS},
        )


def by_team(results: ResultBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray, npt.NDArray[np.int64]]:
    """Return first seats [T], outcomes [M, T] and places [M, T] of the teams; a lower place is better.

    The competitor of a team's first seat is that of the team. A team forfeits if one of its seats does.
    """
    outcome = results.outcome
    team_of_seat = results.matches.team_of_seat or range(results.matches.num_seats)
    _, first, team = np.unique(team_of_seat, return_index=True, return_inverse=True)
    if len(first) < outcome.shape[1]:
        outcome = np.stack([outcome[:, team == t].max(axis=1) for t in range(len(first))], axis=1)
    # A win beats all else, a forfeit loses to all else; teams alike in that are compared by rank.
    place = np.array([0, 1, 1, 2])[outcome] * 256 + results.rank[:, first]
    return first, outcome, place.astype(np.int64)


@dataclass(frozen=True, slots=True)
class RatingChange:
    """A competitor's rating after a batch of results."""

    competitor: str
    mu: float
    sigma: float
    games: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """A change that a LeagueBuilder requests, its reason, and the numbers that triggered it."""

    kind: ClassVar[str]
    player: str
    reason: str
    evidence: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Freeze(Decision):
    """Store the player's present weights as a new snapshot and seat it in the league.

    The table `decisions` has a row for the Freeze and a second row for its `reset`, if there is one.
    """

    kind: ClassVar[str] = "freeze"
    reset: Reset | None = None  # of the same player, carried out when the snapshot is stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Reset(Decision):
    """Give the player the weights of `target` (a snapshot id)."""

    kind: ClassVar[str] = "reset"
    target: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Add(Decision):
    """Seat a new player."""

    kind: ClassVar[str] = "add"
    role: Role


@dataclass(frozen=True, slots=True, kw_only=True)
class Remove(Decision):
    """End the player's training; its snapshots stay seated."""

    kind: ClassVar[str] = "remove"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop(Decision):
    """An update of its learner was refused: the player learns no more, its last good weights stay."""

    kind: ClassVar[str] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Retire(Decision):
    """Take the snapshot `target` out of matchmaking; it stays stored."""

    kind: ClassVar[str] = "retire"
    target: str


@dataclass(frozen=True, slots=True)
class UpdateRecord:
    """The report of one learner over one stretch of updates (means over the stretch)."""

    player: str
    updates: int  # optimizer steps of this player so far
    env_steps: int  # decisions this player has been trained on so far
    lag: float  # updates between the weights that acted and those that learned
    metrics: Mapping[str, float]  # policy_loss, value_loss, entropy, gradient_norm, ...


@dataclass(frozen=True, slots=True)
class CacheRecord:
    """The counters of one tier of a node's caches since its runners began, and what it holds now."""

    node: str
    tier: str  # device, mapped, disk, remote
    hits: int
    misses: int
    resident: int
    bytes: int
    evictions: Mapping[str, int]  # by cause


@dataclass(frozen=True, slots=True, kw_only=True)
class YardstickRecord:
    """One figure of a competitor on a yardstick: a measure that does not depend on the league."""

    competitor: str
    yardstick: str  # positions, or the name of a fixed opponent
    kind: str  # positions, games
    measure: str  # best, kept; score
    mode: str  # how the competitor acts: sample, greedy, t=0.5
    part: str  # all, decisive, plies 1-6
    value: float  # in [0, 1]
    low: float  # of the 95 % interval
    high: float
    samples: int  # positions or games


STATE = "state"
"""In `BranchPoint.learners`: the learner goes on from a state that was saved."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchPoint:
    """The moment of a parent run at which a run was branched from it. Times are seconds since the epoch."""

    parent: str  # its folder, or the address of its remote
    frame: int  # last frame of the ledger that both runs have
    env_steps: int  # of the league by then
    matches: int  # by then
    seconds: float  # of training by then
    learners: Mapping[str, str]  # of each player: STATE, or the snapshot whose weights it goes on from
    changes: tuple[str, ...]  # settings that are other than the parent's, as `a.b=value`
    moment_at: float  # of the youngest fact that both runs have
    branched_at: float
