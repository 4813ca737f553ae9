"""Asking a run that is being written: 10,000 rows a second, four live readers, for a minute.

    python -m tests.bench.storage_readers [--seconds 60] [--rows 10_000] [--batches 20] [--readers 4]

A writer process appends results to an archive at a steady pace and notes when each batch was acknowledged.
Each reader process has one connection and asks by turns for a count, the leaderboard and the payoff. An
answer is stale by how long before the question the first batch that it lacks had been acknowledged. First
the writer is measured alone.
"""

from __future__ import annotations

import multiprocessing
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from threading import Barrier

import numpy as np
import numpy.typing as npt

import storage
from storage.archive import Archive
from tests.bench.shared import parser_of
from tests.bench.storage_results import CHANGES, COMPETITORS, ENV, ROWS, random_results

QUESTIONS = {
    "count": "SELECT max(seq), count(*) FROM matches",
    "leaderboard": "SELECT (SELECT max(seq) FROM matches), count(*), max(skill) FROM leaderboard",
    "payoff": "SELECT (SELECT max(seq) FROM matches), count(*), sum(games) FROM payoff",
}
GOALS = {"acknowledge": 0.050, "query": 0.100, "stale": 1.0}  # seconds: p95, p95, largest
START_SECONDS = 300.0  # for all processes: where one fails before, the others wait no longer

Times = npt.NDArray[np.float64]


def write(run: Path, rows: int, batches: int, seconds: float, ready: Barrier) -> Times:
    """Return (when it was acknowledged, last seq, seconds it took) [batches, 3], on the clock of all."""
    matches = max(1, round(rows / ROWS / batches))
    rng, acknowledged = np.random.default_rng(0), []
    results = [random_results(rng, matches, COMPETITORS) for _ in range(16)]
    with Archive.open(run) as archive:
        ready.wait()
        began = time.monotonic()
        for number in range(int(seconds * batches)):
            time.sleep(max(0.0, began + number / batches - time.monotonic()))
            start = time.monotonic()
            archive.append_results(results[number % 16], CHANGES)
            now = time.monotonic()
            acknowledged.append((now, archive.next_seq - 1, now - start))
    return np.array(acknowledged)


def read(run: Path, every: float, seconds: float, ready: Barrier) -> Times:
    """Return (question, when it was asked, seconds to the answer, last seq in it) [answers, 4]."""
    answers = []
    with storage.connect(run) as live:
        ready.wait()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for number, question in enumerate(QUESTIONS.values()):
                start = time.monotonic()
                seq = live.execute(question).fetchone()[0]
                answers.append((number, start, time.monotonic() - start, seq or 0))
                time.sleep(every)
    return np.array(answers)


def measure(rows: int, batches: int, seconds: float, readers: int, every: float) -> tuple[Times, list[Times]]:
    """Return what the writer noted, and what each reader."""
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        Archive.create(run, "{}", {"name": "benchmark", "env": ENV, "seed": 0}).close()
        with context.Manager() as manager, ProcessPoolExecutor(1 + readers, context) as pool:
            ready = manager.Barrier(1 + readers, timeout=START_SECONDS)
            writer = pool.submit(write, run, rows, batches, seconds, ready)
            others = [pool.submit(read, run, every, seconds, ready) for _ in range(readers)]
            return writer.result(), [reader.result() for reader in others]


def staleness(acknowledged: Times, answers: Times) -> Times:
    """Of each answer, in seconds; 0 where it had everything."""
    first_lacking = np.searchsorted(acknowledged[:, 1], answers[:, 3], side="right")
    since = np.append(acknowledged[:, 0], np.inf)[first_lacking]
    return np.maximum(0.0, answers[:, 1] - since)


def line(name: str, seconds: Times, goal: float | None = None, largest: bool = False) -> None:
    p50, p95, p99, most = (1000 * float(np.quantile(seconds, q)) for q in (0.5, 0.95, 0.99, 1.0))
    told = "" if goal is None else f"{(most if largest else p95) / 1000 / goal:>10.2f}"
    print(f"{name:<36}{len(seconds):>8}{p50:>9.1f}{p95:>9.1f}{p99:>9.1f}{most:>9.1f}{told}", flush=True)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--rows", type=int, default=10_000, help="a second, of matches and seats")
    parser.add_argument("--batches", type=int, default=20, help="a second, that the rows come in")
    parser.add_argument("--readers", type=int, default=4)
    parser.add_argument("--every", type=float, default=0.25, help="Seconds between two questions of a reader")
    arguments = parser.parse_args()
    rows, batches, seconds = arguments.rows, arguments.batches, arguments.seconds
    alone, _ = measure(rows, batches, min(10.0, seconds), 0, arguments.every)
    acknowledged, answers = measure(rows, batches, seconds, arguments.readers, arguments.every)
    rate = ROWS * float(acknowledged[-1, 1]) / (acknowledged[-1, 0] - acknowledged[0, 0])
    print(f"{rate:,.0f} rows a second, {arguments.readers} readers; milliseconds:")
    print(f"{'':<36}{'times':>8}{'p50':>9}{'p95':>9}{'p99':>9}{'most':>9}{'of goal':>10}")
    line("acknowledge, no readers", alone[:, 2])
    line("acknowledge", acknowledged[:, 2], GOALS["acknowledge"])
    asked = np.concatenate(answers)
    for number, question in enumerate(QUESTIONS):
        line(f"query: {question}", asked[asked[:, 0] == number, 2])
    line("query, all", asked[:, 2], GOALS["query"])
    line("stale", staleness(acknowledged, asked), GOALS["stale"], largest=True)


if __name__ == "__main__":
    main()
