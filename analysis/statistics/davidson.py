"""The likelihood of paired comparisons with draws and places, and its maximum.

R. R. Davidson, On extending the Bradley-Terry model to accommodate ties in paired comparison experiments,
JASA 65 (1970) 317-328. With d the logarithm of the ratio of two strengths,

    P(win) : P(draw) : P(loss) = exp(d / 2) : nu : exp(-d / 2),

which with nu = 0 is the model of Bradley and Terry (1952). Here

    d = theta[home] - theta[away] + gamma[home's place] - gamma[away's place],

and the mean of gamma is 0. Log-likelihood and prior are concave in theta, gamma and log nu, so Newton's
method finds their single maximum.

The prior is that of virtual games, half of them won. Each competitor plays them against one of strength 0,
and each place against an average one. If there are draws, as many are played between equals, half of them
drawn. The prior keeps strengths finite after only wins or only losses, and makes competitors comparable that
never met.

The parameters [K] are one vector: theta [N], gamma of all places but the last [T - 1], and log nu if there
are draws.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from analysis.statistics.games import Games
from storage.arrays import Floats, Indices

ELO = 400.0 / math.log(10.0)
"""Elo of one unit of log-odds."""
PRIOR_GAMES = 1.0
"""Virtual games of each competitor that make maxima finite and little else."""
_MOST_STEPS = 100  # of Newton's method; 5 to 10 are needed
_TOLERANCE = 1e-12  # twice the log-likelihood that another step would gain
_ROUNDING = 1e-9  # of points
_NOTHING_LEARNT = 1e-6  # information on a parameter, where one even game has 1/4


@dataclass(frozen=True, slots=True)
class Cells:
    """Games that are equal to the model, counted: m kinds of comparison."""

    home: Indices  # [m]
    away: Indices  # [m]
    contrast: Floats  # [m, T - 1]: the place of home less that of away, in the parameters of gamma
    games: Floats  # [m]
    points: Floats  # [m] of home
    draws: Floats  # [m]
    kind: Indices  # [g] the cell of each game
    num_competitors: int
    num_places: int  # 1: places make no difference
    drawn: bool  # nu is a parameter; else a draw is half a win and half a loss

    @property
    def num_parameters(self) -> int:
        """Number of parameters, K."""
        return self.num_competitors + self.num_places - 1 + self.drawn

    @property
    def place(self) -> slice:
        """Slice of the parameters of gamma."""
        return slice(self.num_competitors, self.num_competitors + self.num_places - 1)


@dataclass(frozen=True, slots=True)
class Moments:
    """Expectations of the model for one game of each of m cells."""

    points: Floats  # [m] of home
    draws: Floats  # [m]
    variance: Floats  # [m] of the points
    covariance: Floats  # [m] of points and draws
    log_sum: Floats  # [m] log (exp(d / 2) + exp(-d / 2) + nu)


@dataclass(frozen=True, slots=True)
class Fit:
    """The maximum of the posterior."""

    parameters: Floats  # [K]
    information: Floats  # [K, K]: minus the second derivatives, the prior's among them
    prior: Floats  # [K, K]: of the prior alone


def place_contrasts(num_places: int) -> Floats:
    """Return the matrix [T, T - 1] from the parameters of gamma to gamma of each place.

    The last place's gamma is minus the sum of the others.
    """
    return np.concatenate([np.eye(num_places - 1), np.full((1, num_places - 1), -1.0)])


def cells_of(games: Games, num_places: int, *, drawn: bool) -> Cells:
    """Count equal games of `games`. Without `drawn` a draw is half a win and half a loss."""
    n, t = len(games.competitors), num_places
    place = games.home_place * t + games.away_place if t > 1 else np.zeros(len(games), dtype=np.int64)
    kinds, kind = np.unique((games.home * n + games.away) * t**2 + place, return_inverse=True)
    basis, m = place_contrasts(t), len(kinds)
    return Cells(
        home=kinds // t**2 // n,
        away=kinds // t**2 % n,
        contrast=basis[kinds // t % t] - basis[kinds % t],
        games=sums(kind, np.ones(len(games)), m),
        points=sums(kind, games.points, m),
        draws=sums(kind, ((games.points == 0.5) & drawn).astype(np.float64), m),
        kind=kind,
        num_competitors=n,
        num_places=t,
        drawn=drawn,
    )


def plain_cells(home: Indices, away: Indices, games: Floats, points: Floats, num_competitors: int) -> Cells:
    """Return the cells of comparisons [m] in one place, without draws.

    Raise ValueError for competitors beyond their number, and for points that are not from 0 to the games.
    """
    m = len(home)
    if not len(home) == len(away) == len(games) == len(points):
        raise ValueError(
            f"found {m}, {len(away)}, {len(games)} and {len(points)} values, expected as many of each"
        )
    games, points = np.asarray(games, dtype=np.float64), np.asarray(points, dtype=np.float64)
    seats = np.concatenate([home, away])
    if m and not 0 <= seats.min() <= seats.max() < num_competitors:
        raise ValueError(f"comparisons: found a competitor beyond the {num_competitors}")
    rest = games - points
    if not (np.isfinite(rest) & (points >= -_ROUNDING) & (rest >= -_ROUNDING)).all():
        raise ValueError("points: found others than 0 to 1 for each game")
    contrast, draws, kind = np.zeros((m, 0)), np.zeros(m), np.arange(m)
    return Cells(home, away, contrast, games, points, draws, kind, num_competitors, num_places=1, drawn=False)


def sums(index: Indices, value: Floats, size: int) -> Floats:
    """Return the sums [size] of `value` at each index."""
    return np.bincount(index, value, minlength=size).astype(np.float64, copy=False)


def differences(cells: Cells, parameters: Floats) -> Floats:
    """Return d [m] of each cell."""
    strength = parameters[cells.home] - parameters[cells.away]
    return strength + cells.contrast @ parameters[cells.place]


def moments(cells: Cells, parameters: Floats) -> Moments:
    """Return the expectations for one game of each cell."""
    d = differences(cells, parameters)
    nu = np.exp(parameters[-1]) if cells.drawn else 0.0
    worse, draw = np.exp(-np.abs(d)), nu * np.exp(-np.abs(d) / 2)  # over exp(|d| / 2): nothing overflows
    total = 1.0 + worse + draw
    lead, draw = np.sign(d) * (1.0 - worse) / total, draw / total
    return Moments(
        points=0.5 + 0.5 * lead,
        draws=draw,
        variance=0.25 * (1.0 - draw - lead**2),
        covariance=-0.5 * lead * draw,
        log_sum=np.abs(d) / 2 + np.log(total),
    )


def by_competitor(cells: Cells, value: Floats) -> Floats:
    """Return sums [N] of `value` [m], added for home and subtracted for away."""
    n = cells.num_competitors
    return sums(cells.home, value, n) - sums(cells.away, value, n)


def information(cells: Cells, expected: Moments, weight: Floats) -> Floats:
    """Return the information [K, K] in `weight` [m] games of each cell."""
    n, place = cells.num_competitors, cells.place
    v, c = weight * expected.variance, weight * expected.covariance
    matrix = np.zeros((cells.num_parameters, cells.num_parameters))
    met = sums(cells.home * n + cells.away, v, n * n).reshape(n, n)
    met = met + met.T
    matrix[:n, :n] = np.diag(met.sum(axis=1)) - met
    matrix[place, place] = cells.contrast.T @ (v[:, None] * cells.contrast)
    for k, column in enumerate([*(v * cells.contrast.T), *[c] * cells.drawn], start=n):
        matrix[:n, k] = matrix[k, :n] = by_competitor(cells, column)
    if cells.drawn:
        matrix[place, -1] = matrix[-1, place] = c @ cells.contrast
        matrix[-1, -1] = weight @ (expected.draws * (1.0 - expected.draws))
    return matrix


def fit(cells: Cells, *, prior_games: float, start: Floats | None = None) -> Fit:
    """Return the likeliest parameters, searched from `start` [K] (default: all competitors equal).

    Raise ValueError without prior games if the likelihood has no maximum: some won or lost all their games
    against the others, or never met them. Raise it for a negative number of prior games.
    """
    n = cells.num_competitors
    if not 0.0 <= prior_games < math.inf:
        raise ValueError(f"prior_games is {prior_games}, expected a number of 0 or more")
    # Without a prior strengths have no zero: this fixes their mean, and changes no difference.
    level = np.zeros((cells.num_parameters, cells.num_parameters))
    level[:n, :n] = 1.0 / n if prior_games == 0.0 else 0.0

    x = np.zeros(cells.num_parameters) if start is None else start
    here = _posterior(cells, x, prior_games)
    for _ in range(_MOST_STEPS):
        if prior_games == 0.0 and np.linalg.eigvalsh(here.information + level)[0] < _NOTHING_LEARNT:
            raise ValueError(
                "the likelihood has no maximum: some won or lost all their games against the rest, or never "
                "met it; expected prior_games above 0"
            )
        step = np.linalg.solve(here.information + level, here.gradient)
        if here.gradient @ step < _TOLERANCE:
            break
        ahead = _posterior(cells, x + step, prior_games)
        while ahead.value < here.value and np.abs(step).max() > _TOLERANCE:
            step = step / 2
            ahead = _posterior(cells, x + step, prior_games)
        x, here = x + step, ahead
    return Fit(x, here.information + level, here.prior)


@dataclass(frozen=True, slots=True)
class _Point:
    """The log-posterior at one point: its value, first derivatives [K] and minus its second [K, K]."""

    value: float
    gradient: Floats
    information: Floats
    prior: Floats


def _posterior(cells: Cells, x: Floats, prior_games: float) -> _Point:
    n, place = cells.num_competitors, cells.place
    expected = moments(cells, x)
    residual = cells.points - cells.games * expected.points
    value = (cells.points - cells.games / 2) @ differences(cells, x) - cells.games @ expected.log_sum
    gradient = np.zeros(len(x))
    gradient[:n], gradient[place] = by_competitor(cells, residual), residual @ cells.contrast

    prior, basis = np.zeros((len(x), len(x))), place_contrasts(cells.num_places)
    strength = np.concatenate([x[:n], basis @ x[place]])
    value -= prior_games * np.logaddexp(strength / 2, -strength / 2).sum()
    pull = 0.5 * prior_games * np.tanh(strength / 2)
    curvature = 0.25 * prior_games * (1.0 - np.tanh(strength / 2) ** 2)
    gradient[:n] -= pull[:n]
    gradient[place] -= pull[n:] @ basis
    prior[:n, :n] = np.diag(curvature[:n])
    prior[place, place] = basis.T @ (curvature[n:, None] * basis)
    if cells.drawn:
        draw = np.exp(x[-1]) / (2.0 + np.exp(x[-1]))  # the share of draws between equals
        value += cells.draws.sum() * x[-1] + prior_games * (0.5 * x[-1] - np.log(2.0 + np.exp(x[-1])))
        gradient[-1] = (cells.draws - cells.games * expected.draws).sum() + prior_games * (0.5 - draw)
        prior[-1, -1] = prior_games * draw * (1.0 - draw)
    return _Point(float(value), gradient, information(cells, expected, cells.games) + prior, prior)
