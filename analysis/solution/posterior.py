"""What the games of a field say about every pairing, also about those that met once or never.

A pairing's score is known by its own games, and by what the strengths of the two make of it; how far pairings
stray from strengths is itself read off the field. The score x[i, j] that i reaches against j is taken to be
drawn around p[i, j] = 1 / (1 + exp(theta[j] - theta[i])) with variance rho phi p (1 - p), so rho is 0 where
strengths say all, and near 1 in rock-paper-scissors; phi is the variance of one unit (a game, or a pair of
games) relative to that of a coin: 1 without draws, less with them. A prior of kappa = 1 / rho - 1 units of
the score p says the same. The strengths are Bradley-Terry's (`davidson`), with n / (1 + (n - 1) rho)
independent units of each pairing; rho and phi come from moments (Kleinman: Proportions with extraneous
variance, JASA 68, 1973), drawn to a cautious guess where few pairings met twice. The strengths are a sample
of a normal distribution, whose variance is the likeliest (Dempster, Laird and Rubin, J. R. Stat. Soc. B 39,
1977).

One draw takes rho and the strengths from the normal approximation of their posterior, then every score from
that of a Bayesian bootstrap over units (Rubin, Ann. Stat. 9, 1981) which the prior's kappa units join: a Beta
with the mean and the variance of the Dirichlet's. A plain bootstrap would find no doubt in a pairing's only
game. The units of one pairing are drawn independently of another's. At tables of three and more they are not,
and what sums over pairings is then somewhat less sure than it looks (intervals of 95 % held 91 to 92 of 100).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.davidson import Cells, Fit, fit
from analysis.ratings import PRIOR_GAMES

Floats = npt.NDArray[np.float64]
Indices = npt.NDArray[np.int64]

_GUESS = 0.2  # rho, and by how much that may well be wrong
_GUESS_PRECISION = 1.0 / 0.2**2
_LEAST_RHO, _MOST_RHO = 0.002, 0.9
_LEAST_PHI = 0.02
_USUAL = 1.0  # variance of strengths where there are no more than
_FEW = 2.0  # competitors
_STEPS = 20  # towards that variance
_ROUNDS = 3  # of rho: each weighs the pairings by the last
_BEYOND_DOUBT = 1e-9  # the least p


@dataclass(frozen=True, slots=True)
class Units:
    """The e pairings that met, of N competitors, from the side of who has the lower number. A unit is what
    is independent: a game, or the games of a pair, whose score is their mean."""

    num_competitors: int
    first: Indices  # [e]
    second: Indices  # [e] > first
    games: Floats  # [e]
    count: Floats  # [e] of units
    total: Floats  # [e] of the units' scores
    squares: Floats  # [e] of them

    @property
    def score(self) -> Floats:
        """[e] points per game of `first`."""
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class Posterior:
    """What N competitors may score against one another."""

    units: Units
    strengths: Floats  # [N] theta in log-odds
    root: Floats  # [N, N] lower triangle: Cholesky's of the strengths' precision
    rho: float  # how much of the variance of results is not of luck or strength
    rho_deviation: float  # its standard error
    phi: float  # variance of a unit's score, where a coin's is 1

    def expected(self, strengths: Floats | None = None) -> Floats:
        """[N, N] scores of row against column that strengths alone foresee."""
        theta = self.strengths if strengths is None else strengths
        return 0.5 + 0.5 * np.tanh((theta[:, None] - theta) / 2.0)

    def mean(self) -> Floats:
        """[N, N] scores expected of each pairing: of its own units and kappa of the expected score."""
        units, scores = self.units, self.expected()
        kappa, at = 1.0 / self.rho - 1.0, (units.first, units.second)
        scores[at] = (units.total + kappa * scores[at]) / (units.count + kappa)
        return _mirrored(scores)

    def draw(self, rng: np.random.Generator) -> Floats:
        """[N, N] scores as they may be, the diagonal 1/2."""
        from scipy import linalg

        units, n = self.units, self.units.num_competitors
        normal = rng.standard_normal(n)
        theta = self.strengths + linalg.solve_triangular(self.root, normal, lower=True, trans="T")
        p = self.expected(theta)[np.triu_indices(n, 1)].clip(_BEYOND_DOUBT, 1.0 - _BEYOND_DOUBT)
        rho = np.clip(self.rho + self.rho_deviation * rng.standard_normal(), _LEAST_RHO, _MOST_RHO)
        kappa = 1.0 / rho - 1.0
        size, total = np.full(len(p), kappa), kappa * p
        squares = kappa * (p * p + self.phi * p * (1.0 - p))
        row = units.first * (2 * n - units.first - 1) // 2 + units.second - units.first - 1
        size[row] += units.count
        total[row] += units.total
        squares[row] += units.squares
        mean = total / size
        of_coin = mean * (1.0 - mean)
        # The variance of a Dirichlet's mean; against rounding no less than a millionth of a coin's.
        variance = np.maximum(squares / size - mean * mean, 1e-6 * of_coin) / (size + 1.0)
        sure = of_coin / variance - 1.0
        scores = np.full((n, n), 0.5)
        scores[np.triu_indices(n, 1)] = rng.beta(sure * mean, sure * (1.0 - mean))
        return _mirrored(scores)


def posterior(units: Units) -> Posterior:
    """Of the pairings that met: with no games at all, of equals."""
    from scipy import linalg  # here, not above: the league's rules import this package and need none of it

    n = units.num_competitors
    if n == 0:
        return Posterior(units, np.zeros(0), np.zeros((0, 0)), _GUESS, 0.0, 1.0)
    found = _strengths(units, units.count)
    phi, rho, known = _spread(units, found), _GUESS, _GUESS_PRECISION
    if len(units.count):
        for _ in range(_ROUNDS):
            rho, known = _strayed(units, found, phi, rho)
    # Independent coins' worth of each pairing.
    found = _strengths(units, units.count / (1.0 + (units.count - 1.0) * rho) / phi, found.parameters)
    precision, pull = found.information - found.prior, found.information @ found.parameters
    # Strengths are drawn around their mean with a variance that is read off the field, too: by
    # expectation and maximization, from the spectrum of what the games tell.
    told, axes = linalg.eigh(precision)
    along, apart = axes.T @ pull, _USUAL
    for _ in range(_STEPS):
        doubt = 1.0 / (np.maximum(told, 0.0) + 1.0 / apart)
        apart = float(((along * doubt) ** 2 + doubt).sum() + _FEW * _USUAL) / (n + _FEW)
    root = linalg.cholesky(precision + np.eye(n) / apart, lower=True)
    strengths = linalg.cho_solve((root, True), pull)
    return Posterior(units, strengths, root, rho, known**-0.5, phi)


def _strengths(units: Units, weight: Floats, start: Floats | None = None) -> Fit:
    """Bradley-Terry of `weight` [e] games of each pairing."""
    # Scaled to a game of each competitor: of millions of games the likelihood is too large a number for the
    # last steps to show in it.
    scale = min(1.0, units.num_competitors / max(float(weight.sum()), 1.0))
    cells = Cells(
        home=units.first,
        away=units.second,
        contrast=np.zeros((len(weight), 0)),
        games=scale * weight,
        points=scale * weight * units.score,
        draws=np.zeros(len(weight)),
        kind=np.zeros(0, dtype=np.int64),
        num_competitors=units.num_competitors,
        num_places=1,
        drawn=False,
    )
    found = fit(cells, prior_games=scale * PRIOR_GAMES, start=start)
    return Fit(found.parameters, found.information / scale, found.prior / scale)


def _spread(units: Units, found: Fit) -> float:
    """phi: what units lack of a coin's variance is the mean of score (1 - score), which is 0 of coins; over
    that of score (1 - another's score) of the same pairing, and where none met twice over what strengths
    make of it."""
    n = units.count
    own = units.total - units.squares  # sum of score (1 - score)
    across = units.total * (n - units.total) - own  # sum of score (1 - another's score)
    gap = np.tanh((found.parameters[units.first] - found.parameters[units.second]) / 2.0)
    guess = float(own.sum()) / max(float(n @ (1.0 - gap**2)) / 4.0, 1e-9)
    seen, coin = float((own * (n - 1.0) / n).sum()), float((across / n).sum())
    return float(np.clip(1.0 - (seen + min(guess, 1.0)) / (coin + 1.0), _LEAST_PHI, 1.0))


def _strayed(units: Units, found: Fit, phi: float, rho: float) -> tuple[float, float]:
    """rho and its precision: by how much more scores differ from those expected than luck would have it, each
    pairing weighed by how well that is known if the last `rho` is right."""
    n, (i, j) = units.count, (units.first, units.second)
    p = 0.5 + 0.5 * np.tanh((found.parameters[i] - found.parameters[j]) / 2.0)
    inverse = np.linalg.inv(found.information)
    doubt = inverse[i, i] + inverse[j, j] - 2.0 * inverse[i, j]
    coin = p * (1.0 - p)
    leverage = np.minimum(n * coin * doubt, 0.9)  # the strengths have followed what they are to explain
    twice = 1.0 - 1.0 / n
    weight = twice / (2.0 * (1.0 / n + rho) ** 2)
    seen = 4.0 * weight @ ((units.score - p) ** 2 / (1.0 - leverage) / phi - coin / n)
    met_twice = 4.0 * weight @ (coin * twice)
    found_rho = (seen + _GUESS_PRECISION * _GUESS) / (met_twice + _GUESS_PRECISION)
    return float(np.clip(found_rho, _LEAST_RHO, _MOST_RHO)), float(met_twice + _GUESS_PRECISION)


def _mirrored(scores: Floats) -> Floats:
    """[N, N] with the upper triangle's scores also seen from the other side."""
    upper = np.triu(scores, 1)
    lower = np.tril(1.0 - upper.T, -1)
    return upper + lower + 0.5 * np.eye(len(scores))
