"""How long does the verdict's mathematics take for large fields and long tournaments?

    python -m tests.bench.posterior_speed [--only "10 million"]

Games are simulated in memory: 200 competitors with 79,600 games (a round robin of two pairs), 1,000 with ten
pairs each, and 10 million games of 200. Printed are seconds of the clock and of the processor, of the
posterior alone and of the rest of a verdict: couples, cyclic share, ranks, widths of the design.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np

from analysis.statistics.cyclic import cyclic_share
from analysis.statistics.games import Games
from analysis.statistics.hierarchy.design import width_of
from analysis.statistics.hierarchy.posterior import Posterior, posterior
from analysis.statistics.meetings import meetings_of
from tests.bench.coverage import Design, played
from tests.bench.shared import parser_of

SPREAD = 150.0  # Elo
SIZES = {  # competitors, pairs
    "200 competitors, 79,600 games": (200, 39_800),
    "1,000 competitors, ten pairs each": (1_000, 5_000),
    "200 competitors, 10 million games": (200, 5_000_000),
}


def simulated(field: int, pairs: int) -> Games:
    """Games of pairs that any two play alike often, or, of few pairs, at random."""
    rng = np.random.default_rng(0)
    truth = SPREAD * rng.normal(size=field)
    couples = np.stack(np.triu_indices(field, 1), axis=1)
    rows = np.arange(pairs) % len(couples) if pairs >= len(couples) else rng.permutation(len(couples))[:pairs]
    return played(truth, couples[rows], Design("", field, SPREAD, 1), rng)


def timed(work: Callable[[], object]) -> str:
    """Seconds by the clock (of the processor)."""
    clock, processor = time.perf_counter(), time.process_time()
    work()
    return f"{time.perf_counter() - clock:.2f} s ({time.process_time() - processor:.2f})"


def rest_of_a_verdict(games: Games, found: Posterior) -> None:
    """All else that a verdict computes of its games."""
    meetings_of(games).worst()
    found.ranks()
    width_of(games, found)
    cyclic_share(games, np.random.default_rng(0))


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--only", default="", help="sizes whose title holds this")
    given = parser.parse_args()
    print("| field | posterior | rest of a verdict |\n|---|---|---|")
    for title, (field, pairs) in SIZES.items():
        if given.only not in title:
            continue
        games = simulated(field, pairs)
        found: list[Posterior] = []
        first = timed(lambda games=games, found=found: found.append(posterior(games)))  # type: ignore[misc]
        rest = timed(lambda games=games, found=found: rest_of_a_verdict(games, found[0]))  # type: ignore[misc]
        print(f"| {title} | {first} | {rest} |", flush=True)


if __name__ == "__main__":
    main()
