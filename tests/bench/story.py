"""The story of the speed in one table: each row a ratio to a peer or a limit of the same run.

    python -m tests.bench.story [--seconds 20] [--rounds 1] [--quick]

A row is measured beside what it is compared with, in turns, so that a busy machine slows both; of `--rounds`
the median counts. The first column says what is compared, the last one what the ratio means. RLlib is not
among the peers: it needs an environment of its own (`python -m tests.bench.peers.rllib`).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import NamedTuple

import torch

from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.shard_learners import Recruit, Recruits
from league.models.policies import products
from tests.bench import learners, matchmaking, policy_groups, ratings, throughput
from tests.bench.shared import parser_of

RUNNERS = 2


class Row(NamedTuple):
    """One comparison: functions that measure ours and the peer, in units where more is better."""

    what: str
    unit: str
    beside: str
    ours: Callable[[], float]
    peer: Callable[[], float]
    meaning: str


def rows(seconds: float, *, quick: bool) -> Iterator[Row]:
    """Yield the rows; `quick`: those that start no league, with the least of work."""
    if not quick:
        for snapshots in (1, 32, 256):
            yield Row(
                f"a league, snapshots seated: {snapshots}",
                "env steps/s",
                "two bare loops",
                lambda n=snapshots: throughput.measure_league(seconds, RUNNERS, n, "auto", "auto").env_steps,
                lambda: throughput.measure_ideal(seconds / 2).env_steps,
                "all of matchmaking, ledger, ratings, Ray and learning costs the rest to 1",
            )
    yield Row(
        "learning",
        "updates/s",
        "a bare torch loop",
        lambda: _updates(seconds / 4),
        lambda: learners.measure_bare(seconds / 4, 1),
        "what batches, V-trace and reports cost; 0.9 is the goal",
    )
    games, peers = (2_000, 1) if quick else (200_000, 3)
    yield Row(
        "ratings",
        "games/s",
        "library trueskill",
        lambda: ratings.pairs_per_second(games, 1000),
        lambda: median(ratings.library_pairs_per_second() for _ in range(peers)),
        "the same ratings, in so much less of the driver's time",
    )
    competitors, policies = (100, 16) if quick else (1000, 128)
    yield Row(
        f"matchmaking in a league of {competitors:,}",
        "matches/s",
        "10,000 a second",
        lambda: matchmaking.matches_per_second("alphastar_paper", competitors, 256),
        lambda: 10_000.0,
        "over 1, draws keep up with more runners than a machine has",
    )
    yield Row(
        f"{policies} small snapshots in one call",
        "rows/s",
        "each by itself",
        lambda: 1e6 / _group(policies)[2],
        lambda: 1e6 / _group(policies)[0],
        "what deciding together saves where each snapshot has few decisions",
    )
    if products.has_bfloat16():
        yield Row(
            "play in bfloat16",
            "speed",
            "float32",
            lambda: products.gain((84, 256, 256, 7), 1024, "relu", exact=True),
            lambda: 1.0,
            f"1,024 rows of 84-256-256; taken over {products.GAIN:g}",
        )


def _updates(seconds: float) -> float:
    recruits = Recruits((Recruit("main-0", learners.SPEC, learners.SETTINGS, 0),))
    group = LocalLearners(learners.shards_of(["main-0"], 1), recruits)
    return learners.measure_group(group, seconds, {"main-0": learners.experience("main-0", 0)})


def _group(policies: int) -> list[float]:
    """Return microseconds for each row: alone, one after the other, side by side."""
    return policy_groups.measure(policy_groups.make_policies(policies, 64), 2, 3)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of each league")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--quick", action="store_true", help="without leagues, the least of the rest")
    given = parser.parse_args(arguments)
    torch.set_num_threads(1)
    load = os.getloadavg()[0]
    trust = "trust ratios of one process only" if load > 1.0 else "an idle machine"
    print(f"{os.cpu_count()} cores, load {load:.1f}: {trust}\n")
    print("| what | ours | beside | ratio | means |\n|---|---|---|---|---|")
    for row in rows(0.2 if given.quick else given.seconds, quick=given.quick):
        pairs = [(row.ours(), row.peer()) for _ in range(given.rounds)]
        ours, ratio = median(own for own, _ in pairs), median(own / peer for own, peer in pairs)
        print(
            f"| {row.what} | {ours:,.{0 if ours > 100 else 1}f} {row.unit} | {row.beside} | {ratio:.2f} | "
            f"{row.meaning} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
