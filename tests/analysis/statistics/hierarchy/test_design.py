"""Widths of a design's intervals, against those of round robins of as many pairs that are played."""

import numpy as np
import pytest

from analysis.statistics.hierarchy.design import width_of
from analysis.statistics.hierarchy.posterior import lines_of, posterior
from league.tournament.schedules import make_schedule
from league.tournament.schedules.settings import ScheduleSettings
from tests.analysis.simulated_games import by_round, games_from, names, transitive
from tests.bench.coverage import Design, played
from tests.bench.schedules import Evenly


def tournament(schedule, truth, seed):
    rng, design = np.random.default_rng([seed, 7]), Design("", len(truth), 0.0, 1)
    *_, games = by_round(schedule, len(truth), seed, lambda pairings: played(truth, pairings, design, rng))
    return games


def widths(found, first):
    """Mean widths of all intervals of differences, and of those to `first`."""
    a, b = np.triu_indices(len(found.competitors), 1)
    low, high = np.quantile(found.draws[:, a] - found.draws[:, b], [0.025, 0.975], axis=0)
    with_first = (a == first) | (b == first)
    return (high - low).mean(), (high - low)[with_first].mean()


@pytest.mark.long
@pytest.mark.parametrize("kind", ["swiss", pytest.param("gauntlet", marks=pytest.mark.variant)])
def test_a_design_is_as_much_narrower_as_a_round_robin_that_is_played_says(kind):
    said, seen = [], []
    for seed in range(20):
        truth = np.random.default_rng(seed).normal(0.0, 300.0, 16)
        settings = {"kind": kind, "pairs": 4} | ({"seeds": ("c0",)} if kind == "gauntlet" else {})
        schedule = make_schedule(ScheduleSettings(**settings), names(16), 2)
        games = tournament(schedule, truth, seed)
        even = tournament(Evenly(16, games.num_pairs), truth, seed)
        found, other = (posterior(each, samples=1000, seed=seed) for each in (games, even))
        width = width_of(games, found)
        said.append((width.all, width.first))
        best = int(found.elo.argmax())
        seen.append((widths(found, best), widths(other, best)))
    as_played, evenly = np.mean(seen, axis=0)  # of twenty, their ratio has an error of 0.15
    assert np.median(said, axis=0) == pytest.approx(as_played / evenly, abs=0.2)


def test_a_round_robin_is_as_wide_as_itself_and_a_gauntlet_is_wider():
    truth = np.linspace(0.0, 300.0, 6)
    games = transitive(truth, 4, np.random.default_rng(0))
    even = width_of(games, posterior(games, samples=500))
    assert (even.all, even.neighbours, even.first) == pytest.approx((1.0, 1.0, 1.0))
    settings = ScheduleSettings(kind="gauntlet", pairs=12, seeds=("c0",))
    games = tournament(make_schedule(settings, names(6), 2), truth, 0)
    assert width_of(games, posterior(games, samples=500)).all > 1.1


def test_a_design_is_not_compared_where_a_round_robin_would_not_be_rated_alike():
    apart = games_from(4, [0, 1, 2, 3], [1, 0, 3, 2], [1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1])
    assert width_of(apart, posterior(apart, samples=500)) is None
    line = games_from(3, [0, 1, 1, 2], [1, 0, 2, 1], [1.0, 0.0, 1.0, 1.0], [0, 0, 1, 1])
    assert width_of(line, posterior(line, lines=lines_of([-1, 0, 1]), samples=500)) is None
    assert width_of(line, posterior(line, lines=None, samples=500)) is not None
