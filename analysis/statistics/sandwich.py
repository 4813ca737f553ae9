"""The covariance of fitted strengths, when the games of a pair are not independent.

Games of a pair share a deal or an opening, and comparisons of one match share the match. So the likelihood's
own curvature H is a wrong error. The covariance is the sandwich H^-1 M H^-1 of Huber (1967) and White
(Econometrica 50, 1982). M is the variance of the likelihood's first derivatives, summed over whole pairs
(Liang and Zeger, Biometrika 73, 1986), each enlarged by its leverage (MacKinnon and White, J. Econometrics
29, 1985; Bell and McCaffrey, Survey Methodology 28, 2002).

That needs many pairs, and gives no error at all where every result was as expected: a competitor that won all
its games would be rated exactly. So of each pairing the part 1 - w of M is not the variance that was seen. It
is the variance that the model expects, times the dispersion of all pairs. w grows with the information in the
pairing's games. The prior counts as games of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from analysis.statistics.davidson import Cells, Fit, Moments, information, moments, sums
from analysis.statistics.games import Games, numbered
from storage.arrays import Floats, Indices

_ENOUGH = 4.0  # variance of points at which w is one half: 8 pairs of two even games
_MOST_LEVERAGE = 0.9


@dataclass(frozen=True, slots=True)
class _Pairs:
    """The members of each of P pairs: at most S competitors."""

    member: Indices  # [P, S] competitors, -1: fewer play
    home: Indices  # [g] index of home among its pair's members
    away: Indices  # [g]
    pairing: Indices  # [P] number of the pairing


def covariance_of(games: Games, cells: Cells, found: Fit) -> Floats:
    """Return the covariance [K, K] of the parameters `found` for `cells` of `games`, in squared log-odds."""
    games = replace(games, pair=numbered(games.pair))  # where pairs are missing
    n, kind = cells.num_competitors, cells.kind
    inverse = np.linalg.inv(found.information)
    expected = moments(cells, found.parameters)
    variance = expected.variance[kind]
    pairs = _pairs_of(games)
    size = (pairs.member >= 0).sum(axis=1)

    spread = inverse.diagonal()[cells.home] + inverse.diagonal()[cells.away]
    spread -= 2 * inverse[cells.home, cells.away]
    leverage = _by_pair(games, variance * spread[kind]) / (size - 1)
    scores = _scores(games, cells, expected, pairs)
    scores /= np.sqrt(1.0 - np.minimum(leverage, _MOST_LEVERAGE))[:, None]

    known = np.bincount(pairs.pairing, _by_pair(games, variance) * 2 / (size * (size - 1)))
    own = (known / (known + _ENOUGH))[pairs.pairing]
    expectation = information(cells, expected, cells.games).diagonal()
    dispersion = np.ones(cells.num_parameters)
    s = pairs.member.shape[1]
    dispersion[:n] = _ratio((scores[:, :s] ** 2).sum() / 2, expectation[:n].sum() / 2)
    for k in range(n, cells.num_parameters):
        dispersion[k] = _ratio((scores[:, s + k - n] ** 2).sum(), expectation[k])

    seen = _summed(scores * np.sqrt(own)[:, None], pairs, n)
    rest = sums(kind, (1.0 - own)[games.pair], len(cells.home))
    model = information(cells, expected, rest) * np.sqrt(np.outer(dispersion, dispersion))
    return inverse @ (seen + model + found.prior) @ inverse


def _ratio(seen: float, expected: float) -> float:
    """Return how much more was seen than expected; 1 where nothing was."""
    return (seen + _ENOUGH) / (expected + _ENOUGH)


def _summed(scores: Floats, pairs: _Pairs, num_competitors: int) -> Floats:
    """Return the sum [K, K] of the squares (outer products) of all pairs' scores."""
    n, s = num_competitors, pairs.member.shape[1]
    k = n + scores.shape[1] - s
    # Missing members have the score 0, so they may be added to any competitor.
    column = np.where(pairs.member >= 0, pairs.member, 0)
    strengths = np.zeros(n * n)
    for a in range(s):
        for b in range(s):
            at = column[:, a] * n + column[:, b]
            strengths += sums(at, scores[:, a] * scores[:, b], n * n)
    matrix = np.zeros((k, k))
    matrix[:n, :n] = strengths.reshape(n, n)
    matrix[n:, n:] = scores[:, s:].T @ scores[:, s:]
    for j in range(n, k):
        both = scores[:, :s] * scores[:, [s + j - n]]
        matrix[:n, j] = matrix[j, :n] = sums(column.ravel(), both.ravel(), n)
    return matrix


def _scores(games: Games, cells: Cells, expected: Moments, pairs: _Pairs) -> Floats:
    """Return first derivatives [P, S + K - N] of the log-likelihood of each pair.

    They are by the strengths of its S members, then by places and by log nu.
    """
    p, s = pairs.member.shape
    residual = games.points - expected.points[cells.kind]
    row = games.pair * s
    by_member = sums(row + pairs.home, residual, p * s)
    by_member -= sums(row + pairs.away, residual, p * s)
    columns = [residual * column for column in cells.contrast[cells.kind].T]
    if cells.drawn:
        columns.append((games.points == 0.5) - expected.draws[cells.kind])
    by_other = [_by_pair(games, column) for column in columns]
    return np.column_stack([by_member.reshape(p, s), *by_other])


def _by_pair(games: Games, value: Floats) -> Floats:
    """Return sums [P] of `value` [g]."""
    return sums(games.pair, value, games.num_pairs)


def _pairs_of(games: Games) -> _Pairs:
    n, g = len(games.competitors), len(games)
    codes, place = np.unique(
        np.concatenate([games.pair * n + games.home, games.pair * n + games.away]), return_inverse=True
    )
    pair, competitor = codes // n, codes % n
    first = np.searchsorted(pair, np.arange(games.num_pairs))
    among = np.arange(len(codes)) - first[pair]
    member = np.full((games.num_pairs, int(among.max(initial=0)) + 1), -1)
    member[pair, among] = competitor
    return _Pairs(member, among[place[:g]], among[place[g:]], numbered(*(member + 1).T))
