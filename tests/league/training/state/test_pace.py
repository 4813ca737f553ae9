"""Sizes of requests follow the game's length, the competitors seated, and how old experience may be."""

import pytest

from league.config.loading import load
from league.rollout.requests import RolloutInfo
from league.training.state.pace import FIRST, Pace, rounded


def pace_of(players=1, runners=2, batch_steps=4096, **rollout):
    settings = load(
        {
            "env": {"id": "tic_tac_toe"},
            "policy": {"hidden": [8]},
            "league": {"preset": "self_play", "players": {"main": players}},
            "learner": {"batch_steps": batch_steps},
            "rollout": rollout,
            "runners": runners,
        }
    )
    pace = Pace(settings)
    pace.follow({f"main-{i}": ("main", 1.0) for i in range(players)})
    return pace


def played(pace, steps, matches=1000, seconds=0.1, competitors=2, player="main-0"):
    """Note a request that its player learned so many steps of each match from; return the next size."""
    pace.asked(competitors)
    trained = {player: round(steps * matches)}
    pace.played(matches, RolloutInfo(round(steps * matches), trained, seconds, "here:1", ()))
    return pace.matches(player)


def test_the_first_request_is_small_as_nothing_is_known_of_the_game():
    assert pace_of().matches("main-0") == FIRST


def test_requests_of_short_matches_are_large_and_those_of_long_ones_small():
    sizes = [played(pace_of(), steps) for steps in (3, 20, 200)]
    assert sizes == [4096, 3072, 256]  # 2 requests under way: 20 steps make 3,277 matches at a lag of 32


def test_the_more_competitors_are_seated_the_larger_a_request_is():
    sizes = [played(pace_of(), 1, competitors=seated) for seated in (2, 17, 33, 257)]
    assert sizes == [4096, 4096, 8192, 8192]


def test_experience_gets_no_older_than_was_asked_for():
    pace = pace_of(max_lag=4)
    matches = played(pace, 20)
    assert matches == 256  # with all four requests under way it would be 200
    updates = matches * 20 / 4096
    under_way = next(n for n in range(9) if pace.enough("main-0", n))
    assert 1 <= under_way < 4
    assert under_way * updates <= 4 < (under_way + 1) * updates


def test_one_request_at_a_time_may_go_on_however_fresh_experience_is_to_be():
    pace = pace_of(max_lag=1)
    assert played(pace, 200) == 20  # less than 256: alone under way, it is one update
    assert not pace.enough("main-0", 0)
    assert pace.enough("main-0", 1)


def test_a_number_of_matches_is_a_limit_where_experience_would_be_too_old():
    assert played(pace_of(matches_per_request=1000, max_lag=8), 20) == 384
    assert played(pace_of(matches_per_request=100, max_lag=8), 20) == 100
    assert played(pace_of(matches_per_request=1000), 20) == 1000


def test_measured_lag_corrects_what_was_computed():
    pace = pace_of()
    before = played(pace, 20)
    for _ in range(100):
        pace.learned("main-0", 64.0)
    smaller = pace.matches("main-0")
    for _ in range(400):
        pace.learned("main-0", 8.0)
    assert smaller < before < pace.matches("main-0")


def test_a_runner_has_one_long_request_at_a_time_and_several_short_ones():
    pace, seen = pace_of(), []
    for seconds in (0.01, 0.1, 10.0, 0.01):  # for a thousand matches
        for _ in range(30):
            played(pace, 20, seconds=seconds)
        seen.append((pace.each_runner(), pace.matches("main-0")))
    assert seen == [(2, 1536), (1, 3072), (1, 384), (2, 1536)]  # 3,277 matches take 33 ms, and 0.3 s
    assert pace_of(requests_in_flight=1).each_runner() == 1


def test_with_a_number_of_matches_as_many_requests_are_under_way_as_settings_say():
    pace = pace_of(matches_per_request=8192, max_lag=16)
    assert (played(pace, 20), pace.each_runner()) == (768, 2)


def test_players_that_play_seldom_may_have_larger_requests():
    assert played(pace_of(players=8), 20) == 4096 > played(pace_of(), 20)


def test_a_request_of_a_slow_game_takes_no_more_than_seconds():
    assert played(pace_of(), 3, seconds=10.0) == 384  # 10 ms a match


def test_without_runners_and_with_fragments_sizes_are_fixed():
    assert pace_of(runners=0).matches("main-0") == 1024
    assert pace_of(fragment_steps=8).matches("main-0") == 1024
    pace = pace_of(runners=0, max_lag=2)
    assert played(pace, 20, seconds=0.1) == played(pace, 20, seconds=100.0) == 384  # never by the clock


def test_a_new_size_is_said_once_it_has_doubled():
    pace = pace_of()
    assert pace.sentences() == []
    played(pace, 20)
    assert pace.sentences() == [
        "requests bring 3,072 matches: 2 competitors, 20 env steps a match, of which main-0 learns from 20, "
        "lag 0 updates of 32"
    ]
    played(pace, 21)
    assert pace.sentences() == []


def test_it_is_said_over_how_many_requests_a_batch_fills_once_that_is_measured():
    pace = pace_of(batch_steps=1024, matches_per_request=8)
    for steps in (10, 12):
        played(pace, steps, matches=8)
        assert pace.sentences() == []
    played(pace, 8, matches=8)
    line = "main-0: a batch of 1,024 steps fills over 13 requests"
    assert pace.sentences() == [line]
    played(pace, 500, matches=8)  # matches have become longer
    assert pace.sentences() == [line]
    fast = pace_of(batch_steps=1024, matches_per_request=1000)
    for _ in range(4):
        played(fast, 10)
    assert fast.sentences() == []


@pytest.mark.parametrize(("matches", "expected"), [(0.3, 1), (7, 7), (9, 8), (1639, 1536), (8192, 8192)])
def test_sizes_have_three_significant_bits(matches, expected):
    assert rounded(matches) == expected
