"""Retention: sums up the matches of the oldest closed segments, in the thread of compaction.

A segment is summed up once it is older than the limits (`Keep`), the ledger has a fold of all results behind
it (`storage.tables.columns.folded_table`), from which a resume goes on. Files of before stay some minutes,
for readers that have them open.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from storage.layout import LEDGER
from storage.ledger.ledger import Ledger, summed_until
from storage.ledger.segments import Segment, replace
from storage.retention.sums import DROPPED, SUMMED, sum_up
from storage.settings import Keep
from storage.tables.questions import query

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


QUESTION_OF_SUMS = """
SELECT coalesce(sum(matches), 0) AS summed, max(ended_at) AS until, (SELECT count(*) FROM matches) AS whole
FROM summed_matches
"""
"""SQL that answers what `sentence_of_sums` needs: one row."""


class Row(Protocol):
    """An answer to `QUESTION_OF_SUMS`."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of a column."""


def what_is_summed(run: Path) -> str:
    """Return `sentence_of_sums` for a run folder. Raise CorruptLedger."""
    if not (run / LEDGER).is_dir() or not summed_until(run / LEDGER):
        return ""
    return sentence_of_sums(query(run, QUESTION_OF_SUMS).to_pylist()[0])


def sentence_of_sums(row: Row) -> str:
    """Return which matches are sums, and what that leaves out; "" if all matches are there."""
    if not row["summed"]:
        return ""
    summed, whole = int(row["summed"]), int(row["whole"])
    return (
        f"{summed:,} of {summed + whole:,} matches, the last of {row['until']:%Y-%m-%d %H:%M:%S} UTC, are "
        "kept as sums (storage.retention): single matches of then, their recorded actions and the run as of "
        "then can no longer be shown; all figures of ratings, payoffs and counts include them"
    )
