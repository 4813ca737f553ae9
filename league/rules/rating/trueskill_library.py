"""Matches of more than two sides, rated by the `trueskill` library, whatever the gap."""

from __future__ import annotations

import logging

import numpy as np
import trueskill

from storage.arrays import Floats

log = logging.getLogger(__name__)

_WIDEST_GAP = 100.0  # of a team's mu, for the last attempt
_KNOWN = 1e-4  # sigma of a skill that is known, in beta: it must not be 0


class Library:
    """Environments of the library for one set of constants; nothing global is touched.

    There is no drift here (tau 0): it is already in the given sigmas, as only learners drift.
    """

    def __init__(self, *, mu: float, sigma: float, beta: float, draw_probability: float) -> None:
        self.exact, self.precise = (
            trueskill.TrueSkill(
                mu=mu, sigma=sigma, beta=beta, tau=0.0, draw_probability=draw_probability, backend=backend
            )
            for backend in (None, "mpmath")
        )

    def rate(
        self, mu: Floats, sigma: Floats, seats: list[int], team: list[int], ranks: list[int]
    ) -> tuple[Floats, Floats]:
        """Return posterior mu [E] and sigma [E] of one match of E entries.

        `team` [E] is the team of each entry, from 0 on, and `ranks` [T] those of the teams (0 is best, ties
        equal). An entry of a `seats` [E] is one competitor whose skill counts a times: mu and sigma are a
        times its own. The noise of its other a - 1 performances, and their share of the draw margin, come
        from a - 1 further players whose skill is known to be 0.

        The library fails beyond a gap of about 230 mu. The match is then rated in multiple precision, and if
        that fails with the teams' gaps shrunk and the moves enlarged by as much, which is logged.
        """
        entries_of: list[list[int]] = [[] for _ in ranks]
        for entry, t in enumerate(team):
            entries_of[t].append(entry)
        strangers = [sum(seats[entry] - 1 for entry in entries) for entries in entries_of]
        total = np.array([mu[entries].sum() for entries in entries_of])
        shrunk = max(1.0, float(np.abs(total - np.median(total)).max()) / _WIDEST_GAP)
        apart = (np.median(total) - total) * (1.0 - 1.0 / shrunk)
        near = mu + (apart / np.bincount(team))[team]
        known = self.exact.create_rating(0.0, _KNOWN * self.exact.beta)
        for environment, means in ((self.exact, mu), (self.precise, mu), (self.precise, near)):
            # Python floats: numpy's would warn where these raise.
            priors = list(map(environment.create_rating, means.tolist(), sigma.tolist()))
            groups = [
                (*(priors[entry] for entry in entries), *[known] * more)
                for entries, more in zip(entries_of, strangers, strict=True)
            ]
            try:
                rated = environment.rate(groups, ranks=ranks)
            except (ArithmeticError, ValueError):
                continue
            posterior, moved = np.empty_like(sigma), np.empty_like(mu)
            for entries, group in zip(entries_of, rated, strict=True):
                for entry, rating in zip(entries, group, strict=False):  # the known ones come last
                    moved[entry], posterior[entry] = float(rating.mu) - means[entry], float(rating.sigma)
            if np.isfinite(moved).all() and np.isfinite(posterior).all():
                if means is near:
                    moved *= shrunk  # far out a move is proportional to the gap
                    log.warning("ratings: gap of %.0f mu shrunk to rate one match", float(np.ptp(total)))
                return mu + moved, posterior
        log.warning("ratings: a match over a gap of %.0f mu could not be rated", float(np.ptp(total)))
        return mu, sigma
