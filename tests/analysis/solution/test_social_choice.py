"""Votes of published examples, and random ones against OpenSpiel's voting methods."""

import itertools

import numpy as np
import pyspiel
import pytest
from open_spiel.python.voting import base, kemeny_young

from analysis.solution.equilibria.nash import best_response_gain
from analysis.solution.social_choice import (
    iterated_maximal_lotteries,
    kemeny,
    margins_of_ballots,
    maximal_lottery,
    soft_condorcet,
)

# Wikipedia, "Kemeny-Young method": the capital of Tennessee. Memphis, Nashville, Chattanooga, Knoxville.
TENNESSEE = margins_of_ballots([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 1, 0], [3, 2, 1, 0]], 4, [42, 26, 15, 17])
# Lanctot et al. 2023, the meeple pentathlon: five games rank agents A, B, C.
PENTATHLON = margins_of_ballots([[0, 1, 2], [0, 2, 1], [2, 0, 1], [2, 0, 1], [1, 2, 0]], 3)
# Condorcet's sixty voters (1785), as in Young 1988: majorities a > b 33 : 27, b > c 42 : 18, c > a 35 : 25.
SIXTY = margins_of_ballots([[0, 1, 2], [1, 2, 0], [1, 0, 2], [2, 0, 1], [2, 1, 0]], 3, [23, 17, 2, 10, 8])


def random_ballots(n, voters, rng):
    return [rng.permutation(n).tolist() for _ in range(voters)]


def antisymmetric(matrix):
    return np.triu(matrix, 1) - np.triu(matrix, 1).T


@pytest.fixture
def rng():
    return np.random.default_rng(2)


def test_margins_count_votes_of_ballots_also_of_those_that_leave_some_out():
    margins = margins_of_ballots([[0, 1, 2], [2, 0]], 3, [2, 1])
    np.testing.assert_array_equal(margins, [[0, 2, 1], [-2, 0, 2], [-1, -2, 0]])
    assert SIXTY[0, 1] == 33 - 27
    assert SIXTY[1, 2] == 42 - 18
    assert SIXTY[2, 0] == 35 - 25


@pytest.mark.parametrize(
    ("margins", "order", "agreements", "votes"),
    [(TENNESSEE, [1, 2, 3, 0], 393, 600), (PENTATHLON, [2, 0, 1], 10, 15), (SIXTY, [1, 2, 0], 104, 180)],
    ids=["tennessee", "pentathlon", "condorcet-1785"],
)
def test_published_kemeny_rankings(margins, order, agreements, votes):
    found = kemeny(margins)
    assert found.order.tolist() == order
    assert found.agreement == 2 * agreements - votes  # less those that disagree
    assert found.optimal
    assert found.ranks[order].tolist() == list(range(1, len(order) + 1))


def test_kemeny_agrees_with_openspiel_on_random_profiles(rng):
    for _ in range(10):
        ballots = random_ballots(6, 5, rng)
        profile = base.PreferenceProfile(votes=ballots, alternatives=list(range(6)))
        expected = sum(kemeny_young.KemenyYoungVoting().run_election(profile).scores)
        found = kemeny(margins_of_ballots(ballots, 6))
        assert found.optimal
        assert found.agreement == 2 * expected - 5 * 15


@pytest.mark.slow
def test_kemeny_is_the_best_of_all_rankings_also_with_ties(rng):
    for _ in range(20):
        margins = antisymmetric(rng.integers(-3, 4, (6, 6)).astype(float))
        best = max(np.triu(margins[np.ix_(p, p)], 1).sum() for p in itertools.permutations(range(6)))
        assert kemeny(margins).agreement == pytest.approx(best)
        assert kemeny(margins, exact_up_to=0).agreement >= 0.9 * best


def test_a_large_circle_of_majorities_is_ranked_exactly_and_a_larger_one_well(rng):
    margins = antisymmetric(rng.normal(size=(18, 18)))
    exact, quick = kemeny(margins), kemeny(margins, exact_up_to=10)
    assert exact.optimal
    assert not quick.optimal
    assert 0.95 * exact.agreement <= quick.agreement <= exact.agreement


def test_who_beats_all_below_is_ranked_above_whatever_goes_on_there():
    """Two circles of three, one above the other, each found for itself: proven without any search."""
    circle = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    margins = np.zeros((6, 6))
    margins[:3, :3] = margins[3:, 3:] = circle
    margins[:3, 3:], margins[3:, :3] = -0.1, 0.1
    found = kemeny(margins)
    assert set(found.order[:3].tolist()) == {3, 4, 5}
    assert found.agreement == pytest.approx(1 + 1 + 0.9)
    assert found.optimal


def test_a_field_without_circles_is_ranked_exactly_at_any_size(rng):
    strength = rng.permutation(400)
    found = kemeny(np.tanh((strength[:, None] - strength) / 100.0))
    assert found.optimal
    np.testing.assert_array_equal(found.order, np.argsort(-strength))


def test_published_maximal_lotteries():
    """The circle of Wikipedia's "Maximal lotteries"; with Condorcet's majorities each has the margin of the
    other two; and Nashville, who beats all others."""
    circle = margins_of_ballots([[0, 1, 2], [1, 2, 0], [2, 0, 1]], 3, [2, 2, 1])
    np.testing.assert_allclose(maximal_lottery(circle), [3 / 5, 1 / 5, 1 / 5], atol=1e-5)
    np.testing.assert_allclose(maximal_lottery(SIXTY), np.array([24, 10, 6]) / 40, atol=1e-5)
    np.testing.assert_array_equal(maximal_lottery(TENNESSEE), [0, 1, 0, 0])


def test_no_mixture_is_preferred_to_a_maximal_lottery(rng):
    for n in (4, 9):
        margins = margins_of_ballots(random_ballots(n, 7, rng), n)
        lottery = maximal_lottery(margins)
        assert lottery.sum() == pytest.approx(1.0)
        assert best_response_gain(margins / 7, lottery) < 1e-5


def test_twins_share_a_lottery_and_take_nothing_from_others():
    """Independence of clones (Brandl, Brandt and Seedig, Econometrica 84, 2016)."""
    circle = margins_of_ballots([[0, 1, 2], [1, 2, 0], [2, 0, 1]], 3, [2, 2, 1])
    twins = circle[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])]
    np.testing.assert_allclose(maximal_lottery(twins), [3 / 10, 3 / 10, 1 / 5, 1 / 5], atol=1e-4)


def test_lotteries_of_the_rest_rank_all():
    """OpenSpiel's example: a beats b and c, b beats c."""
    margins = margins_of_ballots([[0, 1, 2], [0, 2, 1], [1, 0, 2]], 3)
    np.testing.assert_allclose(iterated_maximal_lotteries(margins), [3.0, 2.0, 1.0])
    np.testing.assert_allclose(iterated_maximal_lotteries(np.zeros((3, 3))), 1 / 3, atol=1e-5)


@pytest.mark.parametrize(
    ("margins", "order"),
    [(TENNESSEE, [1, 2, 3, 0]), (PENTATHLON, [2, 0, 1])],
    ids=["tennessee", "pentathlon"],
)
def test_soft_condorcet_ranks_published_examples_as_kemeny_does(margins, order):
    assert np.argsort(-soft_condorcet(margins)).tolist() == order


def loss_of(margins, ratings):
    return 0.5 * (margins / (1 + np.exp(ratings[:, None] - ratings))).sum()


@pytest.mark.long
def test_soft_condorcet_loses_no_more_than_openspiels_descent(rng):
    for seed in range(4):
        ballots = random_ballots(6, 9, rng)
        solver = pyspiel.sco.SoftCondorcetOptimizer(
            [(1, [str(a) for a in ballot]) for ballot in ballots],
            rating_lower_bound=-10.0,
            rating_upper_bound=10.0,
            batch_size=32,
            temperature=1.0,
            rng_seed=seed,
        )
        solver.run_solver(20_000, 0.02)
        theirs = np.array([solver.ratings()[str(a)] for a in range(6)])
        margins = margins_of_ballots(ballots, 6)
        assert loss_of(margins, soft_condorcet(margins)) <= loss_of(margins, theirs) + 1e-3


def test_cold_soft_condorcet_ratings_order_nearly_as_kemeny(rng):
    for _ in range(5):
        margins = margins_of_ballots(random_ballots(8, 15, rng), 8)
        order = np.argsort(-soft_condorcet(margins, temperature=0.3))
        reached = np.triu(margins[np.ix_(order, order)], 1).sum()
        assert reached >= 0.9 * kemeny(margins).agreement


def test_a_condorcet_winner_is_rated_best_where_elo_rates_another(rng):
    """Lanctot et al. 2024: C beats A and B three to two, yet Bradley and Terry prefer A, who beats B four
    to one."""
    from analysis.solution.cycles.schur import split

    assert np.argmax(split(PENTATHLON / 5).strengths) == 0
    assert np.argmax(soft_condorcet(PENTATHLON)) == 2


def test_without_votes_all_are_alike():
    nothing = np.zeros((3, 3))
    assert kemeny(nothing).order.tolist() == [0, 1, 2]
    np.testing.assert_allclose(maximal_lottery(nothing), 1 / 3, atol=1e-6)
    assert not soft_condorcet(nothing).any()
    assert kemeny(np.zeros((0, 0))).order.tolist() == []


def test_each_level_of_lotteries_is_one_above_the_next_however_thin_it_is_spread():
    ahead = np.subtract.outer(np.arange(7), np.arange(7)) % 7
    margins = np.zeros((9, 9))
    margins[:7, :7] = np.where(ahead == 0, 0.0, np.where(ahead <= 3, 1.0, -1.0))
    margins[:7, 7:], margins[7:, :7] = 1.0, -1.0
    margins[7, 8], margins[8, 7] = 1.0, -1.0
    expected = [2 + 1 / 7] * 7 + [2.0, 1.0]
    np.testing.assert_allclose(iterated_maximal_lotteries(margins), expected, atol=1e-6)
