import numpy as np
import pytest

from analysis.solution.dynamics.projected import onto_simplex, projected_replicator

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
ROCK_FOR_TWO = np.array([[0.0, -2.0, 1.0], [2.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # paper wins two from rock


def test_the_average_of_rock_paper_scissors_is_its_equilibrium():
    np.testing.assert_allclose(projected_replicator(ROCK_PAPER_SCISSORS), 1 / 3)
    np.testing.assert_allclose(projected_replicator(ROCK_FOR_TWO), [1 / 4, 1 / 4, 1 / 2], atol=0.01)


def test_the_unit_of_payoffs_changes_nothing():
    np.testing.assert_allclose(projected_replicator(13 * ROCK_FOR_TWO), projected_replicator(ROCK_FOR_TWO))


@pytest.mark.parametrize("exploration", [0.0, 0.1, 0.6, 1.0])
def test_a_beaten_member_keeps_its_part_of_the_exploration_and_no_more(exploration):
    beaten = np.array([[0.0, 1.0], [-1.0, 0.0]])
    found = projected_replicator(beaten, exploration=exploration)
    assert found.sum() == pytest.approx(1.0)
    assert found[1] == pytest.approx(exploration / 2, abs=0.01)


def test_a_single_member_has_all():
    np.testing.assert_array_equal(projected_replicator(np.zeros((1, 1))), [1.0])


@pytest.mark.parametrize("exploration", [-0.1, 1.5, float("nan")])
def test_an_impossible_exploration_is_refused(exploration):
    with pytest.raises(ValueError, match=r"exploration is .*, expected 0 to 1"):
        projected_replicator(np.zeros((2, 2)), exploration=exploration)


@pytest.mark.parametrize("seed", range(5))
def test_no_mixture_with_that_floor_is_nearer_than_the_projection(seed):
    rng = np.random.default_rng(seed)
    point, floor = rng.normal(0.2, 0.5, 6), 0.05
    found = onto_simplex(point, floor=floor)
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= floor
    others = floor + (1.0 - 6 * floor) * rng.dirichlet(np.ones(6), 2_000)
    assert np.linalg.norm(found - point) <= np.linalg.norm(others - point, axis=1).min()
