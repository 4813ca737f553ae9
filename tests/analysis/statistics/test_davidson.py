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
)
from analysis.statistics.elo import elo_of_score
from tests.analysis.simulated_games import ELO, free_for_all, games_from, games_of_table, transitive


def likeliest(games, places=2, drawn=False, zero=None):
    """Elo [N] of maximum likelihood, over that of `zero` or their mean; White's advantage in Elo, and nu."""
    found = fit(cells_of(games, places, drawn=drawn), prior_games=0.0).parameters
    elo = ELO * found[: len(games.competitors)]
    advantage = 2 * ELO * found[len(elo)] if places > 1 else 0.0
    return elo - (elo.mean() if zero is None else elo[zero]), advantage, np.exp(found[-1])


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


# ---------------------------------------------------------------- published tables

# Baseball, American League East 1987: A. Agresti, Categorical Data Analysis (2nd ed., 2002), table 10.10,
# as https://github.com/hturner/BradleyTerry2, data/baseball.csv, has it: wins of home [home, away] of
# Milwaukee, Detroit, Toronto, New York, Boston, Cleveland and Baltimore.
HOME_WINS = [
    [0, 4, 4, 4, 6, 4, 6],
    [3, 0, 4, 4, 6, 6, 4],
    [2, 4, 0, 2, 4, 4, 6],
    [3, 5, 2, 0, 4, 4, 6],
    [5, 2, 3, 4, 0, 5, 6],
    [2, 3, 3, 4, 4, 0, 2],
    [2, 1, 1, 2, 1, 3, 0],
]
HOME_LOSSES = [
    [0, 3, 2, 3, 1, 2, 0],
    [3, 0, 2, 3, 0, 1, 3],
    [5, 3, 0, 4, 3, 2, 0],
    [3, 1, 5, 0, 3, 2, 1],
    [1, 5, 3, 2, 0, 2, 0],
    [5, 3, 4, 3, 2, 0, 4],
    [5, 5, 6, 4, 6, 4, 0],
]


def baseball():
    rows = [(i, j, HOME_WINS[i][j], 0, HOME_LOSSES[i][j]) for i in range(7) for j in range(7) if i != j]
    return games_of_table(rows, 7)


def test_baseball_is_rated_as_agresti_prints_it():
    """Table 10.11, column 3, which BradleyTerry2's tests/testthat/test-baseball.R repeats; 0: Baltimore."""
    elo, _, _ = likeliest(baseball(), places=1, zero=6)
    assert np.round(elo / ELO, 2).tolist() == [1.58, 1.44, 1.29, 1.25, 1.11, 0.68, 0.0]


def test_baseball_at_home_is_rated_as_agresti_prints_it():
    """Table 10.11, column 5: worths that sum to 1, and an advantage of 0.302 for being at home."""
    elo, advantage, _ = likeliest(baseball(), zero=6)
    worth = np.sort(np.exp(elo / ELO))
    printed = [0.044, 0.088, 0.137, 0.157, 0.164, 0.190, 0.220]
    assert np.round(worth / worth.sum(), 3).tolist() == printed
    assert round(advantage / ELO, 3) == 0.302


# Chocolate puddings: R. R. Davidson, JASA 65 (1970) 317-328, example 2: brands i, j, comparisons, those
# that prefer i, those that prefer j, ties; from https://github.com/d-a-henderson/GPL, puddings.txt.
PUDDINGS = """
1 2 57 19 22 16   1 3 47 16 19 12   2 3 48 19 19 10   1 4 54 18 23 13   2 4 51 23 19 9
3 4 54 19 20 15   1 5 50 13 19 18   2 5 48 16 20 12   3 5 48 16 15 17   4 5 47 17 14 16
1 6 51 18 21 12   2 6 54 22 20 12   3 6 41 13 18 10   4 6 51 14 19 18   5 6 44 11 21 12
"""


def test_puddings_are_rated_as_davidson_did():
    """Worths and nu as PlackettLuce's vignette prints them, 'to obtain the same worth parameters as Davidson
    (1970)' after seven steps of an iteration that has not quite converged
    (https://hturner.github.io/PlackettLuce/articles/Overview.html, section 2.1.1): hence 5e-5."""
    table = np.array(PUDDINGS.split(), dtype=int).reshape(-1, 6)
    rows = [(i - 1, j - 1, wins, ties, losses) for i, j, _, wins, losses, ties in table.tolist()]
    elo, _, nu = likeliest(games_of_table(rows, 6), places=1, drawn=True)
    worth = np.exp(elo / ELO)
    printed = [0.1388005, 0.1729985, 0.1617420, 0.1653930, 0.1586805, 0.2023855]
    assert worth / worth.sum() == pytest.approx(printed, abs=5e-5)
    assert nu == pytest.approx(0.7468147, abs=5e-4)


ORDO = 202 / elo_of_score(0.76)
"""Ordo's points of one Elo: its manual (https://github.com/michiguel/Ordo, manual.tex, 'Scale') sets 202
where 76 % are expected."""


def test_a_table_of_ordo_with_whites_advantage_is_found_to_its_printed_digits():
    """The example table of Leela Chess Zero's guide 'Testing' (source of https://lczero.org), 'Using ORDO':
    two networks against Stockfish, 1,500 games each, half of them with White, +408 =885 -207 and
    +369 =894 -237, are rated 0, -16.8 and (Stockfish) -48.5, and White's advantage is 57.46. How many of its
    points White made is not printed: as many as give the advantage."""
    rows = [
        (0, 2, 204 + 61, 442, 104 - 61),
        (2, 0, 103 + 61, 443, 204 - 61),
        (1, 2, 184 + 60, 447, 119 - 60),
        (2, 1, 118 + 60, 447, 185 - 60),
    ]
    elo, advantage, _ = likeliest(games_of_table(rows, 3), zero=0)
    assert ORDO * advantage == pytest.approx(57.46, abs=0.02)
    assert np.round(ORDO * elo, 1).tolist() == [0.0, -16.8, -48.5]


def test_without_a_prior_all_won_or_never_met_is_refused():
    won = games_from(2, [0, 1], [1, 0], [1, 0])
    apart = games_from(4, [0, 1, 2, 3], [1, 0, 3, 2], [1, 1, 0, 0])
    for games in (won, apart):
        with pytest.raises(ValueError, match="prior_games above 0"):
            likeliest(games, places=1)
