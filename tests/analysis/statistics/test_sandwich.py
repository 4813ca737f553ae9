import numpy as np
import pytest

from analysis.statistics.davidson import cells_of, fit
from analysis.statistics.sandwich import covariance_of
from tests.analysis.simulated_games import free_for_all, games_from, transitive


def errors(games, num_places=2):
    """Variances of the fit: as the pairs show them, and as games that are independent would have them."""
    cells = cells_of(games, num_places, drawn=bool((games.points == 0.5).any()))
    found = fit(cells, prior_games=0.5)
    n = len(games.competitors)
    gaps = np.eye(n) - np.eye(n)[0]
    return (
        (gaps @ matrix[:n, :n] @ gaps.T).diagonal()[1:]
        for matrix in (covariance_of(games, cells, found), np.linalg.inv(found.information))
    )


def test_games_that_are_independent_have_the_error_of_the_likelihood():
    games = transitive(np.array([0.0, 100.0, -60.0]), 2000, np.random.default_rng(1), nu=0.5, advantage=50.0)
    ours, of_games = errors(games)
    assert ours == pytest.approx(of_games, rel=0.05)  # 4,000 pairs each: their variance is right to 2 %


def test_pairs_that_are_one_result_played_twice_have_twice_the_variance():
    games = transitive(np.array([0.0, 100.0, -60.0]), 2000, np.random.default_rng(1), same_winner=1.0)
    ours, of_games = errors(games)
    assert ours == pytest.approx(2 * of_games, rel=0.06)


def test_pairs_that_always_split_leave_little_doubt():
    rng = np.random.default_rng(1)
    ours, of_games = errors(transitive(np.zeros(3), 200, rng, same_place=1.0))
    assert (ours < 0.1 * of_games).all()


def test_the_variance_of_few_pairs_is_not_too_small_on_average():
    """20 competitors of 19 opponents, once each: the sandwich as it is would lack a tenth."""
    rng, ratio = np.random.default_rng(5), []
    for _ in range(40):
        ours, of_games = errors(transitive(rng.normal(size=20) * 100, 1, rng))
        ratio.append((ours / of_games).mean())
    assert np.mean(ratio) == pytest.approx(1.0, abs=0.05)


def test_results_that_were_never_in_doubt_leave_the_doubt_of_the_model():
    """All games won: what is seen never varies, yet nobody knows how far above the winner is."""
    games = games_from(2, [0, 1] * 50, [1, 0] * 50, [1, 0] * 50, np.repeat(np.arange(50), 2))
    ours, of_games = errors(games)
    assert ours == pytest.approx(of_games, rel=0.3)


def test_comparisons_of_one_match_are_not_taken_for_independent():
    games = free_for_all(np.zeros(5), 40, np.random.default_rng(3))
    ours, of_games = errors(games, num_places=3)
    # Of three equals in random order the points of one have variance 2/3, in two free games 1/2.
    assert (ours / of_games).mean() == pytest.approx(4 / 3, rel=0.1)
