"""Lost matches are played again; those at which runners keep dying are set aside, and no others."""

import numpy as np

from league.training.losses.again import DEATHS, FIRST_DEATHS, FRAGMENT_DEATHS, PARTS, Again, Part
from tests import made_up


def part(count, first=0, *, evaluated=False):
    ids = np.arange(first, first + count)
    return Part(made_up.matches(("main-0",), [[0, 0]] * count, learning=True, match_id=ids), None, evaluated)


def ids(one):
    return one.matches.match_id.tolist()


def play(again, deadly, evaluated=False):
    """Play all that waits with runners that die at the match `deadly`; return what was set aside."""
    aside = []
    while (one := again.next(evaluated=evaluated)) is not None:
        if deadly in ids(one):
            if not again.lost(one, blamed=True):
                aside.append(one)
        else:
            again.played()
    return aside


def test_matches_of_a_runner_that_was_killed_by_chance_are_played_again_as_they_were():
    again = Again()
    assert again.lost(part(64), blamed=True)
    assert len(again) == 64
    assert ids(again.next(evaluated=False)) == list(range(64))
    assert (len(again), again.next(evaluated=False)) == (0, None)


def test_a_match_that_kills_every_runner_is_set_aside_with_its_part_of_the_request():
    again = Again()
    assert again.lost(part(64), blamed=True)
    (one,) = play(again, 17)
    assert ids(one) == list(range(16, 24))
    assert len(ids(one)) == 64 // PARTS
    assert one.deaths == DEATHS - 1  # and one more by now
    assert not again.hopeless


def test_matches_lost_without_a_death_of_their_own_are_never_set_aside():
    again, one = Again(), part(8)
    for _ in range(4 * DEATHS):
        assert again.lost(one, blamed=False)
        one = again.next(evaluated=False)
        assert one.deaths == 0


def test_a_request_of_fewer_matches_than_parts_is_divided_into_single_ones():
    again = Again()
    again.lost(part(3), blamed=True)
    assert [ids(one) for one in play(again, 1)] == [[1]]


def test_matches_for_runners_of_evaluation_wait_for_those():
    again = Again()
    again.lost(part(4, evaluated=True), blamed=True)
    again.lost(part(2, 10), blamed=True)
    assert ids(again.next(evaluated=False)) == [10, 11]
    assert again.next(evaluated=False) is None
    assert ids(again.next(evaluated=True)) == [0, 1, 2, 3]


def test_only_when_every_part_of_all_that_was_asked_kills_is_it_hopeless():
    again = Again()
    again.played()
    again.lost(part(64), blamed=True)
    deaths = 1
    while (one := again.next(evaluated=False)) is not None:
        assert not again.hopeless
        again.lost(one, blamed=True)
        deaths += 1
    assert again.hopeless
    assert deaths == PARTS + 2
    again.played()
    assert not again.hopeless


def test_where_nothing_was_ever_played_a_few_deaths_are_enough():
    again, one = Again(), part(64)
    for deaths in range(1, FIRST_DEATHS + 1):
        again.lost(one, blamed=True)
        assert again.hopeless == (deaths == FIRST_DEATHS)
        one = again.next(evaluated=False)


def test_runners_that_die_at_every_fragment_are_hopeless_too():
    again = Again()
    for _ in range(FRAGMENT_DEATHS):
        assert not again.hopeless
        again.lost_in_fragments()
    assert again.hopeless
