"""The `trueskill` library and what others have published: the numbers are theirs, not ours computed again."""

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from league.rules.rating.many_teams import draw_moments, win_moments
from league.rules.rating.rating import RatingBook, RatingSettings
from tests.league.rules.rating.library import Library

NEW = (25.0, 25.0 / 3.0)  # mu and sigma of a newcomer, here and there

# Of each case: where it stands, the teams' ratings, their ranks, what they become.
# A function's name: trueskilltest.py in the source archive of trueskill 0.4.5 (PyPI). The documentation:
# docs/index.rst of github.com/sublee/trueskill, "1:1 competition game" and "Complex competition game".
# The constants are the library's defaults, which are the paper's.
PUBLISHED = [
    ("documentation, rate_1vs1", [[NEW], [NEW]], [0, 1], [(29.396, 7.171), (20.604, 7.171)]),
    ("documentation, drawn=True", [[NEW], [NEW]], [0, 0], [(25.0, 6.458), (25.0, 6.458)]),
    ("documentation, t1 t2", [[NEW], [NEW] * 2], [0, 1], [(33.731, 7.317)] + [(16.269, 7.317)] * 2),
    ("test_n_vs_n, 2", [[NEW] * 2] * 2, [0, 1], [(28.108, 7.774)] * 2 + [(21.892, 7.774)] * 2),
    ("test_n_vs_n, 2 drawn", [[NEW] * 2] * 2, [0, 0], [(25.0, 7.455)] * 4),
    ("test_n_vs_n, 4", [[NEW] * 4] * 2, [0, 1], [(27.198, 8.059)] * 4 + [(22.802, 8.059)] * 4),
    ("test_1_vs_n, 2 drawn", [[NEW], [NEW] * 2], [0, 0], [(31.660, 7.138)] + [(18.340, 7.138)] * 2),
    ("test_1_vs_n, 3", [[NEW], [NEW] * 3], [0, 1], [(36.337, 7.527)] + [(13.663, 7.527)] * 3),
    ("test_1_vs_n, 7", [[NEW], [NEW] * 7], [0, 1], [(40.582, 7.917)] + [(9.418, 7.917)] * 7),
    (
        "test_unsorted_groups",
        [[NEW], [NEW], [NEW]],
        [2, 1, 0],
        [(18.325, 6.656), (25.000, 6.208), (31.675, 6.656)],
    ),
    (
        "test_individual, 3 drawn",
        [[NEW], [NEW], [NEW]],
        [0, 0, 0],
        [(25.000, 5.698), (25.000, 5.695), (25.000, 5.698)],
    ),
    (
        "test_individual, 4",
        [[NEW]] * 4,
        [0, 1, 2, 3],
        [(33.207, 6.348), (27.401, 5.787), (22.599, 5.787), (16.793, 6.348)],
    ),
    (
        "test_individual, 5",
        [[NEW]] * 5,
        [0, 1, 2, 3, 4],
        [(34.363, 6.136), (29.058, 5.536), (25.000, 5.420), (20.942, 5.536), (15.637, 6.136)],
    ),
    (
        "test_individual, 8 drawn",
        [[NEW]] * 8,
        [0] * 8,
        [
            *((25.0, sigma) for sigma in (4.592, 4.583, 4.576, 4.573)),
            *((25.0, sigma) for sigma in (4.573, 4.576, 4.583, 4.592)),
        ],
    ),
    (
        "test_microsoft_research_example, of the page that introduced TrueSkill",
        [[NEW]] * 8,
        [0, 1, 2, 3, 4, 5, 6, 7],
        [
            *[(36.771, 5.749), (32.242, 5.133), (29.074, 4.943), (26.322, 4.874)],
            *[(23.678, 4.874), (20.926, 4.943), (17.758, 5.133), (13.229, 5.749)],
        ],
    ),
    (
        "test_individual, 16",
        [[NEW]] * 16,
        list(range(16)),
        [
            *[(40.539, 5.276), (36.810, 4.711), (34.347, 4.524), (32.336, 4.433)],
            *[(30.550, 4.380), (28.893, 4.349), (27.310, 4.330), (25.766, 4.322)],
            *[(24.234, 4.322), (22.690, 4.330), (21.107, 4.349), (19.450, 4.380)],
            *[(17.664, 4.433), (15.653, 4.524), (13.190, 4.711), (9.461, 5.276)],
        ],
    ),
    (
        "test_multiple_teams, 2 vs 4 vs 2, tied for second",
        [[(40, 4), (45, 3)], [(20, 7), (19, 6), (30, 9), (10, 4)], [(50, 5), (30, 2)]],
        [0, 1, 1],
        [
            *[(40.877, 3.840), (45.493, 2.934)],
            *[(19.609, 6.396), (18.712, 5.625), (29.353, 7.673), (9.872, 3.891)],
            *[(48.830, 4.590), (29.813, 1.976)],
        ],
    ),
    ("test_upset, 1 drawn", [[NEW], [(50, 12.5)]], [0, 0], [(31.662, 7.137), (35.010, 7.910)]),
    (
        "test_upset, 2",
        [[(20, 8), (25, 6)], [(35, 7), (40, 5)]],
        [0, 1],
        [(29.698, 7.008), (30.455, 5.594), (27.575, 6.346), (36.211, 4.768)],
    ),
    (
        "test_upset, 3 vs 2",
        [[(28, 7), (27, 6), (26, 5)], [(30, 4), (31, 3)]],
        [0, 1],
        [(28.658, 6.770), (27.484, 5.856), (26.336, 4.917), (29.785, 3.958), (30.879, 2.983)],
    ),
    (
        "test_upset, 3 vs 2 lost",
        [[(28, 7), (27, 6), (26, 5)], [(30, 4), (31, 3)]],
        [1, 0],
        [(21.840, 6.314), (22.474, 5.575), (22.857, 4.757), (32.012, 3.877), (32.132, 2.949)],
    ),
    (
        "test_upset, 8",
        [[(10, 8)], [(15, 7)], [(20, 6)], [(25, 5)], [(30, 4)], [(35, 3)], [(40, 2)], [(45, 1)]],
        list(range(8)),
        [
            *[(35.135, 4.506), (32.585, 4.037), (31.329, 3.756), (30.984, 3.453)],
            *[(31.751, 3.064), (34.051, 2.541), (38.263, 1.849), (44.118, 0.983)],
        ],
    ),
]


def rate_as_published(teams, ranks, **settings):
    """Everyone learns, with the default drift, as in the library's default environment."""
    book = RatingBook(RatingSettings(**settings))
    for mu, sigma in (rating for team in teams for rating in team):
        book.admit(mu=mu, learns=True)
        book.variance[-1] = sigma**2
    team = np.repeat(np.arange(len(teams)), [len(members) for members in teams])
    book.rate_teams(np.arange(len(team))[None], team, np.array(ranks, dtype=np.int8)[team][None])
    return book


@pytest.mark.parametrize(("source", "teams", "ranks", "expected"), PUBLISHED, ids=[c[0] for c in PUBLISHED])
def test_published_cases_are_met(source, teams, ranks, expected):
    book = rate_as_published(teams, ranks)
    found = np.stack([book.mu, book.sigma], axis=1)
    np.testing.assert_allclose(found, np.array(expected), rtol=0, atol=1e-3)


def test_published_case_of_another_draw_probability_is_met():  # test_custom_environment
    book = rate_as_published([[NEW], [NEW]], [0, 1], draw_probability=0.5)
    np.testing.assert_allclose(book.mu, [30.267, 19.733], rtol=0, atol=1e-3)
    np.testing.assert_allclose(book.sigma, [7.077, 7.077], rtol=0, atol=1e-3)


def test_published_upset_of_a_team_of_fifteen_is_rated():  # issue 3 of the library, which once divided by 0
    veterans = [(42.234, 3.728), (43.290, 3.842)]
    book = rate_as_published([veterans, [(16.667, 0.5)] * 15], [1, 0])
    assert (book.mu[:2] < [42.3, 43.3]).all()
    assert np.isfinite(book.mu).all()
    assert (book.variance > 0).all()


def random_shape(rng):
    """Teams of one to four in three to sixteen seats."""
    while True:
        sizes = rng.integers(1, rng.integers(1, 5) + 1, size=rng.integers(3, 17))
        if sizes.sum() <= 16:
            return np.repeat(np.arange(len(sizes)), sizes)


def furthest_from_the_library(tables, seed):
    """Rate random tables, 20 of a shape at once, with nobody twice; the results are drawn without a look at
    the ratings, so most are upsets. Return the largest difference of a mu or sigma from the library's."""
    rng, library, furthest = np.random.default_rng(seed), Library(), 0.0
    for number in range(tables // 20):
        team = random_shape(rng)
        seats, spread = len(team), (0.0, 5.0, 20.0, 60.0)[number % 4]
        book = RatingBook(RatingSettings(tau=0.0))
        for mu in rng.normal(25.0, spread, size=20 * seats):
            book.admit(mu=mu, learns=True)
        book.variance[:] = rng.uniform(0.3, 25 / 3, size=20 * seats) ** 2
        ranks = rng.integers((1, 3, 100)[number % 3], size=(20, team[-1] + 1)).astype(np.int8)
        seated, mu, sigma = np.arange(20 * seats).reshape(20, seats), book.mu.copy(), book.sigma
        book.rate_teams(seated, team, ranks[:, team])
        for row, order in zip(seated, ranks.tolist(), strict=True):
            expected = library.rate(mu[row], sigma[row], team, order)
            furthest = max(furthest, np.abs(np.stack([book.mu, book.sigma])[:, row] - expected).max())
    return furthest


def test_tables_of_random_teams_ties_upsets_and_gaps_are_rated_as_by_the_library():
    assert furthest_from_the_library(80, seed=1) < 1e-6


@pytest.mark.slow
def test_a_thousand_random_tables_are_rated_as_by_the_library():
    assert furthest_from_the_library(1000, seed=0) < 1e-6


@settings(deadline=None, max_examples=40)
@given(st.floats(-200.0, 30.0))
def test_moments_of_a_win_are_those_of_the_normal_distribution(x):
    v, left = win_moments(np.array([x]), np.zeros(1))
    with mpmath.workdps(60):
        exact = mpmath.npdf(x) / mpmath.ncdf(x)
        assert v[0] == pytest.approx(float(exact), rel=1e-10, abs=1e-100)
        assert left[0] == pytest.approx(float(1 - exact * (exact + x)), rel=1e-7)


@settings(deadline=None, max_examples=40)
@given(st.floats(-60.0, 60.0), st.floats(1e-3, 30.0))
def test_moments_of_a_draw_are_those_of_the_normal_distribution(gap, margin):
    v, left = draw_moments(np.array([gap]), np.array([margin]))
    with mpmath.workdps(60):
        a, b = margin - mpmath.mpf(abs(gap)), -margin - mpmath.mpf(abs(gap))
        inside = mpmath.ncdf(a) - mpmath.ncdf(b)
        exact = (mpmath.npdf(b) - mpmath.npdf(a)) / inside
        rest = 1 - exact**2 - (a * mpmath.npdf(a) - b * mpmath.npdf(b)) / inside
    assert abs(v[0]) == pytest.approx(abs(float(exact)), rel=1e-8, abs=1e-12)
    assert v[0] * gap <= 0.0  # the two are moved together
    assert left[0] == pytest.approx(float(rest), rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("gap", [600.0, 10_000.0, 1e8])
@pytest.mark.parametrize("ranks", [[0, 1, 2], [0, 0, 1], [1, 0, 0], [0, 0, 0], [2, 1, 0]])
def test_three_teams_over_a_huge_gap_are_rated(ranks, gap):
    book = rate_as_published([[(0, 1)] * 2, [(gap, 1)] * 2, [(2 * gap, 1)]], ranks)
    assert np.isfinite(book.mu).all()
    assert (book.variance > 0).all()
    if ranks[0] == 0:  # the weakest were among the first
        assert (book.mu[:2] > 1.0).all()


@pytest.mark.parametrize("ranks", [[0, 1, 2], [0, 0, 1], [0, 0, 0], [1, 0, 2]])
def test_far_beyond_double_precision_the_library_in_more_of_it_gives_the_same(ranks):
    mu, team = np.array([0.0, 0.0, 500.0, 500.0, 1000.0]), np.array([0, 0, 1, 1, 2])
    book = rate_as_published([[(0, 1)] * 2, [(500, 1)] * 2, [(1000, 1)]], ranks, tau=0.0)
    expected = Library().rate(mu, np.ones(5), team, ranks)
    np.testing.assert_allclose([book.mu, book.sigma], expected, rtol=0, atol=1e-5)


def test_who_fills_a_team_is_rated_as_between_two_teams_with_the_third_out_of_sight():
    """Two teams have an exact solution; a third that nobody doubts to be last must change nothing."""
    three, two = (RatingBook(RatingSettings(tau=0.0)) for _ in range(2))
    for mu, sigma in [(27.0, 5.0), (29.0, 3.0), (24.0, 7.0), (-40.0, 0.01)]:
        three.admit(mu=mu, learns=True)
        three.variance[-1] = sigma**2
        two.admit(mu=mu, learns=True)
        two.variance[-1] = sigma**2
    three.rate_teams(
        np.array([[0, 0, 0, 1, 1, 2, 3]]), np.array([0, 0, 0, 1, 1, 1, 2]), np.array([[1, 1, 1, 0, 0, 0, 2]])
    )
    two.rate_teams(
        np.array([[0, 0, 0, 1, 1, 2]]), np.array([0, 0, 0, 1, 1, 1]), np.array([[1, 1, 1, 0, 0, 0]])
    )
    np.testing.assert_allclose(three.mu[:3], two.mu[:3], rtol=0, atol=1e-7)
    np.testing.assert_allclose(three.sigma[:3], two.sigma[:3], rtol=0, atol=1e-7)
    assert three.games.tolist() == [1, 1, 1, 1]


def test_who_sits_in_two_of_three_teams_takes_the_mean():
    book = RatingBook(RatingSettings())
    for _ in range(3):
        book.admit(learns=True)
    rated = book.rate_teams(
        np.array([[0, 0, 1, 1, 0, 2]]), np.array([0, 0, 1, 1, 2, 2]), np.array([[0, 0, 1, 1, 2, 2]])
    )
    assert rated.tolist() == [0, 1, 2]
    assert book.games.tolist() == [1, 1, 1]
    assert book.mu[2] < book.mu[1]
    assert book.mu[2] < book.mu[0]


def test_of_three_teams_of_one_and_the_same_nobody_is_rated():
    book = RatingBook(RatingSettings(draw_probability=0.0))
    book.admit(learns=True)
    assert book.rate_teams(np.zeros((2, 3), int), np.arange(3), np.zeros((2, 3), np.int8)).tolist() == []
    assert book.games.tolist() == [0]
