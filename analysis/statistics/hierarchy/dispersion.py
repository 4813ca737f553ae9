"""The luck that the games of a pair have in common, as one factor on the variance of points.

Games of a pair share a deal or an opening, draws make points vary less, and the comparisons of one table are
one result: of T at a table, ranked as R. D. Luce (1959) has it, (T + 1) / 3 times as much is luck as if each
comparison were a game of its own. The factor is what whole pairs vary, relative to independent games. Few
pairs do not show it, so it is drawn towards what single tables show.

The likeliest strengths of few games are nearer to one another than the true ones, so that games seem more
open than they are. Their variance is therefore that of the posterior, to second order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from analysis.statistics.davidson import Cells, moments, sums
from analysis.statistics.games import Games, numbered
from storage.arrays import Floats

_ENOUGH = 8.0  # even pairs at which what was seen counts half
_STUDENT = 2.5  # Student's intervals are wider than normal ones by half of this over the freedom
_LEAST = 0.05
_MOST_LEVERAGE = 0.9
_LEAST_OPEN = 0.5  # of the variance at the likeliest strengths


def dispersion_of(games: Games, cells: Cells, mode: Floats, covariance: Floats) -> float:
    """Return the variance of the points of pairs, relative to independent comparisons.

    `mode` [N + T - 1] are strengths and places, `covariance` [N, N] that of the strengths.
    """
    if not len(games):
        return 1.0
    expected = moments(cells, mode)
    residual = games.points - expected.points[cells.kind]
    steep = expected.variance[cells.kind]  # of one game at the likeliest strengths
    size = len(np.unique(np.concatenate([games.home_place, games.away_place])))
    pairs = replace(games, pair=numbered(games.pair))
    p, n = pairs.num_pairs, cells.num_competitors
    own = covariance.diagonal()
    apart = (own[cells.home] + own[cells.away] - 2.0 * covariance[cells.home, cells.away])[cells.kind]
    variance = steep * np.maximum(_LEAST_OPEN, 1.0 + 0.5 * (1.0 - 6.0 * steep) * apart)
    fitted = 1.0 - np.minimum(steep * apart, _MOST_LEVERAGE)
    single = float(((residual**2).sum() + 0.25 * _ENOUGH) / ((variance * fitted).sum() + 0.25 * _ENOUGH))
    before = single * (size + 1.0) / 3.0
    known = sums(pairs.pair, variance, p)
    leverage = sums(pairs.pair, steep * apart, p) / (size - 1) / before
    code = np.concatenate([pairs.pair * n + pairs.home, pairs.pair * n + pairs.away])
    _, row = np.unique(code, return_inverse=True)
    by_member = sums(row, np.concatenate([residual, -residual]), int(row.max()) + 1)
    member_pair = np.zeros(len(by_member), dtype=np.int64)
    member_pair[row] = np.tile(pairs.pair, 2)
    seen = sums(member_pair, by_member**2, p) / 2.0
    even = float(sums(pairs.pair, np.full(len(games), 0.25), p).mean())
    pull = _ENOUGH / (size - 1) * even
    free = 1.0 - np.minimum(leverage, _MOST_LEVERAGE)
    found = float((seen.sum() + pull * before) / ((known * free).sum() + pull))
    freedom = _ENOUGH + (size - 1) * float(np.minimum(known / even, 1.0) @ free)
    return max(_LEAST, found * (1.0 + _STUDENT / freedom))
