"""TrueSkill ratings of everyone in the league, updated match by match in the order of play.

Herbrich, Minka, Graepel: TrueSkill, a Bayesian skill rating system (NIPS 2006). Two seats are
rated in closed form, which is exact because their factor graph is a chain; more than two by the
`trueskill` library.
"""

from __future__ import annotations

import logging
import math
from statistics import NormalDist

import numpy as np
import numpy.typing as npt
import trueskill
from pydantic import BaseModel, ConfigDict, Field

from league.rules.roster import Indices
from storage.records import Outcome

Floats = npt.NDArray[np.float64]
log = logging.getLogger(__name__)

_SQRT_HALF = math.sqrt(0.5)
_SQRT_2_BY_PI = math.sqrt(2.0 / math.pi)
_TAIL = -10.0  # below it the fraction is more exact than erfc, which reaches 0 at about -37
_NO_MARGIN = 1e-8  # the limit of v and w is closer than the quotients, which cancel
_NEGLIGIBLE = -45.0  # exp of it is lost beside 1
_WIDEST_GAP = 100.0  # of mu, for the last resort of `_rate_ranked`


class RatingSettings(BaseModel):
    """Constants of TrueSkill, and when a rating stops moving."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    mu: float = Field(default=25.0, description="Mean of a newcomer without parent", allow_inf_nan=False)
    sigma: float = Field(
        default=25.0 / 3.0, gt=0, allow_inf_nan=False, description="Standard deviation of a newcomer"
    )
    beta: float = Field(
        default=25.0 / 6.0, gt=0, allow_inf_nan=False, description="Standard deviation of one performance"
    )
    tau: float = Field(
        default=25.0 / 300.0, ge=0, allow_inf_nan=False, description="Drift of a learner's skill per game"
    )
    draw_probability: float = Field(
        default=0.1, ge=0, lt=1, description="Share of draws between equals; 0 only where draws cannot happen"
    )
    placement_games: int = Field(
        default=50, ge=1, description="Games after which the rating of a snapshot or bot is fixed"
    )
    anchor: str | None = Field(
        default=None, description="Competitor fixed from the start; none: the first snapshot or bot admitted"
    )
    anchor_sigma: float = Field(
        default=25.0 / 300.0, gt=0, allow_inf_nan=False, description="Standard deviation of the anchor"
    )

    @property
    def draw_margin(self) -> float:
        """epsilon of the paper for two seats: sqrt(2) beta Phi^-1((draw_probability + 1) / 2)."""
        return math.sqrt(2.0) * self.beta * NormalDist().inv_cdf((self.draw_probability + 1.0) / 2.0)


class RatingBook:
    """mu, sigma, games by index. Learners drift by tau with every game; the rating of anything
    immutable is fixed once it has `placement_games`, that of the anchor from the start.
    """

    def __init__(self, settings: RatingSettings) -> None:
        self.settings = settings
        self.mu: Floats = np.zeros(0)
        self.variance: Floats = np.zeros(0)
        self.games: npt.NDArray[np.int64] = np.zeros(0, dtype=np.int64)
        self.fixed: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._learns: npt.NDArray[np.bool_] = np.zeros(0, dtype=np.bool_)
        self._free_for_all: list[trueskill.TrueSkill] = []

    def __len__(self) -> int:
        return len(self.mu)

    @property
    def sigma(self) -> Floats:
        return np.sqrt(self.variance)

    def admit(self, *, mu: float | None = None, learns: bool, anchor: bool = False) -> int:
        """Rate a newcomer: fresh sigma around `mu` (None: the default). Returns its index."""
        s = self.settings
        sigma = s.anchor_sigma if anchor else s.sigma
        self.mu = np.append(self.mu, s.mu if mu is None else mu)
        self.variance = np.append(self.variance, sigma * sigma)
        self.games = np.append(self.games, 0)
        self.fixed = np.append(self.fixed, anchor)
        self._learns = np.append(self._learns, learns)
        return len(self.mu) - 1

    def restart(self, index: int, mu: float) -> None:
        """A learner begins anew: fresh sigma around `mu`, no games."""
        self.mu[index] = mu
        self.variance[index] = self.settings.sigma**2
        self.games[index] = 0

    def win_probability(self, home: npt.ArrayLike, away: npt.ArrayLike) -> Floats:
        """Expected score (a draw counts half) of `home` [n] or scalar against `away` [n].

        P(win) + P(draw) / 2 with P(win) = Phi((mu_h - mu_a - epsilon) / c),
        P(loss) = Phi((mu_a - mu_h - epsilon) / c), c^2 = 2 beta^2 + sigma_h^2 + sigma_a^2.
        Swapping the two gives one minus it; without draws it is Phi((mu_h - mu_a) / c).
        """
        h, a = np.asarray(home), np.asarray(away)
        c = np.sqrt(2.0 * self.settings.beta**2 + self.variance[h] + self.variance[a])
        gap, margin = self.mu[h] - self.mu[a], self.settings.draw_margin
        return 0.5 + 0.25 * (_erf((gap - margin) / c) + _erf((gap + margin) / c))

    def rate_pairs(self, home: Indices, away: Indices, outcome: npt.NDArray[np.int8]) -> Indices:
        """Rate G games of two in order: indices [G], [G], home's Outcome [G]. Returns who played.

        Raises ValueError for a draw when `draw_probability` is 0.
        """
        self._refuse_draws(bool((outcome == Outcome.DRAW).any()))
        played, local = np.unique(np.concatenate([home, away]), return_inverse=True)
        s, erfc, exp, sqrt = self.settings, math.erfc, math.exp, math.sqrt
        mu, variance = self.mu[played].tolist(), self.variance[played].tolist()
        games, fixed = self.games[played].tolist(), self.fixed[played].tolist()
        drift = np.where(self._learns[played] & ~self.fixed[played], s.tau**2, 0.0).tolist()
        placement = np.where(self._learns[played], np.iinfo(np.int64).max, s.placement_games).tolist()
        two_beta2, margin = 2.0 * s.beta**2, s.draw_margin
        halves = local.reshape(2, -1).tolist()
        for h, a, result in zip(halves[0], halves[1], outcome.tolist(), strict=True):
            games[h] += 1
            games[a] += 1
            home_fixed, away_fixed = fixed[h], fixed[a]
            if home_fixed and away_fixed:
                continue
            home_variance, away_variance = variance[h] + drift[h], variance[a] + drift[a]
            c2 = two_beta2 + home_variance + away_variance
            c = sqrt(c2)
            gap = (mu[h] - mu[a]) / c
            if result == 1:
                v, w = moments_draw(gap, margin / c)
            else:
                x = (gap if result == 0 else -gap) - margin / c
                if x > _TAIL:  # `moments_win`, inline: this is where the time goes
                    v = _SQRT_2_BY_PI * exp(-0.5 * x * x) / erfc(-x * _SQRT_HALF)
                    w = v * (v + x)
                else:
                    v, w = moments_win(x)
                if result != 0:
                    v = -v
            if not home_fixed:
                mu[h] += home_variance / c * v
                variance[h] = home_variance * (1.0 - home_variance / c2 * w)
                fixed[h] = games[h] >= placement[h]
            if not away_fixed:
                mu[a] -= away_variance / c * v
                variance[a] = away_variance * (1.0 - away_variance / c2 * w)
                fixed[a] = games[a] >= placement[a]
        self.mu[played], self.variance[played] = mu, variance
        self.games[played], self.fixed[played] = games, fixed
        return played

    def rate_ranked(self, seated: Indices, rank: npt.NDArray[np.int8]) -> Indices:
        """Rate M free-for-alls in order: who sat where [M, S], ranks [M, S] (0 is best, ties equal).

        A competitor in several seats of a match takes the mean of what they earned, as one game.
        Raises ValueError for a tie when `draw_probability` is 0.
        """
        ordered = np.sort(rank, axis=1)
        tied = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1) & (seated != seated[:, :1]).any(axis=1)
        self._refuse_draws(bool(tied.any()))
        played = []
        for members, ranks in zip(seated, rank.tolist(), strict=True):
            unique, seat_of = np.unique(members, return_inverse=True)
            if len(unique) == 1:
                continue
            drift = np.where(self._learns[members] & ~self.fixed[members], self.settings.tau**2, 0.0)
            mu, sigma = self._rate_ranked(self.mu[members], np.sqrt(self.variance[members] + drift), ranks)
            seats = np.bincount(seat_of)
            moves = ~self.fixed[unique]
            self.mu[unique[moves]] = (np.bincount(seat_of, mu) / seats)[moves]
            self.variance[unique[moves]] = (np.bincount(seat_of, sigma**2) / seats)[moves]
            self.games[unique] += 1
            self.fixed[unique] |= ~self._learns[unique] & (
                self.games[unique] >= self.settings.placement_games
            )
            played.append(unique)
        return np.unique(np.concatenate(played)) if played else np.zeros(0, dtype=np.int64)

    def _rate_ranked(self, mu: Floats, sigma: Floats, ranks: list[int]) -> tuple[Floats, Floats]:
        """The library's posterior of one match: mu [S], sigma [S].

        It gives up beyond a gap of about 230 mu; then in multiple precision; then with the gaps clamped.
        """
        if not self._free_for_all:
            s = self.settings
            self._free_for_all = [
                # Drift is already in sigma, as only learners have any.
                trueskill.TrueSkill(
                    mu=s.mu,
                    sigma=s.sigma,
                    beta=s.beta,
                    tau=0.0,
                    draw_probability=s.draw_probability,
                    backend=backend,
                )
                for backend in (None, "mpmath")
            ]
        near = np.clip(mu, np.median(mu) - _WIDEST_GAP, np.median(mu) + _WIDEST_GAP)
        exact, precise = self._free_for_all
        for environment, means in ((exact, mu), (precise, mu), (precise, near)):
            groups = [(environment.create_rating(m, d),) for m, d in zip(means, sigma, strict=True)]
            try:
                rated = [group[0] for group in environment.rate(groups, ranks=ranks)]
            except (ArithmeticError, ValueError):
                continue
            posterior = np.array([float(r.sigma) for r in rated])
            moved = np.array([float(r.mu) for r in rated]) - means
            if np.isfinite(moved).all() and np.isfinite(posterior).all():
                if means is near:
                    log.warning("ratings: gap of %.0f mu clamped to rate one match", float(np.ptp(mu)))
                return mu + moved, posterior
        log.warning("ratings: a match over a gap of %.0f mu could not be rated", float(np.ptp(mu)))
        return mu, sigma

    def _refuse_draws(self, drawn: bool) -> None:
        if drawn and self.settings.draw_probability == 0.0:
            raise ValueError(
                "ratings: a match was drawn, but ratings.draw_probability is 0, which says that draws "
                "cannot happen; set it to the share of draws you expect between equals, such as 0.1"
            )


def moments_win(x: float) -> tuple[float, float]:
    """v(x) = phi(x) / Phi(x) and w(x) = v (v + x) of a win, x = (gap - epsilon) / c."""
    if x > _TAIL:
        v = _SQRT_2_BY_PI * math.exp(-0.5 * x * x) / math.erfc(-x * _SQRT_HALF)
        return v, v * (v + x)
    excess = _inverse_mills_excess(-x)
    return excess - x, (excess - x) * excess


def moments_draw(gap: float, margin: float) -> tuple[float, float]:
    """v and w of a draw; `gap` and `margin` in units of c."""
    if margin < _NO_MARGIN:
        return -gap, 1.0
    distance = abs(gap)
    near, far = margin - distance, -margin - distance
    if near > _TAIL:
        inside = 0.5 * (math.erfc(-near * _SQRT_HALF) - math.erfc(-far * _SQRT_HALF))
        at_near, at_far = _density(near), _density(far)
    else:  # everything divided by phi(near), which is too small to be written down
        log_ratio = -2.0 * distance * margin
        if log_ratio < _NEGLIGIBLE:  # the far end is out of sight: a loss of the favourite, by less
            v, w = moments_win(near)
            return math.copysign(v, -gap), w
        at_near, at_far = 1.0, math.exp(log_ratio)
        mills_near = 1.0 / (_inverse_mills_excess(-near) - near)
        inside = mills_near - at_far / (_inverse_mills_excess(-far) - far)
    v = (at_far - at_near) / inside
    w = v * v + (near * at_near - far * at_far) / inside
    return (v if gap >= 0 else -v), min(max(w, 0.0), 1.0)


def _inverse_mills_excess(y: float) -> float:
    """phi(y) / (1 - Phi(y)) - y for y >= 10: Laplace's continued fraction 1/(y + 2/(y + 3/(y + ...)))."""
    fraction = 0.0
    for k in range(24, 0, -1):
        fraction = k / (y + fraction)
    return fraction


def _density(x: float) -> float:
    return 0.5 * _SQRT_2_BY_PI * math.exp(-0.5 * x * x)


def _erf(x: Floats) -> Floats:
    """erf(x / sqrt 2), elementwise: numpy has none."""
    flat = np.atleast_1d(x * _SQRT_HALF).ravel().tolist()
    return np.fromiter(map(math.erf, flat), dtype=np.float64, count=len(flat)).reshape(np.shape(x))
