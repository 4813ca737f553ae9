import logging
import math

import mpmath
import numpy as np
import pytest
import trueskill
from hypothesis import given, settings
from hypothesis import strategies as st

from league.rules.rating import RatingBook, RatingSettings, moments_draw, moments_win
from storage.records import Outcome

WIN, DRAW, LOSS, _ = Outcome
LIBRARY = trueskill.TrueSkill(
    mu=25.0, sigma=25.0 / 3, beta=25.0 / 6, tau=0.0, draw_probability=0.1, backend="scipy"
)


def book_of(*ratings, learns=True, **settings):
    """Competitors of these (mu, sigma)."""
    book = RatingBook(RatingSettings(**settings))
    for mu, sigma in ratings:
        book.admit(mu=mu, learns=learns)
        book.variance[-1] = sigma**2
    return book


def play(book, *games):
    home, away, outcome = zip(*games, strict=True)
    return book.rate_pairs(np.array(home), np.array(away), np.array(outcome, dtype=np.int8))


ratings = st.tuples(st.floats(0.0, 50.0), st.floats(0.3, 10.0))


@settings(deadline=None)
@given(ratings, ratings, st.sampled_from([WIN, DRAW, LOSS]))
def test_closed_form_equals_the_library(home, away, outcome):
    book = book_of(home, away, tau=0.0)
    play(book, (0, 1, outcome))
    ranks = {WIN: [0, 1], DRAW: [0, 0], LOSS: [1, 0]}[outcome]
    ((h,), (a,)) = LIBRARY.rate([(trueskill.Rating(*home),), (trueskill.Rating(*away),)], ranks=ranks)
    np.testing.assert_allclose(book.mu, [h.mu, a.mu], rtol=0, atol=1e-9)
    np.testing.assert_allclose(book.sigma, [h.sigma, a.sigma], rtol=0, atol=1e-9)


def test_drift_is_added_before_the_game_as_the_library_does():
    book = book_of((25.0, 2.0), (27.0, 1.0))
    play(book, (0, 1, WIN))
    library = trueskill.TrueSkill(
        mu=25.0, sigma=25 / 3, beta=25 / 6, tau=25 / 300, draw_probability=0.1, backend="scipy"
    )
    h, a = trueskill.rate_1vs1(
        library.create_rating(25.0, 2.0), library.create_rating(27.0, 1.0), env=library
    )
    np.testing.assert_allclose(book.mu, [h.mu, a.mu], atol=1e-9)
    np.testing.assert_allclose(book.sigma, [h.sigma, a.sigma], atol=1e-9)


@settings(deadline=None)
@given(st.floats(-200.0, 8.0))
def test_moments_of_a_win_are_exact_far_into_the_tail(x):
    with mpmath.workdps(60):
        v = mpmath.npdf(x) / mpmath.ncdf(x)
        w = v * (v + x)
        assert moments_win(x) == pytest.approx((float(v), float(w)), rel=1e-9, abs=1e-12)


@settings(deadline=None)
@given(st.floats(-200.0, 200.0), st.floats(0.005, 1.0))
def test_moments_of_a_draw_are_exact_far_into_the_tail(gap, margin):
    with mpmath.workdps(60):
        a, b = margin - mpmath.mpf(abs(gap)), -margin - mpmath.mpf(abs(gap))
        inside = mpmath.ncdf(a) - mpmath.ncdf(b)
        v = (mpmath.npdf(b) - mpmath.npdf(a)) / inside
        w = v**2 + (a * mpmath.npdf(a) - b * mpmath.npdf(b)) / inside
    found_v, found_w = moments_draw(gap, margin)
    assert found_v == pytest.approx(math.copysign(1.0, gap) * float(v), rel=1e-9, abs=1e-9)
    assert found_w == pytest.approx(float(w), abs=1e-6 if abs(gap) > 20 else 1e-8)


@pytest.mark.parametrize("gap", [600.0, 1e8])
@pytest.mark.parametrize("outcome", [WIN, DRAW, LOSS])
def test_a_huge_gap_is_rated(outcome, gap):
    book = book_of((0.0, 1.0), (gap, 1.0))
    play(book, (0, 1, outcome))
    assert np.isfinite(book.mu).all()
    assert (book.variance > 0).all()
    if outcome == WIN:
        assert book.mu[0] > 10.0
        assert book.mu[1] < gap - 10.0


def test_a_draw_between_equals_moves_no_mean():
    book = book_of((25.0, 5.0), (25.0, 5.0))
    play(book, (0, 1, DRAW))
    assert book.mu.tolist() == [25.0, 25.0]
    assert (book.sigma < 5.0).all()


def test_a_nearly_impossible_draw_is_still_finite():
    book = book_of((25.0, 5.0), (30.0, 5.0), draw_probability=1e-12)
    play(book, (0, 1, DRAW))
    assert 25.0 < book.mu[0] <= book.mu[1] < 30.0


def test_games_of_a_batch_are_rated_in_their_order():
    rng = np.random.default_rng(0)
    start = [(25.0, 8.0)] * 5
    games = [(h, (h + d) % 5, o) for h, d, o in rng.integers([0, 1, 0], [5, 5, 3], size=(200, 3))]
    together, apart = book_of(*start), book_of(*start)
    play(together, *games)
    for game in games:
        play(apart, game)
    assert together.mu.tobytes() == apart.mu.tobytes()
    assert together.variance.tobytes() == apart.variance.tobytes()


def test_a_snapshot_is_fixed_once_placed_and_a_learner_never():
    book = book_of((25.0, 8.0), learns=False, placement_games=3)
    book.admit(learns=True)
    play(book, *[(0, 1, WIN)] * 3)
    placed, learner = book.mu[0], book.mu[1]
    assert book.fixed.tolist() == [True, False]
    play(book, *[(0, 1, LOSS)] * 20)
    assert book.mu[0] == placed
    assert book.mu[1] > learner
    assert book.games.tolist() == [23, 23]


def test_the_anchor_never_moves():
    book = RatingBook(RatingSettings(anchor_sigma=0.5))
    book.admit(learns=False, anchor=True)
    book.admit(learns=True)
    play(book, *[(1, 0, WIN)] * 10)
    assert (book.mu[0], book.sigma[0]) == (25.0, 0.5)
    assert book.mu[1] > 25.0


def test_a_snapshot_does_not_drift_and_a_learner_does():
    still, drifts = book_of((25.0, 0.1), (25.0, 0.1), learns=False), book_of((25.0, 0.1), (25.0, 0.1))
    play(still, (0, 1, WIN))
    play(drifts, (0, 1, WIN))
    assert still.sigma[0] < 0.1
    assert drifts.sigma[0] > 0.1


def test_a_draw_where_draws_cannot_happen_is_refused_and_nothing_is_rated():
    book = book_of((25.0, 8.0), (25.0, 8.0), draw_probability=0.0)
    with pytest.raises(ValueError, match=r"ratings\.draw_probability is 0.*set it"):
        play(book, (0, 1, WIN), (0, 1, DRAW))
    with pytest.raises(ValueError, match=r"ratings\.draw_probability is 0"):
        book.rate_ranked(np.array([[0, 1, 0]]), np.array([[0, 1, 1]]))
    assert book.games.tolist() == [0, 0]


def test_win_probability_is_symmetric_and_between_equals_a_half():
    book = book_of((25.0, 8.0), (30.0, 2.0), (25.0, 8.0))
    forward = book.win_probability(0, np.array([1, 2]))
    backward = book.win_probability(np.array([1, 2]), 0)
    np.testing.assert_allclose(forward, 1.0 - backward, rtol=1e-15)
    assert forward[1] == 0.5


def test_win_probability_without_draws_is_the_normal_distribution_of_the_gap():
    book = book_of((29.0, 3.0), (25.0, 4.0), draw_probability=0.0)
    c = math.sqrt(2 * (25 / 6) ** 2 + 9 + 16)
    assert book.win_probability(0, np.array([1]))[0] == pytest.approx(float(mpmath.ncdf(4 / c)), abs=1e-12)


def test_a_free_for_all_with_a_tie_is_rated_as_the_library_does():
    book = book_of((25.0, 8.0), (28.0, 4.0), (22.0, 6.0), tau=0.0)
    book.rate_ranked(np.array([[0, 1, 2]]), np.array([[0, 1, 1]], dtype=np.int8))
    groups = [(trueskill.Rating(m, s),) for m, s in [(25.0, 8.0), (28.0, 4.0), (22.0, 6.0)]]
    rated = LIBRARY.rate(groups, ranks=[0, 1, 1])
    np.testing.assert_allclose(book.mu, [r.mu for (r,) in rated], atol=1e-4)
    np.testing.assert_allclose(book.sigma, [r.sigma for (r,) in rated], atol=1e-4)


@pytest.mark.parametrize("gap", [500.0, 10_000.0])  # beyond double precision, and beyond the library
@pytest.mark.parametrize("ranks", [[0, 1, 2], [0, 0, 1], [0, 0, 0]])
def test_a_free_for_all_over_a_huge_gap_is_rated(ranks, gap, caplog):
    book = book_of((0.0, 1.0), (gap, 1.0), (2 * gap, 1.0))
    with caplog.at_level(logging.WARNING):
        book.rate_ranked(np.array([[0, 1, 2]]), np.array([ranks], dtype=np.int8))
    assert np.isfinite(book.mu).all()
    assert (book.variance > 0).all()
    assert book.mu[0] > 1.0
    if gap == 500.0:
        assert not caplog.records  # multiple precision sufficed


def test_in_a_free_for_all_a_competitor_of_two_seats_counts_once():
    book = book_of((25.0, 8.0), (25.0, 8.0))
    played = book.rate_ranked(np.array([[0, 0, 1], [1, 1, 1]]), np.array([[0, 2, 1], [0, 1, 2]], np.int8))
    assert played.tolist() == [0, 1]
    assert book.games.tolist() == [1, 1]
    assert book.mu[0] == pytest.approx(book.mu[1], abs=1e-3)  # first and last: no better than second
