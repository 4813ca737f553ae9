"""Closed form of TrueSkill for two sides, game by game, over plain lists, whose items are fastest.

Herbrich, Minka, Graepel: TrueSkill, a Bayesian skill rating system (NIPS 2006). A result moves a rating by
its moments v and w, which are exact also far into the tails. With c^2 the variance of the difference of two
sides' performances, `gap` the difference of their means and `margin` the draw margin epsilon, both in units
of c, a side of variance s^2 moves by s^2 / c * v, and its variance becomes s^2 (1 - s^2 / c^2 * w).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SQRT_HALF = math.sqrt(0.5)
SQRT_2_BY_PI = math.sqrt(2.0 / math.pi)
TAIL = -10.0  # below it the fraction is more exact than erfc, which reaches 0 at about -37
_NO_MARGIN = 1e-8  # the limit of v and w is closer than the quotients, which cancel
_NEGLIGIBLE = -45.0  # exp of it is lost beside 1


def moments_win(x: float) -> tuple[float, float]:
    """Return v(x) = phi(x) / Phi(x) and w(x) = v (v + x) of a win, x = gap - margin (the paper's V_win)."""
    if x > TAIL:
        v = SQRT_2_BY_PI * math.exp(-0.5 * x * x) / math.erfc(-x * SQRT_HALF)
        return v, v * (v + x)
    excess = _inverse_mills_excess(-x)
    return excess - x, (excess - x) * excess


def moments_draw(gap: float, margin: float) -> tuple[float, float]:
    """Return v and w of a draw; v has the sign that moves the two sides together."""
    if margin < _NO_MARGIN:
        return -gap, 1.0
    distance = abs(gap)
    near, far = margin - distance, -margin - distance
    if near > TAIL:
        inside = 0.5 * (math.erfc(-near * SQRT_HALF) - math.erfc(-far * SQRT_HALF))
        at_near, at_far = _density(near), _density(far)
    else:  # all terms are divided by phi(near), which underflows
        log_ratio = -2.0 * distance * margin
        if log_ratio < _NEGLIGIBLE:  # the far end is negligible: a loss of the favourite, by less
            v, w = moments_win(near)
            return math.copysign(v, -gap), w
        at_near, at_far = 1.0, math.exp(log_ratio)
        mills_near = 1.0 / (_inverse_mills_excess(-near) - near)
        inside = mills_near - at_far / (_inverse_mills_excess(-far) - far)
    v = (at_far - at_near) / inside
    w = v * v + (near * at_near - far * at_far) / inside
    return (v if gap >= 0 else -v), min(max(w, 0.0), 1.0)


def _inverse_mills_excess(y: float) -> float:
    """Return phi(y) / (1 - Phi(y)) - y for y >= 10: Laplace's fraction 1/(y + 2/(y + 3/(y + ...)))."""
    fraction = 0.0
    for k in range(24, 0, -1):
        fraction = k / (y + fraction)
    return fraction


def _density(x: float) -> float:
    return 0.5 * SQRT_2_BY_PI * math.exp(-0.5 * x * x)


Seen = list[tuple[float, float, int]]
"""Gap of the means in units of c, c, and the result of the first side (an Outcome) of each game."""

_WIN, _DRAW = 0, 1  # of Outcome; the loops below compare plain numbers, which is fastest


@dataclass(slots=True)
class RatingTable:
    """Ratings of the competitors of a batch, by place.

    `drift` is the variance that a game adds beforehand, `placement` the games after which a rating is
    fixed. With `watch`, games are returned as `Seen`; those between two fixed ratings change nothing and
    are left out.
    """

    mu: list[float]
    variance: list[float]
    games: list[int]
    fixed: list[bool]
    drift: list[float]
    placement: list[int]
    watch: bool

    def rate_pairs(
        self, home: list[int], away: list[int], outcome: list[int], *, beta: float, margin: float
    ) -> Seen:
        """Rate G games of one against one: places [G], [G], home's Outcome [G]; `margin` in mu."""
        mu, variance, games, fixed = self.mu, self.variance, self.games, self.fixed
        drift, placement, watch = self.drift, self.placement, self.watch
        erfc, exp, sqrt, two_beta2 = math.erfc, math.exp, math.sqrt, 2.0 * beta**2
        seen: Seen = []
        for h, a, result in zip(home, away, outcome, strict=True):
            games[h] += 1
            games[a] += 1
            home_fixed, away_fixed = fixed[h], fixed[a]
            if home_fixed and away_fixed:
                continue
            home_variance, away_variance = variance[h] + drift[h], variance[a] + drift[a]
            c2 = two_beta2 + home_variance + away_variance
            c = sqrt(c2)
            gap = (mu[h] - mu[a]) / c
            if watch:
                seen.append((gap, c, result))
            if result == _DRAW:
                v, w = moments_draw(gap, margin / c)
            else:
                x = (gap if result == _WIN else -gap) - margin / c
                if x > TAIL:  # `moments_win`, inline: most of the time is spent here
                    v = SQRT_2_BY_PI * exp(-0.5 * x * x) / erfc(-x * SQRT_HALF)
                    w = v * (v + x)
                else:
                    v, w = moments_win(x)
                if result != _WIN:
                    v = -v
            if not home_fixed:
                mu[h] += home_variance / c * v
                variance[h] = home_variance * (1.0 - home_variance / c2 * w)
                fixed[h] = games[h] >= placement[h]
            if not away_fixed:
                mu[a] -= away_variance / c * v
                variance[a] = away_variance * (1.0 - away_variance / c2 * w)
                fixed[a] = games[a] >= placement[a]
        return seen

    def rate_two_teams(
        self, seated: list[list[int]], side: list[int], lead: list[int], *, beta: float, margin: float
    ) -> Seen:
        """Rate M matches of two teams: places [M][S], each seat's side [S] (1 or -1), results [M].

        `lead` is 1, 0 or -1 where side 1 won, drew or lost; `margin` is in mu, for S seats.

        With a_k the seats of competitor k on side 1 less those on the other, the difference of the
        performances is normal with mean sum a_k mu_k and c^2 = S beta^2 + sum a_k^2 sigma_k^2. So k moves
        by a_k sigma_k^2 / c * v, and its variance is multiplied by 1 - a_k^2 sigma_k^2 / c^2 * w. A
        competitor with as many seats on either side learns nothing, and does not count as having played.
        """
        mu, variance, games, fixed = self.mu, self.variance, self.games, self.fixed
        noise, seen = len(side) * beta**2, []
        for row, won in zip(seated, lead, strict=True):
            net: dict[int, int] = {}
            for k, sign in zip(row, side, strict=True):
                net[k] = net.get(k, 0) + sign
            moving = [(k, n, variance[k] + self.drift[k]) for k, n in net.items() if n]
            if not moving:
                continue
            c2 = noise + sum([n * n * prior for _, n, prior in moving])
            c = math.sqrt(c2)
            gap = sum([n * mu[k] for k, n, _ in moving]) / c
            if won:
                v, w = moments_win(won * gap - margin / c)
                v *= won
            else:
                v, w = moments_draw(gap, margin / c)
            if self.watch:
                seen.append((gap, c, 1 - won))
            for k, n, prior in moving:
                games[k] += 1
                if not fixed[k]:
                    mu[k] += n * prior / c * v
                    variance[k] = prior * (1.0 - n * n * prior / c2 * w)
                    fixed[k] = games[k] >= self.placement[k]
        return seen
