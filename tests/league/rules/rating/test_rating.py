import math

import mpmath
import numpy as np
import pytest
import scipy.stats
import trueskill
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from league.rules.rating.rating import RatingBook, RatingSettings
from storage.records import Outcome
from tests.parameters import mostly_long

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


def free_for_all(book, seated, rank):
    return book.rate_teams(seated, np.arange(seated.shape[1]), rank)


def play(book, *games):
    home, away, outcome = zip(*games, strict=True)
    return book.rate_pairs(np.array(home), np.array(away), np.array(outcome, dtype=np.int8))


def normal_cdf(z):
    return scipy.stats.norm.cdf(z)


ratings = st.tuples(st.floats(0.0, 50.0), st.floats(0.3, 10.0))


@pytest.mark.slow
@settings(deadline=None)
@given(ratings, ratings, st.sampled_from([WIN, DRAW, LOSS]))
def test_closed_form_equals_the_library(home, away, outcome):
    book = book_of(home, away, tau=0.0)
    play(book, (0, 1, outcome))
    ranks = {WIN: [0, 1], DRAW: [0, 0], LOSS: [1, 0]}[outcome]
    ((h,), (a,)) = LIBRARY.rate([(trueskill.Rating(*home),), (trueskill.Rating(*away),)], ranks=ranks)
    np.testing.assert_allclose(book.mu, [h.mu, a.mu], rtol=0, atol=1e-9)
    np.testing.assert_allclose(book.sigma, [h.sigma, a.sigma], rtol=0, atol=1e-9)


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
        free_for_all(book, np.array([[0, 1, 0]]), np.array([[0, 1, 1]]))
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


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_free_for_all_with_a_tie_is_rated_as_the_library_does(share):
    book = book_of((25.0, 8.0), (28.0, 4.0), (22.0, 6.0), tau=0.0, draw_probability=share)
    free_for_all(book, np.array([[0, 1, 2]]), np.array([[0, 1, 1]], dtype=np.int8))
    groups = [(trueskill.Rating(m, s),) for m, s in [(25.0, 8.0), (28.0, 4.0), (22.0, 6.0)]]
    library = trueskill.TrueSkill(beta=25.0 / 6, tau=0.0, draw_probability=share, backend="scipy")
    rated = library.rate(groups, ranks=[0, 1, 1])
    np.testing.assert_allclose(book.mu, [r.mu for (r,) in rated], rtol=0, atol=1e-6)
    np.testing.assert_allclose(book.sigma, [r.sigma for (r,) in rated], rtol=0, atol=1e-6)


def test_in_a_free_for_all_a_competitor_of_two_seats_counts_once():
    book = book_of((25.0, 8.0), (25.0, 8.0))
    played = free_for_all(book, np.array([[0, 0, 1], [1, 1, 1]]), np.array([[0, 2, 1], [0, 1, 2]], np.int8))
    assert played.tolist() == [0, 1]
    assert book.games.tolist() == [1, 1]
    assert book.mu[0] == pytest.approx(book.mu[1], abs=1e-3)  # first and last: no better than second


def test_in_a_free_for_all_of_two_the_closed_form_is_used():
    ranked, paired = book_of((25.0, 8.0), (28.0, 4.0)), book_of((25.0, 8.0), (28.0, 4.0))
    free_for_all(ranked, np.array([[0, 1]] * 3), np.array([[0, 1], [1, 0], [0, 0]], np.int8))
    play(paired, (0, 1, WIN), (0, 1, LOSS), (0, 1, DRAW))
    np.testing.assert_allclose(ranked.mu, paired.mu, rtol=1e-14)
    np.testing.assert_allclose(ranked.variance, paired.variance, rtol=1e-14)


def random_teams(rng, pool, sizes, matches):
    """Matches without anyone twice, and a rank for each team."""
    seated = np.stack([rng.permutation(pool)[: sum(sizes)] for _ in range(matches)])
    team = np.repeat(np.arange(len(sizes)), sizes)
    return seated, team, rng.integers(len(sizes), size=(matches, len(sizes))).astype(np.int8)[:, team]


@pytest.mark.parametrize("sizes", [(2, 2), (1, 3), (4, 4), (3, 1), (2, 1, 3)])
def test_teams_are_rated_as_the_library_does_match_after_match(sizes):
    rng = np.random.default_rng(len(sizes) + sizes[0])
    start = list(zip(rng.normal(25.0, 6.0, 9), rng.uniform(1.0, 8.0, 9), strict=True))
    book, pool = book_of(*start, tau=0.0), [trueskill.Rating(*rating) for rating in start]
    seated, team, rank = random_teams(rng, 9, sizes, 20)
    book.rate_teams(seated, team, rank)
    for row, ranks in zip(seated, rank, strict=True):
        groups = [tuple(pool[k] for k in row[team == t]) for t in range(len(sizes))]
        order = [int(ranks[team == t][0]) for t in range(len(sizes))]
        rated = LIBRARY.rate(groups, ranks=order)
        for k, rating in zip(row, (rating for group in rated for rating in group), strict=True):
            pool[k] = rating
    near = 1e-9 if len(sizes) == 2 else 1e-6  # more than two: the library stops early
    np.testing.assert_allclose(book.mu, [r.mu for r in pool], rtol=0, atol=near)
    np.testing.assert_allclose(book.sigma, [r.sigma for r in pool], rtol=0, atol=near)


def test_seats_may_be_dealt_to_teams_in_any_order():
    start = [(25.0, 8.0), (28.0, 4.0), (22.0, 6.0), (30.0, 3.0)]
    apart, mixed = book_of(*start), book_of(*start)
    apart.rate_teams(np.array([[0, 1, 2, 3]]), np.array([0, 0, 1, 1]), np.array([[1, 1, 0, 0]], np.int8))
    mixed.rate_teams(np.array([[2, 0, 3, 1]]), np.array([7, 5, 7, 5]), np.array([[0, 1, 0, 1]], np.int8))
    np.testing.assert_allclose(apart.mu, mixed.mu, rtol=1e-14)
    np.testing.assert_allclose(apart.variance, mixed.variance, rtol=1e-14)


@pytest.mark.slow
def test_who_fills_two_seats_of_a_team_is_one_skill():
    """Against the posterior itself, integrated over both skills on a grid."""
    book = book_of((27.0, 5.0), (60.0, 7.0), tau=0.0)
    played = book.rate_teams(np.array([[0, 0, 1]]), np.array([0, 0, 1]), np.array([[0, 0, 1]], np.int8))
    one, other = np.linspace(-13.0, 67.0, 1601), np.linspace(4.0, 116.0, 1601)
    z = (2 * one[:, None] - other - book.draw_margin(3)) / (math.sqrt(3) * book.settings.beta)
    density = np.exp(-0.5 * (((one - 27) / 5) ** 2)[:, None] - 0.5 * ((other - 60) / 7) ** 2) * normal_cdf(z)
    density /= density.sum()
    for k, (skill, marginal) in enumerate([(one, density.sum(axis=1)), (other, density.sum(axis=0))]):
        mean = float(marginal @ skill)
        assert book.mu[k] == pytest.approx(mean, abs=1e-6)
        assert book.variance[k] == pytest.approx(float(marginal @ (skill - mean) ** 2), abs=1e-5)
    assert played.tolist() == [0, 1]
    assert book.games.tolist() == [1, 1]


def test_who_sits_on_both_sides_learns_nothing_from_it():
    book = book_of((25.0, 8.0), (25.0, 8.0), (25.0, 8.0))
    teams, first_won = np.array([0, 0, 1, 1]), np.array([[0, 0, 1, 1]], np.int8)
    assert book.rate_teams(np.array([[0, 1, 0, 2]]), teams, first_won).tolist() == [1, 2]
    assert (book.mu[0], book.sigma[0]) == (25.0, 8.0)
    assert book.games.tolist() == [0, 1, 1]
    assert book.mu[1] > 25.0 > book.mu[2]
    assert book.rate_teams(np.array([[0, 1, 1, 0]]), teams, first_won).tolist() == []


@pytest.mark.parametrize("gap", [600.0, 1e8])
@pytest.mark.parametrize("rank", [[0, 0, 1, 1], [0, 0, 0, 0], [1, 1, 0, 0]])
def test_teams_over_a_huge_gap_are_rated(rank, gap):
    book = book_of((0.0, 1.0), (0.0, 1.0), (gap, 1.0), (gap, 1.0))
    book.rate_teams(np.arange(4)[None], np.array([0, 0, 1, 1]), np.array([rank], np.int8))
    assert np.isfinite(book.mu).all()
    assert (book.variance > 0).all()
    if rank == [0, 0, 1, 1]:
        assert (book.mu[:2] > 10.0).all()
        assert (book.mu[2:] < gap - 10.0).all()


def test_in_a_team_fixed_ratings_stay_and_placement_ends():
    book = book_of((25.0, 8.0), (25.0, 8.0), learns=False, placement_games=2)
    book.admit(learns=True)
    book.admit(learns=False, anchor=True)
    for _ in range(3):
        book.rate_teams(np.array([[0, 2, 1, 3]]), np.array([0, 0, 1, 1]), np.array([[0, 0, 1, 1]], np.int8))
    placed = book_of((25.0, 8.0), (25.0, 8.0), learns=False, placement_games=2)
    placed.admit(learns=True)
    placed.admit(learns=False, anchor=True)
    for _ in range(2):
        placed.rate_teams(np.array([[0, 2, 1, 3]]), np.array([0, 0, 1, 1]), np.array([[0, 0, 1, 1]], np.int8))
    assert book.fixed.tolist() == [True, True, False, True]
    assert book.mu[[0, 1, 3]].tolist() == placed.mu[[0, 1, 3]].tolist()
    assert book.mu[2] > placed.mu[2]


def test_ranks_that_differ_within_a_team_are_refused():
    book = book_of((25.0, 8.0), (25.0, 8.0), (25.0, 8.0))
    with pytest.raises(ValueError, match=r"ranked \[0, 1, 2\] with teams \[0, 0, 1\], expected one rank"):
        book.rate_teams(np.array([[0, 1, 2]]), np.array([0, 0, 1]), np.array([[0, 1, 2]], np.int8))
    assert book.games.tolist() == [0, 0, 0]


# The library's own erfc is good to 1e-7 only; what that adds up to in 300 games is its error, not ours.
@pytest.mark.slow
@pytest.mark.parametrize(("backend", "near"), [("scipy", 1e-9), (None, 1e-5)])
@pytest.mark.parametrize("pool", mostly_long(range(5), 2, variant=True))
def test_a_batch_equals_the_library_game_after_game_over_random_pools(pool, backend, near):
    """Learners that drift, snapshots that are placed and then fixed, an anchor."""
    rng = np.random.default_rng(pool)
    book = RatingBook(RatingSettings(draw_probability=0.2, placement_games=25))
    for k in range(12):
        book.admit(mu=rng.normal(25.0, 6.0), learns=k % 3 == 0, anchor=k == 1)
    library = trueskill.TrueSkill(
        mu=25.0, sigma=25 / 3, beta=25 / 6, tau=0.0, draw_probability=0.2, backend=backend
    )
    oracle = [trueskill.Rating(m, s) for m, s in zip(book.mu.tolist(), book.sigma.tolist(), strict=True)]
    games = [0] * 12
    home = rng.integers(12, size=300)
    away = (home + rng.integers(1, 12, size=300)) % 12
    outcome = rng.integers(3, size=300)
    for h, a, result in zip(home.tolist(), away.tolist(), outcome.tolist(), strict=True):
        drifted = [
            trueskill.Rating(oracle[k].mu, math.hypot(oracle[k].sigma, 25 / 300 if k % 3 == 0 else 0.0))
            for k in (h, a)
        ]
        ranks = {WIN: [0, 1], DRAW: [0, 0], LOSS: [1, 0]}[result]
        rated = library.rate([(drifted[0],), (drifted[1],)], ranks=ranks)
        for k, (rating,) in zip((h, a), rated, strict=True):
            if k != 1 and (k % 3 == 0 or games[k] < 25):
                oracle[k] = rating
            games[k] += 1
    for start in range(0, 300, 100):  # in three batches
        batch = slice(start, start + 100)
        book.rate_pairs(home[batch], away[batch], outcome[batch].astype(np.int8))
    np.testing.assert_allclose(book.mu, [r.mu for r in oracle], rtol=0, atol=near)
    np.testing.assert_allclose(book.sigma, [r.sigma for r in oracle], rtol=0, atol=near)
    assert book.games.tolist() == games
    assert book.fixed.any()
    assert not book.fixed.all()


def test_more_updates_make_a_learner_less_certain_up_to_a_newcomer():
    book = book_of((25.0, 2.0), update_drift=0.1)
    book.widen(0, 0)
    assert book.sigma[0] == 2.0
    book.widen(0, 500)
    assert book.sigma[0] == pytest.approx(math.sqrt(4.0 + 500 * 0.01))
    book.widen(0, 10**9)
    assert book.sigma[0] == pytest.approx(25 / 3)
    with pytest.raises(ValueError, match="-1 updates, expected 0 or more"):
        book.widen(0, -1)


@pytest.mark.parametrize("share", [1.0, -0.1, float("nan"), "often", None])
def test_a_draw_probability_that_is_none_is_refused_in_one_sentence(share):
    with pytest.raises(ValidationError) as error:
        RatingSettings(draw_probability=share)
    (only,) = error.value.errors()
    assert only["loc"] == ("draw_probability",)
    assert "expected a share of at least 0 and below 1, or 'estimated'" in only["msg"]


def test_a_draw_probability_is_no_truth_value():
    with pytest.raises(ValidationError, match="draw_probability: found True, expected a number"):
        RatingSettings(draw_probability=True)


def test_an_estimated_draw_probability_is_settings_like_any_other():
    settings = RatingSettings(draw_probability="estimated")
    assert RatingSettings.model_validate(settings.model_dump(mode="json")) == settings
    schema = RatingSettings.model_json_schema()["properties"]["draw_probability"]
    assert {"type": "number"} in schema["anyOf"]
    assert RatingBook(settings).draw_probability == 0.1  # until there are games to tell


def estimating(n=8):
    book = RatingBook(RatingSettings(draw_probability="estimated", placement_games=100))
    for k in range(n):
        book.admit(mu=20.0 + k, learns=k % 2 == 0)
    return book


def test_estimates_do_not_depend_on_how_games_come_in_batches():
    rng = np.random.default_rng(5)
    home = rng.integers(8, size=1500)
    away = (home + rng.integers(1, 8, size=1500)) % 8
    outcome = rng.choice(3, p=[0.25, 0.5, 0.25], size=1500).astype(np.int8)
    together, apart = estimating(), estimating()
    together.rate_pairs(home, away, outcome)
    start = 0
    while start < 1500:
        stop = start + int(rng.integers(1, 300))
        apart.rate_pairs(home[start:stop], away[start:stop], outcome[start:stop])
        start = stop
    assert together.draw_probability == apart.draw_probability > 0.3
    assert together.mu.tobytes() == apart.mu.tobytes()
    assert together.variance.tobytes() == apart.variance.tobytes()
    assert together.draw_margin() > estimating().draw_margin()


@pytest.mark.slow
@pytest.mark.parametrize("team", [[0, 0, 1, 1], [0, 1, 2, 3]])
def test_ties_of_teams_and_free_for_alls_are_estimated_too(team):
    rng = np.random.default_rng(6)
    seated = np.stack([rng.permutation(8)[:4] for _ in range(300)])
    decided = rng.random(300) < 0.3
    rank = np.where(decided[:, None], np.array(team), 0).astype(np.int8)
    together, apart = estimating(), estimating()
    together.rate_teams(seated, np.array(team), rank)
    for start in range(0, 300, 60):
        part = slice(start, start + 60)
        apart.rate_teams(seated[part], np.array(team), rank[part])
    assert together.draw_probability == apart.draw_probability > 0.5
    np.testing.assert_allclose(together.mu, apart.mu, rtol=0, atol=1e-7)


@pytest.mark.parametrize("share", [0.05, 0.3, 0.7])
def test_the_draw_share_of_simulated_players_is_found_while_they_are_rated(share):
    rng = np.random.default_rng(7)
    book, skill = estimating(30), rng.normal(25.0, 8.0, 30)
    home = rng.integers(30, size=20_000)
    away = (home + rng.integers(1, 30, size=20_000)) % 30
    ahead = skill[home] - skill[away] + rng.normal(0.0, math.sqrt(2) * book.settings.beta, 20_000)
    margin = book_of(draw_probability=share).draw_margin()
    outcome = np.select([np.abs(ahead) < margin, ahead > 0], [DRAW, WIN], LOSS).astype(np.int8)
    book.rate_pairs(home, away, outcome)
    assert book.draw_probability == pytest.approx(share, abs=0.04)
    assert (outcome == DRAW).mean() < 0.75 * share  # what plain counting would say
