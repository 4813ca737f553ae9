"""What happens when learners are far too slow: queues stop at their bounds, memory stays flat.

    python -m tests.bench.backpressure [--minutes 5] [--runners 2] [--slower 10]

A Connect Four league on Ray whose learners pass ten times over the same experience. Every few
seconds: queue depth and bound, how often and how long play waited, drops, age and lag of what is
learned, and the private memory of all processes of the run together.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import psutil

from league.config.loading import load
from league.training.loop import train
from league.training.session import Session

EVERY_SECONDS = 10.0


def private_bytes() -> int:
    """Memory that this process and all below it hold for themselves, shared pages counted once per holder."""
    total = 0
    for process in [psutil.Process(), *psutil.Process().children(recursive=True)]:
        try:
            total += process.memory_full_info().uss
        except (psutil.NoSuchProcess, psutil.AccessDenied):
            continue  # it ended while we looked
    return total


class Meter:
    """A view that prints a line every few seconds and keeps the memory of each."""

    def __init__(self) -> None:
        self._next = time.monotonic() + EVERY_SECONDS
        self.memory: list[int] = []
        self.deepest = 0.0  # depth as a part of the bound

    def show(self, session: Session) -> None:
        queues = session.learners.queues().values()
        self.deepest = max(self.deepest, *(queue.depth / queue.bound for queue in queues))
        if time.monotonic() < self._next:
            return
        self._next += EVERY_SECONDS
        self.memory.append(private_bytes())
        lags = [record.lag for record in session.log.newest.values()]
        print(
            f"{session.clock.seconds():5.0f} s  {session.totals.env_steps:>12,} env steps  "
            f"queues {' '.join(f'{q.depth}/{q.bound}' for q in queues)}  "
            f"waits {sum(q.waits for q in queues):,} ({sum(q.wait_seconds for q in queues):,.0f} s)  "
            f"dropped {sum(q.dropped_steps for q in queues):,} steps  "
            f"age {max(q.age_seconds for q in queues):.1f} s  lag {max(lags, default=0.0):.1f}  "
            f"memory {self.memory[-1] / 2**20:,.0f} MiB",
            flush=True,
        )

    def close(self, session: Session) -> None:
        self.show(session)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--runners", type=int, default=2)
    parser.add_argument("--slower", type=int, default=10, help="Passes over the same experience")
    arguments = parser.parse_args()
    settings = load(
        {
            "name": "backpressure",
            "env": {"id": "connect_four"},
            "league": {"freeze_every": 10**9},
            "learner": {"epochs": arguments.slower},
            "runners": arguments.runners,
            "stop": {"minutes": arguments.minutes},
        }
    )
    meter = Meter()
    with tempfile.TemporaryDirectory() as folder:
        train(settings, Path(folder) / "run", make_view=lambda: meter)
    third = max(len(meter.memory) // 3, 1)
    early, late = max(meter.memory[:third]), max(meter.memory[-third:])
    print(f"deepest queue, of its bound        {meter.deepest:>8.2f}")
    print(f"memory, last third to first third  {late / early:>8.3f}")


if __name__ == "__main__":
    main()
