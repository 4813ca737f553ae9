"""Intervals hold what they say: fields with known chances are played and asked, again and again."""

import numpy as np
import pytest

from analysis.solution.cycles import unexplained_share
from analysis.solution.nash import max_entropy_nash
from analysis.solution.payoffs import Payoffs, with_interval
from tests.analysis.simulated_games import games_from, games_of_table, played, transitive

ABOVE = np.triu_indices(8, 1)


def chances(kind, rng):
    """[8, 8] of a win."""
    strength = rng.normal(size=8)
    odds = strength[:, None] - strength
    if kind == "circular":
        place = rng.normal(size=(8, 2))
        odds = odds / 2 + 1.5 * (np.outer(*place.T) - np.outer(*place.T[::-1]))
    return 1 / (1 + np.exp(-odds))


def fields(kind, pairs, count):
    """Of so many fields the chances [8, 8] of a win, games by them, and a generator."""
    for seed in range(count):
        rng = np.random.default_rng(seed)
        win = chances(kind, rng)
        yield win, played(8, lambda home, away, win=win: (win[home, away], 0.0), pairs, rng), rng


def scores_and_rows(matrix):
    """Of each pairing, and of each competitor against all."""
    return np.concatenate([matrix[ABOVE], matrix.sum(axis=1) / 7])


@pytest.mark.long
@pytest.mark.parametrize(("kind", "pairs"), [("transitive", 1), ("circular", 20)])
def test_intervals_of_scores_hold_the_true_ones(kind, pairs):
    held = []
    for win, games, rng in fields(kind, pairs, 60):
        found = with_interval(Payoffs.from_games(games), scores_and_rows, rng, samples=100)
        truth = scores_and_rows(2 * win - 1)
        held.append((found.low <= truth) & (truth <= found.high))
    of_pairings, of_rows = np.mean(held, axis=0)[:28].mean(), np.mean(held, axis=0)[28:].mean()
    assert 0.9 < of_pairings < 0.995
    assert 0.9 < of_rows < 0.995


@pytest.mark.long
def test_intervals_of_pairings_that_never_met_hold_the_true_score():
    held = []
    for seed in range(60):
        rng = np.random.default_rng(seed)
        win = chances("transitive", rng)
        met = rng.permutation(28)[:18]
        home, away = np.repeat(ABOVE[0][met], 6), np.repeat(ABOVE[1][met], 6)
        games = games_from(8, home, away, rng.random(len(home)) < win[home, away])
        payoffs = Payoffs.from_games(games)
        found = with_interval(payoffs, lambda matrix: matrix[ABOVE], rng, samples=100)
        truth = (2 * win - 1)[ABOVE]
        held.append(((found.low <= truth) & (truth <= found.high))[payoffs.games[ABOVE] == 0])
    assert 0.9 < np.concatenate(held).mean() < 1.0


@pytest.mark.long
def test_the_interval_of_a_nash_average_holds_who_is_dominant_and_who_is_not():
    """The first beats all others two times in three: the true equilibrium is it alone."""
    held = []
    for seed in range(30):
        rng = np.random.default_rng(seed)
        win = np.full((5, 5), 0.5)
        win[0, 1:], win[1:, 0] = 2 / 3, 1 / 3
        games = played(5, lambda home, away, win=win: (win[home, away], 0.0), 10, rng)
        found = with_interval(Payoffs.from_games(games), max_entropy_nash, rng, samples=40)
        held.append((found.high[0] > 1 - 1e-3, (found.low[1:] < 1e-3).all()))
    assert np.mean(held, axis=0).min() >= 0.9


@pytest.mark.slow
def test_luck_that_looks_circular_is_not_taken_for_a_cycle():
    """Two pairs of each pairing of a transitive field: their scores look more cyclic than they are."""
    found = []
    for rng in map(np.random.default_rng, range(20)):
        games = transitive(rng.normal(size=10) * 150, 2, rng)
        found.append(with_interval(Payoffs.from_games(games), unexplained_share, rng, samples=40))
    assert np.mean([one.value for one in found]) > 0.2
    assert np.mean([one.low for one in found]) < 0.06


@pytest.mark.long
@pytest.mark.parametrize("pairs", [1, 20])
def test_a_field_without_cycles_may_have_none_and_the_mean_is_not_fooled_by_luck(pairs):
    found = [
        with_interval(Payoffs.from_games(games), unexplained_share, rng, samples=60)
        for _, games, rng in fields("transitive", pairs, 20)
    ]
    assert np.mean([one.low == 0.0 for one in found]) >= 0.9
    assert np.mean([one.mean for one in found]) < 0.5 * np.mean([one.value for one in found])


@pytest.mark.slow
def test_of_a_field_with_cycles_the_mean_is_their_share_and_none_is_ruled_out():
    truth, found = [], []
    for win, games, rng in fields("circular", 15, 20):
        truth.append(unexplained_share(2 * win - 1))
        found.append(with_interval(Payoffs.from_games(games), unexplained_share, rng, samples=40))
    assert np.mean([one.mean for one in found]) == pytest.approx(np.mean(truth), abs=0.05)
    assert np.mean([one.low > 0.05 for one in found]) >= 0.9


def test_who_won_all_of_many_games_is_hardly_in_doubt():
    """Of a ladder in which all went one way, the field says nothing of how far pairings stray from it."""
    payoffs = Payoffs.from_games(games_of_table([(0, 1, 250, 0, 0), (1, 2, 250, 0, 0), (0, 2, 250, 0, 0)], 3))
    found = with_interval(payoffs, lambda matrix: matrix, np.random.default_rng(0))
    assert found.low[0, 1] > 0.8
    assert found.high[0, 1] == 1.0


def test_a_single_draw_does_not_mean_that_all_games_are_drawn():
    payoffs = Payoffs.from_games(games_of_table([(0, 1, 0, 1, 0)], 2))
    found = with_interval(payoffs, lambda matrix: matrix[0, 1], np.random.default_rng(0))
    assert found.high - found.low > 0.8


def test_a_single_game_leaves_doubt_and_its_winner_ahead():
    payoffs = Payoffs.from_games(games_of_table([(0, 1, 1, 0, 0)], 2))
    found = with_interval(payoffs, lambda matrix: matrix, np.random.default_rng(0))
    assert found.value[0, 1] == found.high[0, 1] == 1.0
    assert found.low[0, 1] < 0.3
    np.testing.assert_allclose(found.low, -found.high.T, atol=1e-12)


def test_four_times_the_games_halve_an_interval():
    rng, widths = np.random.default_rng(4), []
    win = chances("circular", rng)
    for pairs in (25, 100):
        games = played(8, lambda home, away: (win[home, away], 0.0), pairs, rng)
        found = with_interval(Payoffs.from_games(games), scores_and_rows, np.random.default_rng(1))
        widths.append(float(np.mean(found.high - found.low)))
    assert widths[0] / widths[1] == pytest.approx(2.0, abs=0.25)


def test_games_of_a_pair_that_share_their_luck_count_once():
    """Two games with one result are one game: counted by pairs the interval is wider by the root of two."""
    rng = np.random.default_rng(5)
    games = transitive(np.zeros(4), 60, rng, same_winner=1.0)
    alone = games_from(4, games.home, games.away, games.points)
    widths = [
        float(np.mean(found.high - found.low))
        for found in (
            with_interval(Payoffs.from_games(which), lambda matrix: matrix[0], np.random.default_rng(2))
            for which in (games, alone)
        )
    ]
    assert widths[0] / widths[1] == pytest.approx(np.sqrt(2), abs=0.25)


def test_the_same_seed_draws_the_same_bytes_and_another_does_not():
    payoffs = Payoffs.from_games(transitive(np.arange(5) * 50.0, 3, np.random.default_rng(0)))
    first, again, other = (payoffs.resampled(np.random.default_rng(seed)).matrix() for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes() != other.tobytes()
    np.testing.assert_array_equal(first, -first.T)


def test_an_interval_holds_the_value_itself_and_has_the_concepts_shape():
    payoffs = Payoffs.from_games(transitive(np.arange(5) * 50.0, 1, np.random.default_rng(0)))
    found = with_interval(payoffs, lambda matrix: matrix @ matrix, np.random.default_rng(1), samples=20)
    assert found.low.shape == found.value.shape == found.high.shape == (5, 5)
    assert (found.low <= found.value).all()
    assert (found.value <= found.high).all()
    assert ((found.low <= found.mean) & (found.mean <= found.high)).all()
    with pytest.raises(ValueError, match="level is 95"):
        with_interval(payoffs, lambda matrix: matrix, np.random.default_rng(1), level=95)
