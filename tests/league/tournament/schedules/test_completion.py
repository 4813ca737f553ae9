"""What a schedule lacks after a tournament has gone on with more pairs or a larger field."""

import numpy as np
import pytest

from league.tournament.schedules import make_schedule
from league.tournament.schedules.settings import ScheduleSettings
from tests.analysis.simulated_games import next_pairs
from tests.bench.schedules import names


def rest(make, before, field, num_teams=2, **settings):
    """The schedule of the whole field, and [n, T] the pairs that it plays after the rounds `before`."""
    schedule = make_schedule(ScheduleSettings(**settings), names(field), num_teams, before)
    history = list(before)
    rng = np.random.default_rng(0)
    while (pairings := next_pairs(schedule, history, make.no_games(field), rng)) is not None:
        history.append(pairings)
    return schedule, np.concatenate([np.zeros((0, num_teams), dtype=np.int64), *history[len(before) :]])


def test_more_pairs_are_those_that_any_two_lack(make):
    before = [make.all_pairs(make.schedule(6, pairs=2), 6)]
    schedule, rows = rest(make, before, 6, pairs=5)
    met = make.met(np.concatenate([*before, rows]), 6)
    np.testing.assert_array_equal(met, 5 * (1 - np.eye(6)))
    assert schedule.total_pairs() == 5 * 15


def test_newcomers_meet_all_and_those_of_before_meet_no_more(make):
    before = [make.all_pairs(make.schedule(5, pairs=3), 5)]
    _, rows = rest(make, before, 7, pairs=3)
    assert ((rows >= 5).any(axis=1)).all()
    np.testing.assert_array_equal(make.met(np.concatenate([*before, rows]), 7), 3 * (1 - np.eye(7)))


def test_fewer_pairs_than_were_played_are_none(make):
    before = [make.all_pairs(make.schedule(5, pairs=3), 5)]
    schedule, rows = rest(make, before, 5, pairs=2)
    assert not len(rows)
    assert schedule.total_pairs() == 30


def test_a_rest_that_is_stopped_early_has_let_all_meet_alike(make):
    before = [make.all_pairs(make.schedule(4, pairs=1), 4)]
    _, rows = rest(make, before, 4, pairs=4)
    np.testing.assert_array_equal(make.met(rows[:12], 4), 2 * (1 - np.eye(4)))


def test_the_seeds_of_a_gauntlet_meet_newcomers_and_others_do_not_meet(make):
    seeds = tuple(names(4)[:1])
    before = [make.all_pairs(make.schedule(4, pairs=2, kind="gauntlet", seeds=seeds), 4)]
    _, rows = rest(make, before, 6, pairs=2, kind="gauntlet", seeds=seeds)
    met = make.met(np.concatenate([*before, rows]), 6)
    assert (met[0, 1:] == 2).all()
    assert not met[1:, 1:].any()


@pytest.mark.parametrize("kind", ["round_robin", "gauntlet"])
def test_at_tables_of_three_nobody_lacks_a_meeting_in_the_end(kind, make):
    seeds = tuple(names(5)[:1]) if kind == "gauntlet" else ()
    before = [make.all_pairs(make.schedule(5, 3, pairs=1, kind=kind, seeds=seeds), 5)]
    schedule, rows = rest(make, before, 7, 3, pairs=2, kind=kind, seeds=seeds)
    met = make.met(np.concatenate([*before, rows]), 7)
    others = met[0, 1:] if kind == "gauntlet" else met[~np.eye(7, dtype=bool)]
    assert others.min() >= 2
    assert schedule.total_pairs() == len(before[0]) + len(rows)


def test_a_large_rest_comes_in_rounds_that_fit_into_memory(make):
    history, rng = [np.array([[0, 1]])], np.random.default_rng(0)
    schedule = make_schedule(ScheduleSettings(pairs=3), names(300), 2, history[:])
    while (pairings := next_pairs(schedule, history, make.no_games(300), rng)) is not None:
        assert len(pairings) <= 2**16
        history.append(pairings)
    assert sum(map(len, history)) == schedule.total_pairs() == 3 * 150 * 299


@pytest.mark.parametrize("kind", ["adaptive", "top_k"])
def test_newcomers_of_a_rated_schedule_play_first(kind, make):
    before = [np.array([[0, 1], [1, 2], [2, 0]])]
    schedule = make_schedule(ScheduleSettings(kind=kind, budget=9), names(5), 2, before)
    pairings = next_pairs(schedule, before, make.no_games(5), np.random.default_rng(0))
    assert set(pairings.ravel()) >= {3, 4}
    assert ((pairings >= 3).any(axis=1)).all()


def test_swiss_rounds_of_before_count_by_their_pairs(make):
    before = [np.array([[0, 1], [2, 3]])] * 2
    schedule, rows = rest(make, before, 4, kind="swiss", rounds=3, pairs=2)
    assert len(rows) == 8  # of 12 pairs in all, 4 were played: two rounds of two tables with two pairs
    assert schedule.total_pairs() == 12
