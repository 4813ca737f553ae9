import pytest

from league.rules.roster import Roster
from storage.records import MAIN, MAIN_EXPLOITER, Bot, Entrant, LivePlayer


def test_indices_follow_admission_and_are_never_reused(make):
    roster = Roster([LivePlayer("main-0", MAIN), Bot("random")])
    assert roster.admit(make.snapshot("main-0@1")) == 2
    roster.retire("main-0@1")
    assert roster.admit(make.snapshot("main-0@2")) == 3
    assert roster.ids == ("main-0", "random", "main-0@1", "main-0@2")
    assert roster.indices(["main-0@2", "random"]).tolist() == [3, 1]


def test_an_id_is_admitted_once(make):
    roster = Roster([make.snapshot("a")])
    with pytest.raises(ValueError, match="'a' is already admitted"):
        roster.admit(Bot("a"))
    assert len(roster) == 1


def test_a_retired_snapshot_is_known_but_not_seated(make):
    roster = Roster([make.snapshot("a"), make.snapshot("b")])
    roster.retire("a")
    assert roster.snapshots().tolist() == [1]
    assert roster.snapshots(MAIN).tolist() == [1]
    assert roster.snapshots_of("main-0").tolist() == [0, 1]
    assert "a" in roster
    assert roster.is_retired("a")
    assert roster["a"].snapshot_id == "a"


@pytest.mark.parametrize("name", ["main-0", "random", "a"])
def test_only_a_seated_snapshot_can_retire(make, name):
    roster = Roster([LivePlayer("main-0", MAIN), Bot("random"), make.snapshot("a")])
    roster.retire("a")
    with pytest.raises(ValueError, match="only a seated snapshot can retire"):
        roster.retire(name)


def test_snapshots_are_found_by_the_role_of_their_player(make):
    roster = Roster([LivePlayer("main-0", MAIN), LivePlayer("x", MAIN_EXPLOITER)])
    roster.admit(make.snapshot("main-0@1"))
    roster.admit(make.snapshot("x@1", player="x", role="main_exploiter"))
    assert roster.mains().tolist() == [0]
    assert roster.snapshots(MAIN).tolist() == [2]
    assert roster.snapshots(MAIN_EXPLOITER).tolist() == [3]
    assert roster.snapshots_of("x").tolist() == [3]
    assert roster.snapshots_of("nobody").tolist() == []


def test_an_unknown_id_is_answered_with_the_nearest(make):
    roster = Roster([make.snapshot("main-0@100")])
    with pytest.raises(KeyError, match="did you mean 'main-0@100'"):
        roster.index("main-0@10")


def test_entrants_of_a_tournament_are_members_but_nobody_to_draw_from(make):
    greedy = Entrant("a:greedy", "snapshot", MAIN, "main-0", "runs/a", "a", "ab", 5, 1.0, "mlp", 0.0)
    bot = Entrant("random", "bot", None, None, None, None, None, None, None, None)
    roster = Roster([greedy, bot])
    assert roster.ids == ("a:greedy", "random")
    assert roster["random"] == bot
    assert roster.snapshots().tolist() == roster.snapshots_of("main-0").tolist() == []
    assert roster.bots == roster.players == ()
    with pytest.raises(ValueError, match="only a seated snapshot can retire"):
        roster.retire("a:greedy")
