"""Does the 95 % interval of `league compare --until` hold, though it ends when the interval is narrow?

    python -m tests.bench.until [--comparisons 4000] [--first 0]

Comparisons are simulated of two whose difference is known, in pairs of games of which a share is drawn, and
stopped as the command stops: after the batch that makes the interval as narrow as was asked. `held` is the
share of intervals that hold the true Elo, with its standard error; `pairs` the mean number of pairs.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.statistics.elo import elo_from_counts, score_of_elo
from league.arena.comparison import batches
from storage.arrays import Floats
from tests.bench.shared import parser_of

UNTIL, TRUE, DRAWN = (100.0, 50.0, 20.0), (0.0, 50.0, 150.0, 300.0), (0.0, 0.4, 0.9)
MOST_PAIRS = 20_000


def chances(elo: float, drawn: float, first_mover: float = 0.05) -> Floats:
    """Return the chances [5] of pairs that score 0, 1/2, ... 2 points; `drawn`: share of equals' draws."""
    at_first = np.array([_game(score_of_elo(elo) + side, drawn) for side in (first_mover, -first_mover)])
    return np.convolve(*at_first)


def _game(score: float, drawn: float) -> Floats:
    draw = drawn * min(score, 1.0 - score) / 0.5
    return np.clip([1.0 - score - draw / 2.0, draw, score - draw / 2.0], 0.0, 1.0)


def stopped(until: float, elo: float, drawn: float, number: int, seed: int) -> tuple[Floats, Floats, Floats]:
    """Return low and high Elo and the pairs, [number] each, when comparisons have stopped."""
    rng, chance = np.random.default_rng(seed), chances(elo, drawn)
    counts, going = np.zeros((number, 5)), np.arange(number)
    low, high, pairs = np.full(number, np.nan), np.full(number, np.nan), np.zeros(number)
    for first, size in batches(MOST_PAIRS):
        counts[going] += rng.multinomial(size, chance / chance.sum(), len(going))
        found = elo_from_counts(counts[going])
        low[going], high[going], pairs[going] = found.low, found.high, first + size
        going = going[found.error > until]
        if not len(going):
            break
    return low, high, pairs


def main() -> None:
    """Print the shares of intervals that hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--comparisons", type=int, default=4000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    given = parser.parse_args()
    print("| until | Elo | drawn | held | pairs |\n|---|---|---|---|---|")
    for until in UNTIL:
        for elo in TRUE:
            for drawn in DRAWN:
                low, high, pairs = stopped(until, elo, drawn, given.comparisons, given.first)
                of_score = chances(elo, drawn) @ np.linspace(0.0, 1.0, 5)
                true = 400.0 * math.log10(of_score / (1.0 - of_score))
                held = float(np.mean((low <= true) & (true <= high)))
                error = math.sqrt(held * (1.0 - held) / given.comparisons)
                print(
                    f"| {until:g} | {true:.0f} | {drawn:.0%} | {held:.3f} ± {error:.3f} "
                    f"| {pairs.mean():.0f} |"
                )


if __name__ == "__main__":
    main()
