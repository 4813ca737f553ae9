"""A pair is one seed in all seatings: nobody owes anything to a place, a deal or a partner."""

import functools
import itertools
from collections import Counter

import numpy as np
import pytest

from analysis.statistics.games import games_per_pair
from league.arena.matches import MeasureTable, seatings
from storage.records import Purpose

NAMES = ["a", "b", "c", "d", "e"]


def pairs_of(sizes, seed=0):
    team_of_seat = np.repeat(np.arange(len(sizes)), sizes)
    table = MeasureTable("game", team_of_seat, "round_robin", seed, Purpose.TOURNAMENT)
    return functools.partial(table.pairs, NAMES)


def test_two_who_meet_swap_seats():
    matches = pairs_of((1, 1))(np.array([[0, 3], [3, 1]]), 0)
    seated = [[seat.competitor for seat in matches[i].seats] for i in range(len(matches))]
    assert seated == [["a", "d"], ["d", "a"], ["d", "b"], ["b", "d"]]
    assert matches.purpose is Purpose.TOURNAMENT
    assert matches.match_types == ("round_robin",)
    assert not matches.learning.any()
    assert matches.team_of_seat is None


@pytest.mark.parametrize("teams", [1, 2, 3, 4, 5, 6])
def test_everybody_takes_every_place_equally_often(teams):
    found = seatings(teams)
    assert len(found) == games_per_pair(teams)
    assert found[0].tolist() == list(range(teams))
    for place in range(teams):
        assert Counter(found[:, place].tolist()) == dict.fromkeys(range(teams), len(found) // teams)


def test_up_to_four_meet_in_every_order():
    for teams in (2, 3, 4):
        assert {tuple(row) for row in seatings(teams).tolist()} == set(itertools.permutations(range(teams)))


def test_partners_sit_together_and_a_team_is_one_competitor():
    matches = pairs_of((2, 2))(np.array([[1, 4]]), 0)
    seated = [[seat.competitor for seat in matches[i].seats] for i in range(len(matches))]
    assert seated == [["b", "b", "e", "e"], ["e", "e", "b", "b"]]
    assert matches.team_of_seat == (0, 0, 1, 1)


def test_the_games_of_a_pair_share_its_seed_and_no_two_pairs_do():
    matches = pairs_of((1, 1, 1))(np.array([[0, 1, 2], [0, 1, 2], [2, 3, 4]]), 7)
    by_pair = matches.seed.reshape(3, 6)
    assert (by_pair == by_pair[:, :1]).all()
    assert len(np.unique(by_pair)) == 3
    assert matches.match_id.tolist() == list(range(42, 60))


def test_seeds_follow_from_the_tournaments_seed_and_the_number_of_the_pair_alone():
    some = pairs_of((1, 1), seed=5)(np.array([[0, 1], [2, 3]]), 10)
    alone = pairs_of((1, 1), seed=5)(np.array([[4, 1]]), 11)
    other = pairs_of((1, 1), seed=6)(np.array([[4, 1]]), 11)
    assert alone.seed.tolist() == some.seed[2:].tolist()
    assert alone.seed.tolist() != other.seed.tolist()
