"""Payoffs as matrices for plots: numbers of games and scores between competitors."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pandas as pd

from analysis.plots.style import role_of
from analysis.solution.payoffs import Payoffs, counts_scores
from storage.arrays import Floats


@dataclass(frozen=True, slots=True)
class Pairings:
    """Competitors of a payoff frame, in the leaderboard's order, and their pairings from the row's side."""

    names: list[str]
    roles: list[str | None]
    mu: Floats  # [N]; NaN: not rated
    # [N, N] points per game, in [0, 1]; NaN: never met; 0.5 on the diagonal. Where games count scores:
    # 1/2 + lead / (2 most), most the largest lead per game of any pairing.
    score: Floats
    games: Floats  # [N, N]
    most: float | None = None  # that lead, in the game's own units; `None`: games count their outcomes

    def ordered(self, order: npt.NDArray[np.int64]) -> Pairings:
        """Return the pairings of the competitors at places `order`, in that order."""
        return Pairings(
            [self.names[place] for place in order],
            [self.roles[place] for place in order],
            self.mu[order],
            self.score[np.ix_(order, order)],
            self.games[np.ix_(order, order)],
            self.most,
        )

    def value(self, row: int, column: int) -> str:
        """Return what the row reaches per game against the column, as text."""
        score = self.score[row, column]
        return f"{100 * score:.1f} %" if self.most is None else f"{(2 * score - 1) * self.most:+.3g}"


def between(payoff: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with two different competitors."""
    return payoff[payoff["home"].astype(str) != payoff["away"].astype(str)]


def pairings(payoff: pd.DataFrame, leaderboard: pd.DataFrame) -> Pairings:
    """Return the pairings in `payoff`, in the order of the leaderboard; unrated competitors last, by name."""
    home, away = payoff["home"].astype(str), payoff["away"].astype(str)
    board = leaderboard
    rated = board["competitor"].astype(str)
    met = set(home) | set(away)
    names = [name for name in rated if name in met] + sorted(met - set(rated))
    index = pd.Index(names)
    rows, columns = index.get_indexer(pd.Index(home)), index.get_indexer(pd.Index(away))
    games, points = np.zeros((len(names), len(names))), np.zeros((len(names), len(names)))
    counted = payoff["games"].to_numpy(dtype=float)
    by_score = counts_scores(payoff)
    np.add.at(games, (rows, columns), counted)
    each = payoff["lead" if by_score else "win_rate"].to_numpy(dtype=float)
    np.add.at(points, (rows, columns), counted * each)
    score = np.divide(points, games, out=np.full(games.shape, np.nan), where=games > 0)
    most = None
    if by_score:
        most = float(np.nanmax(np.abs(score), initial=0.0)) or 1.0
        score = 0.5 + score / (2.0 * most)
    np.fill_diagonal(score, 0.5)
    np.fill_diagonal(games, 0.0)
    roles = {name: role_of(role) for name, role in zip(rated, board["role"], strict=True)}
    mu = dict(zip(rated, board["mu"].astype(float), strict=True))
    rated_mu = np.array([mu.get(name, np.nan) for name in names])
    return Pairings(names, [roles.get(name) for name in names], rated_mu, score, games, most)


def filled_in(payoff: pd.DataFrame, table: Pairings, filled: pd.DataFrame | None) -> Floats:
    """Return scores [N, N] in [-1, 1] in the order of `table`: `filled`, or `Payoffs.matrix()`."""
    if filled is None:
        return Payoffs.from_frame(payoff.drop(columns="run", errors="ignore"), table.names).matrix()
    return filled.reindex(index=table.names, columns=table.names).to_numpy(dtype=float)
