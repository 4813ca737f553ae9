"""Who is best with probability p is best in p of all cases, in fields that lie close and in wide ones."""

import numpy as np
import pytest

from analysis.statistics.elo import Z_95
from analysis.statistics.ratings import bradley_terry, chances_of_being_best
from tests.analysis.simulated_games import transitive

SPREADS = (10.0, 25.0, 50.0, 100.0, 200.0, 400.0)


def claims(competitors, spreads, tournaments, pairs, seed=1):
    """Of simulated tournaments [t, N]: the chances that were given, and who was the best."""
    rng = np.random.default_rng(seed)
    given, true = [], []
    for spread in np.tile(spreads, tournaments // len(spreads)):
        elo = rng.normal(size=competitors) * spread
        ratings = bradley_terry(transitive(elo, pairs, rng), draws=False)
        given.append(chances_of_being_best(ratings.elo, ratings.covariance, rng, samples=1000))
        true.append(np.arange(competitors) == elo.argmax())
    return np.array(given), np.array(true)


@pytest.mark.long
@pytest.mark.parametrize(("competitors", "pairs"), [(4, 10), (10, 4), (20, 2)])
def test_probabilities_to_be_best_come_true_as_often_as_they_say(competitors, pairs):
    given, true = claims(competitors, SPREADS, 600, pairs)
    for low, high in ((0.0, 0.05), (0.05, 0.2), (0.2, 0.5), (0.5, 0.8), (0.8, 1.0)):
        among = (low <= given) & (given <= high)
        error = np.sqrt((given * (1.0 - given))[among].sum()) / among.sum()
        assert true[among].mean() == pytest.approx(given[among].mean(), abs=3.5 * error + 0.02)
    brier = ((given - true) ** 2).sum(axis=1)
    by_chance = 1.0 - 1.0 / competitors
    assert brier.mean() < 0.8 * by_chance


@pytest.mark.slow
def test_nobody_is_surely_the_best_of_equals():
    """Taken for as strong as it is rated, the first of each tournament would be best with 46 % on average."""
    given, _ = claims(8, (0.0,), 400, 10)
    assert given.max(axis=1).mean() < 0.36
    assert (given.max(axis=1) > 0.95).mean() < 0.01
    assert given.mean(axis=0) == pytest.approx(np.full(8, 1 / 8), abs=0.04)


def test_of_two_the_better_is_best_as_likely_as_it_is_superior():
    covariance = np.array([[90.0, -20.0], [-20.0, 110.0]])
    found = chances_of_being_best(
        np.array([15.0, 0.0]), covariance, np.random.default_rng(1), samples=100_000
    )
    assert found[0] == pytest.approx(0.8340, abs=0.005)  # a normal of 15 / sqrt(240) and less


def test_whose_elo_is_zero_makes_no_difference():
    games = transitive(np.linspace(0, 100, 6), 10, np.random.default_rng(3))
    found = [
        chances_of_being_best(ratings.elo, ratings.covariance, np.random.default_rng(1), samples=50_000)
        for ratings in (bradley_terry(games), bradley_terry(games, anchor="c3"))
    ]
    assert found[0] == pytest.approx(found[1], abs=Z_95 * 2 * 0.5 / 50_000**0.5)


def test_who_is_far_ahead_is_best_and_one_alone_too():
    ratings = bradley_terry(transitive(np.array([0.0, 50.0, 600.0, 20.0]), 20, np.random.default_rng(3)))
    rng = np.random.default_rng(1)
    found = chances_of_being_best(ratings.elo, ratings.covariance, rng, samples=1000)
    assert found[2] > 0.99
    assert found.sum() == pytest.approx(1.0)
    assert chances_of_being_best(np.zeros(1), np.zeros((1, 1)), rng, samples=10).tolist() == [1.0]
