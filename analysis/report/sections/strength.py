"""Strength by TrueSkill ratings: the probability of being best, and trends.

By TrueSkill, a player with known skill wins with probability Phi((mu_a - mu_b) / (sqrt(2) beta)) (Herbrich,
Minka, Graepel: TrueSkill, NIPS 2006). A logistic curve with factor 1.702 approximates Phi, which converts mu
to Elo for `analysis.statistics.ratings`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis.statistics.elo import Z_95
from analysis.statistics.ratings import chances_of_being_best

CONTENDERS = 60  # candidates for the best; lower rated competitors are ignored
SAMPLES = 20_000
RECENT = 0.25  # last share of the league's env steps, over which a trend is estimated
_STEEPNESS = 1.702


@dataclass(frozen=True, slots=True)
class Best:
    """Leader of the leaderboard, and the probability that it is the best."""

    competitor: str
    mu: float
    sigma: float
    chance: float  # probability that no rated competitor is better
    level: int  # number of others whose ratings do not differ from it at 95 %
    likeliest: str  # competitor with the highest probability of being best
    likeliest_chance: float


@dataclass(frozen=True, slots=True)
class Trend:
    """Change of a rating over the last part of a run."""

    competitor: str
    change: float  # of mu
    low: float  # of a conservative 95 % interval, which treats the two ratings as independent
    high: float

    @property
    def says(self) -> str:
        """Verdict: improving, declining, or unclear."""
        return "improving" if self.low > 0.0 else "declining" if self.high < 0.0 else "unclear"


def best_of(leaderboard: pd.DataFrame, beta: float) -> Best | None:
    """Return the best of a leaderboard (competitor, mu, sigma, games; best first); `None` without games."""
    played = leaderboard[leaderboard["games"] > 0]
    if played.empty:
        return None
    first = played.iloc[0]
    contends = played["mu"] + 3.0 * played["sigma"]
    order = played.loc[contends.sort_values(ascending=False, kind="stable").index[:CONTENDERS]]
    if first.name not in order.index:
        order = pd.concat([order, played.iloc[:1]])
    mu, sigma = order["mu"].to_numpy(float), order["sigma"].to_numpy(float)
    elo_per_mu = _STEEPNESS / (math.sqrt(2.0) * beta) * 400.0 / math.log(10.0)
    chances = chances_of_being_best(
        mu * elo_per_mu, np.diag((sigma * elo_per_mu) ** 2), np.random.default_rng(0), samples=SAMPLES
    )
    apart = np.abs(first["mu"] - played["mu"].to_numpy(float))
    level = int((apart < Z_95 * np.hypot(first["sigma"], played["sigma"].to_numpy(float))).sum()) - 1
    top = int(chances.argmax())
    return Best(
        competitor=str(first["competitor"]),
        mu=float(first["mu"]),
        sigma=float(first["sigma"]),
        chance=float(chances[order.index.get_loc(first.name)]),
        level=level,
        likeliest=str(order["competitor"].iloc[top]),
        likeliest_chance=float(chances[top]),
    )


def trend_of(ratings: pd.DataFrame, competitor: str) -> Trend | None:
    """Return the trend of `competitor` over the last RECENT of the run.

    `ratings` has columns competitor, league_env_steps, mu, sigma, in order of time. Return `None` if the
    competitor was not rated both before and within that part.
    """
    if ratings.empty:
        return None
    since = (1.0 - RECENT) * float(ratings["league_env_steps"].max())
    own = ratings[ratings["competitor"] == competitor]
    before = own[own["league_env_steps"] <= since]
    if before.empty or len(own) == len(before):
        return None
    first, last = before.iloc[-1], own.iloc[-1]
    change = float(last["mu"] - first["mu"])
    # A learner's rating also fluctuates by more than sigma, so that an end may be a turning point.
    wandering = math.sqrt(2.0) * _spread(own[own["league_env_steps"] > since])
    margin = Z_95 * max(math.hypot(float(last["sigma"]), float(first["sigma"])), wandering)
    return Trend(competitor, change, change - margin, change + margin)


def _spread(ratings: pd.DataFrame) -> float:
    """Return the standard deviation of mu around a straight line over the steps; 0 below 4 ratings."""
    if len(ratings) < 4:
        return 0.0
    x, mu = ratings["league_env_steps"].to_numpy(float), ratings["mu"].to_numpy(float)
    design = np.column_stack([np.ones_like(x), x - x.mean()])
    found, *_ = np.linalg.lstsq(design, mu, rcond=None)
    return float(np.sqrt(((mu - design @ found) ** 2).sum() / (len(mu) - 2)))
