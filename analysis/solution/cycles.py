"""The part of a payoff that strength explains, and the cycles that are left.

Any antisymmetric matrix is a sum of planes: an orthogonal basis turns it into blocks (0, w; -w, 0), its real
Schur decomposition. In each plane a competitor is a point, and i gains on j the area that the two points
span: a competitor clockwise of another (by less than half a turn) beats it (Balduzzi et al.: Re-evaluating
evaluation, NeurIPS 2018; Open-ended learning in symmetric zero-sum games, ICML 2019).

Differences of strengths are transitive in log-odds and in no other unit, and the log-odds of scores 0 and 1,
which are common in payoffs, are infinite. So `split` fits strengths to the scores, by Bradley and Terry, and
measures both parts in points: a matrix tanh((theta[i] - theta[j]) / 2) of Elo's scores has no cyclic part.
The share of the cyclic part is `raw` of `analysis.statistics.cyclic.cyclic_share`, where all pairings met
equally often. It includes luck. `cyclic_share` subtracts luck for a tournament, and `with_interval` shows it
for any payoff.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from analysis.statistics.davidson import fit, plain_cells
from analysis.statistics.valid import check_antisymmetric, check_whole
from storage.arrays import Floats

_PRIOR = 1e-6  # virtual games of each competitor, where it has one in all: too few to show
_NONE = 1e-9  # share of a matrix's largest value below which there is no plane
_NO_SHARE = 1e-10  # smaller shares are an effect of the virtual games


@dataclass(frozen=True, slots=True)
class Planes:
    """The planes of an antisymmetric matrix [N, N], strongest first.

    The matrix is the sum over planes k of points[:, k, 0] points[:, k, 1]' - points[:, k, 1] points[:, k,
    0]'.
    """

    points: Floats  # [N, P, 2]
    weights: Floats  # [P] w > 0, descending
    shares: Floats  # [P] of the matrix's energy (sum of squares), at most 1 in sum


@dataclass(frozen=True, slots=True)
class Split:
    """A payoff [N, N] in [-1, 1] as the sum of two parts."""

    strengths: Floats  # [N] in log-odds, mean 0
    transitive: Floats  # [N, N] of strengths alone
    cyclic: Floats  # [N, N] the rest, whose rows sum to 0
    unexplained_share: float  # of the energy of both


def split(payoff: Floats) -> Split:
    """Return the parts of `payoff` [N, N], antisymmetric in [-1, 1] (2 score - 1 of row against column).

    Strengths are Bradley-Terry's likeliest, if all met equally often.
    """
    payoff = check_antisymmetric(payoff)
    n = len(payoff)
    home, away = np.triu_indices(n, 1)
    games = np.full(len(home), 1.0 / n)
    cells = plain_cells(home, away, games, games * (0.5 + 0.5 * payoff[home, away]), n)
    theta = fit(cells, prior_games=_PRIOR).parameters
    transitive = np.tanh((theta[:, None] - theta) / 2.0)
    cyclic = payoff - transitive
    rest, explained = float((cyclic**2).sum()), float((transitive**2).sum())
    found = rest / (rest + explained) if rest > _NO_SHARE * explained else 0.0
    return Split(theta - theta.mean(), transitive, cyclic, found)


def unexplained_share(payoff: Floats) -> float:
    """Return the share of energy, in [0, 1], of `payoff` [N, N] in [-1, 1] that strengths do not explain.

    It is 1 for rock-paper-scissors and 0 for the scores of Elo's strengths. It takes luck for cycles: for
    games that were played report the mean of `with_interval`.
    """
    return split(payoff).unexplained_share


def schur(matrix: Floats, planes: int | None = None) -> Planes:
    """Return the strongest `planes` (`None`: all) of an antisymmetric matrix [N, N], in any unit.

    In each plane the competitor furthest from the middle is on the positive first axis.

    i times the matrix is Hermitian with eigenvalues +-w. The eigenvector of w has its real and imaginary
    parts in the plane, at right angles and of equal length, also where several planes are equally strong.
    """
    # Here, not above: `split` needs no scipy.
    from scipy import linalg

    matrix = check_antisymmetric(matrix)
    n = len(matrix)
    if planes is not None:
        check_whole("planes", planes, 0)
    most = n // 2 if planes is None else min(planes, n // 2)
    if most == 0:
        return Planes(np.zeros((n, 0, 2)), np.zeros(0), np.zeros(0))
    weights, vectors = linalg.eigh(1j * matrix, subset_by_index=[n - most, n - 1])
    weights, vectors = weights[::-1], vectors[:, ::-1]
    there = weights > _NONE * float(np.abs(matrix).max())
    weights, vectors = weights[there], vectors[:, there]
    # The phase of an eigenvector is free: the competitor furthest out is put on the first axis.
    lengths = np.abs(vectors)
    furthest = np.argmax(lengths > (1.0 - 1e-9) * lengths.max(axis=0, initial=0.0), axis=0)
    phase = vectors[furthest, np.arange(len(weights))]
    turned = np.conj(vectors * (np.conj(phase) / np.abs(phase)))
    scaled = turned * np.sqrt(2.0 * weights)
    energy = float((matrix**2).sum())
    return Planes(
        np.stack([scaled.real, scaled.imag], axis=2), weights, 2.0 * weights**2 / max(energy, 1e-300)
    )
