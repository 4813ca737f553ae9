"""Lost matches are played again; those at which runners keep dying are set aside, and no others."""

import numpy as np

from league.training.state.under_way import (
    DEATHS,
    FIRST_DEATHS,
    PARTS,
    Part,
    ReplayedMatches,
)
from tests import made_up


def part(count, first=0, *, owner="training"):
    ids = np.arange(first, first + count)
    return Part(made_up.matches(("main-0",), [[0, 0]] * count, learning=True, match_id=ids), None, owner)


def ids(one):
    return one.matches.match_id.tolist()


def play(again, deadly, owner="training"):
    """Play all that waits with runners that die at the match `deadly`; return what was set aside."""
    aside = []
    while (one := again.next(owner)) is not None:
        if deadly in ids(one):
            if not again.lost(one, blamed=True):
                aside.append(one)
        else:
            again.played()
    return aside


def test_matches_of_a_runner_that_was_killed_by_chance_are_played_again_as_they_were():
    again = ReplayedMatches()
    assert again.lost(part(64), blamed=True)
    assert len(again) == 64
    assert ids(again.next("training")) == list(range(64))
    assert (len(again), again.next("training")) == (0, None)


def test_a_match_that_kills_every_runner_is_set_aside_with_its_part_of_the_request():
    again = ReplayedMatches()
    assert again.lost(part(64), blamed=True)
    (one,) = play(again, 17)
    assert ids(one) == list(range(16, 24))
    assert len(ids(one)) == 64 // PARTS
    assert one.deaths == DEATHS - 1  # and one more by now
    assert not again.hopeless


def test_matches_lost_without_a_death_of_their_own_are_never_set_aside():
    again, one = ReplayedMatches(), part(8)
    for _ in range(4 * DEATHS):
        assert again.lost(one, blamed=False)
        one = again.next("training")
        assert one.deaths == 0


def test_a_request_of_fewer_matches_than_parts_is_divided_into_single_ones():
    again = ReplayedMatches()
    again.lost(part(3), blamed=True)
    assert [ids(one) for one in play(again, 1)] == [[1]]


def test_matches_for_runners_of_evaluation_wait_for_those():
    again = ReplayedMatches()
    again.lost(part(4, owner="evaluation"), blamed=True)
    again.lost(part(2, 10), blamed=True)
    assert ids(again.next("training")) == [10, 11]
    assert again.next("training") is None
    assert ids(again.next("evaluation")) == [0, 1, 2, 3]


def test_only_when_every_part_of_all_that_was_asked_kills_is_it_hopeless():
    again = ReplayedMatches()
    again.played()
    again.lost(part(64), blamed=True)
    deaths = 1
    while (one := again.next("training")) is not None:
        assert not again.hopeless
        again.lost(one, blamed=True)
        deaths += 1
    assert again.hopeless
    assert deaths == PARTS + 2
    again.played()
    assert not again.hopeless


def test_where_nothing_was_ever_played_a_few_deaths_are_enough():
    again, one = ReplayedMatches(), part(64)
    for deaths in range(1, FIRST_DEATHS + 1):
        again.lost(one, blamed=True)
        assert again.hopeless == (deaths == FIRST_DEATHS)
        one = again.next("training")
