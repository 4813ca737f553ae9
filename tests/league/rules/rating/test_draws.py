import math
from statistics import NormalDist

import numpy as np
import pytest

from league.rules.rating.prediction import FIRST_GAMES, DrawRecord


def simulated(share, games, rng, spread=1.5):
    """Games of sides of very different strength, whose performances differ by less than the margin in
    some of them: gap and scale as `DrawRecord.add` takes them, drawn."""
    scale = rng.uniform(0.45, 1.0, games)
    gap = rng.normal(0.0, spread, games)
    margin = NormalDist().inv_cdf((share + 1) / 2) * scale
    return gap, scale, np.abs(gap + rng.standard_normal(games)) < margin


@pytest.mark.parametrize("share", [0.02, 0.1, 0.4, 0.8])
def test_the_share_between_equals_is_found_among_games_of_unequals(share):
    gap, scale, drawn = simulated(share, 40_000, np.random.default_rng(1))
    record = DrawRecord()
    record.add(gap, scale, drawn)
    assert record.estimate() == pytest.approx(share, abs=0.02)
    assert drawn.mean() < 0.7 * share  # what plain counting would say


def test_before_there_are_games_the_estimate_is_the_prior():
    assert DrawRecord().estimate() == pytest.approx(0.1)


def test_an_estimate_is_never_certain():
    never, always = DrawRecord(), DrawRecord()
    games = np.zeros(100_000)
    never.add(games, games + 0.7, games > 1)
    always.add(games + 20.0, games + 0.7, games < 1)  # even of games that no margin explains
    assert 0.0 < never.estimate() < 1e-3
    assert 0.99 < always.estimate() < 1.0
    assert math.isfinite(always.estimate())


def test_estimates_are_due_when_the_games_have_doubled():
    record = DrawRecord()
    due = [game for game in range(1, 5 * FIRST_GAMES) if record.passed(1)]
    assert due == [FIRST_GAMES, 2 * FIRST_GAMES, 4 * FIRST_GAMES]
    assert record.room == 8 * FIRST_GAMES - record.games
