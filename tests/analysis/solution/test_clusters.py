import nashpy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.solution import effective_diversity, nash_clusters, zero_sum_nash

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def antisymmetric(n, seed):
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


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
    layers = layer_of_each(tower[np.ix_(order, order)])
    np.testing.assert_array_equal(layers, 3 - level[order])


def test_a_hundred_who_share_an_equilibrium_are_one_layer_above_who_loses_to_them():
    ahead = np.subtract.outer(np.arange(101), np.arange(101)) % 101
    payoff = np.zeros((102, 102))
    payoff[:101, :101] = np.where(ahead == 0, 0.0, np.where(ahead <= 50, 1.0, -1.0))  # of 101, each beats 50
    payoff[:101, 101], payoff[101, :101] = 0.01, -0.01
    assert listed(nash_clusters(payoff)) == [list(range(101)), [101]]


def test_a_copy_is_in_the_layer_of_its_original():
    payoff = antisymmetric(8, 1)
    members = [0, 1, 2, 3, 4, 5, 6, 7, 2, 2, 5, 0]
    np.testing.assert_array_equal(
        layer_of_each(payoff[np.ix_(members, members)]), layer_of_each(payoff)[members]
    )


@pytest.mark.parametrize("seed", range(5))
def test_layers_are_the_supports_that_nashpy_finds(seed):
    payoff, left, expected = antisymmetric(12, seed), list(range(12)), []
    while left:
        game = payoff[np.ix_(left, left)]
        support, _ = nashpy.Game(game, -game).linear_program()  # the only equilibrium: payoffs are random
        expected.append([member for member, share in zip(left, support, strict=True) if share > 1e-9])
        left = [member for member in left if member not in expected[-1]]
    assert listed(nash_clusters(payoff)) == expected


@pytest.mark.slow
@settings(deadline=None, max_examples=25)
@given(st.integers(1, 30), st.integers(0, 10**6), st.booleans())
def test_each_layer_equals_or_beats_every_later_one_and_everybody_is_in_one(n, seed, coarse):
    payoff = np.round(antisymmetric(n, seed)) if coarse else antisymmetric(n, seed)
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
    payoff = antisymmetric(7, 1)
    expected = effective_diversity(payoff)
    assert expected > 0.0
    members = [0, 0, 0, 1, 2, 3, 3, 4, 5, 6]
    assert effective_diversity(payoff[np.ix_(members, members)]) == pytest.approx(expected, abs=1e-5)
    weak = np.zeros((8, 8))
    weak[:7, :7], weak[:7, 7], weak[7, :7] = payoff, 0.9, -0.9
    assert effective_diversity(weak) == pytest.approx(expected, abs=1e-5)


def test_payoffs_that_are_not_finite_have_no_diversity():
    with pytest.raises(ValueError, match="finite"):
        effective_diversity(np.array([[0.0, np.nan], [0.0, 0.0]]))
