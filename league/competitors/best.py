"""The competitor `best` of a run: the snapshot that leads the order by strength."""

from __future__ import annotations

import sys

from analysis.statistics.strength.order import Order
from analysis.statistics.strength.recorded import recorded_order
from analysis.statistics.strength.wording import of_best
from storage import connect
from storage.reader import ArchiveReader
from storage.records import Snapshot

BEST = "best"


def best_of(reader: ArchiveReader) -> Snapshot | None:
    """Return the snapshot that is likely the best, and print how likely; `None` before one was trained."""
    order = order_of_run(reader)
    if order.best is None:
        return None
    print(f"{BEST}: {of_best(order)}", file=sys.stderr)
    found = reader.find(order.best.competitor)
    return found if isinstance(found, Snapshot) else None


def order_of_run(reader: ArchiveReader) -> Order:
    """Return the order of a run's competitors by all that it has recorded."""
    with connect(reader.run) as live, live.at_one_moment():
        return recorded_order(live)
