from functools import partial

import numpy as np
import pytest

from tests.analysis.simulated_games import join, next_pairs
from tests.bench.schedules import Evenly, adaptive, curve, needed, spread


def played(make, schedule, truth, rounds, seed=0):
    """History and games after so many rounds."""
    history, games, rng = [], make.no_games(len(truth.elo)), np.random.default_rng(seed)
    for number in range(rounds):
        pairings = next_pairs(schedule, history, games, np.random.default_rng([seed, number]))
        history.append(pairings)
        games = join([games, truth.play(pairings, rng)])
    return history, games


@pytest.mark.parametrize(("field", "num_teams"), [(2, 2), (3, 2), (17, 2), (10, 3), (10, 4), (9, 5)])
def test_the_first_round_connects_everybody(make, field, num_teams):
    first = next_pairs(
        make.schedule(field, num_teams, kind="adaptive"), [], make.no_games(field), np.random.default_rng(0)
    )
    reached = np.linalg.matrix_power(make.met(first, field) + np.eye(field, dtype=int), field) > 0
    assert reached.all()
    assert len(first) <= field


def test_it_ends_with_its_budget(make):
    schedule = make.schedule(10, kind="adaptive", budget=47, pairs_per_round=10)
    history = make.history(schedule, make.truth(np.arange(10) * 50.0))
    assert [len(pairings) for pairings in history] == [10, 10, 10, 10, 7]
    assert schedule.total_pairs() == 47


def test_the_budget_is_half_of_a_round_robin_unless_it_is_given(make):
    assert make.schedule(20, kind="adaptive", pairs=4).total_pairs() == 4 * 190 // 2
    assert make.schedule(3, kind="adaptive", pairs=1).total_pairs() == 3


def test_those_meet_most_whose_order_is_in_doubt(make):
    truth = make.truth(np.repeat(np.arange(8) * 400.0, 2))  # eight couples of equals
    history, _ = played(make, make.schedule(16, kind="adaptive", budget=10_000, pairs_per_round=40), truth, 8)
    met = make.met(np.concatenate(history[2:]), 16)
    equals = met[np.arange(0, 16, 2), np.arange(1, 16, 2)].sum()
    assert equals > 0.3 * len(np.concatenate(history[2:]))  # of at most 0.7; at random: 8 pairs of 120, 0.07


@pytest.mark.parametrize("uniform", [0.3, 0.6])
def test_the_uniform_share_is_drawn_among_all_whatever_the_ratings_say(make, uniform):
    truth = make.truth(np.append(np.arange(14) * 800.0, 13 * 800.0))  # two equals, and 13 who are settled
    schedule = make.schedule(15, kind="adaptive", budget=10_000, pairs_per_round=100, uniform=uniform)
    history, games = played(make, schedule, truth, 5)
    last = np.concatenate([next_pairs(schedule, history, games, np.random.default_rng(i)) for i in range(5)])
    settled = np.bincount(last.ravel(), minlength=15)[:13]
    assert settled.min() >= uniform * 5 * 100 * 2 / 15 - 5  # a matching leaves out one of 15 each time
    met = make.met(last, 15)[:13, :13][np.triu_indices(13, k=1)]
    assert (met > 0).mean() > 1 - np.exp(-0.8 * uniform * 500 / 105)  # a pair of 105 is drawn about so often


def test_with_all_of_it_uniform_the_ratings_do_not_matter(make):
    schedule = make.schedule(9, kind="adaptive", uniform=1.0, budget=500, pairs_per_round=90)
    history, games = played(make, schedule, make.truth(np.arange(9) * 300.0), 3)
    met = make.met(np.concatenate(history[1:]), 9)[~np.eye(9, dtype=bool)]
    assert met.min() > 0
    some, none = (
        next_pairs(schedule, history, g, np.random.default_rng(0)) for g in (games, make.no_games(9))
    )
    np.testing.assert_array_equal(some, none)


def test_those_whose_games_do_not_count_are_not_asked_again_and_again(make):
    """Two who always play the same game: all but their first pair are repeats."""
    truth = make.truth(np.append(np.arange(8) * 300.0, 7 * 300.0))
    schedule = make.schedule(9, kind="adaptive", budget=10_000, pairs_per_round=20)
    history, games = played(make, schedule, truth, 6)
    keep = ~(np.isin(games.home, [7, 8]) & np.isin(games.away, [7, 8]))
    dropped = type(games)(
        games.competitors,
        *(getattr(games, name)[keep] for name in ("home", "away", "home_place", "away_place", "points")),
        pair=np.unique(games.pair[keep], return_inverse=True)[1],
        match=games.match[keep],
    )
    asked = [
        make.met(next_pairs(schedule, history, g, np.random.default_rng(0)), 9)[7, 8]
        for g in (games, dropped)
    ]
    assert asked[1] < asked[0]


@pytest.mark.parametrize("num_teams", [3, 4])
def test_more_than_two_meet_by_their_ratings_too(make, num_teams):
    schedule = make.schedule(12, num_teams, kind="adaptive", budget=60)
    history, rng = [], np.random.default_rng(0)
    for _ in range(3):
        history.append(next_pairs(schedule, history, make.no_games(12), rng))
    assert all(pairings.shape[1] == num_teams for pairings in history)


@pytest.mark.long
def test_a_round_of_a_thousand_entrants_is_a_round(make):
    schedule = make.schedule(1000, kind="adaptive", pairs_per_round=400)
    history, _ = played(make, schedule, make.truth(np.arange(1000) * 3.0), 2)
    assert [len(pairings) for pairings in history] == [1000, 400]


@pytest.mark.long
def test_on_a_spread_field_it_needs_far_fewer_games_than_a_round_robin():
    """tests/bench/schedules.py has more; 10 fields, so a mean tau is within about 0.006."""
    pairs, even = curve(Evenly, spread(32, 2000.0), 1000, seeds=10)
    _, chosen = curve(adaptive, spread(32, 2000.0), 1000, seeds=10)
    for at in (0.4, 0.6, 0.8, 1.0):
        target = float(even[round(at * (len(even) - 1))])
        assert needed(pairs, chosen, target) <= 0.7 * needed(pairs, even, target)


@pytest.mark.variant
@pytest.mark.long
def test_on_a_narrow_field_it_is_as_good_as_a_round_robin():
    """Tau of one field is 0.5 give or take 0.09, so the ratio of two means of 80 is within 0.03 or so."""
    pairs, even = curve(partial(Evenly, per_round=128), spread(32, 100.0), 1056, seeds=80)
    played, taus = curve(partial(adaptive, per_round=128), spread(32, 100.0), 1056, seeds=80)
    chosen = np.interp(pairs[3:], played, taus)
    assert (chosen >= 0.95 * even[3:]).all()
