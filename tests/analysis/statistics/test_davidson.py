import numpy as np
import pytest

from analysis.statistics.davidson import (
    _posterior,
    cells_of,
    differences,
    fit,
    information,
    moments,
    place_contrasts,
    recounted,
)
from tests.analysis.simulated_games import free_for_all, games_of_table, transitive


@pytest.fixture
def games():
    return transitive(
        np.array([0.0, 150.0, -80.0, 40.0]), 6, np.random.default_rng(1), nu=0.7, advantage=60.0
    )


def test_games_that_are_alike_are_counted_together():
    cells = cells_of(games_of_table([(0, 1, 5, 3, 2), (1, 0, 1, 0, 4)], 2), 2, drawn=True)
    assert cells.home.tolist() == [0, 1]
    assert cells.games.tolist() == [10.0, 5.0]
    assert cells.points.tolist() == [6.5, 1.0]
    assert cells.draws.tolist() == [3.0, 0.0]
    assert cells.num_parameters == 4


def test_counted_twice_is_played_twice(games):
    cells = cells_of(games, 2, drawn=True)
    twice = recounted(cells, games, np.full(len(games), 2.0))
    assert twice.points == pytest.approx(2 * cells.points)
    assert twice.draws == pytest.approx(2 * cells.draws)


def test_advantages_of_places_sum_to_zero():
    assert (place_contrasts(4) @ np.array([3.0, -1.0, 5.0])).sum() == 0.0
    assert place_contrasts(1).shape == (1, 0)


def test_expectations_are_those_of_the_three_outcomes(games):
    cells = cells_of(games, 2, drawn=True)
    parameters = np.array([0.3, -0.2, 0.9, 0.0, 0.25, np.log(0.8)])
    found = moments(cells, parameters)
    d = differences(cells, parameters)
    weights = np.stack([np.exp(d / 2), np.full(len(d), 0.8), np.exp(-d / 2)])
    win, draw, _ = weights / weights.sum(axis=0)
    mean = win + draw / 2
    assert found.points == pytest.approx(mean)
    assert found.variance == pytest.approx(win + draw / 4 - mean**2)
    assert found.covariance == pytest.approx(draw / 2 - mean * draw)


def test_strengths_far_apart_overflow_nothing(games):
    cells = cells_of(games, 2, drawn=True)
    found = moments(cells, np.array([2e4, -2e4, 0.0, 1e3, 0.0, 0.0]))
    for column in (found.points, found.draws, found.variance, found.covariance, found.log_sum):
        assert np.isfinite(column).all()


@pytest.mark.parametrize("prior_games", [0.0, 3.0])
@pytest.mark.parametrize("drawn", [False, True])
def test_derivatives_are_those_of_differences(games, prior_games, drawn):
    cells = cells_of(games, 2, drawn=drawn)
    rng = np.random.default_rng(2)
    x, step = rng.normal(size=cells.num_parameters), 1e-5
    here = _posterior(cells, x, prior_games)
    for k in range(len(x)):
        ahead, behind = (_posterior(cells, x + s * step * np.eye(len(x))[k], prior_games) for s in (1, -1))
        assert here.gradient[k] == pytest.approx((ahead.value - behind.value) / (2 * step), abs=1e-5)
        slope = (ahead.gradient - behind.gradient) / (2 * step)
        assert -here.information[k] == pytest.approx(slope, abs=1e-6)


def test_the_maximum_has_no_slope_at_three_at_a_table():
    cells = cells_of(
        free_for_all(np.array([0.0, 100.0, 250.0, -100.0]), 3, np.random.default_rng(4)), 3, drawn=False
    )
    found = fit(cells, prior_games=0.5)
    here = _posterior(cells, found.parameters, 0.5)
    assert here.gradient == pytest.approx(np.zeros(6), abs=1e-5)
    assert np.linalg.eigvalsh(found.information).min() > 0
    expected = information(cells, moments(cells, found.parameters), cells.games)
    assert found.information == pytest.approx(expected + found.prior)


def test_the_prior_pulls_together_and_fades_with_games():
    few = games_of_table([(0, 1, 8, 0, 2)], 2)
    gaps = [
        np.ptp(fit(cells_of(few, 1, drawn=False), prior_games=prior).parameters) for prior in (0.0, 0.5, 5.0)
    ]
    assert gaps[0] == pytest.approx(np.log(4.0))
    assert gaps[0] > gaps[1] > gaps[2]
    many = games_of_table([(0, 1, 8000, 0, 2000)], 2)
    with_prior = np.ptp(fit(cells_of(many, 1, drawn=False), prior_games=0.5).parameters)
    assert with_prior == pytest.approx(np.log(4.0), abs=1e-3)
