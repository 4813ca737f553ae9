"""Which player matches are asked for: by shares, past those whose learners have no room or are away."""

from collections import Counter
from types import SimpleNamespace

import pytest

from league.training.league_matches import LEAD, LeagueMatches
from league.training.state.state import TrainingPlayer
from storage.records import MAIN, LivePlayer

MATCHES = 64  # of a request


class Asking(LeagueMatches):
    """The asking side alone: requests are noted, and bring a block to their player's learner at once."""

    def __init__(self, shares, seconds, going_on=()):
        """`shares` and `seconds` for a block, by player; a queue holds two blocks."""
        self._members = {
            name: TrainingPlayer(LivePlayer(name, MAIN), share) for name, share in shares.items()
        }
        self.seconds, self.blocks, self.gone = seconds, Counter(), set()
        self._learners = SimpleNamespace(away=lambda: tuple(self.gone), full=self.is_full)
        runners = SimpleNamespace(next_runner=lambda: 0, in_flight=lambda: 0)
        self._requests = SimpleNamespace(runners={"training": runners}, room=lambda owner, each: 4)
        self._under_way = SimpleNamespace(players=lambda place, learning: going_on)
        self.pace = SimpleNamespace(
            follow=lambda shares: None,
            each_runner=lambda: None,
            matches=lambda player: MATCHES,
            enough=lambda player, in_flight: False,
        )
        self.asked, self._turn = [], 0

    def _ask_again(self, owner):
        pass

    def is_full(self, player):
        return self.blocks[player] >= 2

    def _request(self, member, runner):
        name = member.player.player
        member.matches_asked += MATCHES
        self.asked.append(name)
        self.blocks[name] += name not in self.gone
        return 1

    def turn(self, turns=1):
        for _ in range(turns):
            self._turn += 1
            self.ask()
            for name, each in self.seconds.items():
                if name not in self.gone and self._turn % each == 0 and self.blocks[name]:
                    self.blocks[name] -= 1


def test_requests_follow_the_shares_in_the_same_order_again_and_again():
    asking = Asking({"a": 2.0, "b": 1.0, "c": 1.0}, {"a": 1, "b": 1, "c": 1})
    asking.is_full = asking._learners.full = lambda player: False
    asking.turn(2)
    assert asking.asked == ["a", "b", "c", "a"] * 2


def test_past_a_learner_without_room_the_next_player_is_asked_for_and_shares_hold():
    """Play of all players waited for it."""
    asking = Asking({"a": 1.0, "b": 1.0, "c": 1.0}, {"a": 1, "b": 1, "c": 1})
    asking.turn(20)
    before = Counter(asking.asked)
    asking.blocks["a"] = 5  # experience that matches of others have brought, say
    asking.turn(1)
    meanwhile = Counter(asking.asked) - before
    assert meanwhile["a"] == 0
    assert meanwhile["b"] >= 1
    assert meanwhile["c"] >= 1
    asking.turn(60)
    counts = Counter(asking.asked).values()
    assert max(counts) - min(counts) <= LEAD


@pytest.mark.parametrize("shares", [{"slow": 1.0, "fast": 1.0}, {"slow": 3.0, "fast": 1.0}])
def test_a_learner_that_is_slow_keeps_its_share_however_long_it_takes(shares):
    asking = Asking(shares, {"slow": 20, "fast": 1})
    asking.turn(2000)
    counts = Counter(asking.asked)
    assert counts["slow"] >= 100
    level = {name: counts[name] / share for name, share in shares.items()}
    assert 0 <= level["fast"] - level["slow"] < LEAD + 1


def test_one_that_hangs_holds_up_no_other_and_gets_only_its_share_when_it_is_back():
    asking = Asking({"a": 1.0, "b": 1.0}, {"a": 1, "b": 1})
    asking.turn(20)
    asking.gone, before = {"a"}, Counter(asking.asked)
    asking.turn(50)
    meanwhile = Counter(asking.asked) - before
    assert meanwhile["a"] == 0
    assert meanwhile["b"] >= 50
    asking.gone, before = set(), Counter(asking.asked)
    asking.turn(50)
    since = Counter(asking.asked) - before
    assert abs(since["a"] - since["b"]) <= LEAD


def test_a_player_that_is_about_to_be_reset_is_asked_for_no_more_and_holds_up_no_other():
    asking = Asking({"a": 1.0, "b": 1.0}, {"a": 1, "b": 1})
    asking._members["a"].resets = True
    asking.turn(10)
    assert set(asking.asked) == {"b"}


def test_matches_that_go_on_at_the_runner_need_room_at_their_learners_too():
    asking = Asking({"a": 1.0, "b": 1.0}, {"a": 1, "b": 1}, going_on=("a",))
    asking.blocks["a"] = 3
    asking.turn(1)
    assert asking.asked == []
    asking.gone = {"a"}
    asking.turn(1)
    assert set(asking.asked) == {"b"}


def test_when_no_player_learns_or_all_are_without_room_nothing_is_asked_for():
    asking = Asking({"a": 1.0, "b": 1.0}, {"a": 1000, "b": 1000})
    asking.turn(3)
    assert Counter(asking.asked) == {"a": 2, "b": 2}
    for member in asking._members.values():
        member.stopped = "its loss was no number"
    asking.turn(3)
    assert len(asking.asked) == 4
