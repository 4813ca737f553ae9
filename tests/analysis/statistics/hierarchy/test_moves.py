"""Draws are of the exact posterior after few moves, and calibrated by simulation."""

import numpy as np
import pytest

from analysis.statistics.hierarchy import moves
from analysis.statistics.hierarchy.posterior import posterior
from tests.analysis.simulated_games import transitive
from tests.bench.calibration import calibrated, held, independent_games
from tests.bench.coverage import Design, strengths, tournament


def _log_spread_and_width():
    spreads, widths = [], []
    for seed in range(6):
        rng = np.random.default_rng([seed, 8])
        games = transitive(150.0 * rng.normal(size=8), 1, rng)
        found = posterior(games, lines=None, samples=4000, seed=seed, moved=True)
        low, high = found.interval()
        spreads.append(np.log(found.spread).mean())
        widths.append((high - low).mean())
    return np.mean(spreads), np.mean(widths)


@pytest.mark.long
def test_few_moves_of_a_small_field_do_what_many_do(monkeypatch):
    """Its tails are long: after eight moves intervals were 4 % narrower than after sixty."""
    few = _log_spread_and_width()
    monkeypatch.setattr(moves, "_SETTLING", 100)
    many = _log_spread_and_width()
    assert few[0] == pytest.approx(many[0], abs=0.05)
    assert few[1] == pytest.approx(many[1], rel=0.05)


@pytest.mark.slow
def test_intervals_of_fields_from_the_prior_hold_as_often_as_they_say():
    """Forty fields; `python -m tests.bench.calibration` simulates more."""
    with independent_games(known=True):
        found = calibrated(8, 1, range(40))
    for kind in ("ratings", "differences"):
        for level in (0.5, 0.95):
            share, error = held(found[kind], level)
            assert abs(share - level) < 4.0 * error + 0.005


@pytest.mark.slow
@pytest.mark.parametrize("seed", [20_002, 20_003, 20_009])
def test_of_one_that_won_all_games_only_the_least_strength_is_known(seed):
    """These fields were taken for known well enough: the interval of 1,200 Elo ended at 1,030 to 1,090."""
    design = Design("round_robin", 16, 50.0, 2, shape="one outlier", far=1200.0)
    rng = np.random.default_rng([seed, design.field, design.pairs, design.teams])
    games = tournament(design, strengths(design, rng), seed, rng)
    _, high = posterior(games, samples=1000, seed=seed).interval()
    assert games.points[games.home == 0].min() == 1.0
    assert games.points[games.away == 0].max() == 0.0
    assert high[0] > 1_500.0
