"""Data of a session's players beside their standings: shares, clocks, reports."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from league.learning.groups.queues import QueueInfo
from league.learning.groups.shard_learners import LearnReport
from league.training.losses.again import Part
from storage.records import LivePlayer, UpdateRecord

# Metrics of a player's queue, in the column `metrics` of the table `updates`; counts are per session.
QUEUE_METRICS = (
    "depth",
    "gathering",
    "waits",
    "wait_seconds",
    "dropped_rollouts",
    "dropped_steps",
    "age_seconds",
)


# Seconds since the player's last row, in the same column: of runners that played what it learns from, of
# its learner's updates and copies of weights, and of its process with nothing to learn from.
SPENT = ("playing", "learning", "broadcasting", "waiting")


@dataclass(slots=True)
class Member:
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
    since_version: int = (
        0  # of its weights: what older ones played is not learned from, since its learner died
    )
    stopped: str = ""  # why it no longer learns, until it gets other weights


@dataclass(frozen=True, slots=True)
class Ticket:
    """Conditions under which the results of a request are used."""

    matches: int
    generations: dict[str, int]  # of the live players seated in it
    runner: int | None = None  # number of the runner, if matches are played in fragments
    part: Part | None = None  # its matches, to be played again if they are lost
    versions: Mapping[str, int] = field(default_factory=dict)  # of the live players' weights


@dataclass(slots=True)
class Totals:
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


class UpdateLog:
    """Reports of learners: the newest one of each player, and means over an interval."""

    def __init__(self) -> None:
        self.newest: dict[str, UpdateRecord] = {}
        self.since = time.monotonic()
        self.spent: dict[str, dict[str, float]] = {}  # in the interval of the newest row of each player
        self._waiting: dict[str, list[UpdateRecord]] = {}
        self._spending: dict[str, dict[str, float]] = {}

    def spend(self, player: str, **seconds: float) -> None:
        """Count seconds of `player`, by what they were spent on: playing, learning, ..."""
        own = self._spending.setdefault(player, dict.fromkeys(SPENT, 0.0))
        for what, amount in seconds.items():
            own[what] += amount

    def add(self, report: LearnReport) -> None:
        """Add a report that has metrics."""
        metrics = dict(report.metrics or {})
        record = UpdateRecord(report.player, report.updates, report.env_steps, metrics.pop("lag"), metrics)
        self.newest[report.player] = record
        self._waiting.setdefault(report.player, []).append(record)

    def forget(self, player: str) -> None:
        """Drop all reports of `player`."""
        self.newest.pop(player, None)
        self._waiting.pop(player, None)
        self._spending.pop(player, None)
        self.spent.pop(player, None)

    def rows(self, queues: Mapping[str, QueueInfo]) -> list[UpdateRecord]:
        """Return one record per player over its updates since its last one, with the state of its queue.

        Losses and the like are means over these updates; "seconds_..." are sums over all that was played
        and learned since then.
        """
        rows = []
        for name, records in self._waiting.items():
            means = {key: float(np.mean([r.metrics[key] for r in records])) for key in records[-1].metrics}
            if name in queues:
                means |= {f"queue_{key}": float(getattr(queues[name], key)) for key in QUEUE_METRICS}
            own = self._spending.pop(name, {})
            self.spent[name] = {f"seconds_{what}": own.get(what, 0.0) for what in SPENT}
            means |= self.spent[name]
            lag = float(np.mean([r.lag for r in records]))
            rows.append(UpdateRecord(name, records[-1].updates, records[-1].env_steps, lag, means))
        self._waiting = {}
        self.since = time.monotonic()
        return rows


def player_seed(run_seed: int, index: int) -> int:
    """Return the seed of the first weights of the player with that index in the roster."""
    return run_seed * 1_000_003 + index
