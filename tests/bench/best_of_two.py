"""How sure is `p_best` of two, and how often is it right? Exactly, by quadrature over all results.

    python -m tests.bench.best_of_two

Games are independent and without draws, and places are worth nothing. For each number of pairs: `p_best`
after clean wins. Then, for spreads of 0 (equals) to 400 Elo, the probability that a given one of the two has
a `p_best` over 0.95, and how often that one is the best.
"""

from __future__ import annotations

import math

import numpy as np

from analysis.statistics.hierarchy.prior import ELO, Prior, grid
from storage.arrays import Floats

SURE = 0.95
SPREADS = (0.0, 50.0, 150.0, 400.0)  # Elo
_GAP = np.linspace(-25.0, 25.0, 4001)  # log-odds


def density_of_gap(spread: float) -> Floats:
    """Probabilities of the gap of two whose strengths have this spread, in log-odds."""
    if not spread:
        return (_GAP == 0.0).astype(np.float64)
    bell = np.exp(-(_GAP**2) / (4.0 * spread**2))
    return bell / bell.sum()


def p_best(pairs: int) -> Floats:
    """The posterior probability of being the better of two, by the number of games won [2 pairs + 1]."""
    prior = Prior(2, 1, None)
    spreads = grid(prior, 80)
    weight = np.exp(prior.log_hyper(spreads))
    gap = np.array([density_of_gap(float(spread)) for spread in spreads[:, 0]])
    joint = (weight / weight.sum()) @ gap * likelihood(pairs)
    return (joint @ _ahead()) / joint.sum(axis=1)


def likelihood(pairs: int) -> Floats:
    """Probabilities [2 pairs + 1, gaps] of the number of games won."""
    won = np.arange(2 * pairs + 1)[:, None]
    ways = np.array([[math.comb(2 * pairs, k)] for k in range(2 * pairs + 1)])
    log = -won * np.logaddexp(0.0, -_GAP) - (2 * pairs - won) * np.logaddexp(0.0, _GAP)
    return ways * np.exp(log)


def sure(pairs: int, spread: float, level: float = SURE) -> tuple[float, float]:
    """The probability that a given one has a `p_best` over `level`, and that one so sure is the best."""
    results = likelihood(pairs)[p_best(pairs) > level] * density_of_gap(spread / ELO)
    total = float(results.sum())
    return total, float((results @ _ahead()).sum()) / total if total else math.nan


def _ahead() -> Floats:
    return 0.5 + 0.5 * np.sign(_GAP)


def main() -> None:
    titles = "".join(f" {spread:.0f} Elo: sure | right |" for spread in SPREADS)
    print(f"| pairs | p_best of clean wins |{titles}\n|---|---|{'---|---|' * len(SPREADS)}")
    for pairs in (1, 2, 3, 4, 5, 6, 8, 10, 15, 20, 40):
        found = [sure(pairs, spread) for spread in SPREADS]
        cells = " | ".join(f"{total:.3f} | {right:.3f}" for total, right in found)
        print(f"| {pairs} | {p_best(pairs)[-1]:.4f} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
