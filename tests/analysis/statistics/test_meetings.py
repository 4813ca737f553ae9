import numpy as np
import pytest

from analysis.statistics.games import games_of
from analysis.statistics.meetings import meetings_of
from tests.analysis.played_tournaments import duel, place

NAMES = ("a", "b", "c")


def test_couples_are_counted_from_the_side_of_the_lower_number_wherever_they_sat():
    batches = [duel("b", "a", [(1.0, 0.5), (0.5, 0.5)]), duel("a", "c", [(1.0, 1.0)], first=4)]
    met = meetings_of(games_of(batches, NAMES))
    assert list(zip(met.first, met.second, strict=True)) == [(0, 1), (0, 2)]
    assert met.pairs.tolist() == [2, 1]
    assert met.games.tolist() == [4, 2]
    assert list(zip(met.wins, met.draws, met.losses, strict=True)) == [(0, 3, 1), (2, 0, 0)]
    assert met.score.tolist() == [0.375, 1.0]
    assert met.counts.tolist() == [[0, 1, 1, 0, 0], [0, 0, 0, 0, 1]], "a lost one pair by half a point"


def test_of_three_in_a_match_each_meets_both_others_in_every_game_of_the_pair():
    orders = [(x, y, z) for x in NAMES for y in NAMES for z in NAMES if len({x, y, z}) == 3]
    strength = {"a": 2.0, "b": 1.0, "c": 0.0}
    met = meetings_of(games_of([place([[strength[n] for n in o] for o in orders], orders)], NAMES))
    assert met.games.tolist() == [6, 6, 6]
    assert met.pairs.tolist() == [1, 1, 1]
    assert met.score.tolist() == [1.0, 1.0, 1.0]
    assert met.counts.shape == (3, 13)


def test_the_worst_opponent_is_the_one_of_the_lowest_score():
    batches = [
        duel("a", "b", [(0.5, 0.5)] * 3),
        duel("a", "c", [(1.0, 1.0)] * 3, first=6),
        duel("b", "c", [(0.5, 0.0)] * 3, first=12),
    ]
    worst = meetings_of(games_of(batches, NAMES)).worst()
    assert worst.opponent.tolist() == [1, 2, 0]
    assert worst.score.tolist() == [0.5, 0.25, 0.0]
    assert worst.games.tolist() == [6, 6, 6]


def test_one_unlucky_pair_makes_no_worst_opponent_where_another_is_known_well():
    batches = [
        duel("a", "b", [(0.0, 0.5)] * 20),
        duel("a", "c", [(0.0, 0.0)], first=40),
        duel("a", "d", [(1.0, 1.0)] * 20, first=42),
    ]
    worst = meetings_of(games_of(batches, (*NAMES, "d"))).worst()
    assert worst.opponent[0] == 1
    assert (worst.score[0], worst.games[0]) == (0.25, 40)


def test_who_has_not_played_has_no_worst_opponent():
    met = meetings_of(games_of([duel("a", "b", [(1.0, 1.0)])], NAMES))
    assert met.worst().opponent.tolist() == [1, 0, -1]
    assert np.isnan(met.worst().score[2])
    assert len(meetings_of(games_of([], NAMES)).first) == 0


@pytest.mark.parametrize("seed", range(3))
def test_counts_are_those_of_all_pairs(seed):
    points = np.random.default_rng(seed).choice([0.0, 0.5, 1.0], size=(50, 2))
    met = meetings_of(games_of([duel("a", "b", points.tolist())], ("a", "b")))
    assert met.counts[0].tolist() == np.bincount((2 * points.sum(axis=1)).astype(int), minlength=5).tolist()
