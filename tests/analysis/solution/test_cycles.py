import numpy as np
import pytest
from scipy import linalg

from analysis.solution.cycles import schur, split, unexplained_share
from analysis.solution.payoffs import Payoffs
from analysis.statistics.cyclic import cyclic_share as share_of_games
from tests.analysis.simulated_games import ROCK_PAPER_SCISSORS, antisymmetric, played


def of_strengths(theta):
    """What Elo expects: 2 score - 1."""
    return antisymmetric(np.tanh((theta[:, None] - theta) / 2))


def put_together(planes):
    first, second = planes.points[:, :, 0], planes.points[:, :, 1]
    return first @ second.T - second @ first.T


@pytest.fixture
def rng():
    return np.random.default_rng(8)


@pytest.mark.parametrize("size", [1.0, 0.2])
def test_rock_paper_scissors_is_cyclic_and_nothing_else(size):
    assert unexplained_share(size * ROCK_PAPER_SCISSORS) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("spread", [0.1, 1.0, 5.0])
def test_scores_of_elo_strengths_are_not_cyclic_at_all(spread, rng):
    theta = spread * rng.normal(size=20)
    found = split(of_strengths(theta))
    assert found.unexplained_share == pytest.approx(0.0, abs=1e-15)
    if spread < 5.0:
        np.testing.assert_allclose(found.strengths, theta - theta.mean(), atol=1e-3)


def test_a_ladder_of_certain_wins_has_no_circle():
    ladder = antisymmetric(np.ones((30, 30)))
    assert unexplained_share(ladder) < 1e-6


def test_the_share_is_the_raw_one_of_a_tournaments_games(rng):
    """Against `analysis.statistics.cyclic`, which knows nothing of matrices; its virtual games and places
    tell little."""
    theta = rng.normal(size=8)
    win = 1 / (1 + np.exp(theta - theta[:, None] + 2 * antisymmetric(rng.normal(size=(8, 8)))))
    games = played(8, lambda home, away: (win[home, away], 0.0), 200, rng)
    expected = share_of_games(games, rng, samples=2).raw
    assert unexplained_share(Payoffs.from_games(games).matrix()) == pytest.approx(expected, abs=0.01)


def test_planes_put_together_are_the_matrix_and_their_weights_scipys(rng):
    for n in (6, 7):
        matrix = antisymmetric(rng.normal(size=(n, n)))
        found = schur(matrix)
        np.testing.assert_allclose(put_together(found), matrix, atol=1e-12)
        blocks = linalg.schur(matrix)[0]
        expected = np.sort(np.abs(np.diag(blocks, 1)))[::-1][: n // 2]
        np.testing.assert_allclose(found.weights, expected, atol=1e-12)
        assert found.shares.sum() == pytest.approx(1.0)


def test_planes_of_equal_weight_are_told_apart():
    """Two circles of three that do not touch: the eigenvalue is double."""
    matrix = linalg.block_diag(ROCK_PAPER_SCISSORS, ROCK_PAPER_SCISSORS)
    found = schur(matrix)
    np.testing.assert_allclose(put_together(found), matrix, atol=1e-12)
    np.testing.assert_allclose(found.shares, [0.5, 0.5])


def test_the_strongest_planes_are_the_best_approximation_of_their_rank(rng):
    matrix = antisymmetric(rng.normal(size=(10, 10)))
    one = schur(matrix, 1)
    u, s, v = np.linalg.svd(matrix)
    np.testing.assert_allclose(put_together(one), (u[:, :2] * s[:2]) @ v[:2], atol=1e-10)


def test_a_field_of_two_circles_has_two_cyclic_planes():
    place = np.exp(2j * np.pi * np.arange(7) / 7)
    other = np.exp(6j * np.pi * np.arange(7) / 7)
    payoff = 0.4 * np.imag(np.conj(place)[:, None] * place) + 0.1 * np.imag(np.conj(other)[:, None] * other)
    found = schur(split(antisymmetric(payoff)).cyclic)
    assert len(found.weights) == 2
    assert found.weights[0] / found.weights[1] == pytest.approx(4.0)


def test_a_competitor_beats_those_counterclockwise_of_it_in_the_strongest_plane():
    points = schur(split(ROCK_PAPER_SCISSORS).cyclic, 1).points[:, 0]
    area = np.outer(points[:, 0], points[:, 1]) - np.outer(points[:, 1], points[:, 0])
    np.testing.assert_allclose(area, ROCK_PAPER_SCISSORS, atol=1e-12)
    assert points[0, 0] > 0.0
    assert points[0, 1] == pytest.approx(0.0, abs=1e-12)


def test_small_fields_have_no_planes():
    assert schur(np.zeros((1, 1))).points.shape == (1, 0, 2)
    assert unexplained_share(np.zeros((1, 1))) == 0.0
    assert schur(np.zeros((5, 5))).points.shape == (5, 0, 2)
