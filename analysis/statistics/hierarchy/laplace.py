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
_ROWS = 16  # of log-odds that are computed at a time


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was played, as the model reads it: m kinds of game with points that are over-dispersed alike."""

    cells: Cells
    dispersion: float
    design: scipy.sparse.csr_array  # [m, K]
    held: Held | None = None

    def of_games(self, d: Floats, design: scipy.sparse.csr_array, slope: bool) -> tuple[Floats, Floats]:
        """Return the log-likelihood [S] of log-odds `d` [m, S], and with `slope` its derivatives [S, K]."""
        value = self.cells.points @ d
        for start in range(0, len(d), _ROWS):  # blocks that stay in the processor's cache
            rows = slice(start, start + _ROWS)
            block, games = d[rows], self.cells.games[rows, None]
            value -= games[:, 0] @ (np.maximum(block, 0.0) + np.log(1.0 + np.exp(-np.abs(block))))
            if slope:
                np.multiply(block, 0.5, out=block)
                np.tanh(block, out=block)
                np.multiply(block, -0.5 * games, out=block)
                np.add(block, self.cells.points[rows, None] - 0.5 * games, out=block)  # over the expected
        steep = np.asarray((design.T @ d).T) / self.dispersion if slope else np.zeros(1)
        return value / self.dispersion, steep


@dataclass(frozen=True, slots=True)
class Component:
    """The normal distribution given the spreads."""

    spreads: Floats  # [h]
    mode: Floats  # [K]
    factor: Floats  # [K, K] lower triangular: factor factor' is the precision
    log_evidence: float


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
    return Component(spreads, x, factor, log_evidence)


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
