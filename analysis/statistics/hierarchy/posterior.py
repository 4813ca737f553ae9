"""One posterior of a field's strengths, from which every figure on it comes.

    found = posterior(games)
    found.elo, found.interval()      ratings, with intervals
    found.difference(a, b)           of two, with an interval and the probability that a is stronger
    found.p_best, found.ranks()      probability of being the best; ranks with intervals
    found.order()                    probability of each order of two

Strengths have a prior whose shape is estimated (`prior`): groups, and spreads within and between them. So
the posterior is right under any schedule: which pairings were drawn depends on strengths only through earlier
results, which it knows (the likelihood principle; A. Gelman et al.: Bayesian Data Analysis, 3rd edition,
chapter 8). The best of many is rated below its score as far as it owes that to luck.

Points follow Bradley and Terry's model, a draw as half a win, with the advantages of places. The unit is the
pair: its games, and the comparisons of one table, count together as much as pairs vary (`dispersion`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.linalg import cho_solve

from analysis.statistics.davidson import Cells, cells_of, place_contrasts
from analysis.statistics.elo import EloEstimate
from analysis.statistics.games import Games
from analysis.statistics.hierarchy.anchors import Anchor, Held, held
from analysis.statistics.hierarchy.dispersion import dispersion_of
from analysis.statistics.hierarchy.laplace import Component, Evidence, evidence_of, likeliest
from analysis.statistics.hierarchy.moves import draws
from analysis.statistics.hierarchy.parts import long_lines, parts_of
from analysis.statistics.hierarchy.prior import ELO, Lines, Prior
from analysis.statistics.valid import check_games
from storage.arrays import Floats, Indices

_SAMPLES = 8_000
_NUMBERS = 1_600_000  # strengths drawn at most


@dataclass(frozen=True, slots=True)
class Posterior:
    """Draws of the strengths of N competitors, and what follows from them."""

    competitors: tuple[str, ...]
    draws: Floats  # [S, N] Elo; on the scale of the anchors, else the mean of each part is 0
    place_draws: Floats  # [S, T] Elo of each place, mean 0
    part: Indices  # [N] parts never met one another; 0 is the largest
    spread: Floats  # [S] Elo: of the field, or of the steps of lines
    drift: Floats | None  # [S] Elo of a generation; `None`: a field
    dispersion: float  # variance of the points of pairs, relative to independent comparisons

    @property
    def elo(self) -> Floats:
        """Mean Elo [N]."""
        return self.draws.mean(axis=0)

    @property
    def deviation(self) -> Floats:
        """Standard deviations in Elo, [N]."""
        return self.draws.std(axis=0)

    @property
    def num_parts(self) -> int:
        """Number of parts that never met."""
        return int(self.part.max(initial=-1)) + 1

    @property
    def place_advantage(self) -> Floats:
        """Mean Elo of each place, [T]."""
        return self.place_draws.mean(axis=0)

    def place_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return low and high Elo, [T] each."""
        return _middle(self.place_draws, level)

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return low and high Elo, [N] each, that hold the true one with probability `level`."""
        return _middle(self.draws, level)

    def difference(self, a: int, b: int) -> EloEstimate:
        """Return how much stronger a is than b, with the 95 % interval: infinite if their parts never met."""
        if self.part[a] != self.part[b]:
            return EloEstimate(float("nan"), -np.inf, np.inf, float("nan"))
        ahead = self.draws[:, a] - self.draws[:, b]
        low, high = _middle(ahead, 0.95)
        return EloEstimate(float(ahead.mean()), float(low), float(high), _share(ahead))

    def order(self) -> Floats:
        """Return [N, N] the probability that the row is stronger than the column; nan across parts."""
        n = len(self.competitors)
        found = np.full((n, n), np.nan)
        for a in range(n):
            with_a = self.part == self.part[a]
            ahead = self.draws[:, [a]] - self.draws[:, with_a]
            found[a, with_a] = (ahead > 0.0).mean(axis=0) + 0.5 * (ahead == 0.0).mean(axis=0)
        return found

    @property
    def p_best(self) -> Floats:
        """Probability of being the best of the field [N]; nan where it falls into parts that never met."""
        if self.num_parts != 1:
            return np.full(len(self.competitors), np.nan)
        best = np.bincount(self.draws.argmax(axis=1), minlength=len(self.competitors))
        return best / len(self.draws)

    def ranks(self, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
        """Return the mean, lowest and highest rank, [N] each; 1 is best, nan where parts never met."""
        if self.num_parts != 1:
            nothing = np.full(len(self.competitors), np.nan)
            return nothing, nothing, nothing
        rank = 1.0 + np.argsort(np.argsort(-self.draws, axis=1), axis=1)
        tail = 0.5 - level / 2
        low, high = np.quantile(rank, [tail, 1.0 - tail], axis=0, method="nearest")
        return rank.mean(axis=0), low, high


def posterior(
    games: Games,
    *,
    anchors: Mapping[str, Anchor] | None = None,
    lines: Lines | Literal["auto"] | None = "auto",
    place_advantage: bool = True,
    samples: int | None = None,
    moved: bool | None = None,
    flat: bool = False,
    seed: int = 0,
) -> Posterior:
    """Return the posterior of all `games.competitors`; the same arguments give the same draws.

    With `moved`, draws are moved by the exact density (`moves`); by default where games leave much open. With
    `flat`, strengths are not drawn towards one another: what games alone say.

    `lines`: `None`, strengths are a field; lines, each is near its parent; "auto", lines along which the
    field met where only neighbours of a long chain did, else a field.

    `anchors` are competitors whose Elo is given, by name; parts that have one each are one part. Raise
    ValueError for unknown ones, for lines of other competitors or in a circle, for no samples, and for games
    as `check_games` does.
    """
    check_games(games)
    if samples is not None and samples < 1:
        raise ValueError(f"samples is {samples}, expected 1 or more")
    if isinstance(lines, Lines):
        lines.check(len(games.competitors))
    elif lines not in ("auto", None):
        raise ValueError(f"lines is {lines!r}, expected Lines, 'auto' or None")
    fixed = held(anchors or {}, games.competitors)
    n = len(games.competitors)
    num_places = int(games.away_place.max(initial=1)) + 1
    cells = cells_of(games, num_places if place_advantage else 1, drawn=False)
    along = long_lines(games) if lines == "auto" else lines
    prior = Prior(n, cells.num_places, along, flat)
    evidence, normal = _evidence(games, cells, prior, fixed)
    number = samples or max(500, min(_SAMPLES, _NUMBERS // max(1, n)))
    found = draws(evidence, prior, normal, number, np.random.default_rng(seed), exact=moved)
    part = parts_of(games, () if fixed is None else fixed.index)
    basis = place_contrasts(cells.num_places) if place_advantage else np.zeros((num_places, 0))
    return Posterior(
        competitors=games.competitors,
        draws=_relative(found.x[:, :n], part, fixed, np.random.default_rng([seed, 1])),
        place_draws=ELO * found.x[:, cells.place] @ basis.T,
        part=part,
        spread=ELO * found.spread,
        drift=None if along is None else ELO * found.drift,
        dispersion=evidence.dispersion,
    )


def _evidence(games: Games, cells: Cells, prior: Prior, fixed: Held | None) -> tuple[Evidence, Component]:
    """Return the evidence with the dispersion that pairs show around the likeliest strengths, and these."""
    first = evidence_of(cells, prior, 1.0)  # anchors at odds with the games are no luck of pairs
    normal = likeliest(first, prior)
    if not len(games):
        return evidence_of(cells, prior, 1.0, fixed), normal
    n, k = cells.num_competitors, cells.num_parameters
    inverse = cho_solve((normal.factor, True), np.eye(len(normal.factor)), check_finite=False)
    dispersion = dispersion_of(games, cells, normal.mode[:k], inverse[:n, :n])
    return evidence_of(cells, prior, dispersion, fixed), normal


def _relative(x: Floats, part: Indices, fixed: Held | None, rng: np.random.Generator) -> Floats:
    """Return Elo [S, N] on the scale of the anchors in their part, else relative to the mean."""
    found = x.copy()
    for number in range(int(part.max(initial=-1)) + 1):
        members = np.flatnonzero(part == number)
        if fixed is not None and part[fixed.index[0]] == number:
            found[:, members] -= fixed.zero(x, rng)[:, None]
        else:
            found[:, members] -= x[:, members].mean(axis=1, keepdims=True)
    found *= ELO
    if fixed is not None:
        found[:, fixed.index[fixed.exact]] = np.round(ELO * fixed.strength[fixed.exact], 6)
    return found


def _middle(values: Floats, level: float) -> tuple[Floats, Floats]:
    """Return quantiles of draws [S, ...] between which one more draw is with probability `level`."""
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level:g}, expected a probability between 0 and 1")
    tail = 0.5 - level / 2
    low, high = np.quantile(values, [tail, 1.0 - tail], axis=0, method="weibull")
    return low, high


def _share(ahead: Floats) -> float:
    return float((ahead > 0.0).mean() + 0.5 * (ahead == 0.0).mean())


def lines_of(parents: Sequence[int]) -> Lines:
    """Return the lines in which each competitor has the parent of that number; -1: none."""
    parent = np.array(parents, dtype=np.int64)
    return Lines(parent, np.ones(len(parent)))
