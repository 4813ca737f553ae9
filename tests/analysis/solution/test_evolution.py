import itertools
import math

import mpmath
import numpy as np
import pytest
from open_spiel.python.egt import alpharank

from analysis.solution.evolution import (
    alpha_rank,
    log_fixation,
    log_stationary,
    onto_simplex,
    projected_replicator,
)
from tests.analysis.simulated_games import ROCK_PAPER_SCISSORS

ROCK_FOR_TWO = np.array([[0.0, -2.0, 1.0], [2.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # paper wins two from rock
BIASED = np.array([[0.0, -0.5, 1.0], [0.5, 0.0, -0.1], [-1.0, 0.1, 0.0]])


def openspiels(payoffs, **options):
    return alpharank.compute(payoffs, **options)[2]


@pytest.mark.parametrize("alpha", [0.1, 10.0, 1e3, math.inf])
def test_rock_paper_scissors_is_shared_evenly(alpha):
    np.testing.assert_allclose(alpha_rank(ROCK_PAPER_SCISSORS, alpha=alpha), 1 / 3, atol=1e-12)


def test_biased_rock_paper_scissors_comes_to_even_shares_as_selection_grows():
    # Omidshafiei et al. 2019: the cycle counts, not by how much each wins.
    np.testing.assert_allclose(alpha_rank(BIASED, alpha=1e3), 1 / 3, atol=1e-9)
    assert np.ptp(alpha_rank(BIASED, alpha=0.5, population=20)) > 0.2


def test_the_game_of_commitment_of_han_et_al_has_the_shares_they_published():
    # Han, Pereira, Santos, Lenaerts: Good agreements make good friends, Scientific Reports 3, 2013; shares as
    # in OpenSpiel's alpharank_test.
    r, t, p, s, delta, eps = 1.0, 2.0, 0.0, -1.0, 4.0, 0.25
    payoff = np.array(
        [
            [r - eps / 2, r - eps, 0, s + delta - eps, r - eps],
            [r, r, s, s, s],
            [0, t, p, p, p],
            [t - delta, t, p, p, p],
            [r, t, p, p, p],
        ]
    )
    found = alpha_rank(payoff, alpha=0.1, population=20, selection="global")
    expected = [0.40966787, 0.07959841, 0.20506998, 0.08505983, 0.2206039]
    np.testing.assert_allclose(found, expected, atol=1e-7)


@pytest.mark.parametrize("alpha", [0.1, 1.0, 5.0])
@pytest.mark.parametrize("selection", ["local", "global"])
def test_a_single_population_has_openspiels_shares(alpha, selection):
    for seed in range(3):
        payoff = np.random.default_rng(seed).uniform(-1.0, 1.0, (7, 7))
        expected = openspiels([payoff], m=20, alpha=alpha, use_local_selection_model=selection == "local")
        found = alpha_rank(payoff, alpha=alpha, population=20, selection=selection)
        np.testing.assert_allclose(found, expected, atol=1e-10)


def test_the_limit_of_strong_selection_is_openspiels():
    payoff = np.random.default_rng(2).integers(-1, 2, (6, 6)).astype(float)
    expected = openspiels([payoff], use_inf_alpha=True, inf_alpha_eps=0.01)
    np.testing.assert_allclose(alpha_rank(payoff, alpha=math.inf, epsilon=0.01), expected, atol=1e-12)


def shares_by_trees(rates):
    """Log shares by the Markov chain tree theorem: the sum over all trees that lead to a state, of the
    products of their rates (Freidlin, Wentzell: Random perturbations of dynamical systems, chapter 6)."""
    n, logs = len(rates), []
    for root in range(n):
        others, trees = [state for state in range(n) if state != root], []
        for targets in itertools.product(range(n), repeat=n - 1):
            step = dict(zip(others, targets, strict=True))
            ends = list(others)
            for _ in range(n):
                ends = [step.get(state, state) for state in ends]
            if set(ends) == {root}:
                trees.append(sum(rates[state, target] for state, target in step.items()))
        logs.append(np.logaddexp.reduce(trees))
    return np.array(logs) - np.logaddexp.reduce(logs)


@pytest.mark.parametrize("alpha", [1.0, 30.0, 1e3])
def test_shares_far_below_what_floats_hold_are_right_to_their_last_digits(alpha):
    payoff = np.random.default_rng(3).uniform(-0.5, 0.5, (5, 5)) + 0.3 * np.subtract.outer(range(5), range(5))
    rates = log_fixation(alpha * (payoff.T - payoff), 50)
    found = log_stationary(rates)
    np.testing.assert_allclose(found, shares_by_trees(rates), rtol=1e-12, atol=1e-12)
    assert alpha < 1e3 or found.min() < -1_000.0


def test_the_chance_to_take_over_is_the_printed_formula_at_any_size():
    advantages = np.array([-2e3, -40.0, -1.0, -1e-7, -1e-13, 0.0, 1e-13, 1e-7, 1.0, 40.0, 2e3])
    with mpmath.workdps(60):
        exact = [
            mpmath.log((1 - mpmath.exp(-u)) / (1 - mpmath.exp(-50 * u))) if u else -mpmath.log(50)
            for u in map(mpmath.mpf, advantages.tolist())
        ]
    np.testing.assert_allclose(
        log_fixation(advantages, 50), [float(log) for log in exact], rtol=1e-12, atol=1e-15
    )


def test_of_two_sinks_the_one_that_is_harder_to_leave_is_left():
    # A and B agree with themselves, and the way between them leads through C, worse for A than for B.
    rates = np.full((3, 3), -np.inf)
    rates[2, :2] = 0.0
    rates[0, 2], rates[1, 2] = log_fixation(np.array([-1e3 * 0.5, -1e3 * 0.4]), 50)
    found = log_stationary(rates)
    assert found[0] == pytest.approx(0.0, abs=1e-12)
    assert found[1] == pytest.approx(-49 * 1e3 * 0.1, rel=1e-9)


def test_for_vanishing_selection_all_are_alike_and_for_strong_the_best_takes_all():
    rungs = np.arange(10.0)
    payoff = np.tanh(0.1 * np.subtract.outer(rungs, rungs))
    np.testing.assert_allclose(alpha_rank(payoff, alpha=0.0), 0.1, atol=1e-12)
    shares = [alpha_rank(payoff, alpha=alpha) for alpha in (0.01, 0.1, 1.0, 10.0, 1e4)]
    assert (np.diff([share[-1] for share in shares]) >= 0.0).all()
    assert all((np.diff(share) > 0.0).all() for share in shares[:3])
    assert shares[-1][-1] == pytest.approx(1.0)


@pytest.mark.parametrize("n", [24, 60, 100])  # with and without plain floats
@pytest.mark.parametrize("alpha", [1.0, 30.0, 1e3])
def test_what_flows_into_a_strategy_is_what_flows_out_of_it(n, alpha):
    rungs = np.random.default_rng(4).uniform(0.0, 1.0, n)
    payoff = 0.5 * np.subtract.outer(rungs, rungs) + np.random.default_rng(5).uniform(-0.5, 0.5, (n, n))
    rates = log_fixation(alpha * (payoff.T - payoff), 50)
    np.fill_diagonal(rates, -np.inf)
    shares = log_stationary(rates)
    flows = shares[:, None] + rates
    np.testing.assert_allclose(
        np.logaddexp.reduce(flows, axis=0), np.logaddexp.reduce(flows, axis=1), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(np.logaddexp.reduce(shares), 0.0, atol=1e-12)


@pytest.mark.parametrize("depth", [1.0, 290.0, 2000.0, 1e6])
def test_shares_that_no_float_can_hold_are_found_in_logarithms(depth):
    """A chain that goes to each with a rate of its own, whoever it comes from, has these rates as shares."""
    rates = -depth * np.random.default_rng(0).random(50)
    expected = rates - np.logaddexp.reduce(rates)
    np.testing.assert_allclose(log_stationary(np.tile(rates, (50, 1))), expected, rtol=1e-12, atol=1e-9)


def test_infinite_alpha_stays_in_the_only_sink():
    payoff = np.zeros((6, 6))
    payoff[:3, :3] = ROCK_PAPER_SCISSORS
    payoff[3:, :3], payoff[:3, 3:] = -1.0, 1.0
    np.testing.assert_allclose(alpha_rank(payoff, alpha=math.inf), [1 / 3] * 3 + [0] * 3, atol=1e-7)


# ---------------------------------------------------------------- projected replicator dynamics


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


@pytest.mark.parametrize("seed", range(5))
def test_no_mixture_with_that_floor_is_nearer_than_the_projection(seed):
    rng = np.random.default_rng(seed)
    point, floor = rng.normal(0.2, 0.5, 6), 0.05
    found = onto_simplex(point, floor=floor)
    assert found.sum() == pytest.approx(1.0)
    assert found.min() >= floor
    others = floor + (1.0 - 6 * floor) * rng.dirichlet(np.ones(6), 2_000)
    assert np.linalg.norm(found - point) <= np.linalg.norm(others - point, axis=1).min()
