"""Games of runs hold what every seat saw, did and got; no random opening moves."""

import numpy as np
import pytest

import league
from league.teaching.played import played_games, recorded_games
from storage import query
from storage.errors import Mistake


def test_seats_see_their_boards_and_get_what_the_match_was_worth(snapshots_run):
    spaces, found = played_games(snapshots_run, ["main-0@1", "perfect"], 8)
    games = next(iter(found))
    episodes = games.episodes
    assert spaces.env["id"] == "tic_tac_toe"
    assert set(games.player) == {"main-0@1", "perfect"}
    first = episodes.offset[:-1]
    np.testing.assert_array_equal(episodes.observation[first].sum(axis=(1, 2, 3)), episodes.seat)
    assert episodes.mask[np.arange(episodes.num_steps), episodes.action].all()
    np.testing.assert_array_equal(np.add.reduceat(episodes.reward, first), games.score)
    assert not ((games.player == "perfect") & (games.outcome == "loss")).any()


def test_random_first_moves_are_left_out(snapshots_run):
    _, found = played_games(snapshots_run, ["random"], 8, plies=3)
    episodes = next(iter(found)).episodes
    first = episodes.observation[episodes.offset[:-1]].sum(axis=(1, 2, 3))
    assert first.min() == 3


@pytest.mark.parametrize("names", [["random"] * 3, ["nobody"]])
def test_competitors_that_cannot_be_seated_are_refused(snapshots_run, names):
    with pytest.raises(Mistake, match=r"found 3 competitors|nobody"):
        played_games(snapshots_run, names, 8)


def test_a_run_that_recorded_nothing_is_told_what_to_do(snapshots_run):
    with pytest.raises(Mistake, match=r"set rollout\.record"):
        list(recorded_games(snapshots_run)[1])


@pytest.mark.slow
def test_recorded_matches_give_what_was_learned_from(tiny, tmp_path):
    settings = tiny("tic_tac_toe", rollout={"record": 1.0}, opening={"share": 0.5, "plies": 3})
    run = league.train(settings | {"stop": {"env_steps": 1500}}, tmp_path / "run")
    _, found = recorded_games(run, "purpose = 'training'")
    decisions, most = 0, int(query(run, "SELECT sum(env_steps) AS n FROM matches")["n"][0].as_py())
    for games in found:
        decisions += games.episodes.num_steps
        assert np.isfinite(games.rating[games.player == "main-0"]).all()
        np.testing.assert_array_equal(games.outcome == "win", games.score == 1.0)
    assert 0.5 * most < decisions < 0.95 * most
