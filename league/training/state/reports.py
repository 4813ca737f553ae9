"""Reports of a session's learners and caches, as rows of the ledger.

Learners report each update: the newest of each player is kept, and means over an interval are recorded.
Runner processes report the counters of their caches: the newest of each process is kept, and sums by node are
recorded.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import fields

import numpy as np

from league.learning.groups.queues import QueueInfo
from league.learning.groups.shard_learners import LearnReport
from storage.cache.policy_map import TierInfo
from storage.records import CacheRecord, UpdateRecord

SHARED = ("disk",)  # tiers that the processes of a node share: their contents are counted once

# Metrics of a player's queue, in the column `metrics` of the table `updates`; counts are per session.
QUEUE_METRICS = tuple(f.name for f in fields(QueueInfo) if f.name not in ("bound", "lag", "stopped"))


# Seconds since the player's last row, in the same column: of runners that played what it learns from, of
# its learner's updates and copies of weights, and of its process with nothing to learn from.
SPENT = ("playing", "learning", "broadcasting", "waiting")


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
            means = {
                key: float(np.mean([r.metrics[key] for r in records if key in r.metrics]))
                for key in dict.fromkeys(key for record in records for key in record.metrics)
            }
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


class CacheLog:
    """Counters of all caches since the session began."""

    def __init__(self) -> None:
        self._processes: dict[str, tuple[TierInfo, ...]] = {}  # by node and pid
        self._reported: dict[tuple[str, str], CacheRecord] = {}  # (node, tier)

    def add(self, process: str, tiers: tuple[TierInfo, ...]) -> None:
        """Note the counters that a runner process (`node:pid`) sent with a rollout."""
        self._processes[process] = tiers

    def records(self) -> list[CacheRecord]:
        """Return one record per node and tier."""
        found: dict[tuple[str, str], list[TierInfo]] = {}
        for process, tiers in self._processes.items():
            for tier in tiers:
                found.setdefault((process.rpartition(":")[0], tier.tier), []).append(tier)
        return [_sum(node, tier, infos) for (node, tier), infos in found.items()]

    def rows(self) -> list[CacheRecord]:
        """Return the records that have changed since the last call."""
        now = {(record.node, record.tier): record for record in self.records()}
        changed = [record for key, record in now.items() if self._reported.get(key) != record]
        self._reported = now
        return changed


def _sum(node: str, tier: str, infos: Iterable[TierInfo]) -> CacheRecord:
    infos = list(infos)
    total = max if tier in SHARED else sum
    evictions: Counter[str] = Counter()
    for info in infos:
        evictions.update(info.evictions)
    return CacheRecord(
        node=node,
        tier=tier,
        hits=sum(info.hits for info in infos),
        misses=sum(info.misses for info in infos),
        resident=total(info.resident for info in infos),
        bytes=total(info.bytes for info in infos),
        evictions=dict(evictions),
    )
