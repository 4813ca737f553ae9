"""Ratings of a field from its games: Bradley-Terry with draws, places and a covariance by whole pairs.

Elo here is 400 log10 of the ratio of two strengths, which `davidson` estimates by maximum a posteriori.
Without draws it is the usual Elo: 400 ahead scores 10/11. With draws it is about the games that were won or
lost, so the same gap scores the less, the more is drawn. `Ratings.expected_score` has the score, and
`elo_of_score` of that is the logistic Elo of `elo_from_pairs`.

Errors are those of whole pairs (`sandwich`), not of games.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from analysis.statistics.davidson import Cells, cells_of, fit, place_contrasts, recounted
from analysis.statistics.elo import Z_95, EloEstimate
from analysis.statistics.games import Games, numbered
from analysis.statistics.sandwich import covariance_of
from analysis.statistics.valid import check_games
from storage.arrays import Floats

ELO = 400.0 / math.log(10.0)
"""Elo of one unit of log-odds."""

PRIOR_GAMES = 1.0
"""Virtual games of each competitor: with half as many the intervals of who has won all its few games hold 0,
with twice as many those of fields 400 Elo wide are too narrow (of 8 with two pairs each 86 of 100 hold)."""

_SPREADS = np.geomspace(1.0, 1000.0, 61)  # tau in Elo; 200 competitors show it to half a step
_WIDE = np.array([1e6])  # tau of a field of two


@dataclass(frozen=True, slots=True)
class Ratings:
    """The ratings of N competitors, with the worth of the game's places and its share of draws."""

    competitors: tuple[str, ...]
    elo: Floats  # [N], the anchor's is 0 (without an anchor: their mean is)
    covariance: Floats  # [N, N] in Elo^2
    place_advantage: Floats  # [T] Elo of each place, mean 0 (T = 2: the first mover's advantage is [0] - [1])
    place_deviation: Floats  # [T]
    draw: float  # Davidson's nu: equals draw nu / (2 + nu) of their games

    @property
    def deviation(self) -> Floats:
        """Standard errors in Elo, [N]."""
        return np.sqrt(self.covariance.diagonal())

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Return low and high Elo, [N] each, that hold the true one with probability `level`."""
        half = NormalDist().inv_cdf(0.5 + level / 2) * self.deviation
        return self.elo - half, self.elo + half

    def difference(self, a: int, b: int) -> EloEstimate:
        """Return how much stronger a is than b, with the 95 % interval."""
        elo = float(self.elo[a] - self.elo[b])
        variance = self.covariance[a, a] + self.covariance[b, b] - 2 * self.covariance[a, b]
        deviation = math.sqrt(max(0.0, float(variance)))
        los = NormalDist().cdf(elo / deviation) if deviation > 0.0 else 0.5
        return EloEstimate(elo, elo - Z_95 * deviation, elo + Z_95 * deviation, los)

    def expected_score(self, a: int, b: int) -> float:
        """Return points per game of a against b, each in every place equally often."""
        ahead = self.place_advantage[:, None] - self.place_advantage
        d = (self.elo[a] - self.elo[b] + ahead[~np.eye(len(ahead), dtype=np.bool_)]) / ELO
        strong, weak = np.exp(d / 2), np.exp(-d / 2)
        return float(np.mean((strong + self.draw / 2) / (strong + weak + self.draw)))


def bradley_terry(
    games: Games,
    *,
    anchor: str | None = None,
    prior_games: float = PRIOR_GAMES,
    place_advantage: bool = True,
    draws: bool = True,
) -> Ratings:
    """Return the ratings of all `games.competitors`.

    A competitor without games is rated like an average one, with a wide interval.

    `anchor` is the competitor whose Elo is 0; errors of the others are relative to it. `prior_games` are
    virtual games of each (see `davidson`); 0: maximum likelihood. Without `place_advantage` places make no
    difference. Without `draws` a draw is half a win and half a loss, as in Ordo.

    Raise ValueError for an unknown anchor, where maximum likelihood has no solution, and for games as
    `check_games` does.
    """
    check_games(games)
    if anchor is not None and anchor not in games.competitors:
        raise ValueError(f"anchor is '{anchor}', expected one of {len(games.competitors)} competitors")
    cells = _cells(games, place_advantage, draws)
    found = fit(cells, prior_games=prior_games)
    covariance = covariance_of(games, cells, found)
    n, x = len(games.competitors), found.parameters
    zero = np.full(n, 1.0 / n) if anchor is None else np.eye(n)[games.competitors.index(anchor)]
    relative = np.eye(n) - zero
    basis = place_contrasts(cells.num_places) if place_advantage else np.zeros((_num_places(games), 0))
    spread = basis @ covariance[cells.place, cells.place] @ basis.T
    return Ratings(
        competitors=games.competitors,
        elo=ELO * relative @ x[:n],
        covariance=ELO**2 * relative @ covariance[:n, :n] @ relative.T,
        place_advantage=ELO * basis @ x[cells.place],
        place_deviation=ELO * np.sqrt(spread.diagonal()),
        draw=float(np.exp(x[-1])) if cells.drawn else 0.0,
    )


def bootstrap(
    games: Games,
    samples: int,
    rng: np.random.Generator,
    *,
    anchor: str | None = None,
    prior_games: float = PRIOR_GAMES,
    place_advantage: bool = True,
    draws: bool = True,
) -> Floats:
    """Return Elo [samples, N] from as many pairs drawn with replacement (Efron, Ann. Stat. 7, 1979).

    Its quantiles are intervals that need no model of the errors, but they are too narrow for few pairs.
    """
    cells, pair = _cells(games, place_advantage, draws), numbered(games.pair)
    num_pairs = int(pair.max(initial=-1)) + 1
    whole = fit(cells, prior_games=prior_games).parameters
    n = len(games.competitors)
    zero = np.full(n, 1.0 / n) if anchor is None else np.eye(n)[games.competitors.index(anchor)]
    found = np.empty((samples, n))
    for sample in found:
        times = np.bincount(rng.integers(num_pairs, size=num_pairs), minlength=num_pairs)
        again = recounted(cells, games, times[pair].astype(np.float64))
        theta = fit(again, prior_games=prior_games, start=whole).parameters[:n]
        sample[:] = ELO * (theta - zero @ theta)
    return found


def chances_of_being_best(
    elo: Floats, covariance: Floats, rng: np.random.Generator, *, samples: int
) -> Floats:
    """Return the probability [N] that each of a field is its best, by `samples` draws of the true strengths.

    `elo` [N] are ratings and `covariance` [N, N] is theirs; a shift of all ratings makes no difference.

    Of many equals the luckiest looks best, and the more there are, the further ahead. So true strengths are
    normal around the field's mean, with a spread tau that the ratings show (empirical Bayes; D. Rubin:
    Estimation in parallel randomized experiments, J. Educ. Stat. 6, 1981). All tau are equally likely
    beforehand (A. Gelman: Prior distributions for variance parameters in hierarchical models, Bayesian
    Analysis 1, 2006). Two competitors show nothing of tau: there the better is best with the probability that
    it is superior.
    """
    n = len(elo)
    if n < 2:
        return np.ones(n)
    contrasts = np.linalg.qr(np.eye(n)[:, 1:] - 1.0 / n)[0]  # [N, N - 1]: without the mean
    variance, axes = np.linalg.eigh(contrasts.T @ covariance @ contrasts)
    variance, axes = np.maximum(variance, 0.0), contrasts @ axes  # rounding makes some slightly negative
    seen = axes.T @ elo

    spreads = _SPREADS if n > 2 else _WIDE
    total = variance + spreads[:, None] ** 2  # [taus, N - 1] of `seen`, which are independent given tau
    likelihood = -0.5 * (np.log(total) + seen**2 / total).sum(axis=1)
    weight = spreads * np.exp(likelihood - likelihood.max())  # a step is as wide as its tau is large
    known = spreads[:, None] ** 2 / total  # share of `seen` that is not luck

    tau = rng.choice(len(spreads), size=samples, p=weight / weight.sum())
    luck = rng.standard_normal((samples, n - 1))
    drawn = known[tau] * seen + np.sqrt(known[tau] * variance) * luck
    return np.bincount((drawn @ axes.T).argmax(axis=1), minlength=n) / samples


def _num_places(games: Games) -> int:
    return int(games.away_place.max(initial=1)) + 1


def _cells(games: Games, place_advantage: bool, draws: bool) -> Cells:
    drawn = draws and bool((games.points == 0.5).any())
    return cells_of(games, _num_places(games) if place_advantage else 1, drawn=drawn)
