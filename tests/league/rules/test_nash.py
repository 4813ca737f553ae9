import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linprog

from league.rules.nash import (
    META_STRATEGIES,
    TOLERANCE,
    exploitability,
    max_entropy_nash,
    rectify,
    replicator,
    uniform,
)

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def antisymmetric(n, seed, scale=1.0):
    drawn = np.random.default_rng(seed).uniform(-scale, scale, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


def copied(payoff, *members):
    return payoff[np.ix_(members, members)]


def entropy(mixture):
    return float(-(mixture[mixture > 0] * np.log(mixture[mixture > 0])).sum())


def test_rock_paper_scissors_is_played_evenly():
    np.testing.assert_allclose(max_entropy_nash(ROCK_PAPER_SCISSORS), 1 / 3, atol=1e-6)


def test_a_copy_shares_what_the_original_had():
    doubled = max_entropy_nash(copied(ROCK_PAPER_SCISSORS, 0, 0, 1, 2))
    np.testing.assert_allclose(doubled, [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=1e-3)
    many = max_entropy_nash(copied(ROCK_PAPER_SCISSORS, 0, 1, 1, 1, 1, 2))
    np.testing.assert_allclose(many, [1 / 3, *[1 / 12] * 4, 1 / 3], atol=1e-3)


def test_what_is_dominated_is_not_played():
    payoff = np.zeros((4, 4))
    payoff[:3, :3] = ROCK_PAPER_SCISSORS
    payoff[3, :3], payoff[:3, 3] = -0.01, 0.01
    found = max_entropy_nash(payoff)
    np.testing.assert_allclose(found[:3], 1 / 3, atol=5e-3)
    assert found[3] < 0.01
    payoff[3, :3], payoff[:3, 3] = -0.5, 0.5
    np.testing.assert_allclose(max_entropy_nash(payoff), [1 / 3, 1 / 3, 1 / 3, 0], atol=1e-5)


def test_on_a_ladder_only_the_top_is_played():
    rungs = np.arange(60.0)
    payoff = np.tanh(0.2 * np.subtract.outer(rungs, rungs))
    np.testing.assert_allclose(max_entropy_nash(payoff), np.eye(60)[-1], atol=1e-3)


def test_weighted_rock_paper_scissors_is_played_by_the_stakes():
    a, b, c = 0.2, 0.5, 1.0  # what paper, scissors and rock win
    payoff = np.array([[0.0, -a, c], [a, 0.0, -b], [-c, b, 0.0]])
    np.testing.assert_allclose(max_entropy_nash(payoff), np.array([b, c, a]) / (a + b + c), atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equals_are_played_evenly(n):
    np.testing.assert_allclose(max_entropy_nash(np.zeros((n, n))), 1 / n, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-2, 1.0])
@pytest.mark.parametrize("n", [2, 3, 5, 20, 75, 200])
def test_nothing_gains_against_the_mixture_of_any_pool(n, scale):
    for seed in range(10 if n < 100 else 2):
        payoff = antisymmetric(n, seed, scale)
        found = max_entropy_nash(payoff)
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(1.0)
        assert exploitability(payoff, found) < TOLERANCE


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 12), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 1.0]))
def test_nothing_gains_either_where_many_pairs_are_even_or_decided(n, seed, coarse):
    payoff = antisymmetric(n, seed)
    payoff = np.sign(payoff) * (np.abs(payoff) > coarse / 2)
    assert exploitability(payoff, max_entropy_nash(payoff)) < TOLERANCE


def test_it_is_the_only_equilibrium_where_there_is_one():
    for seed in range(5):
        payoff = antisymmetric(9, seed)
        # x >= 0, sum x = 1, payoff x <= 0
        found = linprog(np.zeros(9), A_ub=payoff, b_ub=np.zeros(9), A_eq=np.ones((1, 9)), b_eq=[1.0])
        np.testing.assert_allclose(max_entropy_nash(payoff), found.x, atol=2e-3)


def test_no_other_equilibrium_has_more_entropy():
    payoff = copied(antisymmetric(4, 3), 0, 0, 1, 1, 1, 2, 3)
    found, rng = max_entropy_nash(payoff), np.random.default_rng(0)
    for _ in range(50):
        corner = linprog(
            rng.normal(size=7), A_ub=payoff, b_ub=np.full(7, 1e-6), A_eq=np.ones((1, 7)), b_eq=[1.0]
        )
        mixed = 0.9 * found + 0.1 * corner.x
        assert entropy(mixed) < entropy(found) + 1e-3


def test_the_replicator_comes_near_an_equilibrium_and_forgets_nobody():
    payoff = antisymmetric(40, 1)
    found = replicator(payoff)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(1.0)
    assert exploitability(payoff, found) < 0.05
    np.testing.assert_allclose(uniform(payoff), 1 / 40)
    assert exploitability(payoff, uniform(payoff)) > 0.1


def test_rectified_is_what_one_beats_or_all_when_it_beats_nothing():
    mixture = np.array([0.5, 0.3, 0.2])
    np.testing.assert_allclose(rectify(mixture, np.array([0.4, 0.5, 0.9])), [0, 0.6, 0.4])
    np.testing.assert_array_equal(rectify(mixture, np.array([0.4, 0.4, 0.1])), mixture)


@pytest.mark.parametrize("solve", sorted(META_STRATEGIES))
@pytest.mark.parametrize(
    "payoff", [np.zeros((0, 0)), np.zeros((2, 3)), np.ones((2, 2)), np.full((1, 1), np.nan)]
)
def test_what_is_no_symmetric_zero_sum_game_is_refused(solve, payoff):
    with pytest.raises(ValueError, match="expected \\[n, n\\], finite and antisymmetric"):
        META_STRATEGIES[solve](payoff)
