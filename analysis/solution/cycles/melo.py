"""Multidimensional Elo: strengths, and beside them places in planes, so that rock can beat scissors.

    P(i beats j) = 1 / (1 + exp(-d)),   d = r[i] - r[j] + c[i]' Omega c[j],   Omega = diag of k (0, 1; -1, 0)

(Balduzzi, Tuyls, Perolat and Graepel: Re-evaluating evaluation, NeurIPS 2018, mElo_2k: k planes of two
numbers each). With k = 0 it is Elo. Many r and c give the same chances. Here the mean of c is 0 and its
planes are those of `schur`, strongest first, so r explains all that strength can.

`melo` finds the likeliest from all games at once, with the prior of `analysis.statistics.davidson` on r
(virtual games) and a normal one on c. `melo_updated` learns from one game after the other, as Elo does.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.solution.cycles.schur import schur
from analysis.statistics.davidson import ELO, PRIOR_GAMES, Cells, fit
from storage.arrays import Floats, Indices

_SPREAD = 2.0  # standard deviation that c is thought to have
_START = 0.5  # of what strengths leave unexplained, the part that the search starts with
_MOST_STEPS = 2000
_TOLERANCE = 1e-12  # of the log-likelihood of a game


@dataclass(frozen=True, slots=True)
class Melo:
    """Ratings of N competitors."""

    ratings: Floats  # [N] Elo, mean 0
    places: Floats  # [N, k, 2] c: i gains on j the area c[i, :, 0] c[j, :, 1] - c[i, :, 1] c[j, :, 0]

    def log_odds(self) -> Floats:
        """Return d [N, N] of row against column."""
        r = self.ratings / ELO
        return r[:, None] - r + _areas(self.places)

    def expected(self) -> Floats:
        """Return points per game [N, N] of row against column, in [0, 1]."""
        return 0.5 + 0.5 * np.tanh(self.log_odds() / 2.0)


def melo(scores: Floats, games: npt.ArrayLike, *, planes: int = 1, prior_games: float = PRIOR_GAMES) -> Melo:
    """Return the likeliest ratings with `planes` planes.

    `scores` [N, N] are points per game of row against column, NaN where they never met. `games` are [N, N],
    or one number for all. Of several maxima it is the one nearest to what strengths leave unexplained. Raise
    ValueError for a negative number of planes.
    """
    from scipy import optimize

    if planes < 0:
        raise ValueError(f"planes is {planes}, expected 0 or more")
    n = len(scores)
    weight = np.where(np.isnan(scores), 0.0, np.broadcast_to(np.asarray(games, dtype=np.float64), (n, n)))
    weight = weight * ~np.eye(n, dtype=np.bool_)
    points = weight * np.nan_to_num(scores)
    theta = _strengths(weight, points, prior_games)
    k = min(planes, n // 2)
    if k == 0:
        return Melo(ELO * (theta - theta.mean()), np.zeros((n, planes, 2)))

    # With c = 0 nothing moves c: its gradient vanishes there.
    expected = 0.5 + 0.5 * np.tanh((theta[:, None] - theta) / 2.0)
    left = 4.0 * _START * (points - weight * expected) / np.maximum(weight, 1.0)
    begun = schur(left - left.T, k).points / np.sqrt(2.0)
    start = np.zeros((n, 1 + 2 * k))
    start[:, 0] = theta
    start[:, 1 : 1 + 2 * begun.shape[1]] = begun.reshape(n, -1)
    scale = 1.0 / max(float(weight.sum()), 1.0)

    def loss(x: Floats) -> tuple[float, Floats]:
        r, c = x.reshape(n, -1)[:, 0], x.reshape(n, -1)[:, 1:].reshape(n, k, 2)
        d = r[:, None] - r + _areas(c)
        # Every game is in the matrices twice, once from either side.
        value = 0.5 * float((weight * np.logaddexp(0.0, d) - points * d).sum())
        value += (
            prior_games * float(np.logaddexp(r / 2.0, -r / 2.0).sum()) + float((c**2).sum()) / 2 / _SPREAD**2
        )
        surplus = weight * (0.5 + 0.5 * np.tanh(d / 2.0)) - points
        gradient = np.empty((n, 1 + 2 * k))
        gradient[:, 0] = surplus.sum(axis=1) + 0.5 * prior_games * np.tanh(r / 2.0)
        turned = np.stack([c[:, :, 1], -c[:, :, 0]], axis=2).reshape(n, -1)
        gradient[:, 1:] = surplus @ turned + c.reshape(n, -1) / _SPREAD**2
        return scale * value, scale * gradient.ravel()

    found = optimize.minimize(
        loss,
        start.ravel(),
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": _MOST_STEPS, "maxfun": 2 * _MOST_STEPS, "ftol": _TOLERANCE, "gtol": 1e-9},
    ).x.reshape(n, -1)
    return _canonical(found[:, 0], found[:, 1:].reshape(n, k, 2), planes)


def melo_updated(
    rated: Melo,
    home: Indices,
    away: Indices,
    points: Floats,
    *,
    step: float = 16.0,
    step_of_places: float = 1.0,
) -> Melo:
    """Return the ratings after games [g] in their order, `points` [g] of home in [0, 1].

    The algorithm is that of mElo (Balduzzi et al. 2018). `step` in Elo is the change of a rating after a
    completely unexpected result; `step_of_places` that of c, times the other's c. Places that are all 0 stay
    there: begin with small random ones. It handles tens of thousands of games a second: for millions use
    `melo`.
    """
    r, c = rated.ratings / ELO, rated.places.copy()
    for i, j, score in zip(home.tolist(), away.tolist(), points.tolist(), strict=True):
        area = c[i, :, 0] @ c[j, :, 1] - c[i, :, 1] @ c[j, :, 0]
        surprise = score - (0.5 + 0.5 * np.tanh((r[i] - r[j] + area) / 2.0))
        r[i] += step / ELO * surprise
        r[j] -= step / ELO * surprise
        of_home = np.stack([c[j, :, 1], -c[j, :, 0]], axis=1)
        of_away = np.stack([-c[i, :, 1], c[i, :, 0]], axis=1)
        c[i] += step_of_places * surprise * of_home
        c[j] += step_of_places * surprise * of_away
    return _canonical(r, c, c.shape[1])


def melo_started(num_competitors: int, rng: np.random.Generator, *, planes: int = 1) -> Melo:
    """Return equal ratings with small random places, a start for `melo_updated`."""
    return Melo(np.zeros(num_competitors), 0.1 * rng.standard_normal((num_competitors, planes, 2)))


def _areas(places: Floats) -> Floats:
    """Return c[i]' Omega c[j] [N, N] of `places` [N, k, 2]."""
    area = places[:, :, 0] @ places[:, :, 1].T
    return area - area.T


def _canonical(r: Floats, c: Floats, planes: int) -> Melo:
    """Return ratings with the same chances, in which c holds nothing that r can express.

    With c about their mean m, c[i]' Omega m is a strength of i. The rest are planes in the canonical form of
    `schur`.
    """
    middle = c.mean(axis=0)
    c = c - middle
    r = r + (c[:, :, 0] @ middle[:, 1] - c[:, :, 1] @ middle[:, 0])
    found = schur(_areas(c), planes).points
    places = np.zeros((len(r), planes, 2))
    places[:, : found.shape[1]] = found
    return Melo(ELO * (r - r.mean()), places)


def _strengths(weight: Floats, points: Floats, prior_games: float) -> Floats:
    """Return strengths [N] in log-odds, of Elo alone."""
    home, away = np.nonzero(np.triu(weight, 1))
    cells = Cells(
        home=home,
        away=away,
        contrast=np.zeros((len(home), 0)),
        games=weight[home, away],
        points=points[home, away],
        draws=np.zeros(len(home)),
        kind=np.zeros(0, dtype=np.int64),
        num_competitors=len(weight),
        num_places=1,
        drawn=False,
    )
    return fit(cells, prior_games=prior_games).parameters
