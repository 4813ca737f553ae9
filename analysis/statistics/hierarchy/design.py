"""How much narrower the intervals of a design are than those of a round robin of as many games.

The precision of strengths is that of the prior and of the games: a game of two is worth the variance of its
points, over the luck of pairs. So the precision of the same number of games, evenly spread over all couples,
is known without playing them. Strengths are not known, so widths are means over draws of the posterior: at
the ratings alone a design would seem better than it is, since an interval is widest where strengths turn out
to be far apart.

The draws are wider than that, as groups, spreads and the worth of games are not known either. By how much of
the variance goes with the variance itself, to second order; so it is taken over to the other design.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_solve, cholesky

from analysis.statistics.davidson import ELO
from analysis.statistics.games import Games
from analysis.statistics.hierarchy.posterior import Posterior
from storage.arrays import Floats

_DRAWS, _LEAST_DRAWS = 40, 4
_DRAWN = 8_000  # strengths, in all of these


@dataclass(frozen=True, slots=True)
class Width:
    """Widths of intervals of differences over those of a round robin of as many games; below 1: narrower."""

    all: float  # mean of all differences
    neighbours: float  # of those who are next to one another in the order
    first: float  # of the one rated first and each other


def width_of(games: Games, found: Posterior) -> Width | None:
    """Return the widths of the design of `games`, of which `found` is the posterior, without lines.

    Return `None` for fewer than three competitors, for parts that never met, and along lines: there a round
    robin would not be rated by the same model.
    """
    n = len(games.competitors)
    if n < 3 or found.num_parts > 1 or found.drift is not None or not len(games):
        return None
    met = np.bincount(games.home * n + games.away, minlength=n * n).reshape(n, n)
    met = (met + met.T).astype(np.float64)
    even = (1.0 - np.eye(n)) * met.sum() / (n * (n - 1))
    as_played, evenly = np.zeros((n, n)), np.zeros((n, n))
    number = max(_LEAST_DRAWS, min(_DRAWS, _DRAWN // n))
    for row in np.linspace(0, len(found.draws) - 1, number).astype(int):
        strength = found.draws[row] / ELO
        worth = 0.25 * (1.0 - np.tanh((strength[:, None] - strength) / 2.0) ** 2) / found.dispersion
        spread = float(found.draws[row].std())
        as_played += _deviations(worth * met, spread)
        evenly += _deviations(worth * even, spread)
    covariance = np.cov(found.draws / ELO, rowvar=False)
    own = covariance.diagonal()
    apart = ~np.eye(n, dtype=np.bool_)
    known, even_known = ((each[apart] / number) ** 2 for each in (as_played, evenly))
    more = np.maximum((own[:, None] + own - 2.0 * covariance)[apart] / known - 1.0, 0.0)
    as_played[apart] = np.sqrt(known * (1.0 + more))
    evenly[apart] = np.sqrt(even_known * (1.0 + more * even_known / known))
    order = np.argsort(-found.elo, kind="stable")
    next_to = np.zeros((n, n), dtype=np.bool_)
    next_to[order[:-1], order[1:]] = True
    of_first = np.zeros((n, n), dtype=np.bool_)
    of_first[order[0], order[1:]] = True
    return Width(
        *(float(as_played[which].mean() / evenly[which].mean()) for which in (apart, next_to, of_first))
    )


def _deviations(information: Floats, spread: float) -> Floats:
    """Return [N, N] standard deviations of differences, given the information of each couple's games."""
    n = len(information)
    precision = np.diag(information.sum(axis=1)) - information
    precision[np.arange(n), np.arange(n)] += (ELO / spread) ** 2
    covariance = cho_solve((cholesky(precision, lower=True), True), np.eye(n))
    own = covariance.diagonal()
    return np.sqrt(np.maximum(own[:, None] + own - 2.0 * covariance, 0.0))
