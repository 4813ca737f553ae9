"""Cache counters of all nodes: the newest report of each runner process, summed by node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from storage.cache.policy_map import TierInfo
from storage.records import CacheRecord

SHARED = ("disk",)  # tiers that the processes of a node share: their contents are counted once


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
