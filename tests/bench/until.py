"""Does the 95 % interval of `league compare` hold, though it is the comparison's luck that ends it?

    python -m tests.bench.until [--comparisons 4000] [--first 0] [--sprt]

Comparisons are simulated of two whose difference is known, in pairs of games of which a share is drawn, and
stopped as `--until` stops: after the batch that makes the interval as narrow as was asked. With `--sprt`, a
sequential test stops them, after each four pairs or games, as the command looks, or after larger batches.
`held` is the share of intervals that hold the true Elo; `pairs` the mean number of pairs. Tests have the
median estimate less the true Elo beside that share, and `open` is the share of those that were given up
undecided.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from analysis.statistics.elo import elo_from_counts, elo_of_score, score_of_elo
from analysis.statistics.sprt import Sprt, sequential_elo
from league.arena.comparison import LOOK, batches
from storage.arrays import Floats
from tests.bench.shared import parser_of

UNTIL, TRUE, DRAWN = (100.0, 50.0, 20.0), (0.0, 50.0, 150.0, 300.0), (0.0, 0.4, 0.9)
MOST_PAIRS = 20_000
FOURS = [LOOK] * (MOST_PAIRS // LOOK)
TESTS: list[tuple[str, Sprt, Sequence[int] | None]] = [
    ("0 to 20", Sprt(0.0, 20.0), FOURS),
    ("-20 to 40", Sprt(-20.0, 40.0), FOURS),
    ("0 to 30 normalized, alpha 0.02, beta 0.1", Sprt(0.0, 30.0, 0.02, 0.1, "normalized"), FOURS),
    ("0 to 10, 300 at most", Sprt(0.0, 10.0), FOURS[:75]),
    ("0 to 20, by batches of 16 to 256", Sprt(0.0, 20.0), None),
]
TRUE_OF_TESTS = (-100.0, 0.0, 20.0, 60.0, 200.0)


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


def stopped_tests(
    sprt: Sprt, chance: Floats, tests: int, seed: int, sizes: Sequence[int] | None = None
) -> tuple[Floats, float]:
    """Return counts [tests, K] at the ends of sequential tests of scores with the chances [K]; the true Elo.

    `sizes` are those of the batches, after the last of which a test is given up; as a rule those played.
    """
    rng, (low, high) = np.random.default_rng(seed), sprt.bounds
    counts, going = np.zeros((tests, len(chance))), np.arange(tests)
    for size in sizes or [size for _, size in batches(MOST_PAIRS)]:
        counts[going] += rng.multinomial(size, chance / chance.sum(), len(going))
        llr = sprt.llr(counts[going])
        going = going[(low < llr) & (llr < high)]
        if not len(going):
            break
    return counts, elo_of_score(float(chance @ np.linspace(0.0, 1.0, len(chance)) / chance.sum()))


def main() -> None:
    """Print the shares of intervals that hold."""
    parser = parser_of(__doc__)
    parser.add_argument("--comparisons", type=int, default=4000)
    parser.add_argument("--first", type=int, default=0, help="first seed")
    parser.add_argument("--sprt", action="store_true", help="sequential tests, not --until")
    given = parser.parse_args()
    if given.sprt:
        _print_tests(given.comparisons, given.first)
        return
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


def _print_tests(tests: int, seed: int) -> None:
    print("| test | unit |" + "".join(f" {elo:g} Elo |" for elo in TRUE_OF_TESTS) + " length | open |")
    print("|---" * (len(TRUE_OF_TESTS) + 4) + "|")
    for name, sprt, sizes in TESTS:
        for unit in ("pairs", "games"):
            cells, lengths, undecided = [], [], []
            for elo in TRUE_OF_TESTS:
                chance = chances(elo, 0.4) if unit == "pairs" else _game(score_of_elo(elo), 0.4)
                counts, true = stopped_tests(sprt, chance, tests, seed, sizes)
                found = [sequential_elo(sprt, each) for each in counts]
                held = np.mean([one.low <= true <= one.high for one in found])
                cells.append(f"{held:.3f}, {np.median([one.elo for one in found]) - true:+.1f}")
                lengths.append(counts.sum(axis=1).mean())
                undecided.append(np.mean([sprt.decide(llr) is None for llr in sprt.llr(counts).tolist()]))
            numbers = (
                f"{min(lengths):,.0f} to {max(lengths):,.0f} | {min(undecided):.0%} to {max(undecided):.0%}"
            )
            print(f"| {name} | {unit} | {' | '.join(cells)} | {numbers} |", flush=True)


if __name__ == "__main__":
    main()
