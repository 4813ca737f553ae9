import itertools

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from analysis.statistics.davidson import ELO
from analysis.statistics.hierarchy.normal import Normal
from league.tournament.schedules.order import (
    boundary_stakes,
    information,
    misorder_stakes,
    most_worth,
)


def rated(elo, covariance, dispersion=1.0):
    return Normal(np.array(elo), np.array(covariance), dispersion)


def some_ratings(field, seed=0, width=400.0):
    """Strengths with errors that hang together."""
    rng = np.random.default_rng(seed)
    root = rng.normal(0.0, 40.0, (field, field))
    return rated(rng.uniform(0.0, width, field), root @ root.T / field + 100.0 * np.eye(field))


@pytest.mark.parametrize("difference", [0.0, 15.0, -40.0, 120.0])
def test_stakes_are_the_slope_of_the_expected_chance_of_a_wrong_order(difference):
    deviation = 30.0

    def misordered(variance):
        return quad(
            lambda d: norm.pdf(d, difference, deviation) * norm.cdf(-abs(d) / np.sqrt(variance)),
            *(difference - 300.0, difference + 300.0),
            points=[0.0],
            epsabs=1e-13,
        )[0]

    slope = (misordered(deviation**2 + 1.0) - misordered(deviation**2 - 1.0)) / 2.0
    stakes = misorder_stakes(rated([difference, 0.0], np.diag([500.0, 400.0])))
    np.testing.assert_allclose(stakes, [[0.0, slope], [slope, 0.0]], rtol=1e-4)


def test_stakes_at_the_boundary_are_the_slope_of_the_chance_of_being_overtaken():
    ratings, best = some_ratings(5), np.array([True, False, True, False, False])
    stakes, elo, c = boundary_stakes(ratings, best, 10.0), ratings.elo, ratings.covariance
    for a, b in itertools.combinations(range(5), 2):
        ahead, variance = abs(elo[a] - elo[b]) + 10.0, c[a, a] + c[b, b] - 2 * c[a, b]
        slope = (
            norm.cdf(-ahead / np.sqrt(variance + 0.1)) - norm.cdf(-ahead / np.sqrt(variance - 0.1))
        ) / 0.2
        assert stakes[a, b] == stakes[b, a] == pytest.approx(slope if best[a] != best[b] else 0.0, rel=1e-4)


@pytest.mark.parametrize("dispersion", [1.0, 1.5])
def test_games_inform_by_the_variance_of_their_score_over_the_luck_that_they_share(dispersion):
    score = 1 / (1 + 10 ** (-100 / 400))
    found = information(rated([100.0, 0.0], np.eye(2), dispersion), games=6)
    expected = 6 * score * (1 - score) / dispersion / ELO**2
    np.testing.assert_allclose(found[[0, 1], [1, 0]], expected)


def chosen_one_by_one(covariance, stakes, w, number):
    """By inverting the precision after each choice."""
    precision, laplacian = np.linalg.inv(covariance), np.diag(stakes.sum(axis=1)) - stakes
    chosen = []
    for _ in range(number):
        c = np.linalg.inv(precision)
        worth = {}
        for a, b in itertools.combinations(range(len(c)), 2):
            apart = np.eye(len(c))[a] - np.eye(len(c))[b]
            with_it = np.linalg.inv(precision + w[a, b] * np.outer(apart, apart))
            worth[a, b] = np.trace(laplacian @ (c - with_it))
        chosen.append(max(worth, key=worth.__getitem__))
        apart = np.eye(len(c))[chosen[-1][0]] - np.eye(len(c))[chosen[-1][1]]
        precision += w[chosen[-1]] * np.outer(apart, apart)
    return chosen


def test_pairs_are_chosen_as_if_those_before_had_been_played():
    ratings = some_ratings(9)
    stakes, w = misorder_stakes(ratings), information(ratings, games=2)
    chosen = most_worth(ratings.covariance, stakes, w, 20, 2)
    wanted = chosen_one_by_one(ratings.covariance, stakes, w, 20)
    assert list(map(tuple, chosen.tolist())) == wanted


def test_a_round_does_not_repeat_one_pair():
    ratings = rated(np.zeros(32), 100.0**2 * np.eye(32))
    stakes, w = misorder_stakes(ratings), information(ratings, games=2)
    for number in (30, 200):
        chosen = most_worth(ratings.covariance, stakes, w, number, 2)
        assert len(chosen) == number
        assert np.unique(np.sort(chosen, axis=1), axis=0, return_counts=True)[1].max() <= 2


@pytest.mark.parametrize("num_teams", [2, 3, 5])
@pytest.mark.parametrize("number", [1, 7, 500])
def test_as_many_pairings_are_chosen_as_were_asked_for(num_teams, number):
    ratings = some_ratings(12)
    rows = most_worth(
        ratings.covariance, misorder_stakes(ratings), information(ratings, 2), number, num_teams
    )
    assert rows.shape == (number, num_teams)
    assert (np.diff(np.sort(rows, axis=1), axis=1) > 0).all()


def test_tables_of_three_are_worth_more_than_random_ones():
    ratings = some_ratings(20, width=1500.0)
    stakes, w = misorder_stakes(ratings), information(ratings, 6)
    laplacian = np.diag(stakes.sum(axis=1)) - stakes

    def left(rows):
        precision = np.linalg.inv(ratings.covariance)
        for row in rows.tolist():
            for a, b in itertools.combinations(row, 2):
                apart = np.eye(20)[a] - np.eye(20)[b]
                precision = precision + w[a, b] * np.outer(apart, apart)
        return np.trace(laplacian @ np.linalg.inv(precision))

    rng = np.random.default_rng(0)
    drawn = [left(np.array([rng.choice(20, 3, replace=False) for _ in range(30)])) for _ in range(50)]
    assert left(most_worth(ratings.covariance, stakes, w, 30, 3)) < min(drawn)
