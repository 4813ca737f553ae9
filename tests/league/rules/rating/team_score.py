"""Expected score of teams of any competitors: the reference for a team that one competitor fills alone."""

import numpy as np

from league.rules.rating.prediction import expected_score


def team_score(book, home, away):
    """Return the expected score of the teams `home` [n, H] against `away` [n, A]: [n].

    A competitor in several seats has one skill. With a_k the sum of the sides of its seats, the gap has
    mean sum_k a_k mu_k and variance sum_k a_k^2 sigma_k^2, plus beta^2 for each seat.
    """
    side = np.repeat([1, -1], [home.shape[1], away.shape[1]])
    seated = np.hstack([home, away])
    together = seated[:, :, None] == seated[:, None, :]
    net = (together * side).sum(axis=2) * side  # a_k, in each of k's seats, times that seat's side
    gap = (book.mu[seated] * side).sum(axis=1)
    variance = (book.variance[seated] * net).sum(axis=1) + len(side) * book.settings.beta**2
    return expected_score(gap, np.sqrt(variance), book.draw_margin(len(side)))
