"""A config is a file, a mapping or the id of a game; a game has the mirrors that it has, and no others."""

import types

import gymnasium
import numpy as np
import psutil
import pytest

from league.config import loading
from league.config.file import ConfigError
from league.config.loading import UNTUNED_LEAGUE, UNTUNED_LEARNER, is_mirrored, load
from league.envs.games.tic_tac_toe import TicTacToe
from league.models.torsos import Mirror

FOUR = Mirror(observation=(2, 7, 6), axis=1, actions=(7,))
TOE = Mirror(observation=(2, 3, 3), axis=2, actions=(3, 3), action_axis=1)


def test_a_game_has_its_mirror_and_no_other():
    assert is_mirrored("connect_four", {}, FOUR.observation_order, FOUR.action_order)
    assert is_mirrored("tic_tac_toe", {}, TOE.observation_order, TOE.action_order)
    upside_down = Mirror(observation=(2, 7, 6), axis=2, actions=(7,))
    assert not is_mirrored("connect_four", {}, upside_down.observation_order, upside_down.action_order)
    assert not is_mirrored("connect_four", {}, FOUR.observation_order, np.arange(7))


class Frames(TicTacToe):
    """A game that shows frames."""

    observation_spaces = (gymnasium.spaces.Box(0, 255, (84, 84, 4), np.uint8),) * 2


def test_matches_longer_than_is_looked_at_are_no_reason_against_a_mirror(monkeypatch):
    monkeypatch.setattr(loading, "MOST_STEPS", 5)
    assert is_mirrored("connect_four", {}, FOUR.observation_order, FOUR.action_order)


def test_the_id_of_a_game_is_a_league_in_it_with_settings_for_untuned_games(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    settings = load("openspiel:hex(board_size=3)")
    assert (settings.env.id, settings.name) == ("openspiel:hex(board_size=3)", "openspiel-hex-board_size-3")
    assert (settings.league.preset, settings.learner.epochs) == ("self_play", 4)
    untuned = {"league": UNTUNED_LEAGUE, "learner": UNTUNED_LEARNER}
    assert load("tic_tac_toe", ["learner.lr=0.5"]) == load(
        {"name": "tic_tac_toe", "env": {"id": "tic_tac_toe"}, **untuned}, ["learner.lr=0.5"]
    )
    (tmp_path / "tic_tac_toe").write_text("env: {id: connect_four}")
    assert load("tic_tac_toe").env.id == "connect_four"  # a file of that name


def test_a_game_of_one_seat_has_a_preset_without_opponents_and_no_magnet():
    """Held back by a magnet, LunarLander and Acrobot learned nothing."""
    settings = load("gymnasium:CartPole-v1")
    assert settings.league.preset == "none"
    assert (settings.learner.magnet, settings.learner.discount) == (None, 0.99)
    assert load("tic_tac_toe").learner.magnet is not None


def test_a_batch_of_frames_has_fewer_steps_unless_they_are_given():
    frames = {"env": {"id": f"{__name__}:Frames"}}
    assert load(frames).learner.batch_steps == load(f"{__name__}:Frames").learner.batch_steps == 512
    assert load(load(frames)).learner.batch_steps == 512
    assert load(frames, ["learner.batch_steps=700"]).learner.batch_steps == 700
    assert load({"env": {"id": "tic_tac_toe"}}).learner.batch_steps == 4096


@pytest.mark.parametrize(
    ("override", "message"),
    [
        (
            "learner.batch_steps=3000000",
            "learner.batch_steps is 3,000,000, and a decision in 'tron' has 0.0 MiB, so a batch takes 1.3 "
            "GiB, but this machine has 1.0 GiB; lower it, or make the game show less",
        ),
        (
            "policy.hidden=[20000,20000]",
            "the network has 409,120,004 weights for observations [2, 15, 15], which take 6.1 GiB to learn, "
            "but this machine has 1.0 GiB; make policy.hidden narrower, choose the torso nature or impala",
        ),
    ],
)
def test_what_no_memory_holds_is_one_line_with_what_would_fit(override, message, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: types.SimpleNamespace(total=2**30))
    with pytest.raises(ConfigError) as refusal:
        load({"env": {"id": "tron"}}, [override])
    assert message in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ("openspiel:hx", "did you mean hex"),
        ("tictactoe", "did you mean 'tic_tac_toe'"),
        ("a:b", "module 'a'"),
    ],
)
def test_an_id_of_no_game_is_refused_with_the_nearest(given, words):
    with pytest.raises(ConfigError, match=words):
        load(given)
