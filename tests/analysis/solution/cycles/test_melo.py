import numpy as np
import pytest

from analysis.solution.cycles.melo import Melo, melo, melo_started, melo_updated
from analysis.solution.payoffs import Payoffs
from analysis.statistics.davidson import cells_of, fit
from tests.analysis.simulated_games import transitive

# Who beats whom: rock, paper, scissors.
BEATS = np.array([[0.5, 0.0, 1.0], [1.0, 0.5, 0.0], [0.0, 1.0, 0.5]])
# A circle of three that are not alike: Elo ranks the second first, who loses to the first.
UNEVEN = np.array([[0.5, 0.7, 0.4], [0.3, 0.5, 1.0], [0.6, 0.0, 0.5]])


def circular(n, strength, rng):
    """Log-odds of strengths and one circle."""
    theta, place = 0.5 * rng.normal(size=n), rng.normal(size=(n, 2))
    return theta[:, None] - theta + strength * (np.outer(*place.T) - np.outer(*place.T[::-1]))


def simulated(odds, games, rng):
    """Scores [N, N] of so many games of each pairing."""
    wins = rng.binomial(games, 1 / (1 + np.exp(-np.triu(odds, 1))))
    scores = np.triu(wins / games, 1)
    return scores + np.tril(1 - scores.T, -1) + 0.5 * np.eye(len(odds))


def cross_entropy(found, odds):
    """Mean surprise, in nats, at games of these log-odds."""
    above = np.triu_indices(len(odds), 1)
    true, said = 1 / (1 + np.exp(-odds[above])), found.expected()[above]
    return -np.mean(true * np.log(said) + (1 - true) * np.log(1 - said))


@pytest.fixture
def rng():
    return np.random.default_rng(6)


def test_rock_paper_scissors_is_learnt_with_one_circle_and_not_by_elo():
    np.testing.assert_allclose(melo(BEATS, 100, planes=0).expected(), 0.5, atol=1e-9)
    found = melo(BEATS, 100)
    np.testing.assert_allclose(found.expected(), BEATS, atol=0.01)
    np.testing.assert_allclose(found.ratings, 0.0, atol=1e-3)


def test_an_uneven_circle_is_foreseen():
    """Elo expects the wrong winner of two of the three pairings."""
    elo, one = melo(UNEVEN, 100, planes=0).expected(), melo(UNEVEN, 100).expected()
    assert ((elo > 0.5) != (UNEVEN > 0.5))[np.triu_indices(3, 1)].sum() == 2
    np.testing.assert_allclose(one, UNEVEN, atol=0.02)


def test_without_circles_it_is_bradley_and_terry(rng):
    games = transitive(rng.normal(size=7) * 150, 5, rng)
    payoffs = Payoffs.from_games(games)
    strength = fit(cells_of(games, 1, drawn=False), prior_games=1.0).parameters
    expected = 400 / np.log(10) * (strength - strength.mean())
    np.testing.assert_allclose(melo(payoffs.scores, payoffs.games, planes=0).ratings, expected, atol=1e-6)


def test_games_not_yet_played_are_foreseen_better_with_the_circles_that_there_are(rng):
    odds = circular(30, 1.5, rng)
    scores = simulated(odds, 20, rng)
    none, one, two = (cross_entropy(melo(scores, 20, planes=k), odds) for k in (0, 1, 2))
    least = cross_entropy(Melo(np.zeros(30), np.zeros((30, 0, 2))), odds)
    assert one < 0.85 * none
    assert none < least  # all 1/2
    assert two > one  # fits luck


def test_pairings_that_never_met_are_foreseen_from_the_rest(rng):
    odds = circular(30, 1.5, rng)
    scores = simulated(odds, 50, rng)
    unmet = rng.random((30, 30)) < 0.2
    unmet = np.triu(unmet, 1) | np.triu(unmet, 1).T
    scores[unmet] = np.nan
    true = 1 / (1 + np.exp(-odds))
    said = melo(scores, np.where(unmet, 0, 50)).expected()
    assert np.abs(said - true)[unmet].mean() < 0.06
    assert np.abs(melo(scores, 50, planes=0).expected() - true)[unmet].mean() > 0.15


def test_what_strength_can_say_is_in_the_ratings_alone(rng):
    """Of many r and c that tell the same chances, the circles are about 0 and gain nothing on average."""
    found = melo(simulated(circular(12, 1.0, rng), 40, rng), 40, planes=2)
    np.testing.assert_allclose(found.places.mean(axis=0), 0.0, atol=1e-6)
    elo = found.ratings * np.log(10) / 400
    np.testing.assert_allclose(found.log_odds().mean(axis=1), elo - elo.mean(), atol=1e-6)
    assert abs(found.ratings.mean()) < 1e-9
    weights = (found.places**2).sum(axis=(0, 2))
    assert weights[0] > weights[1]


def test_a_planted_circle_is_recovered_from_many_games(rng):
    odds = circular(12, 0.7, rng)
    np.testing.assert_allclose(melo(simulated(odds, 100_000, rng), 100_000).log_odds(), odds, atol=0.12)


def test_one_game_after_the_other_learns_the_circle_too(rng):
    home = rng.integers(0, 3, 3000)
    away = (home + rng.integers(1, 3, 3000)) % 3
    circle = melo_updated(melo_started(3, rng), home, away, BEATS[home, away])
    np.testing.assert_allclose(circle.expected(), BEATS, atol=0.02)
    elo = melo_updated(melo_started(3, rng, planes=0), home, away, BEATS[home, away])
    assert np.abs(elo.expected() - 0.5).max() < 0.2


def test_a_game_without_circles_moves_ratings_as_elo_has_it():
    """K = 16: who is 400 ahead and wins gains 16 / 11; who loses, 160 / 11."""
    before = Melo(np.array([200.0, -200.0]), np.zeros((2, 0, 2)))
    for points, gain in ((1.0, 16 / 11), (0.0, -160 / 11)):
        after = melo_updated(before, np.array([0]), np.array([1]), np.array([points]))
        np.testing.assert_allclose(after.ratings, [200 + gain, -200 - gain])


def test_nobody_played_or_fewer_planes_than_none():
    empty = melo(np.full((3, 3), np.nan), 0, planes=2)
    np.testing.assert_allclose(empty.expected(), 0.5)
    assert empty.places.shape == (3, 2, 2)
    with pytest.raises(ValueError, match="planes is -1"):
        melo(BEATS, 1, planes=-1)
