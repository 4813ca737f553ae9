"""Predictions against simulated matches: skills drawn, performances drawn, the best one wins."""

import numpy as np
import pytest
import scipy.stats

from league.rules.rating.prediction import draw_probability, erf, expected_score, match_quality
from league.rules.rating.rating import RatingBook, RatingSettings
from tests.league.rules.rating.team_score import team_score

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
    predicted = team_score(book, np.array([home]), np.array([away]))
    played = performances(book, home + away, np.random.default_rng(0))
    ahead = played[:, : len(home)].sum(axis=1) - played[:, len(home) :].sum(axis=1)
    margin = book.draw_margin(len(home + away))
    score = (ahead > margin).mean() + 0.5 * (np.abs(ahead) <= margin).mean()
    assert predicted[0] == pytest.approx(score, abs=CLOSE)


def test_teams_of_one_are_pairs_and_sides_are_symmetric(book):
    home, away = np.array([[0], [5], [2]]), np.array([[1], [3], [2]])
    pairs = book.win_probability(home[:2, 0], away[:2, 0])
    np.testing.assert_allclose(team_score(book, home, away)[:2], pairs, rtol=1e-14)
    assert team_score(book, home, away)[2] == 0.5  # against itself
    forward = team_score(book, np.array([[0, 2]]), np.array([[1, 3, 4]]))
    backward = team_score(book, np.array([[1, 3, 4]]), np.array([[0, 2]]))
    np.testing.assert_allclose(forward, 1.0 - backward, rtol=1e-14)


def test_erf_keeps_the_shape():
    z = np.linspace(-6.0, 6.0, 24).reshape(2, 3, 4)
    np.testing.assert_allclose(0.5 + 0.5 * erf(z), scipy.stats.norm.cdf(z), rtol=1e-12, atol=1e-16)
    assert erf(np.float64(0.0)).shape == ()


def test_an_even_match_of_known_equals_has_quality_one_and_a_gap_or_doubt_lowers_it():
    beta = 25 / 6
    even = np.sqrt(2.0) * beta
    assert match_quality(0.0, even, beta) == pytest.approx(1.0)
    unsure = np.sqrt(2.0 * beta**2 + 2.0 * (25 / 3) ** 2)
    assert match_quality(0.0, unsure, beta) == pytest.approx(0.447, abs=5e-4)  # two newcomers
    assert match_quality(20.0, even, beta) < 0.1


def test_win_draw_and_loss_make_one():
    gap, c, margin = np.array(3.0), np.array(7.0), 1.5
    drawn = draw_probability(gap, c, margin)
    won = expected_score(gap, c, margin) - drawn / 2
    lost = expected_score(-gap, c, margin) - drawn / 2
    assert won + drawn + lost == pytest.approx(1.0)
    assert 0.0 < drawn < 0.2
