"""How many rows a second the ledger acknowledges (written and synced), beside the goal of 100,000.

    python -m tests.bench.storage_ledger [--seconds 4] [--folder DIR]

Batches of results as rollouts return them, each a frame of matches, seats, meetings and ratings: through
the ledger alone, through the archive, and, for comparison, the same tables
inserted into a DuckDB file with a commit per batch. Rows are those of matches and seats.
"""

from __future__ import annotations

import itertools
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np

from storage.archive import Archive
from storage.ledger.ledger import Ledger
from storage.records import ResultBatch
from storage.tables.columns import result_tables
from tests.bench.shared import parser_of
from tests.bench.storage_results import CHANGES, COMPETITORS, ENV, ROWS, random_results

GOAL = 100_000  # rows per second

Append = Callable[[ResultBatch], object]


def rows_per_second(append: Append, batches: list[ResultBatch], seconds: float) -> tuple[float, float]:
    """(rows per second, median seconds of a batch) of `append`, batch after batch."""
    times, rows, began = [], 0, time.perf_counter()
    for batch in itertools.cycle(batches):
        start = time.perf_counter()
        append(batch)
        times.append(time.perf_counter() - start)
        rows += ROWS * len(batch)
        if time.perf_counter() - began >= seconds:
            return rows / (time.perf_counter() - began), float(np.median(times))
    raise ValueError("no batches")


def ledger_alone(folder: Path, batches: list[ResultBatch], seconds: float) -> tuple[float, float]:
    with Ledger(folder, "benchmark") as ledger:
        numbers = itertools.count(1)
        return rows_per_second(
            lambda batch: ledger.append(result_tables(batch, CHANGES, 1, next(numbers))), batches, seconds
        )


def archive(folder: Path, batches: list[ResultBatch], seconds: float) -> tuple[float, float]:
    row = {"name": "benchmark", "env": ENV, "seed": 0}
    with Archive.create(folder / "run", "{}", row) as opened:
        return rows_per_second(lambda batch: opened.append_results(batch, CHANGES), batches, seconds)


def duckdb_commits(folder: Path, batches: list[ResultBatch], seconds: float) -> tuple[float, float]:
    with duckdb.connect(str(folder / "commits.duckdb"), config={"threads": 1}) as connection:

        def append(batch: ResultBatch) -> None:
            with connection.cursor() as cursor:
                cursor.execute("BEGIN")
                for name, table in result_tables(batch, CHANGES, 1, 1).items():
                    cursor.register("rows", table)
                    cursor.execute(f"INSERT INTO {name} FROM rows")
                cursor.execute("COMMIT")

        for name, table in result_tables(batches[0], CHANGES, 1, 1).items():
            connection.register("rows", table)
            connection.execute(f"CREATE TABLE {name} AS FROM rows LIMIT 0")
        return rows_per_second(append, batches, seconds)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each line")
    parser.add_argument("--folder", type=Path, help="on the disk to measure; default: the temporary folder")
    arguments = parser.parse_args()
    print(f"{'matches a batch':>15}  {'through':<16}{'rows/s':>12}{'ms a batch':>12}{'of the goal':>13}")
    for matches in (64, 256, 1024, 4096):
        rng = np.random.default_rng(0)
        batches = [random_results(rng, matches, COMPETITORS) for _ in range(8)]
        for way in (ledger_alone, archive, duckdb_commits):
            with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
                rate, median = way(Path(folder), batches, arguments.seconds)
            name = way.__name__.replace("_", " ")
            print(
                f"{matches:>15}  {name:<16}{rate:>12,.0f}{1000 * median:>12.2f}{rate / GOAL:>13.1f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
