"""Means over what was played: those of the ledger's tables, by name."""

import numpy as np
import pytest

from league.rules.roster import Roster
from league.training.state.session_sums import Course, Means, Played
from storage.records import MAIN, Bot, LivePlayer, Purpose, Snapshot
from tests import made_up

NAMES = ("main-0", "one_ply", "main-0@0", "main-1")


@pytest.fixture
def roster():
    found = Roster()
    found.admit(LivePlayer("main-0", MAIN))
    found.admit(LivePlayer("main-1", MAIN))
    found.admit(Bot("one_ply"))
    found.admit(
        Snapshot(
            snapshot_id="main-0@0", player="main-0", role=MAIN, env_steps=0, updates=0, parent_id=None,
            blob_hash="", bytes=0, architecture="mlp", created_at=0.0, reason="",
        )
    )  # fmt: skip
    return found


def results(seat, outcome, learning, purpose=Purpose.TRAINING):
    """Matches of two, three steps each, by `outcome`: 0 win with score 1, 1 draw, 2 loss with score -1."""
    outcome = np.array(outcome)
    matches = made_up.matches(NAMES, seat, env="tic_tac_toe", purpose=purpose, learning=learning)
    reason = [0] * (len(outcome) - 1) + [1]
    return made_up.results(matches, outcome, score=1.0 - outcome, env_steps=3, reason=reason)


def test_scores_lengths_ends_seats_and_points_by_opponent_are_means_of_games_played(roster):
    played = Played(roster)
    means = Means(played)
    played.count(
        results(
            [(0, 1), (1, 0), (0, 2), (3, 0)],
            [(0, 2), (0, 2), (1, 1), (0, 2)],
            [(True, False), (False, True), (True, False), (True, True)],
        )
    )
    assert means.new() == pytest.approx(
        {
            "score/main-0": (1 - 1 + 0 - 1) / 4,
            "score/main-1": 1.0,
            "length/main-0": 3.0,
            "length/main-1": 3.0,
            "end/finished": 0.75,
            "end/illegal_action": 0.25,
            "end/step_limit": 0.0,
            "end/crash": 0.0,
            "end/error": 0.0,
            "end/time": 0.0,
            "seat/0": 3.5 / 4,
            "seat/1": 0.5 / 4,
            "win_rate/main-0/one_ply": 0.5,
            "win_rate/main-0/snapshots_of_main-0": 0.5,
            "win_rate/main-0/main-1": 0.0,
            "win_rate/main-1/main-0": 1.0,
        }
    )
    assert means.new() == {}  # nothing since then


def test_matches_for_the_record_only_are_not_counted(roster):
    played = Played(roster)
    played.count(results([(0, 1)], [(0, 2)], [(False, False)], Purpose.EVALUATION))
    assert not played.counts


def test_the_course_of_a_player_has_its_first_and_its_newest_figures(roster):
    played = Played(roster)
    course = Course(played)
    assert course.sentence("main-0", ["one_ply"]) == ""
    for outcome in ((2, 0), (0, 2)):
        played.count(results([(0, 1)], [outcome], [(True, False)]))
        course.note()
    assert course.sentence("main-0", ["one_ply"]) == (
        "main-0 at last: score 1 (-1 at first), steps of a match 3, "
        "points against one_ply 1.00 (0.00 at first)"
    )
