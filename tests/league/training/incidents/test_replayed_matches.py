"""Lost matches are played again; exactly those that kill their runners are set aside, and no others."""

import math

import numpy as np
import pytest

from league.training.state.under_way import (
    ALONE,
    DEATHS,
    FIRST_HOPELESS,
    HOPELESS,
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


class Game:
    """Runners that die at the `deadly` matches, and what became of all others."""

    def __init__(self, deadly):
        self.again, self.deadly = ReplayedMatches(), set(deadly)
        self.deaths, self.aside, self.played = 0, [], []

    def play(self, one):
        """Play a part; return whether it was played."""
        if not self.deadly.isdisjoint(ids(one)):
            self.deaths += 1
            own = self.again.lost(one, blamed=True)
            self.aside += [] if own is None else [own]
        else:
            self.again.played()
            self.played += ids(one)

    def play_all(self):
        """Play all that waits, until it is hopeless."""
        while not self.again.hopeless and (one := self.again.next("training", suspected=True)) is not None:
            self.play(one)

    @property
    def set_aside(self):
        return [match for one in self.aside for match in ids(one)]


def test_matches_of_a_runner_that_was_killed_by_chance_are_all_played_again_once():
    game = Game([])
    assert game.again.lost(part(64), blamed=True) is None
    assert len(game.again) == 64
    game.play_all()
    assert game.played == list(range(64))
    assert len(game.again) == 0


def test_a_match_that_kills_every_runner_is_set_aside_alone_and_those_beside_it_count():
    game = Game([17])
    game.play(part(64))
    game.play_all()
    assert game.set_aside == [17]
    assert sorted(game.played) == [match for match in range(64) if match != 17]
    (one,) = game.aside
    assert one.alone == ALONE
    assert one.deaths == game.deaths == 4  # 64, 8, and twice alone
    assert not game.again.hopeless


@pytest.mark.parametrize("count", [1, 2, 7, 256, 4096])
@pytest.mark.parametrize("one_in", [500, 150, 20])
def test_of_requests_in_which_many_matches_kill_exactly_those_are_set_aside(count, one_in):
    total = max(count, 6_000)
    deadly = np.random.default_rng(count + one_in).random(total) < 1 / one_in
    game = Game(np.flatnonzero(deadly).tolist())
    for first in range(0, total, count):
        game.play(part(min(count, total - first), first))
        game.play_all()
        assert not game.again.hopeless
    assert sorted(game.set_aside) == sorted(game.deadly)
    assert sorted(game.played) == np.flatnonzero(~deadly).tolist()
    each = math.ceil(math.log(count, PARTS)) + max(ALONE, DEATHS if count == 1 else 0)
    assert game.deaths <= each * len(game.deadly)


def test_two_deaths_by_chance_in_a_row_set_nothing_aside_but_only_divide():
    game = Game([])
    game.again.lost(part(64), blamed=True)
    one = game.again.next("training", suspected=True)
    assert game.again.lost(one, blamed=True) is None
    single = game.again.next("training", suspected=True)
    assert len(ids(single)) == 1
    assert game.again.lost(single, blamed=True) is None  # the third death, but the first of it alone
    game.play_all()
    assert sorted(game.played) == list(range(64))


def test_matches_lost_without_a_death_of_their_own_are_never_set_aside_or_divided():
    again, one = ReplayedMatches(), part(8)
    for _ in range(4 * DEATHS):
        assert again.lost(one, blamed=False) is None
        one = again.next("training", suspected=False)
        assert (one.deaths, ids(one)) == (0, list(range(8)))


def test_what_is_suspected_is_searched_to_the_end_before_the_next_request_is():
    again = ReplayedMatches()
    again.lost(part(64), blamed=True)
    again.lost(part(64, 100), blamed=False)
    one = again.next("training", suspected=True)
    again.lost(one, blamed=True)
    assert ids(again.next("training", suspected=True)) == [0]
    assert ids(again.next("training", suspected=False)) == list(range(100, 164))


def test_matches_for_runners_of_evaluation_wait_for_those():
    again = ReplayedMatches()
    again.lost(part(4, owner="evaluation"), blamed=False)
    again.lost(part(2, 10), blamed=False)
    assert ids(again.next("training", suspected=False)) == [10, 11]
    assert again.next("training", suspected=False) is None
    assert ids(again.next("evaluation", suspected=False)) == [0, 1, 2, 3]


def test_where_all_matches_kill_it_is_hopeless_after_a_few_and_a_result_is_hope():
    game = Game(range(4096))
    game.again.played()
    game.play(part(4096))
    game.play_all()
    assert game.again.hopeless
    assert len(game.aside) == HOPELESS
    assert game.deaths == 4 + ALONE * HOPELESS
    game.again.played()
    assert not game.again.hopeless


def test_where_nothing_was_ever_played_fewer_are_enough():
    game = Game(range(64))
    game.play(part(64))
    game.play_all()
    assert len(game.aside) == FIRST_HOPELESS
    assert game.again.hopeless
