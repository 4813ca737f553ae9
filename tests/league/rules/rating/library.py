"""The `trueskill` library as oracle: its own `erfc` is good to 1e-7, so it is given exact functions."""

import math
from statistics import NormalDist

import numpy as np
import trueskill

EXACT = (
    lambda x: 0.5 * math.erfc(-x / math.sqrt(2.0)),
    lambda x: math.exp(-0.5 * x * x) / math.sqrt(2.0 * math.pi),
    NormalDist().inv_cdf,
)


class Library:
    """Environments of the library: in double precision, and where that fails in more."""

    def __init__(self, draw_probability=0.1):
        self.environments = [
            trueskill.TrueSkill(
                mu=25.0,
                sigma=25 / 3,
                beta=25 / 6,
                tau=0.0,
                draw_probability=draw_probability,
                backend=backend,
            )
            for backend in (EXACT, "mpmath")
        ]

    def rate(self, mu, sigma, team, ranks):
        """Return mu and sigma of the members [E] of teams [E] after one match, given the teams' ranks [T]."""
        entries = [np.flatnonzero(team == t) for t in range(len(ranks))]
        for environment in self.environments:
            groups = [tuple(trueskill.Rating(float(mu[e]), float(sigma[e])) for e in own) for own in entries]
            try:
                rated = environment.rate(groups, ranks=list(ranks))
            except ArithmeticError:
                continue
            found = np.empty((len(team), 2))
            for own, group in zip(entries, rated, strict=True):
                found[own] = [(float(rating.mu), float(rating.sigma)) for rating in group]
            return found.T
        raise ArithmeticError(f"a match of {mu.tolist()} cannot be rated")
