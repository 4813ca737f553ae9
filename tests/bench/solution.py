"""What solution concepts cost, beside what another way to the same answer does.

    OPENBLAS_NUM_THREADS=1 python -m tests.bench.solution [--members 1000]

Three populations: a league, in which the later are stronger and pairings stray from that; payoffs at random,
half of which belong to the equilibrium; and copies, ten of each. Ratios are of the time of a peer, on the
same input where it can take it, to ours. One thread: BLAS' own are slower on cores that are busy.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import nashpy
import numpy as np
import numpy.typing as npt
import pandas as pd
from open_spiel.python.egt import alpharank
from open_spiel.python.voting import base, kemeny_young

from analysis.solution import (
    Payoffs,
    alpha_rank,
    effective_diversity,
    kemeny,
    max_entropy_nash,
    nash_averaging,
    nash_averaging_on_tasks,
    nash_clusters,
    schur,
    split,
    with_interval,
    zero_sum_nash,
)

Floats = npt.NDArray[np.float64]


def antisymmetric(n: int, seed: int) -> Floats:
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


def league(n: int) -> Floats:
    rungs = np.linspace(0.0, 10.0, n)
    return np.tanh(np.subtract.outer(rungs, rungs) + 0.3 * antisymmetric(n, 1))


def timed(
    name: str, ours: Callable[[], object], peers: str = "", theirs: Callable[[], object] | None = None
) -> None:
    def seconds(work: Callable[[], object]) -> float:
        began = time.perf_counter()
        work()
        return time.perf_counter() - began

    own = min(seconds(ours) for _ in range(2))
    ratio = f"   {peers}: {seconds(theirs) / own:,.1f} times" if theirs else ""
    print(f"  {name:<52} {own:9.4f} s{ratio}", flush=True)


def equilibria(n: int) -> None:
    print(f"Equilibria and what follows from them, {n:,} members")
    copies = np.sign(antisymmetric(max(n // 10, 1), 2)).repeat(10, axis=0).repeat(10, axis=1)
    for name, payoff in (("league", league(n)), ("random", antisymmetric(n, 0)), ("copies", copies)):
        mixture = max_entropy_nash(payoff)
        timed(
            f"max_entropy_nash: {name}, {int((mixture > 1e-6).sum())} in it",
            lambda payoff=payoff: max_entropy_nash(payoff),
            "any equilibrium, by HiGHS",
            lambda payoff=payoff: zero_sum_nash(payoff),
        )
    timed("nash_clusters: league", lambda: nash_clusters(league(n)))
    timed("nash_clusters: random", lambda: nash_clusters(antisymmetric(n, 0)))
    timed("effective_diversity: league", lambda: effective_diversity(league(n)))
    scores = np.random.default_rng(0).uniform(size=(n // 2, n // 5))
    timed(
        f"nash_averaging_on_tasks: {scores.shape[0]} on {scores.shape[1]}",
        lambda: nash_averaging_on_tasks(scores),
    )
    small = antisymmetric(7, 0)

    def by_supports() -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            list(nashpy.Game(small, -small).support_enumeration())

    timed("max_entropy_nash: 7 members", lambda: max_entropy_nash(small), "nashpy by supports", by_supports)


def dynamics(n: int) -> None:
    print(f"Evolution, {n:,} members")
    few = antisymmetric(100, 0)
    for alpha in (1.0, 100.0, 1e4):
        timed(f"alpha_rank: league, alpha {alpha:g}", lambda alpha=alpha: alpha_rank(league(n), alpha=alpha))
    timed("alpha_rank: random, alpha 100", lambda: alpha_rank(antisymmetric(n, 0)))
    timed(
        "alpha_rank: 100 members, alpha 5",
        lambda: alpha_rank(few, alpha=5.0),
        "OpenSpiel",
        lambda: alpharank.compute([few], alpha=5.0),
    )


def uncertain(n: int) -> None:
    first, second = np.triu_indices(n, 1)
    wins = np.random.default_rng(0).binomial(20, 0.5 + 0.5 * league(n)[first, second])
    frame = pd.DataFrame(
        {"home": first.astype(str), "away": second.astype(str), "games": 20, "wins": wins, "draws": 0}
    )
    print(f"With what {20 * len(frame):,} games leave open, {n:,} members")
    payoffs = Payoffs.from_frame(frame)
    timed("Payoffs.from_frame", lambda: Payoffs.from_frame(frame))
    timed("matrix, the first", lambda: Payoffs.from_frame(frame).matrix())
    matrix, rng = payoffs.matrix(), np.random.default_rng(0)
    timed("resampled(rng).matrix()", lambda: payoffs.resampled(rng).matrix())
    timed(
        "with_interval of Nash averages, 20 samples",
        lambda: with_interval(payoffs, lambda matrix: nash_averaging(matrix).ratings, rng, samples=20),
    )
    timed("schur, its first plane", lambda: schur(matrix, 1))
    timed("split", lambda: split(matrix))
    timed("kemeny", lambda: kemeny(matrix))
    ballots = [list(map(str, np.random.default_rng(k).permutation(8))) for k in range(15)]
    profile = base.PreferenceProfile(votes=ballots, alternatives=[str(k) for k in range(8)])
    margins = np.asarray(profile.margin_matrix(), dtype=float)
    timed(
        "kemeny: 8 alternatives",
        lambda: kemeny(margins),
        "OpenSpiel",
        lambda: kemeny_young.KemenyYoungVoting().run_election(profile),
    )


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--members", type=int, default=1_000)
    members = parser.parse_args().members
    equilibria(members)
    dynamics(members)
    uncertain(members)


if __name__ == "__main__":
    main()
