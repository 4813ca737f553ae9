"""Predictions against simulated matches: skills drawn, performances drawn, the best one wins."""

import math
from statistics import NormalDist

import numpy as np
import pytest
import scipy.stats
import trueskill

from league.rules.rating.prediction import FIRST_GAMES, DrawRecord, erf
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


@pytest.mark.parametrize(
    "teams", [[0, 1], [0, 1, 2], [0, 1, 2, 3, 4, 5], [0, 0, 1], [0, 1, 0, 2, 2, 1], [7, 7, 3, 3]], ids=str
)
def test_the_quality_of_a_match_is_the_librarys(book, teams):
    seated = np.random.default_rng(0).permuted(np.tile(np.arange(6), (4, 1)), axis=1)[:, : len(teams)]
    library = trueskill.TrueSkill(beta=book.settings.beta)
    expected = [
        library.quality(
            [
                [
                    trueskill.Rating(book.mu[k], book.sigma[k])
                    for k, t in zip(match, teams, strict=True)
                    if t == team
                ]
                for team in dict.fromkeys(teams)
            ]
        )
        for match in seated.tolist()
    ]
    np.testing.assert_allclose(book.match_quality(seated, teams), expected, rtol=1e-9)


def test_seats_that_are_no_match_of_teams_have_no_quality(book):
    for seated, teams in (
        ([[0, 1]], [0, 0]),
        ([[0, 1]], [0, 1, 2]),
        ([0, 1], [0, 1]),
        (np.zeros((0, 0)), []),
    ):
        with pytest.raises(ValueError, match="of two teams or more"):
            book.match_quality(seated, teams)


def test_erf_keeps_the_shape():
    z = np.linspace(-6.0, 6.0, 24).reshape(2, 3, 4)
    np.testing.assert_allclose(0.5 + 0.5 * erf(z), scipy.stats.norm.cdf(z), rtol=1e-12, atol=1e-16)
    assert erf(np.float64(0.0)).shape == ()


def simulated(share, games, rng, spread=1.5):
    """Games of sides of very different strength, whose performances differ by less than the margin in
    some of them: gap and scale as `DrawRecord.add` takes them, drawn."""
    scale = rng.uniform(0.45, 1.0, games)
    gap = rng.normal(0.0, spread, games)
    margin = NormalDist().inv_cdf((share + 1) / 2) * scale
    return gap, scale, np.abs(gap + rng.standard_normal(games)) < margin


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.8])
def test_the_share_between_equals_is_found_among_games_of_unequals(share):
    gap, scale, drawn = simulated(share, 40_000, np.random.default_rng(1))
    record = DrawRecord()
    record.add(gap, scale, drawn)
    assert record.estimate() == pytest.approx(share, abs=0.02)
    assert drawn.mean() < 0.7 * share  # what plain counting would say


def test_before_there_are_games_the_estimate_is_the_prior():
    assert DrawRecord().estimate() == pytest.approx(0.1)


def test_an_estimate_is_never_certain():
    never, always = DrawRecord(), DrawRecord()
    games = np.zeros(100_000)
    never.add(games, games + 0.7, games > 1)
    always.add(games + 20.0, games + 0.7, games < 1)  # even of games that no margin explains
    assert 0.0 < never.estimate() < 1e-3
    assert 0.99 < always.estimate() < 1.0
    assert math.isfinite(always.estimate())


def test_estimates_are_due_when_the_games_have_doubled():
    record = DrawRecord()
    due = [game for game in range(1, 5 * FIRST_GAMES) if record.passed(1)]
    assert due == [FIRST_GAMES, 2 * FIRST_GAMES, 4 * FIRST_GAMES]
    assert record.room == 8 * FIRST_GAMES - record.games
