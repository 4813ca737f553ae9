"""The share of cycles in what decides games: the part that no ranking explains.

Scores of pairings split into a transitive part, explained by strengths, and a cyclic rest, as in rock, paper
and scissors (the Hodge decomposition of Jiang, Lim, Yao, Ye: Statistical ranking and combinatorial Hodge
theory, Math. Program. 127, 2011; Balduzzi et al.: Re-evaluating evaluation, NeurIPS 2018). They split
log-odds, which are infinite after few games. Here the transitive part is Bradley-Terry's, also of log-odds,
but energies are squares of points per game: a pairing beyond doubt is one unit of transitive energy, however
far beyond. Near even scores both splits are the same. Each pairing counts by its games: one that was never
played has no energy.

Strengths are the likeliest, with hardly any prior: what a prior cannot fit is no cycle. Where the pairings
that were played close no loop, as in a chain, strengths explain everything.

Few games look cyclic by chance: with two pairs per pairing, most of the rest is luck. So the share of luck is
estimated from simulated tournaments of the same games, in which strengths decide alone.
`analysis.solution.cycles.unexplained_share` is the share of a payoff matrix with luck included.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from analysis.statistics.davidson import Cells, Moments, by_competitor, cells_of, fit, moments, sums
from analysis.statistics.elo import Z_95
from analysis.statistics.games import Games
from analysis.statistics.valid import check_games, check_whole
from storage.arrays import Floats, Indices

_PRIOR_GAMES = 1e-3  # so few that strengths explain all that they can; some, so that there is a solution
_ENOUGH = 4.0  # variance of points at which the dispersion that was seen counts half


@dataclass(frozen=True, slots=True)
class Cycle:
    """Three competitors: each beats the next, and the last beats the first."""

    competitors: tuple[str, str, str]
    scores: tuple[float, float, float]  # points per game of each against the next
    deviations: float  # standard errors by which the least of the scores is above 1/2


@dataclass(frozen=True, slots=True)
class CyclicShare:
    """The share of cyclic energy, in [0, 1].

    It is 0 if strengths explain the score of each pairing, and 1 if all are equally strong and yet some beat
    others.
    """

    share: float  # with luck subtracted
    low: float  # of its 95 % interval
    high: float
    raw: float  # with luck included
    expected_by_chance: float  # mean of `raw` if nothing were cyclic
    p_value: float  # probability that luck alone looks as cyclic
    cycle: Cycle | None  # the cycle whose least score is surest; None: there is no cycle


@dataclass(frozen=True, slots=True)
class _Pairings:
    """The m cells summed by the e pairings that were played, from the side of the lower index."""

    first: Indices  # [e]
    second: Indices  # [e]
    of_cell: Indices  # [m]
    sign: Floats  # [m]: 1 where home is first, else -1
    games: Floats  # [e]

    def sums(self, value: Floats) -> Floats:
        """Return sums [e] of `value` [m], which is home's."""
        return sums(self.of_cell, self.sign * value, len(self.games))

    def energy(self, points: Floats) -> float:
        """Return the energy of `points` [e], the sums over all games of each pairing."""
        return float((points**2 / self.games).sum())


def cyclic_share(games: Games, rng: np.random.Generator, *, samples: int = 200) -> CyclicShare:
    """Return the share of cyclic energy in what decides `games`, with the part of luck subtracted.

    The part of luck comes from `samples` simulated tournaments. Raise ValueError as `check_games` does.
    """
    check_games(games)
    check_whole("samples", samples, 1)
    drawn = bool((games.points == 0.5).any())
    cells = cells_of(games, int(games.away_place.max(initial=1)) + 1, drawn=drawn)
    pairings = _pairings_of(cells)
    if not _loops(pairings, cells.num_competitors):
        return CyclicShare(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, None)
    n = cells.num_competitors
    found = fit(cells, prior_games=_PRIOR_GAMES)
    expected = moments(cells, found.parameters)
    variance = cells.games * expected.variance
    dispersion, doubt = _dispersion(games, cells, pairings, expected)

    of_equals = found.parameters.copy()
    of_equals[:n] = 0.0
    explained = pairings.sums(cells.games * (expected.points - moments(cells, of_equals).points))
    residual = pairings.sums(cells.points - cells.games * expected.points)
    cyclic, transitive = pairings.energy(residual), pairings.energy(explained)

    # Luck alone: the residuals of the simulated games, less what strengths fitted to them would explain.
    inverse = np.linalg.inv(found.information)[:n, :n]
    luck, wins = np.empty(samples), expected.points - expected.draws / 2
    chances = np.column_stack([wins, expected.draws, 1.0 - wins - expected.draws]).clip(0.0, 1.0)
    chances /= chances.sum(axis=1, keepdims=True)
    for i in range(samples):
        results = rng.multinomial(cells.games.astype(np.int64), chances)
        by_chance = results[:, 0] + results[:, 1] / 2 - cells.games * expected.points
        fitted = inverse @ by_competitor(cells, by_chance)
        explains = variance * (fitted[cells.home] - fitted[cells.away])
        luck[i] = pairings.energy(pairings.sums(by_chance - explains))
    luck *= dispersion * (1.0 + doubt * rng.standard_normal(samples))
    spread = inverse.diagonal()[cells.home] + inverse.diagonal()[cells.away]
    spread -= 2 * inverse[cells.home, cells.away]
    known = np.bincount(pairings.of_cell, variance)
    of_pairing = np.empty(len(known))
    of_pairing[pairings.of_cell] = spread  # the same for all cells of a pairing
    in_explained = dispersion * float((known**2 / pairings.games) @ of_pairing)
    moved = 4 * dispersion * float(known @ (explained / pairings.games) ** 2)
    excess = cyclic - float(luck.mean())

    return CyclicShare(
        *_interval(
            (excess, math.sqrt(luck.var() + dispersion * max(0.0, excess))),
            (transitive - in_explained, math.sqrt(moved + 2 * in_explained**2 / (n - 1))),
        ),
        raw=_share(cyclic, transitive),
        expected_by_chance=_share(float(luck.mean()), transitive),
        p_value=float((1 + (luck >= cyclic).sum()) / (1 + samples)),
        cycle=_strongest_cycle(games, dispersion),
    )


def _pairings_of(cells: Cells) -> _Pairings:
    n = cells.num_competitors
    first, second = np.minimum(cells.home, cells.away), np.maximum(cells.home, cells.away)
    codes, of_cell = np.unique(first * n + second, return_inverse=True)
    sign = np.where(cells.home < cells.away, 1.0, -1.0)
    return _Pairings(codes // n, codes % n, of_cell, sign, sums(of_cell, cells.games, len(codes)))


def _loops(pairings: _Pairings, num_competitors: int) -> int:
    """Return the number of independent loops among the pairings that were played; a chain has none."""
    shape = (num_competitors, num_competitors)
    met = csr_array((np.ones(len(pairings.games)), (pairings.first, pairings.second)), shape=shape)
    parts, _ = connected_components(met, directed=False)
    return len(pairings.games) - num_competitors + int(parts)


def circle_of(beats: Sequence[tuple[str, str]]) -> tuple[str, ...] | None:
    """Return a shortest circle in which each beats the next, and the last the first; `None`: there is none.

    `beats` are couples (winner, loser).
    """
    below: dict[str, list[str]] = {}
    for winner, loser in beats:
        below.setdefault(winner, []).append(loser)
    best: tuple[str, ...] | None = None
    for start in below:
        seen = {start}
        paths: list[tuple[str, ...]] = [(start,)]
        while paths and (best is None or len(best) > 3):
            path = paths.pop(0)
            if start in below.get(path[-1], ()):
                best = path if best is None or len(path) < len(best) else best
                break
            for other in below.get(path[-1], ()):
                if other not in seen:
                    seen.add(other)
                    paths.append((*path, other))
    return best


def _dispersion(games: Games, cells: Cells, pairings: _Pairings, expected: Moments) -> tuple[float, float]:
    """Return the dispersion of a pairing's pairs, relative to independent games, and its relative error."""
    residual = pairings.sign[cells.kind] * (games.points - expected.points[cells.kind])
    of_game = pairings.of_cell[cells.kind]
    codes, row = np.unique(games.pair * len(pairings.games) + of_game, return_inverse=True)
    pairing, total = codes % len(pairings.games), np.bincount(row, residual)
    pairs = np.bincount(pairing, minlength=len(pairings.games))
    mean = np.bincount(pairing, total, minlength=len(pairs)) / np.maximum(pairs, 1)
    known = np.bincount(of_game, expected.variance[cells.kind], minlength=len(pairs))
    seen = float(((total - mean[pairing]) ** 2).sum())
    foreseen = float(known @ (1.0 - 1.0 / np.maximum(pairs, 1)))
    freedom = max(1, len(codes) - int((pairs > 0).sum()))
    doubt = foreseen / (foreseen + _ENOUGH) * math.sqrt(2.0 / freedom)
    return (seen + _ENOUGH) / (foreseen + _ENOUGH), min(doubt, 0.5)


def _share(cyclic: float, transitive: float) -> float:
    cyclic, transitive = max(0.0, cyclic), max(0.0, transitive)
    return cyclic / (cyclic + transitive) if cyclic > 0.0 else 0.0


def _interval(cyclic: tuple[float, float], transitive: tuple[float, float]) -> tuple[float, float, float]:
    """Return the share with its 95 % interval, of two energies with their standard errors.

    It is made of the intervals of the two energies (Zou and Donner: Construction of confidence limits about
    effect measures, Stat. Med. 27, 2008).
    """
    (c, c_error), (t, t_error) = cyclic, transitive
    c, t = max(0.0, c), max(0.0, t)
    share = _share(c, t)
    below = math.hypot(share - _share(c - Z_95 * c_error, t), share - _share(c, t + Z_95 * t_error))
    above = math.hypot(_share(c + Z_95 * c_error, t) - share, _share(c, t - Z_95 * t_error) - share)
    return share, max(0.0, share - below), min(1.0, share + above)


def _strongest_cycle(games: Games, dispersion: float) -> Cycle | None:
    n = len(games.competitors)
    met = np.bincount(games.home * n + games.away, minlength=n * n).reshape(n, n)
    points = np.bincount(games.home * n + games.away, games.points, minlength=n * n).reshape(n, n)
    points, met = points + (met - points).T, met + met.T
    decided = 1.0 - np.mean(games.points == 0.5) if len(games) else 1.0
    error = np.sqrt(dispersion * 0.25 * max(decided, 1.0 / max(1, len(games))) * np.maximum(met, 1))
    above = (points - met / 2) / error  # [N, N] of row against column, in standard errors
    best, cycle = 0.0, None
    for i in range(n - 2):
        least = np.minimum(above[i, i + 1 :, None], above[i + 1 :, i + 1 :])  # i beats j beats k
        least = np.minimum(least, above[i + 1 :, i])  # beats i
        if least.max() > best:
            best = float(least.max())
            j, k = np.unravel_index(least.argmax(), least.shape)
            cycle = (i, i + 1 + int(j), i + 1 + int(k))
    if cycle is None:
        return None
    a, b, c = cycle
    scores = tuple(float(points[x, y] / met[x, y]) for x, y in ((a, b), (b, c), (c, a)))
    return Cycle(
        tuple(games.competitors[x] for x in cycle),  # type: ignore[arg-type]
        scores,  # type: ignore[arg-type]
        best,
    )
