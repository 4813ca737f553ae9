"""Data of a session's players beside their standings: shares, clocks, reports."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from league.learning.data.queues import QueueInfo
from league.learning.groups.shard_learners import LearnReport
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
    stopped: str = ""  # why it no longer learns, until it gets other weights


@dataclass(frozen=True, slots=True)
class Ticket:
    """Conditions under which the results of a request are used."""

    matches: int
    generations: dict[str, int]  # of the live players seated in it


@dataclass(slots=True)
class Totals:
    """Counters of the whole run, resumed parts included, except where noted."""

    env_steps: int = 0
    matches: int = 0
    dropped_matches: int = 0  # in this session: their player was reset meanwhile, or their runner died
    seconds: float = 0.0  # of training, before this session


class UpdateLog:
    """Reports of learners: the newest one of each player, and means over an interval."""

    def __init__(self) -> None:
        self.newest: dict[str, UpdateRecord] = {}
        self.since = time.monotonic()
        self._waiting: dict[str, list[UpdateRecord]] = {}

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

    def rows(self, queues: Mapping[str, QueueInfo]) -> list[UpdateRecord]:
        """Return one record per player over its updates since the last call, with the state of its queue."""
        rows = []
        for name, records in self._waiting.items():
            means = {key: float(np.mean([r.metrics[key] for r in records])) for key in records[-1].metrics}
            if name in queues:
                means |= {f"queue_{key}": float(getattr(queues[name], key)) for key in QUEUE_METRICS}
            lag = float(np.mean([r.lag for r in records]))
            rows.append(UpdateRecord(name, records[-1].updates, records[-1].env_steps, lag, means))
        self._waiting = {}
        self.since = time.monotonic()
        return rows


def player_seed(run_seed: int, index: int) -> int:
    """Return the seed of the first weights of the player with that index in the roster."""
    return run_seed * 1_000_003 + index
