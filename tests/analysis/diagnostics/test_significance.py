import numpy as np
import pytest

from analysis.diagnostics.significance import Counts, above, dispersion, holm


def counts_of(rng, chance, games):
    wins = rng.binomial(games, chance).astype(float)
    return Counts(np.broadcast_to(np.asarray(games, float), wins.shape).copy(), wins, np.zeros_like(wins))


def test_holm_gives_the_textbook_adjustment():
    # Four p-values of 0.01, 0.04, 0.03, 0.005: sorted 0.005 x 4, 0.01 x 3, 0.03 x 2, 0.04 x 1, made monotone.
    assert holm(np.array([0.01, 0.04, 0.03, 0.005])) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm(np.zeros(0)).shape == (0,)


def test_intervals_cover_the_truth_as_often_as_they_say():
    rng = np.random.default_rng(0)
    for chance, games in ((0.5, 60), (0.9, 60), (0.98, 200)):
        low, high = counts_of(rng, np.full(4000, chance), games).interval()
        assert 0.93 < np.mean((low <= chance) & (chance <= high)) <= 1.0


def test_draws_make_a_score_surer():
    won = Counts(np.array(100.0), np.array(50.0), np.array(0.0))
    drawn = Counts(np.array(100.0), np.array(10.0), np.array(80.0))
    assert won.score == drawn.score == 0.5
    assert drawn.variance < won.variance / 3


def test_chance_is_not_taken_for_wobble_and_wobble_not_for_chance():
    rng = np.random.default_rng(1)
    steady = np.full((12, 16), 0.6)
    assert dispersion(counts_of(rng, steady, 200)) < 1.5
    wobbling = steady + 0.08 * rng.standard_normal(16)
    assert dispersion(counts_of(rng, wobbling, 200)) > 2.5


def test_neither_progress_nor_one_drop_is_wobble():
    rng = np.random.default_rng(2)
    improving = np.broadcast_to(np.linspace(0.3, 0.9, 16), (12, 16))
    dropped = np.where(np.arange(16) < 9, 0.8, 0.4) * np.ones((12, 1))
    assert dispersion(counts_of(rng, improving, 200)) < 1.5
    assert dispersion(counts_of(rng, dropped, 200)) < 1.5


def test_the_chance_to_be_above_is_that_of_the_normal_distribution():
    assert float(above(1.959963984540054)) == pytest.approx(0.025)
