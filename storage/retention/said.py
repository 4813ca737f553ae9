"""What can no longer be asked of a run whose old matches were summed up, as one sentence."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

from storage.layout import LEDGER
from storage.ledger.ledger import summed_until
from storage.tables.questions import query

QUESTION = """
SELECT coalesce(sum(matches), 0) AS summed, max(ended_at) AS until, (SELECT count(*) FROM matches) AS whole
FROM summed_matches
"""
"""SQL that answers what `sentence` needs: one row."""


class Row(Protocol):
    """An answer to `QUESTION`."""

    def __getitem__(self, name: str, /) -> Any:
        """Return the value of a column."""


def what_is_summed(run: Path) -> str:
    """Return `sentence` for a run folder. Raise CorruptLedger."""
    if not (run / LEDGER).is_dir() or not summed_until(run / LEDGER):
        return ""
    return sentence(query(run, QUESTION).to_pylist()[0])


def sentence(row: Row) -> str:
    """Return which matches are sums, and what that leaves out; "" if all matches are there."""
    if not row["summed"]:
        return ""
    summed, whole = int(row["summed"]), int(row["whole"])
    return (
        f"{summed:,} of {summed + whole:,} matches, the last of {row['until']:%Y-%m-%d %H:%M:%S} UTC, are "
        "kept as sums (storage.retention): single matches of then, their recorded actions and the run as of "
        "then can no longer be shown; all figures of ratings, payoffs and counts include them"
    )
