"""A large tournament, killed and resumed, beside one that never stopped: is everything the same?

    python -m tests.bench.tournament_kills RUN [--field 200] [--pairs 2] [--kills 3]

A round robin among the newest snapshots of RUN, such as one of configs/connect_four.yaml with
`--set league.freeze_every=100_000`. Each kill is SIGKILL to the command and all that it started, at a
random moment after it has recorded something.
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from analysis.tournaments.exports import match_records
from analysis.tournaments.tournament import verdict


def command(run: str, field: int, pairs: int, out: Path) -> list[str]:
    newest = f"snapshot_id IN (SELECT snapshot_id FROM snapshots ORDER BY created_at DESC LIMIT {field})"
    arguments = [run, "--select", newest, "--pairs", str(pairs), "--out", str(out), "--json"]
    resumed = ["--resume"] if out.exists() else []
    return [sys.executable, "-m", "league.commands.app", "tournament", *arguments, *resumed]


def recorded(out: Path) -> int:
    return sum(path.stat().st_size for path in out.glob("ledger/*")) if out.exists() else 0


def kill_soon(arguments: list[str], out: Path, rng: random.Random) -> bool:
    """Whether it was killed while it played."""
    before = recorded(out)
    started = psutil.Popen(
        arguments, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True
    )
    while started.poll() is None and recorded(out) < before + 100_000:
        time.sleep(0.02)
    time.sleep(rng.uniform(0.0, 3.0))
    playing = started.poll() is None
    for process in [started, *started.children(recursive=True)]:
        process.kill()
    started.wait()
    return playing


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("run")
    parser.add_argument("--field", type=int, default=200)
    parser.add_argument("--pairs", type=int, default=2)
    parser.add_argument("--kills", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0, help="of the moments of killing")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    with tempfile.TemporaryDirectory() as folder:
        whole, broken = Path(folder) / "whole", Path(folder) / "broken"
        began = time.perf_counter()
        done = subprocess.run(
            command(args.run, args.field, args.pairs, whole), capture_output=True, text=True, check=True
        )
        seconds = time.perf_counter() - began
        told = json.loads(done.stdout)
        print(f"unbroken: {told['games']:,} games in {seconds:.1f} s, all told; {told['headline']}")
        kills = [
            kill_soon(command(args.run, args.field, args.pairs, broken), broken, rng)
            for _ in range(args.kills)
        ]
        subprocess.run(
            command(args.run, args.field, args.pairs, broken), capture_output=True, text=True, check=True
        )
        clocks = ["started_at", "seconds"]
        one, other = (match_records(out).drop(columns=clocks) for out in (whole, broken))
        same_table = verdict(whole).table.equals(verdict(broken).table)
        print(f"killed while it played: {sum(kills)} of {args.kills} times, and resumed")
        print(f"matches: {len(other):,}, {'identical' if one.equals(other) else 'DIFFERENT'}")
        print(f"table: {'identical' if same_table else 'DIFFERENT'}")


if __name__ == "__main__":
    main()
