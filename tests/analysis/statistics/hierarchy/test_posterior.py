"""Posteriors of fields whose strengths are known; `python -m tests.bench.coverage` counts many of them."""

import numpy as np
import pytest

from analysis.gates.gates import FEWEST_PAIRS
from analysis.statistics.hierarchy.anchors import Anchor
from analysis.statistics.hierarchy.parts import long_lines, parts_of
from analysis.statistics.hierarchy.posterior import lines_of, posterior
from tests.analysis.simulated_games import games_from, transitive
from tests.bench import best_of_two
from tests.bench.coverage import WORLD, Design, chain, held


@pytest.mark.slow
def test_a_chain_in_which_only_neighbours_met_is_not_drawn_together():
    """55 generations, 50 Elo each: drawn together they were rated 431 Elo apart."""
    truth = 50.0 * np.arange(55)
    found = posterior(chain(truth, 20, np.random.default_rng(1)), samples=2000)
    ends = found.difference(54, 0)
    assert ends.low < 2700.0 < ends.high
    assert ends.elo > 2200.0
    low, high = found.interval()
    assert ((low <= truth - truth.mean()) & (truth - truth.mean() <= high)).mean() > 0.8
    assert found.drift is not None


@pytest.mark.slow
def test_one_far_above_the_rest_is_not_drawn_to_them():
    """One of 16, 800 Elo above the rest: it was rated 290 too low, and its interval held 31 of 100."""
    found = [held(WORLD[1], seed, samples=500) for seed in range(8)]
    assert np.mean([one.first for one in found]) > 0.65
    assert np.mean([one.ratings for one in found]) > 0.9


@pytest.mark.slow
def test_the_first_of_a_cluster_is_not_surely_the_best():
    """Two clusters of ten, 600 Elo apart, spread 50 within: a `p_best` of 0.5 was right in 0.3."""
    design = next(one for one in WORLD if one.shape == "two clusters" and one.far == 600.0)
    assert np.mean([held(design, seed, samples=500).p_best for seed in range(5)]) < 0.45


def test_one_break_of_a_chain_is_not_smoothed_over_its_neighbours():
    steps = np.full(39, 50.0)
    steps[19] = -400.0
    truth = np.concatenate([[0.0], np.cumsum(steps)])
    found = posterior(chain(truth, 40, np.random.default_rng(3)), samples=500)
    assert found.difference(20, 19).elo == pytest.approx(-400.0, abs=120.0)
    assert found.difference(19, 18).elo == pytest.approx(50.0, abs=40.0)


def test_lineage_is_a_prior_that_can_be_switched_off():
    truth = 60.0 * np.arange(12)
    games = chain(truth, 4, np.random.default_rng(2))
    lines = lines_of([-1, *range(11)])
    near = posterior(games, lines=lines, samples=1000)
    field = posterior(games, lines=None, samples=1000)
    assert field.drift is None
    assert near.difference(11, 0).elo > 1.2 * field.difference(11, 0).elo


def test_a_round_robin_is_no_long_line_and_a_chain_is():
    assert long_lines(transitive(np.zeros(12), 1, np.random.default_rng(0))) is None
    assert long_lines(chain(np.zeros(12), 1, np.random.default_rng(0))) is not None


@pytest.mark.slow
def test_equals_that_met_by_their_scores_do_not_look_different():
    """Swiss, 64 equals: 36 of 100 differences looked significant."""
    counted = [held(Design("swiss", 64, 0.0, 2), seed) for seed in range(2)]
    assert np.mean([one.significant for one in counted]) < 0.05
    assert np.mean([one.ratings for one in counted]) > 0.93


@pytest.mark.long
@pytest.mark.variant
def test_the_first_of_a_swiss_tournament_is_not_overrated():
    """Spread 150: of 32, the interval of the one rated first held 78 of 100."""
    counted = [held(Design("swiss", 32, 150.0, 2), seed) for seed in range(30)]
    assert np.mean([one.first for one in counted]) > 0.8
    assert 0.9 < np.mean([one.ratings for one in counted]) < 0.98


@pytest.mark.long
@pytest.mark.variant
def test_one_pair_at_a_table_of_four_is_one_observation_of_each_match():
    """One pair at one table: 32 of 100 held, and half of the runs were sure of the best among equals."""
    counted = [held(Design("round_robin", 4, 150.0, 1, teams=4), seed) for seed in range(40)]
    assert np.mean([one.ratings for one in counted]) > 0.87
    equals = [held(Design("round_robin", 4, 0.0, 1, teams=4), seed) for seed in range(20)]
    assert np.mean([one.p_best > 0.99 for one in equals]) < 0.05


def test_parts_that_never_met_have_no_best_and_no_ranks():
    games = games_from(5, [0, 1, 2, 3], [1, 0, 3, 2], [1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1])
    assert parts_of(games).tolist() == [0, 0, 1, 1, 2]
    found = posterior(games, samples=500)
    assert np.isnan(found.p_best).all()
    assert np.isnan(found.ranks()[0]).all()
    across = found.difference(0, 2)
    assert (across.low, across.high) == (-np.inf, np.inf)
    assert np.isnan(found.order()[0, 2])
    assert found.order()[0, 1] > 0.5


def test_all_figures_come_from_one_posterior():
    games = transitive(np.linspace(0.0, 300.0, 6), 10, np.random.default_rng(3))
    found = posterior(games, anchors={"c0": Anchor()})
    assert found.elo[0] == 0.0
    assert found.p_best.sum() == pytest.approx(1.0)
    order = found.order()
    assert order + order.T == pytest.approx(np.ones((6, 6)), abs=1e-9)
    assert order[5, 4] == pytest.approx(found.difference(5, 4).los)
    mean, low, high = found.ranks()
    assert mean.sum() == pytest.approx(21.0)
    assert (low <= mean).all()
    assert (mean <= high).all()
    again = posterior(games, anchors={"c0": Anchor()})
    assert (again.draws == found.draws).all()


def test_one_that_won_all_its_games_is_skewed_upwards():
    """The quantiles are those of the exact posterior of two, by quadrature: 400, 1,100 and far more."""
    home, away = np.tile([0, 1], 10), np.tile([1, 0], 10)
    found = posterior(games_from(2, home, away, np.tile([1.0, 0.0], 10), np.repeat(np.arange(10), 2)))
    gap = found.difference(0, 1)
    assert 250.0 < gap.low < 600.0
    assert gap.high - gap.elo > 1.5 * (gap.elo - gap.low)
    assert gap.los > 0.999


def test_from_six_pairs_on_equals_are_seldom_called_the_best():
    """Exactly: a given one of two equals had a `p_best` over 0.95 after two pairs with probability 0.062."""
    assert best_of_two.sure(2, 0.0)[0] > 0.05
    assert all(best_of_two.sure(pairs, 0.0)[0] <= 0.05 for pairs in (FEWEST_PAIRS, 9, 20))
    assert best_of_two.sure(FEWEST_PAIRS, 150.0)[1] > 0.95


def test_two_equals_seldom_look_different_after_few_pairs():
    """A prior that kept spreads from 0 called 12.5 of 100 different after two pairs, and 7 after four."""
    assert all(2 * best_of_two.sure(pairs, 0.0, 0.975)[0] <= 0.05 for pairs in (2, 4, 10))


def test_the_best_of_two_is_as_likely_as_by_quadrature():
    """Eight of twelve games won; the luck of pairs is estimated, which makes the posterior a little wider."""
    home, away = np.tile([0, 1], 6), np.tile([1, 0], 6)
    points = np.array([1, 0, 1, 0, 1, 0, 1, 1, 1, 1, 0, 1])  # three pairs won, two split, one lost
    found = posterior(games_from(2, home, away, points, np.repeat(np.arange(6), 2)), place_advantage=False)
    assert found.p_best[0] == pytest.approx(best_of_two.p_best(6)[8], abs=0.06)
