"""Draws from the posterior of strengths: from the normal mixture, then moved by its exact density.

Where few games were played, or all were won, the posterior is skewed, which a normal distribution is not. So
draws are moved by Hamiltonian Monte Carlo, which leaves the exact posterior as it is. The normal part of each
move is solved exactly, and only the difference from it is stepped (B. Shahbaba, S. Lan, W. Johnson, R. Neal:
Split Hamiltonian Monte Carlo, Stat. Comput. 24, 2014). After each move the spreads are drawn again, given the
strengths. Strengths of a small field hold a spread near what it is, so it is also drawn given the strengths
in units of the spread, which then change with it (Y. Yu, X. Meng: To center or not to center, J. Comput.
Graph. Stat. 20, 2011).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import solve_triangular

from analysis.statistics.hierarchy.laplace import Component, Evidence, NormalMixture
from storage.arrays import Floats, Indices

SWEEPS = 3
_STEPS = 4  # of one move, a quarter turn
_FAR = 3.0  # log-density by which a first draw may be less likely than the mixture has it
_HALVINGS = 6
_SMALL = 60  # competitors up to which spreads are drawn together with strengths as well
_MOST_SPREADS = 12  # that are tried so


def draws(
    evidence: Evidence, mixture: NormalMixture, rng: np.random.Generator, samples: int, *, sweeps: int = 0
) -> tuple[Floats, Indices]:
    """Return parameters [S, K] and the component [S] of each; without `sweeps` they are the mixture's."""
    component = np.sort(rng.choice(len(mixture.weight), size=samples, p=mixture.weight))
    x = np.empty((samples, mixture.prior.num_parameters))
    prior = mixture.prior
    small = prior.num_competitors <= _SMALL and len(mixture.components) <= _MOST_SPREADS
    together = small and prior.lines is None
    for g, normal in enumerate(mixture.components):
        rows = component == g
        white = rng.standard_normal((int(rows.sum()), x.shape[1]))
        if sweeps:
            white = _possible(evidence, normal, white)
        x[rows] = normal.mode + _coloured(normal, white)
    for _ in range(sweeps):
        for g, normal in enumerate(mixture.components):
            rows = np.flatnonzero(component == g)
            if len(rows):
                x[rows] = _moved(evidence, normal, x[rows], rng)
        component = _spreads_again(mixture, x, rng)
        if together:
            x, component = _spreads_with_strengths(evidence, mixture, x, component, rng)
    return x, component


def _coloured(normal: Component, white: Floats) -> Floats:
    """Return deviations from the mode [S, K] of independent ones [S, K]."""
    return solve_triangular(normal.factor, white.T, trans="T", lower=True, check_finite=False).T


def _possible(evidence: Evidence, normal: Component, z: Floats) -> Floats:
    """Return draws [S, K] nearer to the mode where they are far less likely than the mixture has them."""
    _, lowest = _rest(evidence, normal, np.zeros_like(z[:1]))
    for _ in range(_HALVINGS):
        _, energy = _rest(evidence, normal, z)
        far = energy > lowest + _FAR
        if not far.any():
            break
        z = np.where(far[:, None], 0.5 * z, z)
    return z


def _moved(evidence: Evidence, normal: Component, x: Floats, rng: np.random.Generator) -> Floats:
    """Return draws [S, K] after one move, given the component's spreads."""
    angle = 0.5 * math.pi / _STEPS * rng.uniform(0.8, 1.2)
    turn, shift = math.cos(angle), math.sin(angle)
    z = (x - normal.mode) @ normal.factor
    v = rng.standard_normal(z.shape)
    force, energy = _rest(evidence, normal, z)
    before = energy + 0.5 * (v**2 + z**2).sum(axis=1)
    for _ in range(_STEPS):
        v = v - 0.5 * angle * force
        z, v = turn * z + shift * v, turn * v - shift * z
        force, energy = _rest(evidence, normal, z)
        v = v - 0.5 * angle * force
    after = energy + 0.5 * (v**2 + z**2).sum(axis=1)
    accepted = np.log(rng.random(len(z))) < before - after
    return np.where(accepted[:, None], normal.mode + _coloured(normal, z), x)


def _rest(evidence: Evidence, normal: Component, z: Floats) -> tuple[Floats, Floats]:
    """Return minus the log-posterior less its normal part [S], and its first derivatives [S, K], at `z`."""
    x = normal.mode + _coloured(normal, z)
    pull = x @ normal.prior
    likelihood, gradient = evidence.likelihood(x)
    value = -likelihood + 0.5 * (x * pull).sum(axis=1) - 0.5 * (z**2).sum(axis=1)
    white = solve_triangular(normal.factor, (pull - gradient).T, lower=True, check_finite=False).T
    return white - z, value


def _spreads_again(mixture: NormalMixture, x: Floats, rng: np.random.Generator) -> Indices:
    """Return the component [S] of each draw, drawn given its strengths."""
    spreads = np.array([each.spreads for each in mixture.components])
    return _drawn(mixture.prior.log_density(x, spreads) + mixture.log_volume, rng)


def _spreads_with_strengths(
    evidence: Evidence, mixture: NormalMixture, x: Floats, component: Indices, rng: np.random.Generator
) -> tuple[Floats, Indices]:
    """Return parameters [S, K] and components [S], drawn given strengths in units of the spread."""
    n = mixture.prior.num_competitors
    spreads = np.array([each.spreads[0] for each in mixture.components])
    scaled = x.copy()
    score = np.empty((len(x), len(spreads)))
    for g, spread in enumerate(spreads):
        scaled[:, :n] = x[:, :n] * (spread / spreads[component])[:, None]
        score[:, g] = evidence.likelihood(scaled)[0] + mixture.log_volume[g]
    found = _drawn(score, rng)
    scaled[:, :n] = x[:, :n] * (spreads[found] / spreads[component])[:, None]
    return scaled, found


def _drawn(score: Floats, rng: np.random.Generator) -> Indices:
    """Return a column [S] of each row of log-probabilities [S, G], drawn by them."""
    share = np.exp(score - score.max(axis=1, keepdims=True))
    limit = np.cumsum(share, axis=1)
    return (rng.random((len(score), 1)) * limit[:, -1:] > limit).sum(axis=1)
