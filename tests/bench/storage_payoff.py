"""What a long league can be asked: payoff of 10M matches, and a copy of all its tables.

    python -m tests.bench.storage_payoff [--matches 10_000_000] [--snapshots 200]

The run is made first: batches of results in a ledger, closed segments compacted to Parquet. Then, in one
run, the same payoff: through a live reader, in league.duckdb, from the rows of `seats` in SQL, and by
pandas from a frame of those rows in memory. All answers are compared.
"""

from __future__ import annotations

import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd

import storage
from storage.archive import Archive
from storage.disk import using
from storage.layout import DATABASE, LEDGER
from storage.ledger.ledger import Ledger
from storage.records import RatingChange
from storage.tables.columns import result_tables
from storage.tables.database_file import save
from tests.bench.shared import parser_of
from tests.bench.storage_results import ENV, Unsynced, random_results

PAYOFF = "SELECT home, away, games, wins, draws, losses FROM payoff ORDER BY home, away"
FROM_SEATS = """
    WITH pairs AS (
        SELECT h.competitor AS home, a.competitor AS away,
            CASE WHEN h.outcome = 'win' OR (a.outcome = 'forfeit' AND h.outcome <> 'forfeit') THEN 1
                 WHEN a.outcome = 'win' OR h.outcome = 'forfeit' THEN -1
                 WHEN h.rank < a.rank THEN 1 WHEN h.rank > a.rank THEN -1 ELSE 0 END AS won
        FROM seats h JOIN seats a ON h.seq = a.seq AND h.seat <> a.seat
    )
    SELECT home, away, count(*) AS games, count(*) FILTER (won = 1) AS wins,
        count(*) FILTER (won = 0) AS draws, count(*) FILTER (won = -1) AS losses
    FROM pairs GROUP BY ALL ORDER BY home, away
"""
BATCH = 100_000  # matches
GOAL = 3.0  # seconds for 10M matches


def make_run(run: Path, matches: int, snapshots: int) -> None:
    competitors = ("main-0", *(f"main-0@{1000 * i}" for i in range(snapshots)))
    changes = [RatingChange(name, 25.0, 8.0, 1) for name in competitors]
    rng, seq = np.random.default_rng(0), 1
    Archive.create(run, "{}", {"name": "benchmark", "env": ENV, "seed": 0}).close()
    with using(Unsynced()), Ledger(run / LEDGER, "benchmark") as ledger:
        for first in range(0, matches, BATCH):
            results = random_results(rng, min(BATCH, matches - first), competitors, first)
            ledger.append(result_tables(results, changes, seq, ledger.last_sequence + 1))
            seq += len(results)
            ledger.compact()


def by_pandas(seats: pd.DataFrame) -> pd.DataFrame:
    """The same from rows of two-seat matches: one merge, one groupby."""
    home = seats[seats["seat"] == 0]
    away = seats[seats["seat"] == 1]
    pairs = home.merge(away, on="seq", suffixes=("_home", "_away"))
    won = (pairs["outcome_home"] == "win").astype(np.int8) - (pairs["outcome_away"] == "win").astype(np.int8)
    won -= ((pairs["outcome_home"] == "forfeit") & (pairs["outcome_away"] != "win")).astype(np.int8)
    won += ((pairs["outcome_away"] == "forfeit") & (pairs["outcome_home"] != "win")).astype(np.int8)
    told = pd.DataFrame({"home": pairs["competitor_home"], "away": pairs["competitor_away"]})
    told["games"] = 1
    told["wins"], told["draws"], told["losses"] = (won == 1), (won == 0), (won == -1)
    there = told.groupby(["home", "away"], observed=True).sum()
    back = there.rename(columns={"wins": "losses", "losses": "wins"})
    back.index = back.index.swaplevel().set_names(["home", "away"])
    return pd.concat([there, back]).groupby(level=["home", "away"], observed=True).sum().sort_index()


def in_memory(live: storage.LiveConnection) -> pd.DataFrame:
    table = live.sql("SELECT seq, seat, competitor, outcome FROM seats").to_arrow_table()
    return table.to_pandas(strings_to_categorical=True)


def timed(name: str, work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = work()
    seconds = time.perf_counter() - began
    print(f"{name:<58}{seconds:>9.2f} s", flush=True)
    return found, seconds


def rows(table: Any) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--matches", type=int, default=10_000_000)
    parser.add_argument("--snapshots", type=int, default=200)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        timed(
            f"{arguments.matches:,} matches generated, written and compacted",
            lambda: make_run(run, arguments.matches, arguments.snapshots),
        )
        size = sum(path.stat().st_size for path in (run / LEDGER).iterdir())
        print(f"{'ledger':<58}{size / 2**20:>9,.0f} MiB")
        live, opening = timed("live reader opened", lambda: storage.connect(run))
        answer, asking = timed("payoff, live reader", lambda: rows(live.sql(PAYOFF).to_arrow_table()))
        _, whole = timed("payoff, storage.query (opens, locks, asks)", lambda: storage.query(run, PAYOFF))
        _, copied = timed("all tables into league.duckdb", lambda: save(run, run / DATABASE))
        with duckdb.connect(str(run / DATABASE), read_only=True) as copy:
            told, _ = timed("payoff, league.duckdb", lambda: rows(copy.sql(PAYOFF).to_arrow_table()))
        joined, _ = timed(
            "payoff from the rows of seats, live reader", lambda: rows(live.sql(FROM_SEATS).to_arrow_table())
        )
        seats, _ = timed("rows of seats into pandas", lambda: in_memory(live))
        live.close()
        found, pandas = timed("payoff from the rows of seats, pandas", lambda: by_pandas(seats))
        reference = [
            (*pair, *map(int, counts)) for pair, counts in zip(found.index, found.to_numpy(), strict=True)
        ]
        assert answer == told == joined == sorted(reference), "the answers differ"
    print(f"{'payoff, live reader opened for it, of the goal (10M)':<58}{(opening + asking) / GOAL:>9.2f}")
    print(f"{'payoff, storage.query, of the goal (10M)':<58}{whole / GOAL:>9.2f}")
    print(f"{'payoff, pandas to live reader':<58}{pandas / asking:>9.1f}")
    per_rows = copied * 10_000_000 / (3 * arguments.matches)
    print(f"{'copied, seconds per 10M rows of matches and seats':<58}{per_rows:>9.2f}")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{'peak memory of this process':<58}{peak:>9.1f} GiB")


if __name__ == "__main__":
    main()
