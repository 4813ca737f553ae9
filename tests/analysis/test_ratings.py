import math

import numpy as np
import pytest

from analysis.ratings import elo_from_pairs, elo_of_score


@pytest.mark.parametrize(
    ("score", "elo"), [(0.5, 0.0), (0.75, 190.85), (0.64, 99.95), (10 / 11, 400.0), (0.25, -190.85)]
)
def test_elo_of_known_scores(score, elo):
    assert elo_of_score(score) == pytest.approx(elo, abs=0.01)


def test_elo_of_score_inverts_the_logistic_curve():
    for elo in np.linspace(-1200, 1200, 49):
        assert elo_of_score(1 / (1 + 10 ** (-elo / 400))) == pytest.approx(elo, abs=1e-6)


def test_a_score_of_all_or_nothing_is_infinite_elo_and_nonsense_is_refused():
    assert (elo_of_score(1.0), elo_of_score(0.0)) == (math.inf, -math.inf)
    for nonsense in (-0.01, 1.01, math.nan, math.inf):
        with pytest.raises(ValueError, match="expected points per game"):
            elo_of_score(nonsense)


def test_the_interval_holds_the_estimate_and_shrinks_as_the_root_of_pairs():
    pairs = np.array([1.0, 0.75, 0.5, 0.5, 0.25])
    widths = []
    for copies in (10, 40, 160):
        estimate = elo_from_pairs(np.tile(pairs, copies))
        assert estimate.low < estimate.elo < estimate.high
        assert estimate.elo == pytest.approx(elo_of_score(0.6))
        widths.append(estimate.high - estimate.low)
    assert widths[0] / widths[1] == pytest.approx(2.0, rel=0.05)
    assert widths[1] / widths[2] == pytest.approx(2.0, rel=0.05)


def test_the_other_side_sees_the_mirror_image():
    pairs = np.random.default_rng(0).choice([0.0, 0.25, 0.5, 0.75, 1.0], 50)
    ours, theirs = elo_from_pairs(pairs), elo_from_pairs(1 - pairs)
    assert ours.elo == pytest.approx(-theirs.elo)
    assert ours.low == pytest.approx(-theirs.high)
    assert ours.los == pytest.approx(1 - theirs.los)


@pytest.mark.parametrize(
    "chances", [(0.1, 0.2, 0.4, 0.2, 0.1), (0.05, 0.05, 0.3, 0.3, 0.3), (0.0, 0.3, 0.7, 0.0, 0.0)]
)
def test_95_of_100_intervals_hold_the_truth(chances):
    rng = np.random.default_rng(11)
    values = np.array([0.0, 0.25, 0.5, 0.75, 1.0])
    truth = elo_of_score(float(np.dot(values, chances)))
    estimates = [elo_from_pairs(rng.choice(values, 200, p=chances)) for _ in range(2000)]
    covered = np.mean([estimate.low <= truth <= estimate.high for estimate in estimates])
    assert 0.935 < covered < 0.965


def test_pairs_not_games_carry_the_variance():
    """Games that always split within a pair say nothing of who is stronger, and much of the draw."""
    split = elo_from_pairs(np.full(100, 0.5))
    swept = elo_from_pairs(np.tile([0.0, 1.0], 50))
    assert split.elo == swept.elo == 0.0
    assert split.los == swept.los == 0.5
    assert math.isfinite(split.low)


def test_likelihood_of_superiority_is_the_normal_tail_of_the_mean():
    pairs = np.array([1.0, 0.5, 0.5, 0.5])  # mean 0.625, standard error 0.125: one sigma above a half
    assert elo_from_pairs(pairs).los == pytest.approx(0.8413, abs=1e-4)


def test_all_won_is_infinite_elo_with_a_finite_low_bound_that_rises_with_pairs():
    few, many = elo_from_pairs(np.ones(5)), elo_from_pairs(np.ones(500))
    assert few.elo == few.high == math.inf
    assert 0 < few.low < many.low < math.inf
    assert elo_from_pairs(np.zeros(5)).high == pytest.approx(-few.low)


def test_no_pairs_are_refused():
    with pytest.raises(ValueError, match="no pairs"):
        elo_from_pairs(np.array([]))
