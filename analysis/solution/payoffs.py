"""Scores of competitors against one another, with their uncertainty: the input of every solution concept.

    payoffs = Payoffs.from_frame(history.payoff())
    found = with_interval(payoffs, max_entropy_nash, np.random.default_rng(0))
    found.value, found.low, found.high       arrays of the concept's shape; found.mean: over resamples

A concept is any function of an antisymmetric matrix [N, N] in [-1, 1] that returns an array. Its interval is
that of its values on matrices that are possible given the games (`posterior`). Each pairing is resampled over
its units: pairs of a tournament or single games of a league. Some concepts mistake luck for structure, as the
share of cycles does: after a few games of each pairing a field without any cycle looks a quarter cyclic.
Their interval is still right, and their value may be at its end: for such a concept report the mean. Values
may also be at the end where few pairings met, since the matrix is filled with what strengths predict, and
resamples stray from that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from analysis.solution.posterior import ScorePosterior, Units, posterior
from analysis.statistics.davidson import sums
from analysis.statistics.games import Games
from analysis.statistics.valid import check_whole
from storage.arrays import Floats, Indices
from storage.errors import Mistake

if TYPE_CHECKING:
    import pandas as pd

_COLUMNS = ("home", "away", "games", "wins", "draws")


def counts_scores(frame: pd.DataFrame) -> bool:
    """Return whether the games of a payoff frame count scores; otherwise they count outcomes."""
    return "unit" in frame and len(frame) > 0 and bool((frame["unit"] == "score").all())


@dataclass(frozen=True, eq=False)
class Payoffs:
    """Scores of N competitors against one another, with the games behind them."""

    competitors: tuple[str, ...]
    scores: Floats  # [N, N] points per game of row against column, NaN: never met; diagonal 1/2
    games: Indices  # [N, N] counted
    units: Units = field(repr=False)
    # What a point is: a game won, or a lead in score as a share of the most there can be.
    unit: str = "outcome"
    # [N, N] of a resample: all scores, also of pairings that never met.
    drawn: Floats | None = field(default=None, repr=False)

    @classmethod
    def from_frame(cls, frame: pd.DataFrame, competitors: Sequence[str] | None = None) -> Payoffs:
        """Return the payoffs of `History.payoff()` of one run, in which every game is a unit of its own.

        Its rows hold each pairing from either side; one side is enough. `competitors` selects and orders;
        games with others are skipped. Points are those of the frame (columns `points`, `deviation` and
        `unit`), or games won if it has none. Raise Mistake for a frame of several runs, or one that is not a
        payoff.
        """
        import pandas as pd

        missing = [column for column in _COLUMNS if column not in frame]
        if missing:
            raise Mistake(f"payoff: found no column '{missing[0]}', expected those of History.payoff()")
        if "run" in frame and frame["run"].nunique() > 1:
            raise Mistake(
                f"payoff: found {frame['run'].nunique()} runs, expected one; choose by its column 'run'"
            )
        which, names = pd.factorize(pd.concat([frame["home"], frame["away"]], ignore_index=True))
        number = pd.Index(sorted(names) if competitors is None else competitors)
        if not number.is_unique:
            raise Mistake("payoff: found a competitor named twice, expected each once")
        home, away = number.get_indexer(pd.Index(names))[which].reshape(2, -1)
        known = (home >= 0) & (away >= 0) & (home != away) & (frame["games"].to_numpy() > 0)
        home, away = home[known].astype(np.int64), away[known].astype(np.int64)
        unit = "score" if counts_scores(frame) else "outcome"
        games, wins, draws = (frame[name].to_numpy(np.float64)[known] for name in _COLUMNS[2:])
        if unit == "outcome":
            total, squares = wins + draws / 2.0, wins + draws / 4.0
        else:
            mean, deviation = (frame[name].to_numpy(np.float64)[known] for name in ("points", "deviation"))
            total, squares = games * mean, games * (mean**2 + deviation**2)
        # A pairing may be given from both sides.
        n, upper = len(number), home < away
        twice = np.isin(away * n + home, (home * n + away)[upper]) & ~upper
        home, away, games, total, squares = (x[~twice] for x in (home, away, games, total, squares))
        units = _summed(n, home, away, games, games, total, squares)
        return cls._of(tuple(map(str, number)), units, unit)

    @classmethod
    def from_games(cls, games: Games, most_lead: float | None = None) -> Payoffs:
        """Return the payoffs of a tournament.

        Pairs are the units, as the games of one pair share their luck. With `most_lead`, the most that the
        game lets a seat be ahead, games count their scores, otherwise their outcomes.
        """
        n, turned = len(games.competitors), games.home > games.away
        first, second = np.where(turned, [games.away, games.home], [games.home, games.away])
        counted = games.points
        if most_lead is not None and games.lead is not None:
            counted = 0.5 + games.lead / (2.0 * most_lead)
        points = np.where(turned, 1.0 - counted, counted)
        most = max(games.num_pairs, 1)
        met, unit = np.unique((first * n + second) * most + games.pair, return_inverse=True)
        code = met // most
        number = np.bincount(unit, minlength=len(met)).astype(np.float64)
        score = np.bincount(unit, points, minlength=len(met)) / number
        units = _summed(n, code // n, code % n, number, np.ones(len(met)), score, score**2)
        return cls._of(games.competitors, units, "outcome" if most_lead is None else "score")

    @classmethod
    def _of(cls, competitors: tuple[str, ...], units: Units, unit: str = "outcome") -> Payoffs:
        n, (i, j) = len(competitors), (units.first, units.second)
        scores, games = np.full((n, n), np.nan), np.zeros((n, n), dtype=np.int64)
        np.fill_diagonal(scores, 0.5)
        scores[i, j], scores[j, i] = units.score, 1.0 - units.score
        games[i, j] = games[j, i] = units.games.astype(np.int64)
        return cls(competitors, scores, games, units, unit)

    @cached_property
    def posterior(self) -> ScorePosterior:
        """Posterior distribution of the score of every pairing, given `units` alone."""
        return posterior(self.units)

    def matrix(self) -> Floats:
        """Return 2 score - 1 of row against column, [N, N] antisymmetric in [-1, 1].

        Pairings that never met have the score that the strengths of the two, fitted to all games, predict.
        Where points are leads in score, the matrix is divided by its largest entry: leads are small beside
        the most there can be, and no concept but alpha-rank's strength of selection depends on the scale.
        """
        filling = self.posterior.expected() if self.drawn is None else self.drawn
        upper = np.triu(2.0 * np.where(np.isnan(self.scores), filling, self.scores) - 1.0, 1)
        if self.unit == "score":
            upper = np.clip(upper / self._largest, -1.0, 1.0)
        return upper - upper.T

    @cached_property
    def _largest(self) -> float:
        """Largest entry of the matrix that was observed, for all resamples alike."""
        return float(np.nanmax(np.abs(2.0 * self.scores - 1.0), initial=0.0)) or 1.0

    def resampled(self, rng: np.random.Generator) -> Payoffs:
        """Return possible scores: a draw from the posterior of every pairing.

        Games and units are those that were played, so resamples of the result are no further away.
        """
        drawn = self.posterior.draw(rng)
        again = replace(self, scores=np.where(np.isnan(self.scores), np.nan, drawn), drawn=drawn)
        again.__dict__["posterior"] = self.posterior  # fitted once
        again.__dict__["_largest"] = self._largest
        return again

    def subset(self, competitors: Sequence[str]) -> Payoffs:
        """Return the payoffs of some competitors, in the order given; games with others no longer count.

        Raise Mistake for an unknown competitor.
        """
        index = {name: i for i, name in enumerate(self.competitors)}
        unknown = [name for name in competitors if name not in index]
        if unknown:
            raise Mistake(
                f"payoff: '{unknown[0]}' is not among its {len(index)} competitors, expected one of them"
            )
        chosen = np.array([index[name] for name in competitors], dtype=np.int64)
        place = np.full(len(index), -1)
        place[chosen] = np.arange(len(chosen))
        units, at = self.units, np.ix_(chosen, chosen)
        i, j = place[units.first], place[units.second]
        keep = (i >= 0) & (j >= 0)
        kept = (x[keep] for x in (units.games, units.count, units.total, units.squares))
        fewer = _summed(len(chosen), i[keep], j[keep], *kept)
        drawn = None if self.drawn is None else self.drawn[at]
        return Payoffs(tuple(competitors), self.scores[at], self.games[at], fewer, self.unit, drawn)


def _summed(
    n: int, home: Indices, away: Indices, games: Floats, count: Floats, total: Floats, squares: Floats
) -> Units:
    """Return the sums by pairing of rows that are given from either side."""
    turned = home > away
    squares = np.where(turned, count - 2.0 * total + squares, squares)
    total = np.where(turned, count - total, total)
    code = np.minimum(home, away) * n + np.maximum(home, away)
    codes, which = np.unique(code, return_inverse=True)
    columns = (sums(which, x, len(codes)) for x in (games, count, total, squares))
    return Units(n, codes // max(n, 1), codes % max(n, 1), *columns)


@dataclass(frozen=True, slots=True)
class ConceptInterval:
    """A concept's value on the observed scores, its interval, and its mean over resamples.

    All arrays have the concept's shape.
    """

    value: Floats
    low: Floats
    high: Floats
    mean: Floats


def with_interval(
    payoffs: Payoffs,
    concept: Callable[[Floats], npt.ArrayLike],
    rng: np.random.Generator,
    *,
    samples: int = 200,
    level: float = 0.95,
) -> ConceptInterval:
    """Return `concept` of the matrix [N, N] with its interval from `samples` resampled matrices.

    The interval holds `level` of the resampled values, and is widened to hold the first value and the mean.
    Where each game went one way the truth may be there too, and no resample quite reaches it. Memory is that
    of `samples` values. Raise ValueError for a level outside (0, 1) and for less than one sample.
    """
    check_whole("samples", samples, 1)
    if not 0.0 < level < 1.0:
        raise ValueError(f"level is {level}, expected one in (0, 1)")
    value = np.asarray(concept(payoffs.matrix()), dtype=np.float64)
    values = np.stack([np.asarray(concept(payoffs.resampled(rng).matrix())) for _ in range(samples)])
    low, high = np.quantile(values, [0.5 - level / 2.0, 0.5 + level / 2.0], axis=0, method="weibull")
    mean = values.mean(axis=0)
    low, high = np.minimum.reduce([low, value, mean]), np.maximum.reduce([high, value, mean])
    return ConceptInterval(value, low, high, mean)
