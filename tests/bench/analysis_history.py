"""What a long league can be asked: the views of a run of 10M matches and 1,000 snapshots.

    python -m tests.bench.analysis_history [--matches 10_000_000] [--snapshots 1_000] [--opponents 8]

The run is written first, request by request as a league does it: a thousand matches of one player against a
few opponents, their ratings, now and then a snapshot, its decision, what the learner reports. Closed segments
are compacted; the newest journal is left as it is. Then, in a process of its own: opening, and each view
through `History`, twice: what was read and decoded for the first answer is there for the second. In another
process pandas does the same on frames of the facts, which are in memory already and have categories for
names. Answers are compared. Last, the page of `league report`. Goals: 2 s a view, 30 s the page, 4 GB in all.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command `league` has it

import numpy as np
import pandas as pd
import yaml

import analysis
from storage.archive import Archive
from storage.disk import using
from storage.layout import LEDGER
from storage.ledger.ledger import Ledger
from storage.records import MAIN, Freeze, LivePlayer, RatingChange, Snapshot, UpdateRecord
from storage.tables import codec
from storage.tables.columns import competitor_tables, decision_table, result_tables, update_table
from tests.bench.shared import parser_of
from tests.bench.storage_results import ENV, Unsynced, random_results

BATCH = 1_000  # matches of one request
START = 4.1e9  # seconds since the epoch, behind the making of the run
GOAL_SECONDS, GOAL_GB = 2.0, 4.0
GOAL_REPORT_SECONDS = 30.0
PLAYER = "main-0"
METRICS = {"policy_loss": 0.1, "value_loss": 0.2, "entropy": 1.0, "gradient_norm": 0.5, "kl": 0.01}


def make_run(run: Path, matches: int, snapshots: int, opponents: int) -> None:
    """A run without weights: what is measured asks for none."""
    config = yaml.safe_dump({"env": {"id": ENV}})
    Archive.create(run, config, {"name": "benchmark", "env": ENV, "seed": 0}).close()
    rng, seq, seated = np.random.default_rng(0), 1, 0
    batches = -(-matches // BATCH)
    with using(Unsynced()), Ledger(run / LEDGER, "benchmark") as ledger:
        ledger.append(competitor_tables(LivePlayer(PLAYER, MAIN), START))
        for number in range(batches):
            now = START + number
            while seated * batches <= number * snapshots and seated < snapshots:
                ledger.append(_freeze(seated, seq, now))
                rating = _rating(_id(seated), 0)
                ledger.append({"ratings": codec.rows("ratings", [rating], seq=seq, batch=number)})
                seq, seated = seq + 1, seated + 1
            drawn = rng.choice(seated, size=min(opponents, seated), replace=False)
            competitors = (PLAYER, *(_id(i) for i in drawn.tolist()))
            results = random_results(rng, BATCH, competitors, number * BATCH)
            results.started_at[:] += START + number - 1.7e9
            changes = [_rating(name, number) for name in competitors]
            ledger.append(result_tables(results, changes, seq, ledger.last_sequence + 1))
            seq += BATCH
            if number % 50 == 49:
                row = UpdateRecord(PLAYER, number, number * BATCH * 25, 2.0, METRICS)
                ledger.append({"updates": update_table([row], seq, now)})
                seq += 1
            if number % 100 == 99:
                ledger.compact()
        ledger.compact()


def _id(number: int) -> str:
    return f"{PLAYER}@{1000 * number}"


def _rating(name: str, games: int) -> RatingChange:
    return RatingChange(name, 25.0 + games % 7, 8.0, games)


def _freeze(number: int, seq: int, now: float) -> dict[str, Any]:
    snapshot = Snapshot(
        snapshot_id=_id(number),
        player=PLAYER,
        role=MAIN,
        env_steps=1000 * number,
        updates=number,
        parent_id=_id(number - 1) if number else None,
        blob_hash=f"{number:064x}",
        bytes=2**20,
        architecture="mlp",
        created_at=now,
        reason="due",
    )
    freeze = Freeze(player=PLAYER, reason="due", evidence={"since_freeze": 1000.0})
    tables = competitor_tables(snapshot, now)
    return tables | {"decisions": decision_table([freeze], seq, now, snapshot.snapshot_id)}


def by_pandas(matches: pd.DataFrame, seats: pd.DataFrame, ratings: pd.DataFrame) -> dict[str, Any]:
    """The views, each from the frames of the facts. Two seats a match, in order: no join is needed."""

    def payoff() -> pd.DataFrame:
        home, away = seats.iloc[::2].reset_index(drop=True), seats.iloc[1::2].reset_index(drop=True)
        won, lost = home["outcome"].astype(str) == "win", away["outcome"].astype(str) == "win"
        won |= (away["outcome"] == "forfeit") & (home["outcome"] != "forfeit")
        lost |= (home["outcome"] == "forfeit") & (away["outcome"] != "forfeit")
        told = pd.DataFrame({"home": home["competitor"], "away": away["competitor"], "games": 1})
        told["wins"], told["losses"] = won & ~lost, lost & ~won
        told["draws"] = ~(won | lost)
        there = told.groupby(["home", "away"], observed=True).sum()
        back = there.rename(columns={"wins": "losses", "losses": "wins"})
        back.index = back.index.swaplevel().set_names(["home", "away"])
        found = pd.concat([there, back]).groupby(level=["home", "away"], observed=True).sum()
        return found[["games", "wins", "draws", "losses"]].sort_index().reset_index()

    def leaderboard() -> pd.DataFrame:
        latest = ratings.groupby("competitor")[["mu", "sigma", "games"]].last()
        totals = payoff().groupby("home", observed=True)[["games", "wins", "draws"]].sum()
        latest["win_rate"] = (totals["wins"] + 0.5 * totals["draws"]) / totals["games"]
        latest["skill"] = latest["mu"] - 3 * latest["sigma"]
        return latest.reset_index().sort_values(["skill", "competitor"], ascending=[False, True])

    def rating_history() -> pd.DataFrame:
        batches = matches.groupby("batch").agg(seq=("seq", "max"), env_steps=("env_steps", "sum"))
        batches["league_env_steps"] = batches["env_steps"].cumsum()
        return pd.merge_asof(ratings[["seq", "competitor", "mu"]], batches.sort_values("seq"), on="seq")

    def match_mix() -> pd.DataFrame:
        by = ["player", "purpose", "match_type"]
        return matches.groupby(by, observed=True).size().rename("matches").reset_index()

    return {
        "leaderboard": leaderboard,
        "payoff": payoff,
        "rating history": rating_history,
        "match mix": match_mix,
    }


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    began = time.perf_counter()
    found = work()
    return found, time.perf_counter() - began


def peak_gb() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 / 1e9


def ask(run: Path) -> dict[str, Any]:
    """Seconds of opening and of each view, first and second time, what they said, and the peak memory."""
    history, opening = timed(lambda: analysis.open_run(run))
    views = {
        "leaderboard": history.leaderboard,
        "payoff": history.payoff,
        "rating history": history.ratings,
        "match mix": history.match_mix,
    }
    told: dict[str, Any] = {"opening": opening, "seconds": {}, "again": {}, "sums": {}}
    for name, view in views.items():
        frame, told["seconds"][name] = timed(view)
        _, told["again"][name] = timed(view)
        told["sums"][name] = _sums(frame)
    told["minute by minute"] = timed(lambda: history.match_mix(over_time=True))[1]
    told["peak"] = peak_gb()
    past, told["as of"] = timed(lambda: history.as_of(int(frame["matches"].sum() * 12)))
    told["leaderboard then"] = timed(past.leaderboard)[1]
    return told


def report(run: Path) -> dict[str, Any]:
    """One page on all of it, charts included, in a process of its own."""
    from analysis.report import report_page

    with analysis.open_run(run) as history:
        page, seconds = timed(lambda: report_page(history))
    return {"seconds": seconds, "size": len(page.encode()), "peak": peak_gb()}


def ask_pandas(run: Path) -> dict[str, Any]:
    history = analysis.open_run(run)
    frames, loading = timed(lambda: (history.matches(), history.seats(), history.ratings()))
    told: dict[str, Any] = {"loading": loading, "seconds": {}, "sums": {}}
    for name, view in by_pandas(*frames).items():
        frame, told["seconds"][name] = timed(view)
        told["sums"][name] = _sums(frame)
    told["peak"] = peak_gb()
    return told


def _sums(frame: pd.DataFrame) -> dict[str, float]:
    """Enough of an answer to tell it from another: sums of its columns, by place where order matters."""
    weights = np.arange(1, len(frame) + 1)
    chosen = [name for name in ("games", "wins", "draws", "losses", "matches") if name in frame]
    sums = {name: float(frame[name].sum()) for name in chosen}
    for name in ("league_env_steps", "skill", "win_rate"):
        if name in frame:
            sums[name] = float((frame[name].fillna(0.0).to_numpy() * weights).sum())
    return sums


def in_a_process(work: Callable[[Path], dict[str, Any]], run: Path) -> dict[str, Any]:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(work, (run,))


def line(name: str, seconds: float, goal: float | None = GOAL_SECONDS, more: str = "") -> None:
    of_goal = "" if goal is None else f"{seconds / goal:>10.2f}"
    print(f"{name:<44}{seconds:>9.2f} s{of_goal:>10}{more}", flush=True)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--matches", type=int, default=10_000_000)
    parser.add_argument("--snapshots", type=int, default=1_000)
    parser.add_argument(
        "--opponents", type=int, default=8, help="whom the matches of one request are against"
    )
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        _, made = timed(lambda: make_run(run, arguments.matches, arguments.snapshots, arguments.opponents))
        line(f"{arguments.matches:,} matches generated and written", made, None)
        size = sum(path.stat().st_size for path in (run / LEDGER).iterdir())
        print(f"{'ledger':<44}{size / 2**20:>9,.0f} MiB")
        told, pandas = in_a_process(ask, run), in_a_process(ask_pandas, run)
        page = in_a_process(report, run)
    for name, found in pandas["sums"].items():
        alike = {key: np.isclose(told["sums"][name][key], found[key], rtol=1e-12, atol=0) for key in found}
        assert all(alike.values()), (name, alike)
    print(f"{'':<44}{'':>11}{'of goal':>10}{'again':>11}{'pandas':>11}{'pandas / History':>19}")
    line("opening", told["opening"])
    for name, seconds in told["seconds"].items():
        again, other = told["again"][name], pandas["seconds"][name]
        line(
            name, seconds, more=f"{again:>9.2f} s{other:>9.2f} s{other / seconds:>10.1f}{other / again:>9.1f}"
        )
    line("match mix, minute by minute", told["minute by minute"])
    line("as_of the middle", told["as of"])
    line("leaderboard then", told["leaderboard then"])
    print(f"{'peak memory':<44}{told['peak']:>9.2f} GB{told['peak'] / GOAL_GB:>9.2f}")
    line("league report", page["seconds"], GOAL_REPORT_SECONDS, f"{page['size'] / 2**20:>9.2f} MB")
    print(f"{'league report: peak memory':<44}{page['peak']:>9.2f} GB{page['peak'] / GOAL_GB:>9.2f}")
    line("pandas: frames of matches, seats, ratings", pandas["loading"], None)
    print(f"{'pandas: peak memory':<44}{pandas['peak']:>9.2f} GB")


if __name__ == "__main__":
    main()
