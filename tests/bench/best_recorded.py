"""Is the snapshot that is named best of a trained run as good as the best, and what did finding it cost?

    python -m tests.bench.best_recorded [--leagues connect_four whist] [--seeds 0 1]
    python -m tests.bench.best_recorded --runs runs/connect_four runs/other

Short leagues of shipped games are trained, with `runners: 0`, or runs that are there are read. Then all
trained snapshots of each play a tournament of 200 pairs of each two, with seeds of its own. The named best is
right if the verdict cannot tell it from the first. Of leagues that were trained here, the cost is the round
robin's share of the env steps, and of the processor time of training.
"""

from __future__ import annotations

import argparse
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

import analysis
import league
from league.training.round_robin import RoundRobin

CONFIGS = Path(__file__).parents[2] / "configs"
PAIRS = 200

LEAGUES = {  # config: env steps, and own steps of a main between two of its snapshots
    "tic_tac_toe": (400_000, 25_000),
    "kuhn_poker": (300_000, 25_000),
    "rock_paper_scissors": (300_000, 10_000),
    "population": (300_000, 20_000),
    "connect_four": (600_000, 40_000),
    "whist": (800_000, 80_000),
    "tron": (400_000, 40_000),
}


@dataclass
class Cost:
    """What the round robin of a training took of it."""

    seconds: float = 0.0
    all_seconds: float = 0.0

    @property
    def share(self) -> float:
        """Return the share of the processor time of training without it."""
        return self.seconds / (self.all_seconds - self.seconds)


@contextlib.contextmanager
def measured() -> Iterator[Cost]:
    """Measure the processor time of what is called in the block, and of the round robin in it."""
    cost, began = Cost(), time.process_time()

    def timed(method: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            if busy[0]:
                return method(*arguments, **named)
            busy[0], start = True, time.process_time()
            try:
                return method(*arguments, **named)
            finally:
                cost.seconds += time.process_time() - start
                busy[0] = False

        return call

    busy = [False]  # `end` calls the others
    with contextlib.ExitStack() as stack:
        for name in ("ask", "take", "end"):
            stack.enter_context(patch.object(RoundRobin, name, timed(getattr(RoundRobin, name))))
        yield cost
    cost.all_seconds = time.process_time() - began


def trained(name: str, seed: int, folder: Path) -> tuple[Path, Cost]:
    """Return a short run of a shipped config, with many snapshots, and the cost of its round robin."""
    steps, every = LEAGUES[name]
    overrides = [
        f"seed={seed}",
        "runners=0",
        "stop={}",
        f"stop.env_steps={steps}",
        f"league.freeze_every={every}",
    ]
    with measured() as cost:
        run = league.train(CONFIGS / f"{name}.yaml", folder / f"{name}-{seed}", overrides=overrides)
    return run, cost


@dataclass(frozen=True)
class Judged:
    """The named best of a run, judged by a tournament."""

    name: str
    snapshots: int
    chance: float  # as it is stated
    level: bool  # the tournament cannot tell it from its first
    first: bool  # it is the tournament's first
    steps: float  # share of the env steps that were the round robin's


def judge(run: Path, folder: Path) -> Judged:
    """Return what a tournament of the run's trained snapshots says of the one that is named best."""
    with analysis.open_run(run) as history:
        order = history.order()
        query = """
            SELECT coalesce(sum(env_steps) FILTER (match_type = 'round_robin'), 0) / sum(env_steps) AS part
            FROM matches"""
        steps = float(history.sql(query)["part"].item())
    assert order.best is not None
    names = [place.competitor for place in order.places if place.stored]
    config = {
        "competitors": [{"run": str(run), "names": names}],
        "schedule": {"kind": "round_robin", "pairs": PAIRS},
        "seed": 987_654_321,
    }
    found = analysis.verdict(league.play_tournament(config, folder / f"{run.name}-cup"))
    best = order.best.competitor
    first = found.played["competitor"].iloc[0]
    level = first == best or found.difference(first, best).low <= 0.0
    return Judged(best, len(names), order.best.chance, level, first == best, steps)


def main() -> None:
    """Print one line for each league, and one of all."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--leagues", nargs="*", choices=sorted(LEAGUES), default=list(LEAGUES))
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--runs", type=Path, nargs="*", default=[], help="runs that are there, instead")
    given = parser.parse_args()
    every: list[Judged] = []
    costs: list[Cost] = []
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        asked = [(name, seed) for name in given.leagues for seed in given.seeds]
        for item in given.runs or asked:
            run, cost = (item, None) if isinstance(item, Path) else trained(*item, folder)
            found = judge(run, folder)
            every.append(found)
            print(_line(run.name, found, cost), flush=True)
            costs += [] if cost is None else [cost]
    level, first = np.mean([one.level for one in every]), np.mean([one.first for one in every])
    stated = np.mean([one.chance for one in every])
    print(
        f"{len(every)} leagues: level with the first {level:.2f}, stated {stated:.2f}, the first {first:.2f}"
    )
    if costs:
        whole = Cost(sum(cost.seconds for cost in costs), sum(cost.all_seconds for cost in costs))
        print(f"processor time of the round robins: {whole.share:.2%} of the training without them")


def _line(name: str, found: Judged, cost: Cost | None) -> str:
    verdict = "first" if found.first else "level with the first" if found.level else "BEHIND the first"
    spent = "" if cost is None else f", {cost.share:.2%} of the processor time ({cost.all_seconds:.0f} s)"
    return (
        f"{name:24}  {found.snapshots:3} snapshots  {found.name:24}  stated {found.chance:.2f}  "
        f"{verdict:20}  "
        f"round robin: {found.steps:.2%} of the env steps{spent}"
    )


if __name__ == "__main__":
    main()
