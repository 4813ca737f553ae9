"""Crashes of matches: a new cause is an incident, too many end the run, fewer are a finding."""

import json
import signal

import pytest

import analysis
from analysis.diagnostics import diagnose
from league.commands.ratings import ratings
from league.config.loading import load
from league.envs.trial.trial import GameBroken
from league.training.incidents.incident_log import Crashes, LimitedMatches
from league.training.loop import train
from storage import query
from storage.records import EndReason, Outcome
from tests import made_up

GAMES = """
import os, signal
import numpy as np
from league.envs.games.tic_tac_toe import TicTacToe

class Late(TicTacToe):
    id = "late"
    steps, wrong, every = 0, "raise", 1

    def _play(self, slot, seat, action):
        super()._play(slot, seat, action)
        Late.steps += self.num_slots == 64
        if Late.steps < 40 or self.num_slots != 64 or Late.steps % self.every:
            return
        if self.wrong == "raise":
            raise RuntimeError("the rules are lost")
        if self.wrong == "nan":
            self._rewards[slot[:1], seat[:1]] = np.nan
        if self.wrong == "endless":
            self._over[:] = False
            self._stones[:] = 0
            if Late.steps == 60:
                os.kill(os.getpid(), signal.SIGINT)
"""


def limited(share):
    """Results of 100 matches, of which the limit of steps ended a share."""
    played = made_up.matches(["a", "b"], [[0, 1]] * 100)
    reason = [EndReason.STEP_LIMIT] * round(100 * share) + [EndReason.FINISHED] * round(100 * (1 - share))
    return made_up.results(played, [[Outcome.DRAW] * 2] * 100, reason=reason)


def test_many_matches_that_the_step_limit_ends_are_said_once():
    matches = LimitedMatches(10)
    assert matches.note(limited(0.04)) == ""
    assert "rollout.step_limit (10) ends 51% of the matches" in matches.note(limited(0.93))
    assert matches.note(limited(1.0)) == ""


def test_limits_of_a_game_itself_are_not_spoken_of():
    assert LimitedMatches(None).note(limited(1.0)) == ""


@pytest.mark.slow
def test_matches_that_the_step_limit_ended_are_a_finding_and_a_sentence_of_ratings(tiny, tmp_path, capsys):
    rollout, stop = {"step_limit": 4}, {"env_steps": 3_000}
    run = train(load(tiny("tic_tac_toe", rollout=rollout, stop=stop)), tmp_path / "run")
    (limited,) = [one for one in diagnose(analysis.open_run(run)) if one.kind == "limited"]
    assert "rollout.step_limit (4) ended 100% of" in limited.sentence
    ratings(run)
    assert "rollout.step_limit (4) ended 100% of the matches." in capsys.readouterr().out
    whole = train(load(tiny("tic_tac_toe", stop=stop)), tmp_path / "whole")
    assert all(one.kind != "limited" for one in diagnose(analysis.open_run(whole)))


def test_a_new_cause_is_one_incident_and_a_share_of_crashes_ends_the_run():
    crashes = Crashes("mine:Game", 0.05)
    (first,) = crashes.note(100, {"seat 0: KeyError (game.py, line 3, in step)": 2})
    assert first.sentence().startswith("a match of mine:Game crashed (seat 0: KeyError (game.py, line 3")
    assert crashes.note(100, {"seat 0: KeyError (game.py, line 3, in step)": 2}) == []
    assert crashes.too_many == ""
    crashes.note(100, {"seat 0: KeyError (game.py, line 3, in step)": 60})
    assert (
        "23% of the last matches crashed, more than rollout.crash_share (5%); 64 of them" in crashes.too_many
    )
    assert "game.py, line 3" in crashes.too_many


def test_crashes_of_long_ago_count_no_more():
    crashes = Crashes("mine:Game", 0.05)
    crashes.note(1000, {"cause": 60})
    for _ in range(20):
        crashes.note(500, {})
    assert crashes.note(500, {"other": 1})
    assert crashes.too_many == ""


def config(**changes):
    fields = {
        "env": {"id": "lategames:Late"},
        "policy": {"hidden": [8]},
        "league": {"players": {"main": 1, "main_exploiter": 0, "league_exploiter": 0}},
        "rollout": {"slots": 64, "matches_per_request": 64, "check": "none"},
        "learner": {"batch_steps": 128},
        "stop": {"env_steps": 8000},
    }
    return load({**fields, **changes})


@pytest.fixture
def late(tmp_path, monkeypatch):
    """The class of a game that goes wrong after a while."""
    (tmp_path / "lategames.py").write_text(GAMES)
    monkeypatch.syspath_prepend(tmp_path)
    import sys

    sys.modules.pop("lategames", None)
    import lategames

    return lategames.Late


@pytest.mark.slow
def test_a_game_whose_matches_crash_ends_the_run_with_cause_file_and_line(late, tmp_path):
    with pytest.raises(GameBroken) as broken:
        train(config(), tmp_path / "run")
    assert "RuntimeError: the rules are lost" in str(broken.value)
    assert "lategames.py, line 16, in _play" in str(broken.value)
    (end,) = query(tmp_path / "run", "SELECT state, reason FROM ends").to_pylist()
    assert end["state"] == "failed"
    assert "the rules are lost" in end["reason"]
    with analysis.open_run(tmp_path / "run") as history:
        first = diagnose(history)[0]
    assert (first.kind, first.severity) == ("crashes", "warning")
    assert "the rules are lost" in first.sentence
    assert json.dumps(first.to_json())


@pytest.mark.slow
def test_rewards_that_are_no_numbers_cost_matches_and_are_a_finding(late, tmp_path, monkeypatch):
    monkeypatch.setattr(late, "wrong", "nan")
    monkeypatch.setattr(late, "every", 20)
    ends = []
    train(config(), tmp_path / "run", on_end=ends.append)
    assert ends[0].state == "trained"
    with analysis.open_run(tmp_path / "run") as history:
        found = [one for one in diagnose(history) if one.kind == "crashes"]
    assert "its reward is nan, expected a finite number" in found[0].sentence


@pytest.mark.slow
def test_ctrl_c_ends_a_match_that_never_ends_and_the_run_says_that_it_was_stopped(
    late, tmp_path, monkeypatch
):
    monkeypatch.setattr(late, "wrong", "endless")
    monkeypatch.setattr("league.rollout.guard.GRACE_SECONDS", 0.0)
    before, ends = signal.getsignal(signal.SIGINT), []
    train(config(), tmp_path / "run", on_end=ends.append)
    assert signal.getsignal(signal.SIGINT) is before
    assert ends[0].state == "stopped"
    assert ends[0].sentence().startswith("Stopped after ")
    assert " of 8,000 env steps" in ends[0].sentence()


@pytest.mark.slow
def test_a_match_that_never_ends_is_left_when_the_time_is_over(late, tmp_path, monkeypatch):
    monkeypatch.setattr(late, "wrong", "endless")
    monkeypatch.setattr("league.rollout.guard.GRACE_SECONDS", 0.0)
    monkeypatch.setattr(late, "steps", 61)
    ends = []
    train(config(stop={"minutes": 0.02}), tmp_path / "run", on_end=ends.append)
    assert ends[0].state == "untrained"
