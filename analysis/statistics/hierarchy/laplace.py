"""The posterior of strengths as a mixture of normal distributions, one for each spread that is likely.

Given the spreads the log-posterior is concave. Newton's method finds its maximum, and its curvature there is
that of a normal distribution (Laplace's method). The evidence of the spreads follows from the same figures,
as in H. Rue, S. Martino, N. Chopin: Approximate Bayesian inference for latent Gaussian models, JRSS B 71,
2009.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.sparse
from scipy.linalg import cho_solve, cholesky

from analysis.statistics.davidson import Cells, by_competitor, information, moments
from analysis.statistics.hierarchy.anchors import Held
from analysis.statistics.hierarchy.prior import Prior, grid
from storage.arrays import Floats

_MOST_STEPS = 60
_TOLERANCE = 1e-9
_LARGE = 250  # competitors from which on fewer spreads are tried
_NEGLIGIBLE = 1e-4  # weight of spreads that are left out
_ROWS = 16  # of log-odds that are computed at a time


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was played, as the model reads it: m kinds of game with points that are over-dispersed alike."""

    cells: Cells
    dispersion: float
    design: scipy.sparse.csr_array  # [m, K]
    held: Held | None = None

    def likelihood(self, x: Floats) -> tuple[Floats, Floats]:
        """Return the log-likelihood [S] of parameters `x` [S, K], and its first derivatives [S, K]."""
        d = self.design @ x.T
        value = self.cells.points @ d
        for start in range(0, len(d), _ROWS):  # blocks that stay in the processor's cache
            rows = slice(start, start + _ROWS)
            block, games = d[rows], self.cells.games[rows, None]
            value -= games[:, 0] @ (np.maximum(block, 0.0) + np.log(1.0 + np.exp(-np.abs(block))))
            np.multiply(block, 0.5, out=block)
            np.tanh(block, out=block)
            np.multiply(block, -0.5 * games, out=block)
            np.add(block, self.cells.points[rows, None] - 0.5 * games, out=block)  # points over the expected
        value, slope = value / self.dispersion, np.asarray((self.design.T @ d).T) / self.dispersion
        if self.held is None:
            return value, slope
        given, pull = self.held.pull(x)
        return value + given, slope + pull


@dataclass(frozen=True, slots=True)
class Component:
    """One normal distribution of the mixture."""

    spreads: Floats  # [h]
    mode: Floats  # [K]
    factor: Floats  # [K, K] lower triangular: factor factor' is the precision
    prior: Floats  # [K, K] precision of the prior
    log_evidence: float


@dataclass(frozen=True, slots=True)
class NormalMixture:
    """Normal distributions with their weights."""

    prior: Prior
    components: tuple[Component, ...]
    log_volume: Floats  # [G] log of the prior probability of the spreads that a component represents
    weight: Floats  # [G]


def evidence_of(cells: Cells, prior: Prior, dispersion: float, held: Held | None = None) -> Evidence:
    """Return the evidence in `cells`, which have no parameter of draws, and in anchors."""
    m, n = len(cells.home), cells.num_competitors
    rows = np.arange(m)
    strengths = scipy.sparse.csr_array(
        (np.repeat([1.0, -1.0], m), (np.tile(rows, 2), np.concatenate([cells.home, cells.away]))),
        shape=(m, n),
    )
    drift = scipy.sparse.csr_array((m, prior.num_parameters - cells.num_parameters))
    design = scipy.sparse.hstack([strengths, scipy.sparse.csr_array(cells.contrast), drift], format="csr")
    return Evidence(cells, dispersion, scipy.sparse.csr_array(design), held)


def mixture_of(evidence: Evidence, prior: Prior) -> NormalMixture:
    """Return the posterior of strengths, mixed over the spreads."""
    large, dimensions = prior.num_competitors > _LARGE, len(prior.scales)
    start = np.zeros(prior.num_parameters)
    if dimensions == 1:
        spreads, log_step = _likely(evidence, prior, 7 if large else 12, 5 if large else 9)
    else:
        spreads = grid(prior, 6 if large else 9)
        log_step = 2 * math.log(float(spreads[1, -1] / spreads[0, -1]))
    found = []
    for row in spreads[::-1]:
        found.append(component(evidence, prior, row, start))
        start = found[-1].mode
    found.reverse()
    log_volume = prior.log_hyper(spreads) + log_step
    score = np.array([each.log_evidence for each in found]) + log_volume
    weight = np.exp(score - score.max())
    weight /= weight.sum()
    kept = weight > _NEGLIGIBLE
    return NormalMixture(
        prior,
        tuple(each for each, keep in zip(found, kept, strict=True) if keep),
        log_volume[kept],
        weight[kept] / weight[kept].sum(),
    )


def likeliest(evidence: Evidence, prior: Prior) -> Component:
    """Return the normal distribution of the likeliest spreads of a coarse grid."""
    best: Component | None = None
    score, start = -math.inf, np.zeros(prior.num_parameters)
    for spreads in grid(prior, 6)[::-1]:
        found = component(evidence, prior, spreads, start)
        start = found.mode
        here = found.log_evidence + float(prior.log_hyper(spreads[None])[0])
        if best is None or here > score:
            best, score = found, here
    assert best is not None
    return best


def component(evidence: Evidence, prior: Prior, spreads: Floats, start: Floats) -> Component:
    """Return the normal distribution given `spreads` [h], searched from `start` [K]."""
    precision = prior.precision(spreads)
    x = start
    value, slope, curved = _at(evidence, precision, x)
    for _ in range(_MOST_STEPS):
        factor = cholesky(curved, lower=True, check_finite=False)
        step = cho_solve((factor, True), slope, check_finite=False)
        gain = float(slope @ step)
        if gain < _TOLERANCE:
            break
        while True:
            ahead = _at(evidence, precision, x + step)
            if ahead[0] >= value or np.abs(step).max() < _TOLERANCE:
                break
            step = step / 2
        x = x + step
        value, slope, curved = ahead
    variance = prior.variances(spreads)
    log_evidence = value - 0.5 * float(np.log(variance).sum()) - float(np.log(factor.diagonal()).sum())
    return Component(spreads, x, factor, precision, log_evidence)


def _at(evidence: Evidence, precision: Floats, x: Floats) -> tuple[float, Floats, Floats]:
    """Return the log-posterior at `x` [K], its first and minus its second derivatives [K, K]."""
    cells, phi = evidence.cells, evidence.dispersion
    k = cells.num_parameters
    expected = moments(cells, x[:k])
    residual = cells.points - cells.games * expected.points
    pull = precision @ x
    d = evidence.design @ x
    value = ((cells.points - cells.games / 2) @ d - cells.games @ expected.log_sum) / phi - 0.5 * x @ pull
    slope = -pull
    slope[: cells.num_competitors] += by_competitor(cells, residual) / phi
    slope[cells.place] += (residual @ cells.contrast) / phi
    curved = precision.copy()
    curved[:k, :k] += information(cells, expected, cells.games / phi)
    if evidence.held is not None:
        (given,), (pulled,) = evidence.held.pull(x[None])
        value, slope = value + given, slope + pulled
        evidence.held.add_to(curved)
    return float(value), slope, curved


def _likely(evidence: Evidence, prior: Prior, coarse: int, fine: int) -> tuple[Floats, float]:
    """Return [fine, 1] spreads that cover nearly all of the posterior, and the log of their log step."""
    tried = grid(prior, coarse)
    score = np.empty(len(tried))
    start = np.zeros(prior.num_parameters)
    for i in range(len(tried) - 1, -1, -1):
        found = component(evidence, prior, tried[i], start)
        score[i], start = found.log_evidence, found.mode
    axis = np.log(tried[:, 0])
    at = np.linspace(axis[0], axis[-1], 2001)
    from scipy.interpolate import CubicSpline  # a third of a second, and not for all who import this

    log_density = CubicSpline(axis, score + prior.log_hyper(tried))(at)
    density = np.exp(log_density - log_density.max())
    total = np.cumsum(density) / density.sum()
    low, high = np.interp([0.001, 0.999], total, at)
    if high - low < 1e-3:
        low, high = low - 1e-3, high + 1e-3
    return np.exp(np.linspace(low, high, fine))[:, None], math.log((high - low) / (fine - 1))
