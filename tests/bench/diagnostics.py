"""How often diagnostics find what was planted, and how often what was not; and what a long run takes.

    python -m tests.bench.diagnostics [--seeds 100] [--run RUN]

Each truth is planted in as many runs as there are seeds. Power is the share in which it was named with the
right subject; false alarms are the findings in clean runs, of any kind, and in the others of kinds that were
not planted. Then forgetting among 64 snapshots is located by a bisection and by playing all of them. With a
run folder (tests.bench.history --run RUN makes one of 10M matches) the time that its diagnosis takes.
"""

from __future__ import annotations

import resource
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import analysis
from analysis.diagnostics import Finding, diagnose, locate_forgetting
from analysis.diagnostics.bisection import pairs_of_all
from tests.analysis.diagnostics.remembered import Remembered
from tests.analysis.planted_runs import EXPLOITER, PLAYER, Plan, cycle, forgetting, levelling
from tests.bench.shared import parser_of

SMALL, LARGE, MANY = Plan(), Plan(matches=1500), Plan(batches=8, matches=200)
Right = Callable[[Finding], bool]


def of(player: str) -> Right:
    return lambda finding: finding.subject == player


PLANTED: dict[str, tuple[Plan, str, Right, set[str]]] = {
    # plan, kind, what is right, kinds that follow from it (who forgot one opponent is in cycles with it)
    "forgetting": (
        Plan(advantage=forgetting(SMALL)),
        "forgetting",
        lambda f: f.evidence["opponent"] == SMALL.snapshot(4),
        {"cycle"},
    ),
    "cycle": (
        Plan(matches=1500, advantage=cycle(LARGE)),
        "cycle",
        lambda f: set(f.evidence["competitors"]) == {LARGE.snapshot(i) for i in (4, 6, 8)},
        set(),
    ),
    "stagnation": (Plan(batches=6, matches=1400, skill=levelling), "stagnation", of(PLAYER), set()),
    "regression": (
        Plan(advantage={(stage, SMALL.exploiter(2)): -18.0 for stage in range(13)}),
        "regression",
        lambda f: f.evidence["opponent"] == SMALL.exploiter(2),
        {"cycle"},
    ),
    "drift": (Plan(inflation=10.0), "drift", of(PLAYER), set()),
    "lag": (Plan(lag=lambda progress: 4.0 if progress < 0.6 else 16.0), "lag", of(PLAYER), set()),
    "starvation": (Plan(batches=8, matches=200, starved_since=0.6), "starvation", of(EXPLOITER), set()),
}
CLEAN = {
    "clean": SMALL,
    "clean, many batches": Plan(batches=6),
    "clean, many matches": LARGE,
    "clean, slow": Plan(batches=6, matches=1400, skill=lambda progress: 25.0 + 9.0 * progress),
    "clean, wobbles": Plan(batches=6, wobble=0.8),
}


def power(seeds: int) -> None:
    print(f"{'planted':<24}{'named':>8}{'false alarms, of the kinds':>40}")
    for name, (plan, kind, right, follows) in PLANTED.items():
        named, others = 0, Counter[str]()
        for seed in range(seeds):
            found = diagnose(Remembered(np.random.default_rng(seed), plan))
            named += any(f.kind == kind and right(f) for f in found)
            others.update({f.kind for f in found} - {kind} - follows)
        print(f"{name:<24}{named / seeds:>8.2f}{dict(others)!s:>40}", flush=True)
    for name, plan in CLEAN.items():
        alarms, alarmed = Counter[str](), 0
        for seed in range(seeds):
            found = diagnose(Remembered(np.random.default_rng(seed), plan))
            alarmed += bool(found)
            alarms.update({f.kind for f in found})
        print(f"{name:<24}{'':>8}{alarmed / seeds:>12.2f}{dict(alarms)!s:>28}", flush=True)


def bisection(seeds: int) -> None:
    names = tuple(f"main-0@{i}" for i in range(64))
    right, pairs = 0, []
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        score = np.where(np.arange(64) <= rng.integers(0, 63), 0.7, 0.45)

        def play(a: str, b: str, count: int, rng=rng, score=score) -> tuple[int, int, int]:
            wins = int(rng.binomial(2 * count, score[names.index(a)]))
            return wins, 0, 2 * count - wins

        found = locate_forgetting(play, names, "opponent")
        assert found is not None
        right += score[names.index(found.before)] > score[names.index(found.after)]
        pairs.append(found.pairs)
    of_all = pairs_of_all(64, 0.7, 0.45, 0.95)
    print(
        f"bisection over 64 snapshots, 0.70 to 0.45, 95 % asked for: right {right / seeds:.2f}, "
        f"{np.median(pairs):.0f} pairs (95 %: {np.quantile(pairs, 0.95):.0f}), all of them as surely "
        f"{of_all}: {of_all / np.median(pairs):.1f} times as many"
    )


def long_run(run: Path) -> None:
    start = time.perf_counter()
    with analysis.open_run(run) as history:
        opened = time.perf_counter()
        found = diagnose(history)
        done = time.perf_counter()
        matches = int(history.sql("SELECT count(*) AS n FROM matches")["n"].item())
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(
        f"{run}: {matches:,} matches: opened in {opened - start:.1f} s, {len(found)} findings in "
        f"{done - opened:.1f} s, peak {peak:.1f} GiB"
    )


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seeds", type=int, default=100)
    parser.add_argument("--run", type=Path, help="A run folder whose diagnosis is timed")
    arguments = parser.parse_args()
    if arguments.run is not None:
        long_run(arguments.run)
    if arguments.seeds:
        bisection(arguments.seeds)
        power(arguments.seeds)


if __name__ == "__main__":
    main()
