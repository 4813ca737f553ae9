import warnings

import nashpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from analysis.solution import (
    best_response_gain,
    effective_diversity,
    max_entropy_nash,
    nash_averaging,
    nash_averaging_on_tasks,
    nash_clusters,
    zero_sum_nash,
)
from analysis.solution.max_entropy import most_entropy
from analysis.solution.nash import TOLERANCE
from tests.analysis.simulated_games import ROCK_PAPER_SCISSORS, antisymmetric


def drawn(n, seed, scale=1.0):
    return antisymmetric(np.random.default_rng(seed).uniform(-scale, scale, (n, n)))


def copied(payoff, *members):
    return payoff[np.ix_(members, members)]


def entropy(mixture):
    return float(-(mixture[mixture > 0] * np.log(mixture[mixture > 0])).sum())


def test_rock_paper_scissors_is_played_evenly():
    np.testing.assert_allclose(max_entropy_nash(ROCK_PAPER_SCISSORS), 1 / 3, atol=1e-8)


def test_what_is_dominated_is_not_played():
    payoff = np.zeros((4, 4))
    payoff[:3, :3] = ROCK_PAPER_SCISSORS
    for loss in (0.001, 0.01, 0.5):
        payoff[3, :3], payoff[:3, 3] = -loss, loss
        np.testing.assert_allclose(max_entropy_nash(payoff), [1 / 3, 1 / 3, 1 / 3, 0], atol=2e-5)


def test_weighted_rock_paper_scissors_is_played_by_the_stakes():
    a, b, c = 0.2, 0.5, 1.0  # what paper, scissors and rock win
    payoff = np.array([[0.0, -a, c], [a, 0.0, -b], [-c, b, 0.0]])
    np.testing.assert_allclose(max_entropy_nash(payoff), np.array([b, c, a]) / (a + b + c), atol=1e-6)


@pytest.mark.parametrize("n", [1, 2, 7])
def test_equals_are_played_evenly(n):
    np.testing.assert_allclose(max_entropy_nash(np.zeros((n, n))), 1 / n, atol=1e-9)


@pytest.mark.parametrize("scale", [1e-8, 1e-2, 1.0])
@pytest.mark.parametrize("n", [2, 3, 5, 20, 75, 200])
def test_nothing_gains_against_the_mixture_of_any_pool(n, scale):
    for seed in range(10 if n < 100 else 2):
        payoff = drawn(n, seed, scale)
        found = max_entropy_nash(payoff)
        assert (found >= 0).all()
        assert found.sum() == pytest.approx(1.0)
        assert best_response_gain(payoff, found) < 1e-7


@pytest.mark.slow
@settings(deadline=None, max_examples=60)
@given(st.integers(1, 60), st.integers(0, 10**6), st.sampled_from([0.0, 0.1, 1.0]))
def test_nothing_gains_either_where_many_pairs_are_even_or_decided(n, seed, coarse):
    payoff = drawn(n, seed)
    payoff = np.sign(payoff) * (np.abs(payoff) > coarse / 2)
    assert best_response_gain(payoff, max_entropy_nash(payoff)) < TOLERANCE


def test_a_pool_that_grew_finds_what_all_at_once_find():
    rungs = np.linspace(0.0, 3.0, 200)
    payoff = np.tanh(np.subtract.outer(rungs, rungs) + drawn(200, 4))
    members = np.random.default_rng(0).permutation(200)
    all_at_once = most_entropy(copied(payoff, *members), np.full(200, 1e-8))
    np.testing.assert_allclose(max_entropy_nash(copied(payoff, *members)), all_at_once, atol=2e-5)


def equilibria_by_support(payoff):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nashpy warns of every degenerate support
        return np.array([rows for rows, _ in nashpy.Game(payoff, -payoff).support_enumeration()])


def test_of_several_it_is_the_most_even_mixture_of_the_corners_that_nashpy_finds():
    # One cycle of three, and another through a copy of a third that also beats the last.
    payoff = np.zeros((5, 5))
    payoff[:3, :3] = ROCK_PAPER_SCISSORS
    payoff[3, :3], payoff[:3, 3] = ROCK_PAPER_SCISSORS[2], -ROCK_PAPER_SCISSORS[2]
    payoff[4, :4], payoff[:4, 4] = [-0.2, -0.2, -0.2, -1.0], [0.2, 0.2, 0.2, 1.0]
    corners = equilibria_by_support(payoff)
    assert len(corners) > 1
    best = minimize(
        lambda weights: -entropy(np.abs(weights) @ corners / np.abs(weights).sum()), np.ones(len(corners))
    )
    expected = np.abs(best.x) @ corners / np.abs(best.x).sum()
    np.testing.assert_allclose(max_entropy_nash(payoff), expected, atol=1e-4)


def test_the_value_of_a_zero_sum_game_is_nashpys_and_neither_player_can_improve():
    for seed in range(5):
        payoff = np.random.default_rng(seed).normal(size=(4, 7))
        found = zero_sum_nash(payoff)
        assert (payoff.T @ found.rows).min() == pytest.approx(found.value, abs=1e-8)
        assert (payoff @ found.columns).max() == pytest.approx(found.value, abs=1e-8)
        theirs, _ = nashpy.Game(payoff).linear_program()
        assert (payoff.T @ theirs).min() == pytest.approx(found.value, abs=1e-8)
        np.testing.assert_allclose(found.rows, theirs, atol=1e-7)


def test_a_task_that_nobody_needs_to_fear_and_an_agent_nobody_needs_have_no_share():
    # Inputs of OpenSpiel's nash_averaging_test : each agent better at all tasks than the last.
    scores = np.array([[0.0, 0.0, 0.0], [1.0, 10.0, 100.0], [2.0, 20.0, 200.0], [3.0, 30.0, 300.0]])
    agents, tasks = nash_averaging_on_tasks(scores)
    np.testing.assert_allclose(agents.mixture, [0, 0, 0, 1], atol=1e-4)
    np.testing.assert_allclose(tasks.mixture, [1, 0, 0], atol=1e-4)
    np.testing.assert_allclose(agents.ratings, [0, 1, 2, 3], atol=0.05)
    np.testing.assert_allclose(tasks.ratings, [-3, -30, -300], atol=0.05)
    two_best = nash_averaging_on_tasks(np.vstack([scores, scores[3]]))[0]
    np.testing.assert_allclose(two_best.mixture, [0, 0, 0, 0.5, 0.5], atol=1e-4)
    assert two_best.ratings[3] == pytest.approx(two_best.ratings[4])


def test_a_task_given_twice_or_that_all_can_do_changes_no_agents_average():
    scores = np.random.default_rng(0).uniform(0.0, 1.0, (5, 4))
    before, tasks = nash_averaging_on_tasks(scores)
    more = np.hstack([scores, scores[:, [0, 0, 2]], np.ones((5, 1))])
    after, more_tasks = nash_averaging_on_tasks(more)
    np.testing.assert_allclose(after.ratings, before.ratings, atol=1e-5)
    np.testing.assert_allclose(after.mixture, before.mixture, atol=1e-4)
    assert more_tasks.mixture[-1] < 1e-5
    np.testing.assert_allclose(more_tasks.mixture[0] * 3, tasks.mixture[0], atol=1e-4)
    value = pytest.approx(zero_sum_nash(scores).value, abs=1e-6)
    assert (scores @ tasks.mixture).max() == value == (before.mixture @ scores).min()


def test_the_average_of_openspiels_transitive_example_puts_all_on_the_top():
    transitive = np.array([[0.0, -1.0, -1.0], [1.0, 0.0, -1.0], [1.0, 1.0, 0.0]])
    found = nash_averaging(transitive)
    np.testing.assert_allclose(found.mixture, [0, 0, 1], atol=1e-6)
    np.testing.assert_allclose(found.ratings, [-1, -1, 0], atol=1e-6)
    # Their `game0`, of which they ask only that the three dominated agents have no share.
    stakes = np.array([[0.0, 234, 34, -270], [-234, 0, -38, -464], [-34, 38, 0, -270], [270, 464, 270, 0]])
    found = nash_averaging(stakes)
    np.testing.assert_allclose(found.mixture, [0, 0, 0, 1], atol=1e-5)
    np.testing.assert_allclose(found.ratings, stakes[:, 3], atol=1e-2)


def test_the_published_examples_of_nash_averaging_are_found():
    # Balduzzi et al. 2018, their examples of invariance and of continuity: logits of a cycle, one member of
    # which is there twice; and a cycle C with ever more of a ladder T, until the first beats all.
    cycle = 4.6 * ROCK_PAPER_SCISSORS.T
    found = nash_averaging(copied(cycle, 0, 1, 2, 2))
    np.testing.assert_allclose(found.mixture, [1 / 3, 1 / 3, 1 / 6, 1 / 6], atol=1e-6)
    np.testing.assert_allclose(found.ratings, 0.0, atol=1e-6)
    c, t = ROCK_PAPER_SCISSORS.T, np.subtract.outer([2.0, 1.0, 0.0], [2.0, 1.0, 0.0])
    for e in (0.0, 0.1, 0.3, 0.49):
        found = nash_averaging(c + e * t)
        np.testing.assert_allclose(found.mixture, np.array([1 + e, 1 - 2 * e, 1 + e]) / 3, atol=1e-5)
        np.testing.assert_allclose(found.ratings, 0.0, atol=1e-6)
    for e in (0.51, 1.0, 5.0):
        found = nash_averaging(c + e * t)
        np.testing.assert_allclose(found.mixture, [1, 0, 0], atol=1e-5)
        np.testing.assert_allclose(found.ratings, [0, -1 - e, 1 - 2 * e], atol=1e-5)


@pytest.mark.parametrize("seed", range(5))
def test_copies_and_weaklings_move_nobodys_nash_average(seed):
    payoff = drawn(12, seed)
    before = nash_averaging(payoff)
    members = [*range(12), 3, 3, 3, 7, 0]
    after = nash_averaging(copied(payoff, *members))
    np.testing.assert_allclose(after.ratings, before.ratings[members], atol=1e-5)
    together = np.bincount(members, weights=after.mixture)
    np.testing.assert_allclose(together, before.mixture, atol=1e-4)

    losses = np.random.default_rng(seed).uniform(0.5, 1.0, (12, 30))
    weak = np.block([[payoff, losses], [-losses.T, drawn(30, seed + 1)]])
    after = nash_averaging(weak)
    np.testing.assert_allclose(after.ratings[:12], before.ratings, atol=1e-5)
    assert after.mixture[12:].sum() < 1e-5
    assert (after.ratings[12:] < -0.5 + 1e-5).all()


@pytest.mark.parametrize("solve", [max_entropy_nash, nash_averaging])
@pytest.mark.parametrize(
    "payoff", [np.zeros((0, 0)), np.zeros((2, 3)), np.ones((2, 2)), np.full((1, 1), np.nan)]
)
def test_what_is_no_symmetric_zero_sum_game_is_refused(solve, payoff):
    with pytest.raises(ValueError, match="expected \\[n, n\\], finite and antisymmetric"):
        solve(payoff)


def listed(clusters):
    return [members.tolist() for members in clusters]


def layer_of_each(payoff):
    layers = np.empty(len(payoff))
    for number, members in enumerate(nash_clusters(payoff)):
        layers[members] = number
    return layers


def test_a_ladder_has_a_layer_for_each_and_a_cycle_one_for_all():
    rungs = np.array([3.0, 1.0, 2.0, 0.0])
    assert listed(nash_clusters(np.sign(np.subtract.outer(rungs, rungs)))) == [[0], [2], [1], [3]]
    assert listed(nash_clusters(ROCK_PAPER_SCISSORS)) == [[0, 1, 2]]
    assert listed(nash_clusters(np.zeros((4, 4)))) == [[0, 1, 2, 3]]
    assert listed(nash_clusters(np.zeros((1, 1)))) == [[0]]


def test_cycles_on_top_of_one_another_are_layers_in_any_order_of_members():
    # Czarnecki et al. 2020: a game of layers in which all of one layer beat all of those below.
    tower = np.kron(np.eye(4), 0.3 * ROCK_PAPER_SCISSORS)
    level = np.arange(12) // 3
    tower += np.sign(np.subtract.outer(level, level)) * 0.6
    order = np.random.default_rng(0).permutation(12)
    layers = layer_of_each(copied(tower, *order))
    np.testing.assert_array_equal(layers, 3 - level[order])


def test_a_hundred_who_share_an_equilibrium_are_one_layer_above_who_loses_to_them():
    ahead = np.subtract.outer(np.arange(101), np.arange(101)) % 101
    payoff = np.zeros((102, 102))
    payoff[:101, :101] = np.where(ahead == 0, 0.0, np.where(ahead <= 50, 1.0, -1.0))  # of 101, each beats 50
    payoff[:101, 101], payoff[101, :101] = 0.01, -0.01
    assert listed(nash_clusters(payoff)) == [list(range(101)), [101]]


def test_a_copy_is_in_the_layer_of_its_original():
    payoff = drawn(8, 1)
    members = [0, 1, 2, 3, 4, 5, 6, 7, 2, 2, 5, 0]
    np.testing.assert_array_equal(layer_of_each(copied(payoff, *members)), layer_of_each(payoff)[members])


@pytest.mark.parametrize("seed", range(5))
def test_layers_are_the_supports_that_nashpy_finds(seed):
    payoff, left, expected = drawn(12, seed), list(range(12)), []
    while left:
        game = copied(payoff, *left)
        support, _ = nashpy.Game(game, -game).linear_program()  # the only equilibrium: payoffs are random
        expected.append([member for member, share in zip(left, support, strict=True) if share > 1e-9])
        left = [member for member in left if member not in expected[-1]]
    assert listed(nash_clusters(payoff)) == expected


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(1, 30), st.integers(0, 10**6), st.booleans())
def test_each_layer_equals_or_beats_every_later_one_and_everybody_is_in_one(n, seed, coarse):
    payoff = np.round(drawn(n, seed)) if coarse else drawn(n, seed)
    clusters = nash_clusters(payoff)
    np.testing.assert_array_equal(np.sort(np.concatenate(clusters)), np.arange(n))
    for number, members in enumerate(clusters):
        for later in clusters[number + 1 :]:
            assert zero_sum_nash(payoff[np.ix_(members, later)]).value > -1e-6


def test_diversity_is_a_third_in_rock_paper_scissors_and_none_where_one_is_best():
    assert effective_diversity(ROCK_PAPER_SCISSORS) == pytest.approx(1 / 3, abs=1e-7)
    rungs = np.arange(8.0)
    assert effective_diversity(np.tanh(np.subtract.outer(rungs, rungs))) == pytest.approx(0.0, abs=1e-6)
    assert effective_diversity(np.zeros((5, 5))) == 0.0


def test_diversity_counts_neither_copies_nor_who_loses_to_all():
    payoff = drawn(7, 1)
    expected = effective_diversity(payoff)
    assert expected > 0.0
    members = [0, 0, 0, 1, 2, 3, 3, 4, 5, 6]
    assert effective_diversity(copied(payoff, *members)) == pytest.approx(expected, abs=1e-5)
    weak = np.zeros((8, 8))
    weak[:7, :7], weak[:7, 7], weak[7, :7] = payoff, 0.9, -0.9
    assert effective_diversity(weak) == pytest.approx(expected, abs=1e-5)
