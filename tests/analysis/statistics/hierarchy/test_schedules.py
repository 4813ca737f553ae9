"""Figures hold whatever the schedule: small versions of `tests.bench.coverage` and `tests.bench.gates`."""

from dataclasses import replace

import numpy as np
import pytest

from analysis.statistics.hierarchy.posterior import posterior
from league.tournament.schedules.settings import ScheduleSettings
from tests.bench import gates
from tests.bench.coverage import Design, held, strengths, tournament
from tests.parameters import mostly_long

FIELDS = 10


@pytest.mark.long
def test_intervals_of_few_games_hold_under_every_schedule():
    """Of 50 fields; one scale of the spread's prior for all sizes of fields held 0.93 of many more."""
    designs = (
        Design("round_robin", 8, 150.0, 1),
        Design("swiss", 10, 150.0, 1),
        Design("adaptive", 8, 150.0, 2),
        Design("gauntlet", 8, 150.0, 4),
        Design("round_robin", 6, 150.0, 2, teams=3),
    )
    found = [held(design, seed, samples=500) for design in designs for seed in range(FIELDS)]
    for name in ("ratings", "first", "last", "differences"):
        values = np.array([getattr(one, name) for one in found])
        error = max(0.2 / len(values) ** 0.5, values.std() / len(values) ** 0.5)
        assert 0.95 - 3.0 * error < values.mean() < 0.99, name


@pytest.mark.slow
def test_equals_seldom_look_different_under_every_schedule():
    designs = (Design("swiss", 10, 0.0, 1), Design("adaptive", 8, 0.0, 2), Design("round_robin", 4, 0.0, 1))
    found = [held(design, seed, samples=500) for design in designs for seed in range(8)]
    assert np.mean([one.significant for one in found]) < 0.03
    assert np.mean([one.p_best > 0.95 for one in found]) <= 0.05


@pytest.mark.slow
@pytest.mark.parametrize("kind", mostly_long(["swiss, 2 pairs", "adaptive, 4 pairs"]))
def test_gates_pass_seldom_falsely_and_often_for_one_far_ahead(kind, monkeypatch):
    monkeypatch.setattr(gates, "SAMPLES", 500)
    settings = ScheduleSettings.model_validate(gates.SCHEDULES[kind])
    false = np.array([gates.false_passes(settings, seed) for seed in range(4)])
    assert false.sum(axis=0).max() <= 1  # of four, by each gate
    right = [gates.powers(settings, 500.0, seed)[0] for seed in range(2)]
    assert sum(right) >= 1


@pytest.mark.slow
def test_an_incumbent_that_played_little_is_not_passed_by_its_equal(monkeypatch):
    """Three seeds play 40 others two pairs each: the best of these was drawn to the mean: these passed."""
    monkeypatch.setattr(gates, "SAMPLES", 500)
    assert sum(gates.gauntlet(3, 40, 2, 0.0, seed) for seed in (8, 10, 11, 18)) <= 1


def test_ratings_need_not_know_how_the_pairs_were_drawn():
    """The posterior knows the results by which swiss drew its pairs, so their order and round say no more."""
    design = Design("swiss", 8, 200.0, 2)
    rng = np.random.default_rng(3)
    games = tournament(design, strengths(design, rng), 3, rng)
    found = posterior(games, samples=500)
    order = np.argsort(rng.permutation(games.num_pairs)[games.pair], kind="stable")
    columns = ("home", "away", "home_place", "away_place", "points", "match", "pair")
    shuffled = posterior(
        replace(games, **{name: getattr(games, name)[order] for name in columns}), samples=500
    )
    assert shuffled.elo == pytest.approx(found.elo, abs=1e-6)
    assert shuffled.deviation == pytest.approx(found.deviation, abs=1e-6)
