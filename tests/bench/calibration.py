"""Is the posterior of strengths the posterior of its own prior? Simulation-based calibration says so.

    python -m tests.bench.calibration [--fields 400] [--field 8] [--pairs 1] [--estimated]

The groups, spreads, strengths and places of each field are drawn from the prior itself, and games by the
likelihood, so that the truth is one more draw from an exact posterior: its rank among the draws is uniform,
and intervals of any level hold as often as they say (S. Talts, M. Betancourt, D. Simpson, A. Vehtari, A.
Gelman: Validating Bayesian inference algorithms with simulation-based calibration, 2018). What
`tests.bench.coverage` finds beyond that comes from strengths that do not follow the prior. The luck that
games of a pair have in common is known to be none here; with `--estimated` it is estimated, as in a
tournament.

Printed are, of ratings, differences, the place and the spread: how often intervals of 50, 80 and 95 % held,
and the mean rank, which should be 0.5. Behind each figure is its standard error over fields.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import numpy.typing as npt

from analysis.statistics.hierarchy import posterior as module
from analysis.statistics.hierarchy.posterior import posterior
from analysis.statistics.hierarchy.prior import ALPHAS, ELO, LEAST, MIDDLES, MOST, PLACES, Prior
from storage.arrays import Floats
from tests.analysis.simulated_games import davidson, played
from tests.bench.shared import parser_of

LEVELS = (0.5, 0.8, 0.95)
SAMPLES = 1_000
KINDS = ("ratings", "differences", "place", "spread")


@contextmanager
def independent_games(known: bool) -> Iterator[None]:
    """Take games of a pair as independent, which the simulated ones are, instead of estimating it."""
    estimate = module.dispersion_of
    if known:
        module.dispersion_of = lambda games, cells, mode, covariance: 1.0
    try:
        yield
    finally:
        module.dispersion_of = estimate


def spread_of_prior(scale: float, rng: np.random.Generator) -> float:
    """A spread from the half Cauchy prior, within the spreads that are considered."""
    while True:
        spread = scale * abs(float(rng.standard_cauchy()))
        if LEAST <= spread <= MOST:
            return spread


def field_of_prior(field: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """Strengths from the prior, in groups around middles of their own, and the spread within groups."""
    groups = Prior(field, 2, None).most_groups
    share = rng.dirichlet(np.full(groups, rng.choice(ALPHAS) / groups))
    middle = spread_of_prior(MIDDLES, rng) * rng.normal(size=groups)
    spread = spread_of_prior(Prior(field, 2, None).scales[0], rng)
    return middle[rng.choice(groups, size=field, p=share)] + spread * rng.normal(size=field), spread


def ranks(field: int, pairs: int, seed: int) -> dict[str, Floats]:
    """The shares of draws that are below the truth, of one field."""
    rng = np.random.default_rng([seed, field, pairs])
    truth, spread = field_of_prior(field, rng)
    first = PLACES * float(rng.normal()) / 2.0**0.5  # of the first place; the other's is the opposite

    def chances(home: npt.NDArray[np.int64], away: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
        win, draw = davidson(truth[home] - truth[away] + 2.0 * first, 0.0)
        return win, draw

    found = posterior(played(field, chances, pairs, rng), lines=None, samples=SAMPLES, seed=seed)
    true = ELO * (truth - truth.mean())
    a, b = np.triu_indices(field, 1)
    return {
        "ratings": (found.draws < true).mean(axis=0),
        "differences": (found.draws[:, a] - found.draws[:, b] < true[a] - true[b]).mean(axis=0),
        "place": np.array([(found.place_draws[:, 0] < ELO * first).mean()]),
        "spread": np.array([(found.spread < ELO * spread).mean()]),
    }


def calibrated(field: int, pairs: int, seeds: range) -> dict[str, Floats]:
    """Shares of draws below the truth [fields, n] of each kind."""
    found = [ranks(field, pairs, seed) for seed in seeds]
    return {kind: np.array([one[kind] for one in found]) for kind in KINDS}


def held(share: Floats, level: float) -> tuple[float, float]:
    """How often the middle `level` of the draws held the truth, and the standard error over fields."""
    by_field = (np.abs(share - 0.5) <= level / 2).mean(axis=1)
    return float(by_field.mean()), float(by_field.std() / len(by_field) ** 0.5)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--fields", type=int, default=400)
    parser.add_argument("--first", type=int, default=0, help="seed of the first field")
    parser.add_argument("--field", type=int, default=8, help="competitors")
    parser.add_argument("--pairs", type=int, default=1)
    parser.add_argument("--estimated", action="store_true", help="estimate the luck that pairs share")
    given = parser.parse_args()
    with independent_games(not given.estimated):
        found = calibrated(given.field, given.pairs, range(given.first, given.first + given.fields))
    title = f"round_robin {given.field}, {given.pairs} pairs, {given.fields} fields of the prior"
    print(f"| {title} | 50 % | 80 % | 95 % | mean rank |\n|---|---|---|---|---|")
    for kind, share in found.items():
        cells = [f"{value:.3f} ± {error:.3f}" for value, error in (held(share, level) for level in LEVELS)]
        rank = share.mean(axis=1)
        print(f"| {kind} | {' | '.join(cells)} | {rank.mean():.3f} ± {rank.std() / len(rank) ** 0.5:.3f} |")


if __name__ == "__main__":
    main()
