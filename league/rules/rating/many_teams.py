"""Factor graph of TrueSkill for matches of more than two teams, many matches at once.

Herbrich, Minka, Graepel: TrueSkill, a Bayesian skill rating system (NIPS 2006). The teams of a match are in
order of rank. A factor joins each two neighbours: their performances differ by more than the draw margin,
or by less if they tied. Expectation propagation replaces each factor by its *site*, a normal observation of
the difference that leads to the right moments beside all other sites. With sites, a match is a chain of
normal variables, which one pass in both directions solves. Sites are renewed until they stay as they are.

The `trueskill` library renews them one after the other, until none moves by more than 1e-4. Its ratings are
then within 1e-6 of this fixed point. Here the sites of all matches are renewed together.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.polynomial import chebyshev

from league.rules.rating.closed_form import moments_win
from storage.arrays import Bools, Floats

_NEAR, _SHIFT, _DEGREE = 4.0, 2.0, 20  # of the polynomial of `hazard`: relative error 1e-12
_ROOT_TWO_PI = math.sqrt(2.0 * math.pi)
_FAR = 26.0  # beyond it, v of a certain win is negligible
_NO_MARGIN = 1e-8  # narrower margins of a draw are rated as this one


def _scaled_excess(x: Any) -> Any:
    """Return (y + _SHIFT) (v(-y) - y) at y = _NEAR (1 + x) / (1 - x), for x [n] between -1 and 1."""
    y = (_NEAR * (1.0 + x) / (1.0 - x)).tolist()
    moments = [moments_win(-each) for each in y]
    return np.array([(each + _SHIFT) * w / v for each, (v, w) in zip(y, moments, strict=True)])


_POLYNOMIAL: list[float] = chebyshev.cheb2poly(chebyshev.chebinterpolate(_scaled_excess, _DEGREE)).tolist()


def hazard(x: Floats) -> tuple[Floats, Floats]:
    """Return v(x) = phi(x) / Phi(x), and v(x) + x [...]: the moments of a win are v and w = v (v + x)."""
    y = np.abs(x)
    t = (y - _NEAR) / (y + _NEAR)
    excess = t * _POLYNOMIAL[-1]
    for coefficient in _POLYNOMIAL[-2:0:-1]:
        excess += coefficient
        excess *= t
    excess += _POLYNOMIAL[0]
    excess /= y + _SHIFT
    below = y + excess  # v(-y)
    np.minimum(y, _FAR, out=y)
    y *= y
    y *= 0.5
    np.exp(y, out=y)
    y *= _ROOT_TWO_PI
    y -= 1.0 / below
    v = 1.0 / y  # v(y), as Phi(y) = 1 - Phi(-y)
    ahead = (x > 0.0).astype(np.float64)  # products with 0 and 1 are faster than np.where
    behind = 1.0 - ahead
    v *= ahead
    v += below * behind
    excess *= behind
    excess += (v + x) * ahead
    return v, excess


def win_moments(gap: Floats, margin: Floats) -> tuple[Floats, Floats]:
    """Return v and 1 - w of a win [...]; `gap` and `margin` in units of c, as in `closed_form`."""
    x = gap - margin
    v, excess = hazard(x)
    excess *= v
    return v, np.maximum(1.0 - excess, 1.0 / (x * x + 6.0))  # the bound holds for all x, and is exact far out


def draw_moments(gap: Floats, margin: Floats) -> tuple[Floats, Floats]:
    """Return v and 1 - w of a draw [...]."""
    margin = np.maximum(margin, _NO_MARGIN)
    distance = np.abs(gap)
    near, far = margin - distance, -margin - distance
    ratio = np.exp(-2.0 * distance * margin)  # phi(far) / phi(near), by which all is divided
    scale = 1.0 / (1.0 / hazard(near)[0] - ratio / hazard(far)[0])
    v = np.expm1(-2.0 * distance * margin) * scale
    left = 1.0 - v * v - (near - far * ratio) * scale
    bound = 1.0 / (near * near + 6.0 + 3.0 / (margin * margin))
    return np.where(gap < 0.0, -v, v), np.maximum(left, bound)


class Chains:
    """Chains of M matches of T teams, and their sites."""

    def __init__(self, margin: Floats, tied: Bools) -> None:
        """Begin without sites.

        `margin` [T - 1, M] is that between neighbours, in mu, and `tied` [T - 1, M] says where they tied.
        """
        neighbours, matches = margin.shape
        self._margin, self._tied = margin, tied
        self._any_tied = bool(tied.any())
        # Both directions side by side: along the chain, and against it with all means negated.
        self._precision = np.zeros((neighbours, 2, matches))
        self._shift = np.zeros((neighbours, 2, matches))

    def renew(self, mean: Floats, variance: Floats) -> tuple[Floats, Floats]:
        """Return what teams take from the present sites, and renew these.

        `mean` and `variance` [T, M] are those of the teams' performances, best team first. Returned are the
        precision and the shift (precision times mean) of the message to each team's performance: [T, M].
        """
        teams, matches = mean.shape
        own, own_shift = np.empty((teams, 2, matches)), np.empty((teams, 2, matches))
        np.divide(1.0, variance, out=own[:, 0])
        np.multiply(mean, own[:, 0], out=own_shift[:, 0])
        own[:, 1] = own[::-1, 0]
        np.negative(own_shift[::-1, 0], out=own_shift[:, 1])
        sent, sent_shift = np.zeros((teams, 2, matches)), np.zeros((teams, 2, matches))
        for x in range(teams - 1):
            site, shift = self._precision[x], self._shift[x]
            own[x] += sent[x]  # now of all that comes before the site
            own_shift[x] += sent_shift[x]
            share = own[x] + site
            np.divide(1.0, share, out=share)
            np.multiply(site, own_shift[x], out=sent_shift[x + 1])
            sent_shift[x + 1] -= shift * own[x]
            sent_shift[x + 1] *= share
            share *= own[x]
            np.multiply(share, site, out=sent[x + 1])
        self._match(own[:-1], own_shift[:-1])
        return sent[:, 0] + sent[::-1, 1], sent_shift[:, 0] - sent_shift[::-1, 1]

    def _match(self, precision: Floats, shift: Floats) -> None:
        """Renew the sites, given what reaches each of them from either side: [T - 1, 2, M]."""
        along, against = 1.0 / precision[:, 0], 1.0 / precision[::-1, 1]
        mean = shift[:, 0] * along + shift[::-1, 1] * against
        along += against
        np.divide(1.0, along, out=along)
        root = np.sqrt(along)
        mean *= root  # the gap, in units of c
        margin = self._margin * root
        if self._any_tied:
            v, left = np.empty_like(mean), np.empty_like(mean)
            for where, moments in ((~self._tied, win_moments), (self._tied, draw_moments)):
                v[where], left[where] = moments(mean[where], margin[where])
        else:
            v, left = win_moments(mean, margin)
        w = 1.0 - left
        np.divide(1.0, left, out=left)
        along *= w
        along *= left
        mean *= w
        mean += v
        mean *= root
        mean *= left
        self._precision[:, 0] = self._precision[::-1, 1] = along
        self._shift[:, 0] = self._shift[::-1, 1] = mean
