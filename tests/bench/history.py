"""What a long league can be asked: time and memory of each command on a made-up run of any length.

    python -m tests.bench.history [--matches 10_000_000] [--players 3] [--snapshots 300] [--opponents 16]
                                  [--batch 8_000] [--folder DIR] [--run RUN] [COMMAND ...]

The run is written first, as a league writes it: batches of matches of one player against a few opponents,
their ratings, now and then a snapshot and what its learner reports. Closed segments are compacted and summed
up (storage/retention/segment_sums.py); the newest journal is left as it is. 100 million matches take 2 GB.
`--run` is one that is there. Then each command, or those named, is a process of its own: its seconds of
processor, all its threads together, and the most memory that it held.

Goals, for 100 million matches of a game for two: 20 s of processor and 1 GB.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
import yaml

from storage.archive import Archive
from storage.disk import using
from storage.layout import LEDGER
from storage.ledger.ledger import Ledger
from storage.records import (
    LEAGUE_EXPLOITER,
    MAIN,
    MAIN_EXPLOITER,
    Freeze,
    LivePlayer,
    RatingChange,
    ResultBatch,
    Role,
    Snapshot,
    UpdateRecord,
)
from storage.retention.segment_sums import SegmentSums
from storage.tables import codec
from storage.tables.columns import competitor_tables, decision_table, result_tables, update_table
from tests.bench.shared import parser_of
from tests.bench.storage_results import ENV, Unsynced, random_results

START = 4.1e9  # seconds since the epoch, behind the making of the run
RATE = 20_000  # matches per second, as they say of themselves
GOAL_SECONDS, GOAL_MB = 20.0, 1000.0
ROLES: tuple[Role, ...] = (MAIN, MAIN_EXPLOITER, LEAGUE_EXPLOITER)
DRAWN = 16  # batches of results, which are used again and again
METRICS = {"policy_loss": 0.1, "value_loss": 0.2, "entropy": 1.0, "gradient_norm": 0.5, "kl": 0.01}
LAUNCHER = """
import os, sys
process = os.spawnv(os.P_NOWAIT, sys.argv[1], sys.argv[1:])
_, status, used = os.wait4(process, 0)
print()
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status) & 255)
"""  # a small process: a child's most memory is at least that of what it was forked from
COMMANDS = {
    "ratings": ("ratings", "RUN"),
    "count": ("sql", "RUN", "SELECT count(*) FROM matches"),
    "group": ("sql", "RUN", "SELECT match_type, reason, count(*) FROM matches GROUP BY ALL"),
    "payoff": ("sql", "RUN", "SELECT count(*), sum(games) FROM payoff"),
    "learned_from": ("sql", "RUN", "SELECT count(*), sum(games) FROM learned_from"),
    "matches_by_role": ("sql", "RUN", "FROM matches_by_role"),
    "report": ("report", "RUN", "-o", "OUT/report.html"),
    "diagnose": ("diagnose", "RUN"),
    "plot": ("plot", "RUN", "all", "-o", "OUT/plots"),
}


class Sizes(NamedTuple):
    """What a made-up run has."""

    matches: int
    players: int
    snapshots: int
    opponents: int  # that the matches of one batch are against
    batch: int  # matches


def make_run(run: Path, sizes: Sizes) -> None:
    """Write a run without weights, for which no question asks."""
    config = yaml.safe_dump({"env": {"id": ENV}})
    Archive.create(run, config, {"name": "benchmark", "env": ENV, "seed": 0}).close()
    rng, seq = np.random.default_rng(0), 1
    batches = -(-sizes.matches // sizes.batch)
    frozen: list[str] = []
    names = tuple(f"place-{i}" for i in range(1 + sizes.opponents))
    drawn = [random_results(rng, sizes.batch, names) for _ in range(DRAWN)]
    with using(Unsynced()), Ledger(run / LEDGER, "benchmark") as ledger:
        sums = SegmentSums(ledger)
        for number in range(sizes.players):
            ledger.append(competitor_tables(LivePlayer(_player(number), ROLES[number % len(ROLES)]), START))
        for number in range(batches):
            now = START + number * sizes.batch / RATE
            while len(frozen) * batches <= number * sizes.snapshots and len(frozen) < sizes.snapshots:
                snapshot = _snapshot(len(frozen), sizes.players, now)
                freeze = Freeze(player=snapshot.player, reason="due", evidence={"since_freeze": 1000.0})
                rows = decision_table([freeze], seq, now, snapshot.snapshot_id)
                ledger.append(competitor_tables(snapshot, now) | {"decisions": rows})
                frozen.append(snapshot.snapshot_id)
                rating = _rating(snapshot.snapshot_id, 0)
                ledger.append({"ratings": codec.rows("ratings", [rating], seq=seq, batch=number)})
                seq += 1
            player = _player(number % sizes.players)
            others = [name for name in (_player(i) for i in range(sizes.players)) if name != player] + frozen
            chosen = rng.choice(others, size=min(sizes.opponents, len(others)), replace=False).tolist()
            seated = (player, *(chosen[i % len(chosen)] for i in range(sizes.opponents)))
            results = _renewed(drawn[number % DRAWN], seated, number * sizes.batch, now)
            changes = [_rating(name, number) for name in {*seated}]
            ledger.append(result_tables(results, changes, seq, ledger.last_sequence + 1))
            seq += sizes.batch
            if number % 50 == 49:
                row = UpdateRecord(player, number, number * sizes.batch * 25, 2.0, METRICS)
                ledger.append({"updates": update_table([row], seq, now)})
                seq += 1
            while ledger.compact(most=1) or sums.step():
                pass


def _player(number: int) -> str:
    return f"{ROLES[number % len(ROLES)]}-{number // len(ROLES)}"


def _rating(name: str, games: int) -> RatingChange:
    return RatingChange(name, 25.0 + games % 7, 8.0, games)


def _snapshot(number: int, players: int, now: float) -> Snapshot:
    player, own = _player(number % players), number // players
    return Snapshot(
        snapshot_id=f"{player}@{1000 * own}",
        player=player,
        role=ROLES[number % players % len(ROLES)],
        env_steps=1000 * own,
        updates=own,
        parent_id=f"{player}@{1000 * (own - 1)}" if own else None,
        blob_hash=f"{number:064x}",
        bytes=2**20,
        architecture="mlp",
        created_at=now,
        reason="due",
    )


def _renewed(results: ResultBatch, seated: tuple[str, ...], first: int, now: float) -> ResultBatch:
    """Return the results as those of other competitors, later."""
    n = len(results)
    matches = results.matches
    fields = {name: getattr(matches, name) for name in matches.__slots__}
    others = {name: getattr(results, name) for name in results.__slots__}
    fields |= {"competitors": seated, "match_id": first + np.arange(n)}
    others |= {"matches": type(matches)(**fields), "started_at": now + np.arange(n) / RATE}
    return ResultBatch(**others)


def measured(command: tuple[str, ...], run: Path, out: Path) -> tuple[float, float, int, str]:
    """Return (seconds of processor, megabytes, exit code, the end of what is printed) of a command."""
    words = [word.replace("RUN", str(run)).replace("OUT", str(out)) for word in command]
    launched = [sys.executable, "-c", LAUNCHER, sys.executable, "-m", "league", *words]
    done = subprocess.run(launched, capture_output=True, text=True, check=False)
    *said, last = done.stdout.splitlines()
    seconds, kilobytes = map(float, last.split())
    return seconds, kilobytes / 1e3, done.returncode, (done.stderr.splitlines() or said or [""])[-1]


def main() -> None:
    """Write the run and measure the commands."""
    parser = parser_of(__doc__)
    parser.add_argument("commands", nargs="*", metavar="COMMAND", help=f"of {', '.join(COMMANDS)}")
    parser.add_argument("--matches", type=int, default=10_000_000)
    parser.add_argument("--players", type=int, default=3)
    parser.add_argument("--snapshots", type=int, default=300)
    parser.add_argument("--opponents", type=int, default=16)
    parser.add_argument("--batch", type=int, default=8_000)
    parser.add_argument("--folder", type=Path, help="in which the run is written; default: the temporary one")
    parser.add_argument("--run", type=Path, help="a run that is there, or is written there to stay")
    given = parser.parse_args()
    sizes = Sizes(given.matches, given.players, given.snapshots, given.opponents, given.batch)
    with tempfile.TemporaryDirectory(dir=given.folder) as folder:
        run = given.run or Path(folder) / "run"
        if not run.exists():
            began = time.process_time()
            make_run(run, sizes)
            print(f"{sizes.matches:,} matches written in {time.process_time() - began:.0f} s of processor")
        for part in (LEDGER, "sums"):
            size = sum(path.stat().st_size for path in (run / part).glob("*"))
            print(f"{part:<16}{size / 1e6:>10,.1f} MB", flush=True)
        print(f"{'':<16}{'processor':>12}{'of goal':>9}{'memory':>12}{'of goal':>9}")
        failed = False
        for name in given.commands or COMMANDS:
            seconds, megabytes, code, said = measured(COMMANDS[name], run, Path(folder))
            failed |= code != 0
            print(
                f"{name:<16}{seconds:>10.1f} s{seconds / GOAL_SECONDS:>9.2f}{megabytes:>9,.0f} MB"
                f"{megabytes / GOAL_MB:>9.2f}{f'  exit {code}: {said}' if code else ''}",
                flush=True,
            )
    if failed:
        sys.exit(1)


if __name__ == "__main__":
    main()
