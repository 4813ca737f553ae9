"""Retention: sums up the matches of the oldest closed segments, in the thread of compaction.

A segment is summed up once it is older than the limits (`Keep`), the ledger has a fold of all results behind
it (`storage.retention.folded`), from which a resume goes on. Files of before stay for some minutes, for
readers that have them open.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from storage.ledger.ledger import Ledger
from storage.ledger.segments import Segment, replace
from storage.retention.keep import Keep
from storage.retention.summing import DROPPED, SUMMED, sum_up

GRACE_SECONDS = 600.0


class Retention:
    """The summing up of one run's old matches; `folded` returns the frame of the newest fold."""

    def __init__(self, ledger: Ledger, keep: Keep, folded: Callable[[], int]) -> None:
        self._ledger, self._keep, self._folded = ledger, keep, folded
        self._origin: float | None = None  # when the first match began, in seconds since the epoch

    def step(self) -> bool:
        """Sum up the oldest segment that is due, and return whether there was one. Raise StorageError."""
        self._ledger.remove_superseded(GRACE_SECONDS)
        segment = self._due()
        if segment is None:
            return False
        origin = self._began()

        def make(whole: Segment) -> Segment:
            sums = sum_up(whole, self._keep.share, origin)
            gone = (*SUMMED, *DROPPED)
            return replace(self._ledger.folder, whole, sums.tables, gone, sums.first_seq, sums.last_seq)

        self._ledger.sum_up(segment.number, make)
        return True

    def _due(self) -> Segment | None:
        compacted = self._ledger.compacted
        whole = [segment for segment in compacted if segment.summed is None]
        if not whole or whole[0].number != len(compacted) - len(whole) + 1:
            return None
        oldest = whole[0]
        size = sum(size for segment in whole for _, size in segment.files())
        age = time.time() - oldest.manifest[0].stat().st_mtime
        old = self._keep.hours is not None and age > 3600.0 * self._keep.hours
        large = self._keep.bytes is not None and size > self._keep.bytes
        return oldest if (old or large) and self._folded() > oldest.last else None

    def _began(self) -> float | None:
        """Return when the run's first match began, by its first segment with matches."""
        if self._origin is None:
            for segment in self._ledger.compacted:
                for name in ("matches", "summed_matches"):
                    if segment.rows(name):
                        began = float(np.min(segment.table(name)["started_at"].to_numpy()))
                        self._origin = min(began, self._origin or began)
                if self._origin is not None:
                    break
        return self._origin
