import numpy as np
import pytest
from open_spiel.python.egt import dynamics

from analysis.solution import (
    discrete_path,
    growth_rates,
    path,
    paths,
    replicator_average,
    rest_points,
    time_average,
    velocities,
    velocity,
)

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
HAWK_DOVE = np.array([[-1.0, 4.0], [0.0, 2.0]])  # value 4, cost 6: hawks are 4 / 6 of a stable population
MATCHING_PENNIES = [np.array([[1.0, -1.0], [-1.0, 1.0]]), np.array([[-1.0, 1.0], [1.0, -1.0]])]


def antisymmetric(n, seed):
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


def test_one_population_moves_as_in_openspiel():
    rng = np.random.default_rng(0)
    for _ in range(5):
        payoff, mixture = rng.normal(size=(6, 6)), rng.dirichlet(np.ones(6))
        theirs = dynamics.SinglePopulationDynamics(np.stack([payoff, payoff.T]), dynamics.replicator)
        np.testing.assert_allclose(velocity(payoff, mixture), theirs(mixture), atol=1e-12)


@pytest.mark.parametrize("shape", [(3, 4), (2, 3, 4), (2, 2, 3, 2)])
def test_several_populations_move_as_in_openspiel(shape):
    rng = np.random.default_rng(1)
    payoffs = rng.normal(size=(len(shape), *shape))
    mixtures = [rng.dirichlet(np.ones(n)) for n in shape]
    theirs = dynamics.MultiPopulationDynamics(payoffs, dynamics.replicator)
    found = velocities(list(payoffs), mixtures)
    np.testing.assert_allclose(np.concatenate(found), theirs(np.concatenate(mixtures)), atol=1e-12)


def test_in_rock_paper_scissors_the_product_of_shares_stays_and_they_come_round_again():
    shares = path(ROCK_PAPER_SCISSORS, np.array([0.6, 0.3, 0.1]), np.linspace(0.0, 60.0, 600))
    np.testing.assert_allclose(shares.prod(axis=1), 0.6 * 0.3 * 0.1, rtol=1e-8)
    np.testing.assert_allclose(shares.sum(axis=1), 1.0, atol=1e-12)
    away = np.abs(shares - shares[0]).max(axis=1)
    assert away[:100].max() > 0.3
    assert away[60:].min() < 0.03


def test_in_any_zero_sum_game_the_distance_to_an_inner_equilibrium_stays():
    # Hofbauer and Sigmund 1998: the product of x_i^p_i, p the equilibrium, is a constant of motion.
    weighted = np.array([[0.0, -0.2, 1.0], [0.2, 0.0, -0.5], [-1.0, 0.5, 0.0]])
    inner = np.array([0.5, 1.0, 0.2]) / 1.7
    np.testing.assert_allclose(weighted @ inner, 0.0, atol=1e-12)
    shares = path(weighted, np.array([0.2, 0.2, 0.6]), np.linspace(0.0, 40.0, 100))
    kept = np.log(shares) @ inner
    np.testing.assert_allclose(kept, kept[0], atol=1e-8)


def test_in_matching_pennies_two_populations_circle_each_other():
    starts = [np.array([0.8, 0.2]), np.array([0.4, 0.6])]
    rows, columns = paths(MATCHING_PENNIES, starts, np.linspace(0.0, 30.0, 200))
    kept = np.log(rows).sum(axis=1) + np.log(columns).sum(axis=1)
    np.testing.assert_allclose(kept, kept[0], atol=1e-8)
    assert np.ptp(rows[:, 0]) > 0.5


def test_a_path_is_the_solution_known_in_closed_form():
    # Two strategies, one better by 1: log-odds grow by 1 in a unit of time.
    times = np.linspace(0.0, 5.0, 20)
    shares = path(np.array([[0.0, 0.5], [-0.5, 0.0]]) * 2.0, np.array([0.1, 0.9]), times)
    np.testing.assert_allclose(shares[:, 0], 1.0 / (1.0 + 9.0 * np.exp(-times)), atol=1e-9)


def test_hawks_and_doves_come_to_the_stable_share_in_either_time():
    found = path(HAWK_DOVE, np.array([0.05, 0.95]), np.array([0.0, 100.0]))[-1]
    np.testing.assert_allclose(found, [2 / 3, 1 / 3], atol=1e-8)
    generations = discrete_path(HAWK_DOVE, np.array([0.05, 0.95]), 400, background=5.0)
    np.testing.assert_allclose(generations[-1], [2 / 3, 1 / 3], atol=1e-8)
    assert (np.diff(generations[:, 0]) >= -1e-12).all()


def test_in_generations_rock_paper_scissors_spirals_out():
    # Hofbauer and Sigmund 1998: what circles in continuous time leaves for the rim in discrete time.
    shares = discrete_path(ROCK_PAPER_SCISSORS, np.array([0.35, 0.33, 0.32]), 2_000, background=5.0)
    assert (np.diff(shares.prod(axis=1)) < 0.0).all()
    assert shares.prod(axis=1)[-1] < 1e-3


def test_small_generations_follow_the_continuous_path():
    payoff, start = antisymmetric(5, 2), np.full(5, 0.2)
    background = 5_000.0
    generations = discrete_path(payoff, start, 10_000, background=background)[-1]
    np.testing.assert_allclose(
        generations, path(payoff, start, np.array([10_000 / background]))[0], atol=1e-3
    )


def test_who_is_absent_stays_absent_and_who_is_alone_stays_alone():
    shares = path(ROCK_PAPER_SCISSORS, np.array([0.5, 0.5, 0.0]), np.array([0.0, 1.0, 40.0]))
    np.testing.assert_array_equal(shares[:, 2], 0.0)
    np.testing.assert_allclose(shares[-1], [0, 1, 0], atol=1e-8)
    np.testing.assert_array_equal(path(ROCK_PAPER_SCISSORS, np.eye(3)[1], np.array([3.0])), np.eye(3)[[1]])


@pytest.mark.parametrize("seed", range(4))
def test_against_the_time_average_nobody_gains_more_than_the_logarithm_over_the_time(seed):
    payoff = antisymmetric(30, seed)
    for time in (10.0, 300.0):
        average = replicator_average(payoff, time=time)
        assert 0.0 <= (payoff @ average).max() <= np.log(30) / time + 1e-6


@pytest.mark.slow
def test_the_time_average_of_a_path_is_that_of_the_average():
    payoff, times = antisymmetric(4, 3), np.linspace(0.0, 20.0, 4_001)
    averages = time_average(path(payoff, np.full(4, 0.25), times), times)
    np.testing.assert_allclose(averages[-1], replicator_average(payoff, time=20.0), atol=1e-5)
    np.testing.assert_allclose(averages[0], 0.25)
    theirs = dynamics.time_average(path(payoff, np.full(4, 0.25), times))
    np.testing.assert_allclose(averages[-1], theirs[-1], atol=1e-3)


def test_rest_points_are_the_corners_and_where_all_who_are_there_gain_alike():
    np.testing.assert_allclose(rest_points(HAWK_DOVE), [[1, 0], [0, 1], [2 / 3, 1 / 3]], atol=1e-12)
    np.testing.assert_allclose(
        rest_points(ROCK_PAPER_SCISSORS), [*np.eye(3), [1 / 3, 1 / 3, 1 / 3]], atol=1e-12
    )
    payoff = np.random.default_rng(3).normal(size=(6, 6))
    found = rest_points(payoff)
    assert len(found) > 6
    for point in found:
        np.testing.assert_allclose(velocity(payoff, point), 0.0, atol=1e-9)


def test_growth_rates_say_what_attracts_and_what_circles():
    assert (growth_rates(HAWK_DOVE, np.array([2 / 3, 1 / 3])).real < 0.0).all()
    assert (growth_rates(HAWK_DOVE, np.array([1.0, 0.0])).real > 0.0).all()
    circling = growth_rates(ROCK_PAPER_SCISSORS, np.full(3, 1 / 3))  # Hofbauer and Sigmund: +- i / sqrt(3)
    np.testing.assert_allclose(circling, [-1j / np.sqrt(3), 1j / np.sqrt(3)], atol=1e-12)
    payoff, step = np.random.default_rng(4).normal(size=(3, 3)), 1e-6
    point = rest_points(payoff)[-1]
    numeric = np.array(
        [
            (velocity(payoff, point + step * d) - velocity(payoff, point - step * d)) / (2 * step)
            for d in np.eye(3)
        ]
    ).T
    basis = np.array([[1, -1, 0], [1, 1, -2]]) / np.sqrt([[2], [6]])
    expected = np.linalg.eigvals(basis @ numeric @ basis.T)
    np.testing.assert_allclose(np.sort(growth_rates(payoff, point).real), np.sort(expected.real), atol=1e-6)


def test_nonsense_is_refused():
    with pytest.raises(ValueError, match="expected \\(3, 3\\)"):
        path(np.zeros((2, 2)), np.full(3, 1 / 3), np.array([1.0]))
    with pytest.raises(ValueError, match="no mixture"):
        path(np.zeros((2, 2)), np.ones(2), np.array([1.0]))
    with pytest.raises(ValueError, match="times"):
        path(np.zeros((2, 2)), np.ones(2) / 2, np.array([1.0, 0.5]))
    with pytest.raises(ValueError, match=r"background fitness 0\.5"):
        discrete_path(ROCK_PAPER_SCISSORS, np.full(3, 1 / 3), 3, background=0.5)
    with pytest.raises(ValueError, match="at most 14"):
        rest_points(np.zeros((15, 15)))
