"""What a response gains is counted right, in teams and among four, too, and its interval is honest."""

import numpy as np
import pytest

from analysis.exploitability import values
from league.arena.agreement import agree
from league.arena.arena import Arena
from league.arena.gains import RARE, interval, measure
from league.envs.trees.trees import tree_of
from league.exploit.exact import strategy_of
from league.models.bots.scripted import make_bot
from league.rollout.requests import BotSource


def gains(env, response, target, seeds=64, seed=5, **options):
    arena = Arena(agree([], {"id": env, "options": options}), slots=1024)
    return measure(arena, BotSource(response), BotSource(target), seeds=seeds, seed=seed)


def test_paper_gains_a_whole_point_against_rock_and_rock_nothing_against_itself():
    found = gains("rock_paper_scissors", "paper", "rock")
    assert set(found.gain) == {1.0}
    assert set(found.points) == {1.0}
    alike = gains("rock_paper_scissors", "rock", "rock")
    assert set(alike.gain) == {0.0}
    assert set(alike.points) == {0.5}
    assert set(gains("rock_paper_scissors", "scissors", "rock").gain) == {-1.0}


def test_few_matches_that_are_all_alike_leave_doubt():
    drawn = gains("rock_paper_scissors", "rock", "rock", seeds=3).score()
    assert drawn.value == 0.0
    assert drawn.low < -0.5
    assert drawn.high > 0.5


def test_a_team_is_replaced_as_a_whole_and_copies_gain_nothing():
    alike = gains("whist", "thrifty", "thrifty", seeds=512)
    assert alike.score().low < 0.0 < alike.score().high
    better = gains("whist", "thrifty", "random", seeds=512)
    assert better.score().low > 0.0
    assert better.points_per_game().low > 0.5


def test_where_all_may_win_a_gain_is_what_goes_beyond_the_targets_own_score():
    alike = gains("openspiel:matrix_pd", "random", "random", seeds=512)
    assert alike.score().low < 0.0 < alike.score().high < 1.0


def test_among_four_one_seat_at_a_time_is_taken():
    found = gains("tron", "roomy", "random", seeds=128)
    assert found.score().low > 0.0
    assert found.points_per_game().low > 0.5
    assert found.points.max() <= 1.0


def exact_gain(response, target):
    """Of one bot in the place of another in kuhn poker, by its tree."""
    tree = tree_of("kuhn_poker")
    mine, theirs = (strategy_of(tree, make_bot(name, "kuhn_poker")) for name in (response, target))
    own = values(tree, theirs)
    seated = [values(tree, tuple(mine[s] if s == seat else theirs[s] for s in (0, 1))) for seat in (0, 1)]
    return np.mean([seated[seat][seat] - own[seat] for seat in (0, 1)])


@pytest.mark.slow
def test_the_interval_holds_the_true_gain_about_as_often_as_it_says():
    truth = exact_gain("equilibrium", "random")
    assert truth > 0.1
    arena = Arena(agree([], {"id": "kuhn_poker", "options": {}}), slots=1024)
    held = []
    for seed in range(120):
        sources = BotSource("equilibrium"), BotSource("random")
        _, low, high = measure(arena, *sources, seeds=256, seed=1000 + seed).score()
        held.append(low <= truth <= high)
    assert 0.90 <= np.mean(held) <= 0.99


def test_values_that_are_all_alike_prove_no_more_than_their_number_allows():
    sample = np.ones(100)
    assert interval(sample, 2.0) == (1.0, 1.0 - RARE * 0.02, 1.0 + RARE * 0.02)
    assert interval(np.ones(10_000), 2.0).low > 0.999


def test_the_same_seed_plays_the_same_and_another_does_not():
    one, again, other = (gains("kuhn_poker", "equilibrium", "random", seed=seed).gain for seed in (1, 1, 2))
    assert np.array_equal(one, again)
    assert not np.array_equal(one, other)


@pytest.mark.parametrize("seeds", [1, 255, 257])
def test_as_many_seeds_count_as_were_asked_for(seeds):
    assert len(gains("tic_tac_toe", "one_ply", "random", seeds=seeds).gain) == seeds
