"""The posterior of strengths from games that were played while a league trained.

Pairings are not what one number per competitor has them: A beats B by more than their strengths say, since
play is not transitive, and a stage's games are those of a policy that changed meanwhile. So each pairing has
a deviation of its own, normal with variance

    s^2 + (STRETCH d)^2,

where d is the difference in strength, and s is estimated, for pairings that stay as they are and for those of
players that learn (a mixed model; C. McCulloch, S. Searle: Generalized, Linear, and Mixed Models, 2001). Of n
games with variance v each, then, no more than n / (1 + n v s^2) tell of strengths: a million games of one
pairing say no more of who is best than that one pairing can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
from scipy.linalg import cho_solve

from analysis.statistics.davidson import Cells, plain_cells
from analysis.statistics.hierarchy.anchors import Anchor, held
from analysis.statistics.hierarchy.laplace import Component, component, evidence_of, likeliest
from analysis.statistics.hierarchy.moves import draws
from analysis.statistics.hierarchy.prior import ELO, Prior
from analysis.statistics.strength.field import Field
from storage.arrays import Floats

SAMPLES = 2_000
STRETCH = 0.1  # of a difference in strength, one standard deviation of what a pairing differs from it
OWN = (30.0 / ELO, 60.0 / ELO)  # what is assumed of s: of fixed competitors, and of those that learn
_ASSUMED = 6.0  # pairings that this counts as much as
_LEAST = 5.0 / ELO
_ROUNDS = 4
_LEAST_VARIANCE = 1e-4  # of a game
_SMALL = 30  # nodes up to which draws are moved by the exact density


def strengths(field: Field, anchors: Mapping[str, Anchor] = {}, seed: int = 0) -> Floats:
    """Return draws [S, N] in Elo from the posterior of the strengths of the field's nodes, which have met.

    They are on the scale of `anchors`, which are among the nodes, or else relative to no one.
    """
    n = len(field.nodes)
    prior, fixed = Prior(n, 1, field.lines), held(anchors, [name for name, _ in field.nodes])
    m = len(field.home)
    cells = plain_cells(field.home, field.away, field.games, field.points, n)
    evidence = evidence_of(_capped(cells, np.zeros(m), np.where(field.moving, *OWN[::-1])), prior, 1.0, fixed)
    normal = likeliest(evidence, prior)
    for _ in range(_ROUNDS):
        d = normal.mode[field.home] - normal.mode[field.away]
        evidence = evidence_of(_capped(cells, d, _own_deviation(field, normal, d)), prior, 1.0, fixed)
        normal = component(evidence, prior, normal.spreads, normal.mode)
    rng = np.random.default_rng(seed)
    x = draws(evidence, prior, normal, SAMPLES, rng, exact=n <= _SMALL).x[:, :n]
    if fixed is not None:
        x = x - fixed.zero(x, rng)[:, None]
        x[:, fixed.index[fixed.exact]] = fixed.strength[fixed.exact]
    return ELO * x


def _variance(d: Floats) -> Floats:
    """Return the variance [m] of a game between competitors `d` apart."""
    p = 1.0 / (1.0 + np.exp(-d))
    return np.maximum(p * (1.0 - p), _LEAST_VARIANCE)


def _capped(cells: Cells, d: Floats, own: Floats) -> Cells:
    """Return the cells with as many games as they are good for: differences `d` [m], deviations `own` [m]."""
    share = 1.0 / (1.0 + cells.games * _variance(d) * (own**2 + (STRETCH * d) ** 2))
    return replace(cells, games=cells.games * share, points=cells.points * share)


def _own_deviation(field: Field, normal: Component, d: Floats) -> Floats:
    """Return s [m] of each pairing, by how far scores are from what strengths say, beyond luck (moments)."""
    v = _variance(d)
    away = (field.points / field.games - 1.0 / (1.0 + np.exp(-d))) / v
    inverse = cho_solve((normal.factor, True), np.eye(len(normal.factor)), check_finite=False)
    known = inverse.diagonal()
    fitted = known[field.home] + known[field.away] - 2.0 * inverse[field.home, field.away]
    luck = 1.0 / (field.games * v)
    found = np.empty(len(d))
    for moving, assumed in enumerate(OWN):
        rows = field.moving == bool(moving)
        weight = 1.0 / (luck[rows] + assumed**2 + (STRETCH * d[rows]) ** 2) ** 2
        excess = np.minimum(away[rows] ** 2, 25.0 / np.sqrt(weight)) + fitted[rows] - luck[rows]
        excess -= (STRETCH * d[rows]) ** 2
        pull = _ASSUMED / assumed**4
        square = (weight @ excess + pull * assumed**2) / (weight.sum() + pull)
        found[rows] = np.sqrt(max(square, _LEAST**2))
    return found
