"""What is known of matches under way: each is recorded once, whole, or not at all."""

import dataclasses

import numpy as np
import pytest

from league.training.state.state import TrainingPlayer
from league.training.state.under_way import Part, UnderWay
from storage.records import MAIN, LivePlayer, Purpose
from tests.made_up import matches, results


@pytest.fixture
def members():
    return {name: TrainingPlayer(LivePlayer(name, MAIN), share=1.0) for name in ("a", "b")}


@pytest.fixture
def under_way(members):
    """Runner 0 plays matches 0-3 of a against s and b, and 4-5 of b against s."""
    made = UnderWay(members)
    made.add(0, 1, part(of_a()), ["a", "b"], cut=True)
    made.add(0, 2, part(of_b()), ["b"], cut=True)
    return made


def of_a():
    seat = np.array([[0, 1], [1, 0], [0, 2], [2, 0]])
    return matches(["a", "s", "b"], seat, match_id=np.arange(4), learning=seat == 0)


def of_b():
    seat = np.array([[0, 1], [0, 1]])
    return matches(["b", "s"], seat, match_id=np.arange(4, 6), learning=seat == 0)


def part(drawn):
    return Part(drawn, None, "training")


def ended(drawn, *ids):
    """Results of these matches, as a runner returns them: all of one batch."""
    own = drawn.take(np.flatnonzero(np.isin(drawn.match_id, ids)))
    return results(own, np.zeros((len(own), 2)))


def test_a_match_that_ended_is_recorded_once_and_goes_on_no_more(under_way):
    (recorded,) = under_way.settle(0, 2, ended(of_a(), 1), [0, 2, 3, 4, 5], 40)
    assert recorded.matches.match_id.tolist() == [1]
    assert under_way.going_on(0).tolist() == [0, 2, 3, 4, 5]
    assert under_way.settle(0, 2, ended(of_a(), 1), [0, 2, 3, 4, 5], 40) == []
    assert (under_way.dropped, under_way.steps) == (0, 40)


def test_results_are_recorded_with_the_purpose_that_their_matches_were_drawn_for(members):
    under_way = UnderWay(members)
    under_way.add(0, 1, part(of_a()), ["a", "b"], cut=True)
    evaluated = dataclasses.replace(of_b(), purpose=Purpose.EVALUATION)
    under_way.add(0, 2, part(evaluated), ["b"], cut=True)
    seat = np.array([[0, 1], [0, 1]])
    both = matches(["a", "s"], seat, match_id=[0, 4])  # a runner knows no purpose
    found = under_way.settle(0, 2, results(both, np.zeros((2, 2))), [1, 2, 3, 5], 0)
    assert {batch.matches.purpose: batch.matches.match_id.tolist() for batch in found} == {
        Purpose.TRAINING: [0],
        Purpose.EVALUATION: [4],
    }


def test_matches_of_a_player_that_was_reset_are_dropped_with_those_it_was_met_in(under_way, members):
    members["b"].generation += 1
    assert under_way.going_on(0).tolist() == [0, 1]
    assert under_way.dropped == 4
    assert under_way.players(0) == ["a"]
    assert under_way.settle(0, 2, ended(of_b(), 4), [0, 1], 0) == []  # it came too late


def test_matches_of_a_player_that_was_removed_are_dropped(under_way, members):
    del members["a"]
    assert under_way.going_on(0).tolist() == [4, 5]
    assert under_way.players(0) == ["b"]


def test_players_of_what_goes_on_are_named_and_of_those_the_learning_ones(under_way):
    assert under_way.players(0) == ["a", "b"]
    under_way.settle(0, 2, ended(of_b(), 4, 5), range(4), 0)
    assert under_way.players(0) == ["a", "b"]
    assert under_way.players(0, learning=True) == ["a"]
    assert under_way.players(1) == []


def test_matches_that_a_runner_forgot_are_dropped_but_not_those_of_a_later_request(under_way):
    """A runner that was started again has none of the earlier ones."""
    assert under_way.settle(0, 1, ended(of_a()), [], 0) == []
    assert under_way.going_on(0).tolist() == [4, 5]
    assert under_way.dropped == 4


def test_a_lost_request_takes_along_all_that_went_on_in_it(under_way):
    under_way.settle(0, 1, ended(of_a(), 0), [1, 2, 3], 30)
    lost = under_way.lost(0, 2)
    assert lost.matches.match_id.tolist() == [4, 5]  # that it brought: no player has learned from these
    assert under_way.going_on(0).tolist() == []
    assert (under_way.dropped, under_way.steps) == (3, 0)


def test_whole_matches_go_on_in_no_other_request_and_are_lost_with_their_own_alone(members):
    under_way = UnderWay(members)
    under_way.add(0, 1, part(of_a()), ["a", "b"])
    under_way.add(0, 2, part(of_b()), ["b"])
    assert under_way.going_on(0).tolist() == []
    assert under_way.players(0, learning=True) == []
    assert under_way.lost(0, 2).matches.match_id.tolist() == [4, 5]
    (recorded,) = under_way.settle(0, 1, ended(of_a(), 0, 1, 2, 3), [], 0)
    assert recorded.matches.match_id.tolist() == [0, 1, 2, 3]
    assert (under_way.dropped, under_way.lost(0, 1)) == (0, None)


def test_of_a_request_for_whole_matches_only_those_of_a_reset_player_are_dropped(members):
    under_way = UnderWay(members)
    under_way.add(0, 1, part(of_a()), ["a", "b"])
    members["b"].generation += 1
    (recorded,) = under_way.settle(0, 1, ended(of_a(), 0, 1, 2, 3), [], 0)
    assert recorded.matches.match_id.tolist() == [0, 1]
    assert under_way.dropped == 2


def test_slots_are_filled_by_all_players_alike_and_then_by_as_many_as_end(members):
    under_way = UnderWay(members)
    assert under_way.wanted(0, slots=6, most=100, depth=1, players=2) == 3
    under_way.add(0, 1, part(of_a()), ["a", "b"], cut=True)
    assert under_way.wanted(0, slots=6, most=100, depth=1, players=2) == 2
    under_way.add(0, 2, part(of_b()), ["b"], cut=True)
    assert under_way.wanted(0, slots=6, most=100, depth=1, players=2) == 0
    under_way.settle(0, 2, ended(of_a(), 0, 1), [2, 3, 4, 5], 0)
    # two places, and two more that wait, as two may end next time; two for each request in flight
    assert under_way.wanted(0, slots=6, most=100, depth=1, players=2) == 3
    assert under_way.wanted(0, slots=6, most=100, depth=2, players=1) == 6
    assert under_way.wanted(0, slots=6, most=1, depth=2, players=1) == 1


def test_a_batch_without_matches_can_be_asked_for(under_way):
    empty = under_way.none_new(0)
    assert (len(empty), empty.num_seats, empty.competitors) == (0, 2, ())
