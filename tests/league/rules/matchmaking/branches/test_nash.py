import dataclasses
import subprocess
import sys

import numpy as np
import pytest

from analysis.solution.equilibria.nash import best_response_gain
from league.rules.matchmaking.branches.nash import META_STRATEGIES, Nash, rectify, replicator, uniform
from league.rules.standings import Standings
from storage.records import Outcome


def antisymmetric(n, seed):
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


def test_the_replicator_comes_near_an_equilibrium_and_forgets_nobody():
    payoff = antisymmetric(40, 1)
    found = replicator(payoff)
    assert (found > 0).all()
    assert found.sum() == pytest.approx(1.0)
    assert best_response_gain(payoff, found) < 0.05
    np.testing.assert_allclose(uniform(payoff), 1 / 40)
    assert best_response_gain(payoff, uniform(payoff)) > 0.1


@pytest.mark.parametrize("name", ["nash", "rectified"])
def test_what_is_named_after_nash_cannot_be_exploited(name):
    payoff = antisymmetric(30, 2)
    assert best_response_gain(payoff, META_STRATEGIES[name](payoff)) < 1e-7


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


@pytest.mark.slow
def test_rules_take_their_equilibria_from_analysis_but_neither_its_history_nor_scipy():
    code = (
        "import sys, league.rules.matchmaking.branches.nash\n"
        "print([name for name in ('analysis.history', 'scipy', 'torch', 'ray') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_mixture_is_that_of_the_scores_where_payoffs_count_scores(make):
    """`a` wins nine of ten games against `b`, but loses more in the tenth than it wins in all."""
    found = {}
    for scale in (None, 1.0):
        it = make.crowd("main-0", {}, snapshots={"main-0": 2})
        standings = Standings(it.roster, decay=1.0, scale=scale)
        names = ("main-0@0", "main-0@1")
        batch = make.games(*[(*names, Outcome.WIN)] * 9, (*names, Outcome.LOSS))
        batch.score[:] = np.array([[1.0, -1.0]] * 9 + [[-20.0, 20.0]])
        standings.record(batch)
        view = it.view("nash", prior_strength=0.0)
        pool = Nash(share=1.0).pool(dataclasses.replace(view, standings=standings))
        found[scale] = pool.p.round(6).tolist()
    assert found == {None: [1.0, 0.0], 1.0: [0.0, 1.0]}
