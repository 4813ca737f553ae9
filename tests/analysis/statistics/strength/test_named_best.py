"""The named best of simulated leagues is as good as the best, and its probability is right."""

import numpy as np
import pytest

from analysis.statistics.strength.order import order_of
from tests.bench.best import KINDS, judge, judged, simulate


@pytest.mark.parametrize("kind", ["rising", "forgetting"])
def test_the_named_best_of_a_league_is_level_with_the_first_of_a_tournament(kind):
    rng = np.random.default_rng(1)
    league = simulate(kind, rng)
    order = order_of(league.members, league.meetings())
    assert judge(league, order, rng).level
    assert not any(place.apart for place in order.places[: len(league.candidates())])


@pytest.mark.slow
@pytest.mark.long
def test_of_sixty_leagues_95_percent_name_one_of_the_best_and_say_how_likely_it_is():
    found = [one for kind in KINDS for one in judged(kind, 10, seed=0)]
    assert np.mean([one.level for one in found]) >= 0.95
    stated = np.array([one.chance for one in found])
    first = np.array([one.first for one in found])
    error = np.sqrt((stated * (1.0 - stated)).sum()) / len(found)
    assert abs(stated.mean() - first.mean()) < 3.0 * error
