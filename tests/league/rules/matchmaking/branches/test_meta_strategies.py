import subprocess
import sys

import numpy as np
import pytest

from analysis.solution.nash import best_response_gain
from league.rules.matchmaking.branches.meta_strategies import META_STRATEGIES, replicator

ROCK_FOR_TWO = np.array([[0.0, -2.0, 1.0], [2.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])  # paper wins two from rock
DOMINATED = np.array([[0.0, 1.0], [-1.0, 0.0]])


def antisymmetric(n, seed):
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


def test_the_replicator_comes_near_an_equilibrium_and_forgets_nobody():
    payoff = antisymmetric(40, 1)
    found = replicator(payoff)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(1.0)
    assert best_response_gain(payoff, found) < 0.05


@pytest.mark.parametrize("name", ["nash", "rectified"])
def test_what_is_named_after_nash_cannot_be_exploited(name):
    payoff = antisymmetric(30, 2)
    assert best_response_gain(payoff, META_STRATEGIES[name](payoff)) < 1e-7


@pytest.mark.parametrize(
    ("name", "cycle", "dominated"),
    [
        ("nash", [1 / 4, 1 / 4, 1 / 2], [1, 0]),
        ("replicator", [1 / 4, 1 / 4, 1 / 2], [1, 0]),
        ("projected_replicator", [1 / 4, 1 / 4, 1 / 2], [1, 0]),
        ("alpha_rank", [1 / 3, 1 / 3, 1 / 3], [1, 0]),  # a cycle of three is one sink, whatever is paid
        ("rectified", [1 / 4, 1 / 4, 1 / 2], [1, 0]),
        ("anytime", [1 / 4, 1 / 4, 1 / 2], [1, 0]),
    ],
)
def test_each_meta_strategy_finds_the_known_mixture_of_a_matrix_game(name, cycle, dominated):
    np.testing.assert_allclose(META_STRATEGIES[name](ROCK_FOR_TWO / 2), cycle, atol=0.02)
    np.testing.assert_allclose(META_STRATEGIES[name](DOMINATED), dominated, atol=0.02)


@pytest.mark.parametrize("solve", sorted(META_STRATEGIES))
@pytest.mark.parametrize(
    "payoff", [np.zeros((0, 0)), np.zeros((2, 3)), np.ones((2, 2)), np.full((1, 1), np.nan)]
)
def test_what_is_no_symmetric_zero_sum_game_is_refused(solve, payoff):
    with pytest.raises(ValueError, match="expected \\[n, n\\], finite and antisymmetric"):
        META_STRATEGIES[solve](payoff)


@pytest.mark.slow
def test_they_take_their_equilibria_from_analysis_but_neither_its_history_nor_scipy():
    code = (
        "import sys, league.rules.matchmaking.branches.meta_strategies\n"
        "print([name for name in ('analysis.history', 'scipy', 'torch', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
