"""TrueSkill's expectation of a match before it is played, of two sides, and the draws among equals.

A seat's performance is normal with its competitor's mean mu and variance sigma^2 + beta^2; a team's
is the sum of its members'. Two sides draw when their performances differ by less than the margin
epsilon. Functions are vectorised.

The draw probability between equals may be estimated from the games that were played. The plain share of draws
would be too low wherever strong meets weak. So games are counted by how equal the two sides were predicted to
be, and the draw margin is the one under which as many draws are expected as were seen.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from storage.arrays import Bools, Floats, Indices

_SQRT_HALF = math.sqrt(0.5)


def expected_score(gap: Floats, c: Floats, margin: float) -> Floats:
    """Return P(win) + P(draw) / 2 of the side that leads by `gap` [...] in the mean.

    c [...] is the standard deviation of the difference, `margin` is epsilon, all in mu.

    P(win) = Phi((gap - epsilon) / c), P(loss) = Phi((-gap - epsilon) / c). Swapping the sides gives
    one minus it; without draws it is Phi(gap / c).
    """
    return 0.5 + 0.25 * (erf((gap - margin) / c) + erf((gap + margin) / c))


def erf(x: Floats) -> Floats:
    """Return erf(x / sqrt 2), elementwise: numpy has no erf."""
    flat = np.atleast_1d(x * _SQRT_HALF).ravel().tolist()
    return np.fromiter(map(math.erf, flat), dtype=np.float64, count=len(flat)).reshape(np.shape(x))


FIRST_GAMES = 256  # before the first estimate; the next whenever the games have doubled
PRIOR_GAMES, PRIOR_SHARE = 20.0, 0.1  # start of every estimate: games between equals, and the share drawn

_GAPS, _GAP = 64, 0.125  # cells of |gap| / c, the last takes all beyond
_SCALES = 128  # cells of (0, 1]
_WIDEST = 4.0  # of the margin in units of its scale: a share of 0.99994
_HALVINGS = 50


class DrawRecord:
    """Games and draws so far. It depends on the games and their order, and not on their batches."""

    def __init__(self) -> None:
        self.games = 0
        self._due = FIRST_GAMES
        self._draws = 0
        self._cells: Indices = np.zeros(_GAPS * _SCALES, dtype=np.int64)

    def folded(self) -> tuple[Indices, list[int]]:
        """Return (cells, counters): what `restore` takes."""
        return self._cells, [self.games, self._due, self._draws]

    def restore(self, cells: Indices, counters: Sequence[int]) -> None:
        """Take what `folded` returned."""
        self._cells = cells
        self.games, self._due, self._draws = map(int, counters)

    @property
    def room(self) -> int:
        """Games until the next estimate is due: at least 1."""
        return self._due - self.games

    def add(self, gap: Floats, scale: Floats, drawn: Bools) -> None:
        """Note n games: gap, scale and whether they were drawn, each [n].

        `gap` is that of the means in units of c. `scale` is sqrt(S) beta, of S players in all, in units of c,
        in (0, 1].
        """
        i = np.minimum(np.abs(gap) / _GAP, _GAPS - 1).astype(np.int64)
        j = np.clip(np.ceil(scale * _SCALES), 1, _SCALES).astype(np.int64) - 1
        self._cells += np.bincount(i * _SCALES + j, minlength=len(self._cells))
        self._draws += int(drawn.sum())

    def passed(self, games: int) -> bool:
        """Count `games` more games, at most `room`, and return whether an estimate is due."""
        self.games += games
        if self.games < self._due:
            return False
        self._due *= 2
        return True

    def estimate(self) -> float:
        """Return the draw probability between equals, in (0, 1).

        With z = Phi^-1((p + 1) / 2) the margin is z sqrt(S) beta, and the sum over games of
        Phi(z scale - gap) - Phi(-z scale - gap) is the expected number of draws; z is found by bisection.
        """
        cells = np.flatnonzero(self._cells)
        games = self._cells[cells].astype(np.float64)
        gap, scale = (cells // _SCALES + 0.5) * _GAP, (cells % _SCALES + 0.5) / _SCALES
        wanted = self._draws + PRIOR_GAMES * PRIOR_SHARE
        low, high = 0.0, _WIDEST
        for _ in range(_HALVINGS):
            z = 0.5 * (low + high)
            drawn = 0.5 * (erf(z * scale - gap) + erf(z * scale + gap))
            expected = float(games @ drawn) + PRIOR_GAMES * math.erf(z * math.sqrt(0.5))
            low, high = (z, high) if expected < wanted else (low, z)
        return math.erf(high * math.sqrt(0.5))
