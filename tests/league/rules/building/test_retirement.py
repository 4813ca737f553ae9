from types import SimpleNamespace

import numpy as np
import pytest
from pydantic import ValidationError

from league.rules.building.retirement import KeepSettings, farthest_points, retirements
from league.rules.roster import Roster
from league.rules.standings import Standings
from storage.records import MAIN, MAIN_EXPLOITER, LivePlayer, Outcome

WIN, LOSS = Outcome.WIN, Outcome.LOSS
PLAYERS = {"main-0": MAIN, "main-1": MAIN, "x-0": MAIN_EXPLOITER}
FREE = {"initial": False, "newest": False}


@pytest.fixture
def it(make):
    """Two mains and an exploiter without snapshots yet."""
    roster = Roster([LivePlayer(name, role) for name, role in PLAYERS.items()])
    standings = Standings(roster)

    def admit(*names):
        for name in names:
            player = name.split("@")[0]
            roster.admit(make.snapshot(name, player=player, role=PLAYERS[player]))
            standings.on_admit(roster[name], player)

    def going(**settings):
        found = retirements(MAIN, KeepSettings(**settings), roster, standings)
        return [retire.target for retire in found]

    def play(home, away, wins, losses):
        standings.record(make.games(*[(home, away, WIN)] * wins, *[(home, away, LOSS)] * losses))

    return SimpleNamespace(roster=roster, standings=standings, admit=admit, going=going, play=play)


def test_by_default_every_snapshot_stays(it):
    it.admit(*[f"main-0@{i}" for i in range(50)])
    assert it.going() == []


def test_the_oldest_go_first_and_the_initial_ones_stay(it):
    it.admit("main-0@0", "main-1@0", "main-0@1", "main-1@1", "main-0@2", "main-0@3")
    assert it.going(snapshots=4) == ["main-0@1", "main-0@2"]  # main-1@1 is its player's newest
    assert it.going(snapshots=4, newest=False) == ["main-0@1", "main-1@1"]
    assert it.going(snapshots=4, **FREE) == ["main-0@0", "main-1@0"]
    assert it.going(snapshots=6) == []


def test_pinned_snapshots_stay_whatever_the_rule(it):
    it.admit(*[f"main-0@{i}" for i in range(6)])
    for by in ("newest", "strongest", "diverse"):
        going = it.going(snapshots=2, by=by, pinned=("main-0@1", "main-0@2"), **FREE)
        assert sorted(going) == ["main-0@0", "main-0@3", "main-0@4", "main-0@5"]


def test_protected_ones_stay_also_where_they_alone_are_too_many(it):
    it.admit("main-0@0", "main-0@1", "main-0@2", "main-1@0", "main-1@1")
    assert it.going(snapshots=1) == ["main-0@1"]


def test_only_seated_snapshots_of_the_role_count(it):
    it.admit("main-0@0", "main-0@1", "main-0@2", "x-0@0", "x-0@1", "x-0@2")
    assert it.going(snapshots=3) == []
    it.admit("main-0@3")
    assert it.going(snapshots=3) == ["main-0@1"]
    it.roster.retire("main-0@1")
    assert it.going(snapshots=3) == []


def test_snapshots_of_a_player_that_is_gone_are_kept_by_the_same_rule(it):
    it.admit("main-0@0", "main-1@0", "main-1@1", "main-1@2", "main-0@1")
    it.roster.remove("main-1")
    assert it.going(snapshots=4) == ["main-1@1"]


def test_the_weakest_by_mu_goes_and_the_newer_of_equals_stays(it):
    it.admit(*[f"main-0@{i}" for i in range(5)])
    it.play("main-0@2", "x-0", wins=0, losses=20)
    it.play("main-0@3", "x-0", wins=20, losses=0)
    assert it.going(snapshots=3, by="strongest", **FREE)[0] == "main-0@2"
    assert it.going(snapshots=2, by="strongest", **FREE) == ["main-0@2", "main-0@0", "main-0@1"]


def test_of_two_that_fare_alike_one_goes_however_many_win(it):
    """Rock, paper, scissors and a second rock, which differ in their results against three that stay."""
    names = ["main-0@0", "main-0@1", "main-0@2", "main-0@3"]
    wins = {
        "main-0@0": (10, 0, 20),
        "main-0@1": (20, 10, 0),
        "main-0@2": (0, 20, 10),
        "main-0@3": (10, 0, 20),
    }
    it.admit(*names)
    for name in names:
        for away, count in zip(("main-1", "x-0", "main-0"), wins[name], strict=True):
            it.play(name, away, count, 20 - count)
    (retire,) = retirements(
        MAIN, KeepSettings(snapshots=3, by="diverse", prior_strength=0.0, **FREE), it.roster, it.standings
    )
    assert retire.target == "main-0@0"
    assert retire.evidence["distance"] < 0.1 < retire.evidence["least_kept"]


def test_without_any_game_the_most_diverse_are_the_newest(it):
    it.admit(*[f"main-0@{i}" for i in range(4)])
    assert it.going(snapshots=2, by="diverse", **FREE) == ["main-0@0", "main-0@1"]


def test_the_evidence_tells_how_many_are_seated_and_what_was_compared(it):
    it.admit(*[f"main-0@{i}" for i in range(5)])
    first, second = retirements(MAIN, KeepSettings(snapshots=3, initial=False), it.roster, it.standings)
    index = it.roster.index
    assert first.reason == "not among the newest"
    assert first.evidence == {
        "seated": 5,
        "most": 3,
        "admission": index("main-0@0"),
        "least_kept": index("main-0@2"),
    }
    assert second.evidence["admission"] == index("main-0@1")
    pinned = KeepSettings(snapshots=4, pinned=("main-0@2", "main-0@3"))
    (nobody_to_compare,) = retirements(MAIN, pinned, it.roster, it.standings)
    assert "least_kept" not in nobody_to_compare.evidence


def test_the_farthest_point_comes_first_and_the_closest_last():
    rows = np.array([[0.5, 0.5], [0.55, 0.5], [1.0, 1.0], [0.0, 0.9]])
    distance = farthest_points(rows[:1], rows[1:])
    by_hand = [0.05 / np.sqrt(2), np.sqrt((0.25 + 0.16) / 2), 0.5]
    # the last row is as far from the third as it is from the first: sqrt((1 + 0.01) / 2) > by_hand[1]
    assert distance == pytest.approx([by_hand[0], by_hand[2], by_hand[1]])


def test_farthest_points_begin_with_the_last_row_when_nobody_is_kept():
    rows = np.array([[0.0], [0.9], [1.0]])
    assert farthest_points(np.zeros((0, 1)), rows) == pytest.approx([1.0, 0.1, 1.0])


def test_the_order_of_farthest_points_never_gets_closer_again():
    rng = np.random.default_rng(0)
    for _ in range(50):
        rows = rng.random((12, 5)).round(1)
        distance = farthest_points(rows[:2], rows[2:])
        order = np.lexsort((np.arange(10), distance))[::-1]
        kept = list(rows[:2])
        for i in order:  # each is as far from all before it as its distance says
            nearest = min(np.sqrt(np.mean((rows[2 + i] - row) ** 2)) for row in kept)
            assert nearest == pytest.approx(distance[i])
            kept.append(rows[2 + i])


def test_more_pinned_than_may_be_seated_is_refused():
    with pytest.raises(ValidationError, match="2 snapshots are pinned, expected at most snapshots, 1"):
        KeepSettings(snapshots=1, pinned=("a", "b"))
    with pytest.raises(ValidationError, match="greater than or equal to 1"):
        KeepSettings(snapshots=0)
