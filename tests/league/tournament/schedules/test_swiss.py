import numpy as np
import pytest
from scipy.stats import kendalltau

from analysis.statistics.hierarchy.normal import normal_of
from tests.analysis.simulated_games import join, next_pairs


def strengths(make, field, width=1000.0, seed=0):
    return make.truth(np.random.default_rng([seed, field]).uniform(0.0, width, field))


@pytest.mark.parametrize(("field", "rounds"), [(2, 1), (6, 3), (16, 8), (31, 10), (64, 12)])
def test_nobody_meets_anybody_twice_as_long_as_there_are_others(make, field, rounds):
    history = make.history(make.schedule(field, kind="swiss", rounds=rounds, pairs=1), strengths(make, field))
    assert len(history) == rounds
    assert make.met(np.concatenate(history), field).max() == 1
    for pairings in history:
        assert len(np.unique(pairings)) == pairings.size == field - field % 2


def test_after_everybody_has_met_everybody_it_begins_again(make):
    history = make.history(make.schedule(4, kind="swiss", rounds=7, pairs=2), strengths(make, 4))
    met = make.met(np.concatenate(history), 4)[~np.eye(4, dtype=bool)]
    assert met.sum() == 7 * 2 * 4
    assert met.max() - met.min() <= 4  # at most one round more, or, where it cannot be helped, two
    assert make.met(np.concatenate(history[:3]), 4).max() == 2


@pytest.mark.parametrize(("field", "num_teams"), [(7, 2), (9, 2), (10, 4), (11, 3)])
def test_who_is_too_many_pauses_and_nobody_again_before_all_did(make, field, num_teams):
    schedule = make.schedule(field, num_teams, kind="swiss", rounds=2 * field, pairs=1)
    history, rng, paused = [], np.random.default_rng(0), np.zeros(field, dtype=int)
    for _ in range(2 * field):
        pairings = next_pairs(schedule, history, make.no_games(field), rng)
        history.append(pairings)
        away = np.setdiff1d(np.arange(field), pairings)
        assert len(away) == field % num_teams
        paused[away] += 1
        assert paused.max() - paused.min() <= 1


def test_the_last_pauses_first(make):
    field = make.truth(np.linspace(5000.0, 0.0, 9))  # c0 never loses, c8 never wins
    history = make.history(make.schedule(9, kind="swiss", rounds=4, pairs=4), field)
    paused = [int(np.setdiff1d(np.arange(9), pairings)[0]) for pairings in history]
    assert len(set(paused)) == 4
    assert min(paused[1:]) >= 4


def test_each_two_who_meet_play_so_many_pairs(make):
    (first, *_) = make.history(make.schedule(10, kind="swiss", pairs=3), strengths(make, 10))
    assert (np.unique(first, axis=0, return_counts=True)[1] == 3).all()


def test_those_meet_who_are_near_in_strength(make):
    field = make.truth(np.arange(64) * 40.0)
    history = make.history(make.schedule(64, kind="swiss", pairs=2), field)
    gaps = [np.abs(pairings[:, 0] - pairings[:, 1]).mean() for pairings in history]
    assert gaps[0] > 15  # at random: 21.3 ranks
    assert np.mean(gaps[-4:]) < 8


@pytest.mark.slow
def test_ratings_order_the_field_with_a_third_of_the_games(make):
    taus = []
    for seed in range(10):
        field, rng = strengths(make, 32, 2000.0, seed), np.random.default_rng(seed)
        history = make.history(make.schedule(32, kind="swiss", pairs=2), field, seed)
        games = join([field.play(pairings, rng) for pairings in history])
        taus.append(kendalltau(normal_of(games).elo, field.elo).statistic)
    assert sum(map(len, history)) == 320  # of 992
    assert np.mean(taus) > 0.88  # it is 0.91 +- 0.01


@pytest.mark.parametrize("num_teams", [3, 4])
def test_tables_of_more_than_two_are_of_those_who_score_alike_and_met_least(make, num_teams):
    schedule = make.schedule(24, num_teams, kind="swiss", rounds=4, pairs=1)
    history, rng = [], np.random.default_rng(0)
    for _ in range(4):
        history.append(next_pairs(schedule, history, make.no_games(24), rng))
    assert make.met(np.concatenate(history), 24).max() <= 2
    assert schedule.total_pairs() == sum(map(len, history)) == 4 * 24 // num_teams
