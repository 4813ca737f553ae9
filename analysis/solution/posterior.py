"""The posterior of every pairing's score given the games of a field, also of pairings that never met.

A pairing's score is known by its own games, and by what the strengths of the two predict. How far pairings
stray from strengths is estimated from the field. The score x[i, j] that i reaches against j is drawn around
p[i, j] = 1 / (1 + exp(theta[j] - theta[i])) with variance rho phi p (1 - p). So rho is 0 where strengths
explain all, and near 1 in rock-paper-scissors. phi is the variance of one unit (a game, or a pair of games)
relative to that of a coin: 1 without draws, less with them. A prior of kappa = 1 / rho - 1 units of the score
p is equivalent. The strengths are Bradley-Terry's (`davidson`), with n / (1 + (n - 1) rho) independent units
of each pairing. rho and phi come from moments (Kleinman: Proportions with extraneous variance, JASA 68,
1973), shrunk to a cautious guess where few pairings met twice. The strengths are a sample of a normal
distribution with the likeliest variance (Dempster, Laird and Rubin, J. R. Stat. Soc. B 39, 1977).

Strengths may also explain all: then rho is 0, and an interval of a cyclic share must hold 0. The probability
of that follows from how well either explains the games (a spike and a slab: Mitchell and Beauchamp: Bayesian
variable selection in linear regression, JASA 83, 1988), with Laplace's approximation for the strengths.

One draw takes one of the two. In the first, strengths are drawn from the normal approximation of their
posterior and determine all scores. In the other, rho and the strengths are drawn from theirs. Then every
score is drawn from that of a Bayesian bootstrap over units (Rubin, Ann. Stat. 9, 1981) with the prior's kappa
units added: a Beta with the mean and the variance of the Dirichlet's. A plain bootstrap would find no doubt
in a pairing's only game.

The units of one pairing are drawn independently of another's. In matches of three and more teams they are not
independent, and sums over pairings are then somewhat less sure than they look (intervals of 95 % held 91 to
92 of 100). Where hardly anything is transitive and few games were played, strengths are still credited with
some of it: intervals of a cyclic share of 0.8 held it 60 times of 100 after 6 games of each pairing, 80 after
20.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from analysis.statistics.davidson import PRIOR_GAMES, Fit, fit, plain_cells
from storage.arrays import Floats, Indices

_GUESS = 0.2  # rho, and by how much that may well be wrong
_GUESS_PRECISION = 1.0 / 0.2**2
_LEAST_RHO, _MOST_RHO = 0.002, 0.9
_LEAST_PHI = 0.02
_USUAL = 1.0  # variance of strengths where there are no more than
_FEW = 2.0  # competitors
_STEPS = 20  # towards that variance
_ROUNDS = 3  # of rho: each weighs the pairings by the last
_BEYOND_DOUBT = 1e-9  # the least p
_ALONE = 0.2  # how likely strengths say all, before any game
_COURSES = np.array([0.1, 0.3, 0.5, 0.7, 0.9])  # of rho's distribution, at which the games are explained


@dataclass(frozen=True, slots=True)
class Units:
    """The e pairings of N competitors that met, from the side of the lower number.

    A unit is what is independent: a game, or the games of a pair, whose score is their mean.
    """

    num_competitors: int
    first: Indices  # [e]
    second: Indices  # [e] > first
    games: Floats  # [e]
    count: Floats  # [e] of units
    total: Floats  # [e] of the units' scores
    squares: Floats  # [e] of them

    @property
    def score(self) -> Floats:
        """Points per game of `first`, [e]."""
        return self.total / self.count


@dataclass(frozen=True, slots=True)
class NormalStrengths:
    """A normal distribution of the strengths."""

    mean: Floats  # [N]
    root: Floats  # [N, N] lower triangle: Cholesky's of the precision
    evidence: float  # log density of the prior at the mean, times the volume of what is likely

    def draw(self, rng: np.random.Generator) -> Floats:
        from scipy import linalg

        normal = rng.standard_normal(len(self.mean))
        return self.mean + linalg.solve_triangular(self.root, normal, lower=True, trans="T")


@dataclass(frozen=True, slots=True)
class ScorePosterior:
    """The distribution of the scores of N competitors against one another."""

    units: Units
    normal: NormalStrengths  # the strengths, theta in log-odds
    alone: NormalStrengths  # what they are if they say all
    chance_alone: float  # that they do
    rho: float  # how much of the variance of results is not of luck or strength
    rho_deviation: float  # its standard error
    phi: float  # variance of a unit's score, where a coin's is 1

    @property
    def strengths(self) -> Floats:
        """Strengths theta in log-odds, [N]."""
        return self.normal.mean

    def expected(self, strengths: Floats | None = None) -> Floats:
        """Return the scores [N, N] of row against column that strengths alone predict."""
        theta = self.strengths if strengths is None else strengths
        return 0.5 + 0.5 * np.tanh((theta[:, None] - theta) / 2.0)

    def draw(self, rng: np.random.Generator) -> Floats:
        """Return possible scores [N, N], the diagonal 1/2."""
        units, n = self.units, self.units.num_competitors
        if rng.random() < self.chance_alone:
            return _mirrored(self.expected(self.alone.draw(rng)))
        theta = self.normal.draw(rng)
        p = self.expected(theta)[np.triu_indices(n, 1)].clip(_BEYOND_DOUBT, 1.0 - _BEYOND_DOUBT)
        rho = float(_rhos(self.rho, self.rho_deviation, rng.random()))
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


def posterior(units: Units) -> ScorePosterior:
    """Return the posterior of the pairings that met; with no games at all, that of equals."""
    n = units.num_competitors
    if n == 0:
        none = NormalStrengths(np.zeros(0), np.zeros((0, 0)), 0.0)
        return ScorePosterior(units, none, none, _ALONE, _GUESS, 0.0, 1.0)
    found = _strengths(units, units.count)
    phi, rho, known = _spread(units, found), _GUESS, _GUESS_PRECISION
    if len(units.count):
        for _ in range(_ROUNDS):
            rho, known = _strayed(units, found, phi, rho)
    coins = units.count / phi  # that each pairing is worth, if strengths say all; else those of one are alike
    alone = _normal(_strengths(units, coins, found.parameters))
    normal = _normal(_strengths(units, coins / (1.0 + (units.count - 1.0) * rho), found.parameters))
    chance = _chance_alone(units, normal, alone, phi, _rhos(rho, known**-0.5, _COURSES))
    return ScorePosterior(units, normal, alone, chance, rho, known**-0.5, phi)


def _normal(found: Fit) -> NormalStrengths:
    """Return the distribution of the strengths of a fit."""
    from scipy import linalg  # here, not above: the league's rules import this package and need none of it

    precision, pull = found.information - found.prior, found.information @ found.parameters
    n = len(pull)
    # Strengths are drawn around their mean with a variance that is read off the field, too: by
    # expectation and maximization, from the spectrum of what the games tell.
    precisions, axes = linalg.eigh(precision)
    along, apart = axes.T @ pull, _USUAL
    for _ in range(_STEPS):
        doubt = 1.0 / (np.maximum(precisions, 0.0) + 1.0 / apart)
        apart = float(((along * doubt) ** 2 + doubt).sum() + _FEW * _USUAL) / (n + _FEW)
    root = linalg.cholesky(precision + np.eye(n) / apart, lower=True)
    mean = linalg.cho_solve((root, True), pull)
    evidence = -0.5 * (mean @ mean / apart + n * np.log(apart)) - np.log(np.diag(root)).sum()
    return NormalStrengths(mean, root, float(evidence))


def _rhos(rho: float, deviation: float, quantiles: npt.ArrayLike) -> Floats:
    """Return quantiles of rho's distribution: normal, cut at the least value.

    Below that, strengths explain all.
    """
    from scipy import special

    below = special.ndtr((_LEAST_RHO - rho) / deviation) if deviation > 0.0 else 0.0
    quantiles = below + (1.0 - below) * np.asarray(quantiles)
    found: Floats = np.clip(rho + deviation * special.ndtri(quantiles), _LEAST_RHO, _MOST_RHO)
    return found


def _chance_alone(
    units: Units, normal: NormalStrengths, alone: NormalStrengths, phi: float, rhos: Floats
) -> float:
    """Return the probability that strengths explain all.

    It compares the likelihoods of the games under coins and under a beta-binomial with each of `rhos` [k].
    """
    from scipy import special

    def chances(theta: Floats) -> Floats:
        p = 0.5 + 0.5 * np.tanh((theta[units.first] - theta[units.second]) / 2.0)
        return p.clip(_BEYOND_DOUBT, 1.0 - _BEYOND_DOUBT)

    coins, heads = units.count / phi, units.total / phi
    p = chances(alone.mean)
    by_strengths = float(heads @ np.log(p) + (coins - heads) @ np.log1p(-p)) + alone.evidence
    p, kappa = chances(normal.mean), 1.0 / rhos[:, None] - 1.0
    of_home, of_away = kappa * p, kappa * (1.0 - p)
    strayed = special.betaln(of_home + heads, of_away + coins - heads) - special.betaln(of_home, of_away)
    by_more = float(special.logsumexp(strayed.sum(axis=1)) - np.log(len(rhos))) + normal.evidence
    return float(special.expit(by_strengths - by_more + special.logit(_ALONE)))


def _strengths(units: Units, weight: Floats, start: Floats | None = None) -> Fit:
    """Return the Bradley-Terry fit of `weight` [e] games of each pairing."""
    # Scaled to a game of each competitor: of millions of games the likelihood is too large a number for the
    # last steps to show in it.
    scale = min(1.0, units.num_competitors / max(float(weight.sum()), 1.0))
    games = scale * weight
    cells = plain_cells(units.first, units.second, games, games * units.score, units.num_competitors)
    found = fit(cells, prior_games=scale * PRIOR_GAMES, start=start)
    return Fit(found.parameters, found.information / scale, found.prior / scale)


def _spread(units: Units, found: Fit) -> float:
    """Return phi, the variance of a unit relative to that of a coin.

    What units lack of it is the mean of score (1 - score), which is 0 of coins, over that of score (1 -
    another's score) of the same pairing. Where no pairing met twice the prediction of the strengths is used
    instead.
    """
    n = units.count
    own = units.total - units.squares  # sum of score (1 - score)
    across = units.total * (n - units.total) - own  # sum of score (1 - another's score)
    gap = np.tanh((found.parameters[units.first] - found.parameters[units.second]) / 2.0)
    guess = float(own.sum()) / (float(n @ (1.0 - gap**2)) / 4.0 + 0.25)  # and one game of equals, decided
    seen, coin = float((own * (n - 1.0) / n).sum()), float((across / n).sum())
    return float(np.clip(1.0 - (seen + min(guess, 1.0)) / (coin + 1.0), _LEAST_PHI, 1.0))


def _strayed(units: Units, found: Fit, phi: float, rho: float) -> tuple[float, float]:
    """Return rho and its precision, from how much more scores differ from the predicted ones than by luck.

    Each pairing is weighted by how well that is known if the last `rho` is right.
    """
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
    """Return [N, N] with the upper triangle's scores also from the other side."""
    upper = np.triu(scores, 1)
    lower = np.tril(1.0 - upper.T, -1)
    return upper + lower + 0.5 * np.eye(len(scores))
