"""The normal distribution nearest to the posterior of a field, in milliseconds: for rounds of a tournament.

Likelihood and dispersion are those of `posterior`, from whose draws the verdict comes; the prior is that of
one group. Here games are replaced by the normal distribution with their slope and curvature at the mean
strengths, which is found by iteration (N. Breslow, D. Clayton: Approximate inference in generalized linear
mixed models, J. Am. Stat. Assoc. 88, 1993). Along the eigenvectors of its
information all spreads are weighed at once.

The posterior of few games is skewed, which a normal distribution is not: of one pair of any two, 200 Elo
apart, deviations are up to a quarter too small here, of four pairs an eighth.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.statistics.davidson import Cells, by_competitor, cells_of, information, moments
from analysis.statistics.games import Games
from analysis.statistics.hierarchy.dispersion import dispersion_of
from analysis.statistics.hierarchy.prior import ELO, Prior, grid
from analysis.statistics.valid import check_games
from storage.arrays import Floats

_SPREADS = 25  # that are weighed, each 1.3 times the one before
_MOST_STEPS = 30
_LARGEST = 4.0  # step of a strength, in log-odds
_ROUGH, _NEAR = 0.4, 0.1  # steps before which pairs show their dispersion, and before the last one


@dataclass(frozen=True, slots=True)
class Normal:
    """Strengths of N competitors as a normal distribution."""

    elo: Floats  # [N], their mean is 0
    covariance: Floats  # [N, N] in Elo^2, of strengths less their mean
    dispersion: float = 1.0  # variance of the points of pairs, relative to independent comparisons


def normal_of(games: Games) -> Normal:
    """Return the normal distribution nearest to the posterior of all `games.competitors`, as one field.

    Raise ValueError for games as `check_games` does.
    """
    check_games(games)
    n = len(games.competitors)
    cells = cells_of(games, int(games.away_place.max(initial=1)) + 1, drawn=False)
    prior = Prior(n, cells.num_places, None)
    spreads = grid(prior, _SPREADS)
    log_prior = prior.log_hyper(spreads) - n * np.log(spreads[:, 0])
    of_places = prior.precision((np.inf,))[cells.place, cells.place]
    x, dispersion = np.zeros(prior.num_parameters), None if len(games) else 1.0
    for _ in range(_MOST_STEPS):
        ahead, covariance = _normal(cells, spreads, log_prior, of_places, x, dispersion or 1.0)
        step = np.clip(ahead - x, -_LARGEST, _LARGEST)
        x = x + step
        size = float(np.abs(step).max(initial=0.0))
        if dispersion is None and size < _ROUGH:
            dispersion = dispersion_of(games, cells, x, covariance)
        elif size < _NEAR:
            break
    relative = np.eye(n) - 1.0 / max(n, 1)
    return Normal(ELO * (x[:n] - x[:n].mean()), ELO**2 * relative @ covariance @ relative, dispersion or 1.0)


def _normal(
    cells: Cells, spreads: Floats, log_prior: Floats, of_places: Floats, x: Floats, dispersion: float
) -> tuple[Floats, Floats]:
    """Return the mean [K], and the covariance [N, N] of strengths, with games as they are around `x` [K].

    `log_prior` [G] is that of strengths 0 and `spreads` [G, 1]; `of_places` [T - 1, T - 1] is a precision.
    """
    n, place = cells.num_competitors, cells.place
    expected = moments(cells, x)
    residual = (cells.points - cells.games * expected.points) / dispersion
    known = information(cells, expected, cells.games / dispersion)
    pull = np.concatenate([by_competitor(cells, residual), residual @ cells.contrast]) + known @ x

    shared, inverse = known[:n, place], np.linalg.inv(known[place, place] + of_places)
    taken = shared @ inverse
    seen, axes = np.linalg.eigh(known[:n, :n] - taken @ shared.T)
    y = axes.T @ (pull[:n] - taken @ pull[place])
    variance = 1.0 / (np.maximum(seen, 0.0) + spreads**-2)  # [G, N]; rounding makes some `seen` negative
    means = y * variance
    score = 0.5 * means @ y + 0.5 * np.log(variance).sum(axis=1) + log_prior
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    mean = weight @ means
    apart = np.sqrt(weight)[:, None] * (means - mean)
    covariance = axes @ (np.diag(weight @ variance) + apart.T @ apart) @ axes.T
    strength = axes @ mean
    return np.concatenate([strength, inverse @ (pull[place] - shared.T @ strength)]), covariance
