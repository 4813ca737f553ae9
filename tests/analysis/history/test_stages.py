"""A player that learns is another competitor after each freeze."""

import numpy as np
import pytest
import torch

import analysis
from storage.archive import Archive
from storage.records import MAIN, Bot, LivePlayer, RatingChange
from tests import made_up

NAMES = ("main-0", "random")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """main-0 loses 4 games to random before its snapshot at 40 steps, and wins 6 behind it."""
    folder = tmp_path_factory.mktemp("stages") / "run"
    with Archive.create(folder, "name: x\n", {"name": "x", "env": "x", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        for games, place, mu, steps in ((4, [2, 0], 20.0, 40), (6, [0, 2], 30.0, None)):
            seat = np.tile(np.array([[0, 1]], np.int32), (games, 1))
            played = made_up.results(made_up.matches(NAMES, seat), np.tile(place, (games, 1)))
            archive.append_results(played, [RatingChange("main-0", mu, 1.0, games)])
            if steps is not None:
                made_up.add_snapshot(archive, steps, {"w": torch.zeros(1)}, {}, updates=1, reason="schedule")
    return folder


def test_games_before_and_after_a_freeze_are_two_rows(run):
    with analysis.open_run(run) as history:
        together, apart = history.payoff(), history.payoff(stages=True)
    assert together.set_index("home")["games"].to_dict() == {"main-0": 10, "random": 10}
    own = apart[apart["away"] == "random"].set_index("home")
    assert own["games"].to_dict() == {"main-0 from 40": 6, "main-0 to 40": 4}
    assert own["win_rate"].to_dict() == {"main-0 from 40": 1.0, "main-0 to 40": 0.0}
    assert apart.columns.tolist() == together.columns.tolist()


def test_a_stage_has_the_rating_at_its_end(run):
    with analysis.open_run(run) as history:
        board, whole = history.leaderboard(stages=True), history.leaderboard()
    rated = board[board["kind"] == "player"].set_index("competitor")
    assert rated["mu"].to_dict() == {"main-0 from 40": 30.0, "main-0 to 40": 20.0}
    assert rated["role"].unique().tolist() == ["main"]
    assert rated["win_rate"].to_dict() == {"main-0 from 40": 1.0, "main-0 to 40": 0.0}
    assert board.columns.tolist() == whole.columns.tolist()
