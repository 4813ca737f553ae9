"""Predictions against simulated matches: skills drawn, performances drawn, the best one wins."""

import numpy as np
import pytest
import scipy.stats

from league.rules.rating.prediction import erf, first_probability
from league.rules.rating.rating import RatingBook, RatingSettings

SAMPLES = 400_000
CLOSE = 4.5 * 0.5 / np.sqrt(SAMPLES)  # 4.5 standard errors of a share


@pytest.fixture
def book():
    book = RatingBook(RatingSettings(draw_probability=0.25))
    for mu, sigma in [(25.0, 8.0), (31.0, 2.0), (22.0, 5.0), (28.0, 1.0), (25.0, 3.0), (40.0, 6.0)]:
        book.admit(mu=mu, learns=True)
        book.variance[-1] = sigma**2
    return book


def performances(book, seated, rng):
    """SAMPLES matches of the same seats [S]: [SAMPLES, S]; who sits twice has one skill."""
    skill = rng.normal(book.mu, book.sigma, size=(SAMPLES, len(book)))
    return skill[:, seated] + rng.normal(0.0, book.settings.beta, size=(SAMPLES, len(seated)))


@pytest.mark.parametrize(
    ("home", "away"),
    [([0, 2], [1, 3]), ([0], [1, 2]), ([0, 2, 4], [5, 3]), ([0, 0], [1, 1]), ([0, 0, 2], [0, 1, 5])],
)
def test_the_expected_score_of_a_team_is_what_simulation_gives(book, home, away):
    predicted = book.team_win_probability(np.array([home]), np.array([away]))
    played = performances(book, home + away, np.random.default_rng(0))
    ahead = played[:, : len(home)].sum(axis=1) - played[:, len(home) :].sum(axis=1)
    margin = book.draw_margin(len(home + away))
    score = (ahead > margin).mean() + 0.5 * (np.abs(ahead) <= margin).mean()
    assert predicted[0] == pytest.approx(score, abs=CLOSE)


def test_teams_of_one_are_pairs_and_sides_are_symmetric(book):
    home, away = np.array([[0], [5], [2]]), np.array([[1], [3], [2]])
    pairs = book.win_probability(home[:2, 0], away[:2, 0])
    np.testing.assert_allclose(book.team_win_probability(home, away)[:2], pairs, rtol=1e-14)
    assert book.team_win_probability(home, away)[2] == 0.5  # against itself
    forward = book.team_win_probability(np.array([[0, 2]]), np.array([[1, 3, 4]]))
    backward = book.team_win_probability(np.array([[1, 3, 4]]), np.array([[0, 2]]))
    np.testing.assert_allclose(forward, 1.0 - backward, rtol=1e-14)


@pytest.mark.parametrize("seated", [[0, 1, 2], [0, 1, 2, 3, 4, 5], [5, 3]])
def test_the_probability_of_being_first_is_what_simulation_gives(book, seated):
    predicted = book.first_probability(np.array([seated]))[0]
    best = performances(book, seated, np.random.default_rng(1)).argmax(axis=1)
    np.testing.assert_allclose(
        predicted, np.bincount(best, minlength=len(seated)) / SAMPLES, rtol=0, atol=CLOSE
    )


def test_the_expected_pairwise_score_is_what_simulation_gives(book):
    seated = [0, 1, 2, 5]
    predicted = book.pairwise_scores(np.array([seated]))[0]
    played = performances(book, seated, np.random.default_rng(2))
    ahead, margin = played[:, :, None] - played[:, None, :], book.draw_margin()
    score = (ahead > margin).mean(axis=0) + 0.5 * (np.abs(ahead) <= margin).mean(axis=0)
    np.fill_diagonal(score, 0.0)
    np.testing.assert_allclose(predicted, score.sum(axis=1) / 3, rtol=0, atol=CLOSE)
    assert predicted.sum() == pytest.approx(2.0)  # half a point for each of the others


def test_of_two_the_first_is_the_normal_distribution_of_the_gap():
    rng = np.random.default_rng(3)
    mu, deviation = rng.normal(25.0, 10.0, (200, 2)), rng.uniform(0.5, 9.0, (200, 2))
    exact = scipy.stats.norm.cdf((mu[:, 0] - mu[:, 1]) / np.hypot(*deviation.T))
    np.testing.assert_allclose(first_probability(mu, deviation)[:, 0], exact, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seats", [3, 8, 16])
def test_somebody_is_first(seats):
    rng = np.random.default_rng(seats)
    first = first_probability(rng.normal(25.0, 8.0, (20, seats)), rng.uniform(4.2, 9.3, (20, seats)))
    np.testing.assert_allclose(first.sum(axis=1), 1.0, rtol=0, atol=1e-9)
    equals = first_probability(np.full((1, seats), 25.0), np.full((1, seats), 5.0))
    np.testing.assert_allclose(equals, 1.0 / seats, rtol=0, atol=1e-9)


def test_a_sharp_favourite_among_the_vague_is_not_missed():
    mu, deviation = np.array([[10.0, 0.0, 0.0]]), np.array([[0.02, 8.0, 8.0]])
    # The favourite hardly varies: it is first when both others stay below 10.
    expected = scipy.stats.norm.cdf(10.0 / 8.0) ** 2
    found = first_probability(mu, deviation)
    assert found[0, 0] == pytest.approx(expected, abs=1e-5)
    assert found.sum() == pytest.approx(1.0, abs=1e-9)


def test_a_gap_of_600_mu_is_certain():
    first = first_probability(np.array([[0.0, 600.0, 0.0]]), np.full((1, 3), 5.0))
    np.testing.assert_allclose(first, [[0.0, 1.0, 0.0]], rtol=0, atol=1e-12)


def test_erf_keeps_the_shape():
    z = np.linspace(-6.0, 6.0, 24).reshape(2, 3, 4)
    np.testing.assert_allclose(0.5 + 0.5 * erf(z), scipy.stats.norm.cdf(z), rtol=1e-12, atol=1e-16)
    assert erf(np.float64(0.0)).shape == ()
