"""Retention: leaves of the matches of the oldest closed segments the sums, in the thread of compaction.

A segment is summed up once it is older than the limits (`Keep`), the ledger has a fold of all results behind
it (`storage.tables.columns.folded_table`), from which a resume goes on. Files of before stay some minutes,
for readers that have them open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.layout import LEDGER
from storage.ledger.ledger import Ledger, summed_until
from storage.ledger.segments import Segment, replace
from storage.retention import segment_sums
from storage.retention.sums import DROPPED, SUMMED, sum_up
from storage.settings import Keep
from storage.tables.questions import query

GRACE_SECONDS = 600.0


class Retention:
    """The summing up of one run's old matches; `folded` returns the frame of the newest fold."""

    def __init__(self, ledger: Ledger, keep: Keep, folded: Callable[[], int]) -> None:
        self._ledger, self._keep, self._folded = ledger, keep, folded
        self._origin: float | None = None  # when the first match began, in seconds since the epoch
        self._removed: set[int] = set()  # segments whose sums are in no file of their own any more

    def step(self) -> bool:
        """Sum up the oldest segment that is due, and return whether there was one. Raise StorageError."""
        self._ledger.remove_superseded(GRACE_SECONDS)
        self._remove_sums()
        segment = self._due()
        if segment is None:
            return False
        self._origin = self._origin or segment_sums.beginning(self._ledger.compacted)
        origin = self._origin

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

    def _remove_sums(self) -> None:
        """Remove the sums of segments that have long been nothing else, for readers that have them open."""
        for segment in self._ledger.compacted:
            late = time.time() - segment.manifest[0].stat().st_mtime > GRACE_SECONDS
            if segment.summed is not None and late and segment.number not in self._removed:
                self._removed.add(segment.number)
                segment_sums.clear(self._ledger.folder, segment)


QUESTION_OF_SUMS = """
SELECT coalesce(sum(matches), 0) AS summed, max(ended_at) AS until,
    (SELECT sum(matches) FROM played) AS played
FROM summed_matches
"""
"""SQL that answers what `sentence_of_sums` needs: one row."""


def what_is_summed(run: Path) -> str:
    """Return `sentence_of_sums` for a run folder. Raise CorruptLedger."""
    if not (run / LEDGER).is_dir() or not summed_until(run / LEDGER):
        return ""
    return sentence_of_sums(query(run, QUESTION_OF_SUMS).to_pylist()[0])


def sentence_of_sums(row: Any) -> str:
    """Return which matches are sums, by an answer to `QUESTION_OF_SUMS`, and what that leaves out.

    It is "" if all matches are there.
    """
    if not row["summed"]:
        return ""
    summed, played = int(row["summed"]), int(row["played"])
    return (
        f"{summed:,} of {played:,} matches, the last of {row['until']:%Y-%m-%d %H:%M:%S} UTC, are "
        "kept as sums (storage.retention): single matches of then, their recorded actions and the run as of "
        "then can no longer be shown; all figures of ratings, payoffs and counts include them"
    )
