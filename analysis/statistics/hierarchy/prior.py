"""Priors of strengths: a field, or lines in which each is near its parent.

*Field*: strengths are normal around a middle, with a spread tau that the games show (D. Rubin: Estimation in
parallel randomized experiments, J. Educ. Stat. 6, 1981). So few games shrink towards what the field shows,
and of many the luckiest is not believed to be the best. How many middles there are the games show, too: the
strengths form groups by a Dirichlet distribution (R. Neal: Markov chain sampling methods for Dirichlet
process mixture models, J. Comput. Graph. Stat. 9, 2000), so that one far above the rest, clusters and heavy
tails are not drawn together. Groups have one spread within, and a spread of their middles. Steps of lines
form groups alike: one break is not smoothed over its neighbours.

*Lines*: the strength of a child is that of its parent, plus the drift of a generation (of its group), plus a
normal step.
The spread of steps and the drift are estimated. Those without a parent are a field. The drift keeps a long
chain, in which only neighbours met, from being drawn together.

Both have places of spread PLACES. Spreads are half Cauchy beforehand (A. Gelman: Prior distributions for
variance parameters in hierarchical models, Bayesian Analysis 1, 2006). They are integrated over, so none has
to be kept from 0; a prior that does so calls two equals different too often after few pairs. The more there
are in a field, the wider is the prior of its spread, up to one that is nearly flat, as he advises from about
five on. With the scale that two need, intervals of eight with 150 Elo and one pair each held too seldom: such
a prior holds more than it says for equals, and as much less for spreads near its scale.

The parameters [K] are one vector: theta [N], gamma of all places but the last [T - 1], and the drift of
lines.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from analysis.statistics.davidson import ELO, place_contrasts
from storage.arrays import Floats, Indices

SPREAD = 200.0 / ELO  # scale of the half Cauchy prior of the spread of two
STEP = 50.0 / ELO  # of a line's step
DRIFT = 200.0 / ELO  # standard deviation of the drift of a generation
PLACES = 300.0 / ELO  # of a place's advantage
_ALONE = 1000.0 / ELO  # spread of a single founder: where it is makes no difference
LEAST, MOST = 2.0 / ELO, 1500.0 / ELO  # spreads that are considered
MIDDLES, DRIFTS = 800.0 / ELO, 200.0 / ELO  # scale of the half Cauchy prior of the spread of groups' middles
GROUPS = 8  # at most
ALPHAS = (1.0, 3.0)  # readiness to form groups


@dataclass(frozen=True, slots=True)
class Lines:
    """The parent of each of N competitors, and the generations between the two."""

    parent: Indices  # [N], -1: a founder
    generations: Floats  # [N] at least 1; of founders it makes no difference

    def check(self, num_competitors: int) -> None:
        """Raise ValueError for lines that are not of so many competitors, or go in a circle."""
        n = num_competitors
        if self.parent.shape != (n,) or self.generations.shape != (n,):
            raise ValueError(
                f"lines have {len(self.parent)} parents, expected one of each of {n} competitors"
            )
        if n and (self.parent.min() < -1 or self.parent.max() >= n):
            raise ValueError(f"lines hold the parent {self.parent.max()}, expected -1 or a number below {n}")
        ancestor = self.parent
        for _ in range(n):
            if (ancestor < 0).all():
                return
            ancestor = np.where(ancestor < 0, -1, self.parent[ancestor])
        if n:
            raise ValueError(
                "lines go in a circle, expected that each leads to a founder, whose parent is -1"
            )


@dataclass(frozen=True)
class Prior:
    """Prior of all parameters, given the spreads: one of the field, or those of founders and of steps."""

    num_competitors: int
    num_places: int
    lines: Lines | None
    flat: bool = False  # all spreads are as large as can be

    def axis(self, points: int) -> Floats:
        """Return [points] spreads that are considered, evenly by their logarithms; one if it is flat."""
        return np.array([MOST]) if self.flat else np.geomspace(LEAST, MOST, points)

    @property
    def middles(self) -> float:
        """Scale of the half Cauchy prior of the spread of groups' middles."""
        return MIDDLES if self.lines is None else DRIFTS

    @property
    def most_groups(self) -> int:
        """How many groups deviations may form: half as many as there are, since two show no group."""
        deviations = self.num_competitors - self.num_founders
        return 1 if self.flat else max(1, min(GROUPS, deviations // 2))

    @property
    def num_parameters(self) -> int:
        """Number of parameters, K."""
        return self.num_competitors + self.num_places - 1 + (self.lines is not None)

    @cached_property
    def scales(self) -> tuple[float, ...]:
        """Scales of the half Cauchy priors of the spreads."""
        if self.lines is None:
            return (SPREAD * max(1.0, self.num_competitors / 2.0),)
        return (STEP,) if self._founders.sum() == 1 else (STEP, SPREAD)

    @cached_property
    def _founders(self) -> npt.NDArray[np.bool_]:
        assert self.lines is not None
        return self.lines.parent < 0

    @cached_property
    def residuals(self) -> Floats:
        """Matrix [N, K] from parameters to the normal deviations that are independent beforehand."""
        n, matrix = self.num_competitors, np.zeros((self.num_competitors, self.num_parameters))
        matrix[:, :n] = np.eye(n)
        if self.lines is not None:
            child = np.flatnonzero(~self._founders)
            matrix[child, self.lines.parent[child]] = -1.0
            matrix[child, -1] = -self.lines.generations[child]
        return matrix

    def variances(self, spreads: Sequence[float] | Floats) -> Floats:
        """Return the variance [N] of each deviation."""
        n = self.num_competitors
        if self.lines is None:
            return np.full(n, spreads[0] ** 2)
        founder = spreads[1] if len(spreads) > 1 else _ALONE
        return np.where(self._founders, founder**2, spreads[0] ** 2 * self.lines.generations)

    @property
    def num_founders(self) -> int:
        """Number of competitors that begin a line; 0: a field."""
        return 0 if self.lines is None else int(self._founders.sum())

    @cached_property
    def coordinates(self) -> tuple[Floats, Floats]:
        """Matrix [P, P] to strengths and places from deviations, and [n] by how much a middle moves each.

        The n deviations that have groups come first, then founders, then places.
        """
        n, t = self.num_competitors, self.num_places - 1
        matrix = np.eye(n + t)
        if self.lines is None:
            return matrix, np.ones(n)
        child = np.flatnonzero(~self._founders)
        matrix[:n, :n] = np.linalg.inv(self.residuals[:, :n]).round()
        scale = np.sqrt(self.lines.generations[child])
        order = np.concatenate([child, np.flatnonzero(self._founders), np.arange(n, n + t)])
        matrix = matrix[:, order]
        matrix[:, : len(child)] *= scale
        return matrix, scale

    def fixed_precision(self, founding: float) -> Floats:
        """Precision [P - n, P - n] of founders of spread `founding`, and of places."""
        f, n = self.num_founders, self.num_competitors
        matrix = np.zeros((f + self.num_places - 1, f + self.num_places - 1))
        matrix[np.arange(f), np.arange(f)] = (founding if f > 1 else _ALONE) ** -2.0
        place = slice(n, n + self.num_places - 1)
        matrix[f:, f:] = self._others[place, place]
        return matrix

    @cached_property
    def _others(self) -> Floats:
        """Precision [K, K] of places and drift."""
        n, k = self.num_competitors, self.num_parameters
        matrix = np.zeros((k, k))
        basis = place_contrasts(self.num_places)
        place = slice(n, n + self.num_places - 1)
        matrix[place, place] = basis.T @ basis / PLACES**2
        if self.lines is not None:
            matrix[-1, -1] = DRIFT**-2
        return matrix

    @cached_property
    def _squares(self) -> tuple[Floats, Floats]:
        """Precision [K, K] of founders and of children along lines, each for a spread of 1."""
        assert self.lines is not None
        founder, child = self.residuals[self._founders], self.residuals[~self._founders]
        return founder.T @ founder, (child.T / self.lines.generations[~self._founders]) @ child

    def precision(self, spreads: Sequence[float] | Floats) -> Floats:
        """Return the precision [K, K]."""
        if self.lines is None:
            found = self._others.copy()
            found[np.arange(self.num_competitors), np.arange(self.num_competitors)] += spreads[0] ** -2
            return found
        of_founders, of_children = self._squares
        found = self._others + of_children / spreads[0] ** 2
        found += of_founders / (spreads[1] if len(spreads) > 1 else _ALONE) ** 2
        return found

    def log_hyper(self, spreads: Floats) -> Floats:
        """Return the log prior density [G] of the logarithms of `spreads` [G, h]."""
        return half_cauchy(spreads, np.array(self.scales)).sum(axis=-1)


def half_cauchy(spreads: Floats, scale: float | Floats) -> Floats:
    """Return the log density of the logarithms of `spreads`, whose prior is half Cauchy."""
    scaled = spreads / scale
    return np.log(scaled) - np.log1p(scaled**2)


def grid(prior: Prior, points: int) -> Floats:
    """Return [points^h, h] spreads over the whole range, evenly by their logarithms."""
    return np.array(list(itertools.product(prior.axis(points), repeat=len(prior.scales))))
