"""How rounds that go by results were drawn: probabilities are those with which the same state draws again."""

import itertools
from collections import Counter

import numpy as np
import pytest

from analysis.statistics.games import games_of
from league.tournament.schedules import make_schedule
from league.tournament.schedules.schedule import among
from league.tournament.schedules.settings import ScheduleSettings
from tests.analysis.simulated_games import join, next_pairs
from tests.parameters import mostly_long


def again_and_again(schedule, history, games, times):
    """How often any meet at all in the next round, of so many draws from one state."""
    seen = Counter()
    for seed in range(times):
        pairings = next_pairs(schedule, history, games, np.random.default_rng([9, seed]))
        seen.update({tuple(sorted(row)) for row in pairings.tolist()})
    return {who: count / times for who, count in seen.items()}


def state(make, schedule, rounds, field, num_teams=2):
    """The history and the games of some rounds; at a table of three all are drawn."""
    truth, history, games = make.truth(np.linspace(0.0, 300.0, field)), [], make.no_games(field)
    for number in range(rounds):
        history.append(next_pairs(schedule, history, games, np.random.default_rng([1, number])))
        if num_teams == 2:
            played = truth.play(history[-1], np.random.default_rng(number))
            games = join([games, played]) if number else played
    return history, games


@pytest.mark.slow
@pytest.mark.parametrize(
    "of",
    mostly_long(
        [("swiss", 2, 2), ("adaptive", 2, 2), ("swiss", 0, 2), ("swiss", 1, 3), ("adaptive", 0, 2)], short=2
    ),
)
def test_the_probability_of_a_draw_is_how_often_its_state_draws_it_again(of, make):
    kind, rounds, num_teams = of
    schedule = make.schedule(7, num_teams, kind=kind, pairs=2)
    history, games = state(make, schedule, rounds, 7, num_teams)
    often = again_and_again(schedule, history, games, 200)
    wrong = []
    for seed in range(10):
        drawn = schedule.next_round(history, games, np.random.default_rng([9, seed]))
        for row, probability in zip(drawn.pairings.tolist(), drawn.probability, strict=True):
            wrong.append(probability - often[tuple(sorted(row))])
    assert np.abs(wrong).max() < 0.25
    assert abs(np.mean(wrong)) < 0.04
    assert (drawn.standing is None) == (rounds == 0)


def test_what_is_chosen_by_results_is_certain_and_the_rest_is_not(make):
    schedule = make.schedule(10, kind="adaptive", pairs=4, pairs_per_round=10)
    history, games = state(make, schedule, 2, 10)
    drawn = schedule.next_round(history, games, np.random.default_rng(0))
    certain = drawn.probability == 1.0
    assert certain.sum() >= 7  # 30 of 100 are drawn uniformly
    others = {
        frozenset(row)
        for seed in range(5)
        for row in next_pairs(schedule, history, games, np.random.default_rng(seed)).tolist()
    }
    assert {frozenset(row) for row in drawn.pairings[certain].tolist()} <= others
    (chance,) = np.unique(drawn.probability[~certain])
    assert chance == pytest.approx(3 / 45)


def test_newcomers_meet_any_of_the_others_with_equal_probability(make):
    before = make.schedule(6, kind="adaptive", pairs=2)
    history, _ = state(make, before, 1, 6)
    names = tuple(f"c{i}" for i in range(8))
    schedule = make_schedule(ScheduleSettings(kind="adaptive", budget=60), names, 2, tuple(history))
    drawn = schedule.next_round(history, games_of([], names), np.random.default_rng(0))
    for row, probability in zip(drawn.pairings.tolist(), drawn.probability, strict=True):
        new = len({6, 7} & set(row))
        assert probability == pytest.approx(1.0 - (6 / 7) ** (2 * new))


def test_rows_are_found_among_others_in_any_order():
    rows = np.array(list(itertools.combinations(range(4), 2)))
    assert among(rows, rows[[0, 5], ::-1]).tolist() == [True, False, False, False, False, True]
