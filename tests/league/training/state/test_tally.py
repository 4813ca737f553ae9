"""Matches by player and opponent, counted over batches."""

import pytest

from league.rules.roster import Roster
from league.training.state.tally import MatchTally, matches_of
from storage.records import LEAGUE_EXPLOITER, MAIN, Bot, LivePlayer, Purpose, Snapshot
from tests import made_up


def batch(rows, types, purpose=Purpose.TRAINING):
    """Matches given as seats, each a name, with a star behind it where it learns."""
    names = sorted({seat.rstrip("*") for row in rows for seat in row})
    kinds = tuple(sorted(set(types)))
    return made_up.matches(
        names,
        [[names.index(seat.rstrip("*")) for seat in row] for row in rows],
        purpose=purpose,
        match_types=kinds,
        match_type=[kinds.index(kind) for kind in types],
        learning=[[seat.endswith("*") for seat in row] for row in rows],
    )


def test_matches_are_counted_for_the_player_that_learns_wherever_it_sits():
    tally = MatchTally()
    rows = [("a*", "b"), ("b", "a*"), ("c", "a*"), ("b*", "a")]
    for _ in range(2):
        tally.count(batch(rows, ["pfsp", "pfsp", "forgotten", "pfsp"]))
    assert tally.types == {("a", "pfsp"): 4, ("a", "forgotten"): 2, ("b", "pfsp"): 2}
    assert tally.opponents == {("a", "b"): 4, ("a", "c"): 2, ("b", "a"): 2}


def test_in_self_play_a_player_learns_from_itself_once_a_match():
    tally = MatchTally()
    tally.count(batch([("a*", "a*"), ("a*", "b")], ["self_play", "pfsp"]))
    assert tally.opponents == {("a", "a"): 1, ("a", "b"): 1}


def test_every_seat_of_others_counts_and_a_teammate_that_is_itself_does_not():
    tally = MatchTally()
    tally.count(batch([("b", "a*", "c"), ("b", "b", "a*")], ["pfsp", "pfsp"]))
    tally.count(batch([("a*", "a", "b")], ["pfsp"]))
    assert tally.types == {("a", "pfsp"): 3}
    assert tally.opponents == {("a", "b"): 4, ("a", "c"): 1}


@pytest.mark.parametrize(
    "matches",
    [
        batch([("a", "b")], ["evaluation"]),
        batch([("a*", "b")], ["evaluation"], Purpose.EVALUATION),
        batch([("a", "b")], ["compare"], Purpose.TOURNAMENT),
    ],
)
def test_what_nobody_learns_from_is_not_counted(matches):
    tally = MatchTally()
    tally.count(matches)
    assert not tally.types
    assert not tally.opponents
    assert matches_of(matches) == {}


def test_a_batch_tells_how_many_matches_each_player_learns_from():
    assert matches_of(batch([("b*", "a"), ("a", "b*"), ("a*", "c")], ["x", "x", "x"])) == {"a": 1, "b": 2}


def test_seats_are_counted_by_the_roles_of_live_players_snapshots_and_bots():
    live, other = LivePlayer("a", MAIN), LivePlayer("b", LEAGUE_EXPLOITER)
    past = Snapshot("a@0", "a", MAIN, 0, 0, None, "ab", 8, "mlp", 0.0, "due")
    roster = Roster([live, other, Bot("random"), past])
    tally = MatchTally()
    tally.count(batch([("a*", "a*"), ("a*", "a@0"), ("random", "a*"), ("b*", "a@0")], ["pfsp"] * 4))
    assert tally.by_role(roster) == {
        ("main", "main"): 1,
        ("main", "past main"): 1,
        ("main", "bot"): 1,
        ("league_exploiter", "past main"): 1,
    }
