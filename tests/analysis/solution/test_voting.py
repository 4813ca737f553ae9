"""Votes of published examples, and random ones against OpenSpiel's voting methods."""

import itertools

import numpy as np
import pytest
from open_spiel.python.voting import base, kemeny_young

from analysis.solution.voting import kemeny, kemeny_score, scores_of_firsts
from tests.analysis.simulated_games import ROCK_PAPER_SCISSORS, antisymmetric


def margins_of_ballots(ballots, weights=None):
    """Votes [N, N] for row over column less those for column over row."""
    votes = [
        base.WeightedVote(weight, [str(one) for one in ballot])
        for ballot, weight in zip(ballots, weights or [1] * len(ballots), strict=True)
    ]
    profile = base.PreferenceProfile(votes=votes, alternatives=[str(k) for k in range(len(ballots[0]))])
    return np.asarray(profile.margin_matrix(), dtype=float)


# Wikipedia, "Kemeny-Young method": the capital of Tennessee. Memphis, Nashville, Chattanooga, Knoxville.
TENNESSEE = margins_of_ballots([[0, 1, 2, 3], [1, 2, 3, 0], [2, 3, 1, 0], [3, 2, 1, 0]], [42, 26, 15, 17])
# Lanctot et al. 2023, the meeple pentathlon: five games rank agents A, B, C.
PENTATHLON = margins_of_ballots([[0, 1, 2], [0, 2, 1], [2, 0, 1], [2, 0, 1], [1, 2, 0]])
# Condorcet's sixty voters (1785), as in Young 1988: majorities a > b 33 : 27, b > c 42 : 18, c > a 35 : 25.
SIXTY = margins_of_ballots([[0, 1, 2], [1, 2, 0], [1, 0, 2], [2, 0, 1], [2, 1, 0]], [23, 17, 2, 10, 8])


def random_ballots(n, voters, rng):
    return [rng.permutation(n).tolist() for _ in range(voters)]


@pytest.fixture
def rng():
    return np.random.default_rng(2)


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
    assert found.agreement == kemeny_score(margins, found.order)


def test_the_ranking_and_the_score_of_each_alternative_are_openspiels(rng):
    for _ in range(10):
        ballots = random_ballots(6, 5, rng)
        profile = base.PreferenceProfile(votes=ballots, alternatives=list(range(6)))
        theirs = kemeny_young.KemenyYoungVoting().run_election(profile)
        found = kemeny(margins_of_ballots(ballots))
        assert found.optimal
        # They count votes for it alone; the margin is twice that less all votes on those below it.
        below = 5 * np.arange(5, -1, -1)
        assert found.agreement == (2 * np.array(theirs.scores) - below).sum()
        if theirs.ranking == found.order.tolist():  # there may be several
            np.testing.assert_array_equal(found.scores[found.order], 2 * np.array(theirs.scores) - below)


@pytest.mark.slow
def test_kemeny_is_the_best_of_all_rankings_also_with_ties(rng):
    for _ in range(20):
        margins = antisymmetric(rng.integers(-3, 4, (6, 6)).astype(float))
        best = max(np.triu(margins[np.ix_(p, p)], 1).sum() for p in itertools.permutations(range(6)))
        assert kemeny(margins).agreement == pytest.approx(best)
        assert kemeny(margins, exact_up_to=0).agreement >= 0.9 * best


def test_the_score_of_an_alternative_is_that_of_the_best_ranking_that_has_it_first(rng):
    margins = antisymmetric(rng.integers(-3, 4, (5, 5)).astype(float))
    best = np.full(5, -np.inf)
    for p in itertools.permutations(range(5)):
        best[p[0]] = max(best[p[0]], np.triu(margins[np.ix_(p, p)], 1).sum())
    np.testing.assert_allclose(scores_of_firsts(margins), best)
    assert scores_of_firsts(TENNESSEE).max() == kemeny(TENNESSEE).agreement


def test_a_large_circle_of_majorities_is_ranked_exactly_and_a_larger_one_well(rng):
    margins = antisymmetric(rng.normal(size=(14, 14)))
    exact, quick = kemeny(margins), kemeny(margins, exact_up_to=10)
    assert exact.optimal
    assert not quick.optimal
    assert 0.95 * exact.agreement <= quick.agreement <= exact.agreement


def test_who_beats_all_below_is_ranked_above_whatever_goes_on_there():
    """Two circles of three, one above the other, each found for itself: proven without any search."""
    margins = np.zeros((6, 6))
    margins[:3, :3] = margins[3:, 3:] = ROCK_PAPER_SCISSORS
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


def test_without_votes_all_are_alike():
    assert kemeny(np.zeros((3, 3))).order.tolist() == [0, 1, 2]
