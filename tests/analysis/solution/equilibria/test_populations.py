import nashpy
import numpy as np
import pytest

from analysis.solution import (
    effective_diversity,
    effective_rank,
    expected_cardinality,
    relative_population_performance,
)

ROCK_PAPER_SCISSORS = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])


def antisymmetric(n, seed):
    drawn = np.random.default_rng(seed).uniform(-1.0, 1.0, (n, n))
    return np.triu(drawn, 1) - np.triu(drawn, 1).T


def test_the_performance_of_populations_is_the_value_of_the_game_between_them():
    # By hand: rock and paper against rock and scissors. Paper in a third and rock gain 1/3 against either.
    assert relative_population_performance(ROCK_PAPER_SCISSORS, [0, 1], [0, 2]) == pytest.approx(1 / 3)
    assert relative_population_performance(ROCK_PAPER_SCISSORS, [0], [1]) == -1.0
    payoff = antisymmetric(9, 0)
    ours, theirs = [0, 2, 3, 8], [1, 4, 5, 6, 7]
    game = nashpy.Game(payoff[np.ix_(ours, theirs)])
    rows, columns = game.linear_program()
    expected = rows @ payoff[np.ix_(ours, theirs)] @ columns
    assert relative_population_performance(payoff, ours, theirs) == pytest.approx(expected, abs=1e-9)


def test_what_one_population_gains_the_other_loses_and_more_members_never_hurt():
    # Balduzzi et al. 2019: antisymmetric, and monotone in the gamescape.
    for seed in range(5):
        payoff, members = antisymmetric(12, seed), np.random.default_rng(seed).permutation(12)
        ours, theirs = members[:5], members[5:10]
        gained = relative_population_performance(payoff, ours, theirs)
        assert gained == pytest.approx(-relative_population_performance(payoff, theirs, ours), abs=1e-9)
        assert relative_population_performance(payoff, members[[0, 1, 2, 3, 4, 11]], theirs) >= gained - 1e-9
        assert relative_population_performance(payoff, ours, ours) == pytest.approx(0.0, abs=1e-9)


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


def test_cardinality_of_rock_paper_scissors_is_three_halves():
    # By hand: the eigenvalues of L = A A' are 3, 3, 0: 3/4 + 3/4.
    assert expected_cardinality(ROCK_PAPER_SCISSORS) == pytest.approx(1.5)


def test_cardinality_is_the_mean_size_of_samples_of_the_determinantal_process():
    payoff = antisymmetric(5, 2)
    kernel = payoff @ payoff.T
    subsets = [[i for i in range(5) if mask >> i & 1] for mask in range(32)]
    weights = [np.linalg.det(kernel[np.ix_(subset, subset)]) if subset else 1.0 for subset in subsets]
    mean = np.dot(weights, [len(subset) for subset in subsets]) / np.sum(weights)
    assert expected_cardinality(payoff) == pytest.approx(mean)


def test_cardinality_grows_with_every_member_but_less_with_a_copy():
    payoff = antisymmetric(10, 3)
    sizes = [expected_cardinality(payoff[:count]) for count in range(1, 11)]
    assert (np.diff(sizes) > 0.0).all()
    assert sizes[-1] < 10.0
    copied = expected_cardinality(payoff[[0, 1, 2, 2]])
    assert sizes[2] < copied < expected_cardinality(payoff[[0, 1, 2, 3]])
    assert expected_cardinality(np.zeros((4, 4))) == 0.0


def test_effective_rank_counts_planes_twice_and_a_single_direction_once():
    assert effective_rank(ROCK_PAPER_SCISSORS) == pytest.approx(2.0)
    two_cycles = np.kron(np.eye(2), ROCK_PAPER_SCISSORS)
    assert effective_rank(two_cycles) == pytest.approx(4.0)
    assert effective_rank(0.01 * two_cycles) == pytest.approx(4.0)
    assert effective_rank(np.outer([1.0, 2.0, 3.0], [1.0, -1.0])) == pytest.approx(1.0)
    assert effective_rank(np.zeros((3, 3))) == 0.0


@pytest.mark.parametrize("concept", [effective_diversity, expected_cardinality, effective_rank])
def test_payoffs_that_are_not_finite_are_refused(concept):
    with pytest.raises(ValueError, match="finite"):
        concept(np.array([[0.0, np.nan], [0.0, 0.0]]))
