"""Leagues on Ray whose processes are killed while they train: they go on, and each death is a row.

The same reactions with a Ray that is a fake: tests/league/rollout/test_runner_deaths.py,
tests/league/learning/groups/test_learner_deaths.py, tests/league/training/incidents.
"""

import os
import signal
import time

import pytest

import analysis
import league
from league.training.state.under_way import PARTS
from storage.archive import open_reader
from storage.errors import Failure

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.variant]  # CI kills at random: cluster/faults

MODULE = "tests.league.training.runs.mortal"


def config(**changes):
    fields = {
        "env": {"id": "tic_tac_toe"},
        "policy": {"hidden": [16]},
        "league": {"preset": "pfsp", "freeze_every": 4_000, "players": {"main": 2}},
        "rollout": {"slots": 64, "matches_per_request": 64},
        "learner": {"batch_steps": 256},
        "learners": {"copy_seconds": 1.0},
        "runners": 2,
        "stop": {"minutes": 1.0},
    }
    return {**fields, **changes}


def pid_of(actor):
    import ray

    return ray.get(actor.__ray_call__.remote(lambda _: os.getpid()))


def kill(actor):
    os.kill(pid_of(actor), signal.SIGKILL)


class Killer:
    """View that kills what `victims` names, one after the other, each when the last one is replaced."""

    def __init__(self, victims, seconds=3.0):
        self._victims, self._seconds = list(victims), seconds
        self._next = time.monotonic() + seconds
        self.steps = []  # played by each kill

    def show(self, session):
        if not self._victims or time.monotonic() < self._next or not session.totals.env_steps:
            return
        kill(self._victims.pop(0)(session))
        self.steps.append(session.totals.env_steps)
        self._next = time.monotonic() + self._seconds

    def close(self, session):
        self.end = session.totals.env_steps


def train(tmp_path, settings, victims):
    from league.config.loading import load
    from league.training.loop import train as run_loop

    killer = Killer(victims)
    run = run_loop(load(settings), tmp_path / "run", make_view=lambda: killer)
    return run, killer


def test_a_league_goes_on_when_each_kind_of_process_is_killed_in_turn(tmp_path):
    victims = [
        lambda session: session.runners._actors[0],
        lambda session: session.learners._shards[0].processes[0],
        lambda session: session.learners._shards[0].aggregators[0],
        lambda session: session.evaluators._actors[0],
        lambda session: session.learners._shards[1].processes[0],
        lambda session: session.runners._actors[1],
    ]
    learners = {"aggregators": 2, "shards": 2, "copy_seconds": 1.0}
    run, killer = train(tmp_path, config(learners=learners, evaluation={"runners": 1}), victims)
    assert len(killer.steps) == len(victims)
    assert killer.end > killer.steps[-1]  # it played on after the last one
    with analysis.open_run(run) as history:
        incidents = history.incidents()
        assert {"runner", "learner", "evaluation_runner"} <= set(incidents["kind"])
        assert incidents["kind"].isin(["aggregator", "experience"]).any()
        ids = history.matches()["match_id"]
        assert ids.is_unique
        frozen = history.snapshots()
        assert frozen["snapshot_id"].is_unique
        updates = history.updates()
        for _, own in updates.groupby("player", observed=True):
            assert own["updates"].is_monotonic_increasing


def test_runners_in_the_place_of_others_play_snapshots_of_a_network_of_the_users_own(tmp_path):
    """Ended with "is code ... not in a config that you run", although the config names it."""
    policy = {"torso": f"{MODULE}:Net"}
    victims = [lambda session: session.runners._actors[0], lambda session: session.runners._actors[1]]
    run, killer = train(tmp_path, config(policy=policy, stop={"minutes": 0.5}), victims)
    assert killer.end > killer.steps[-1]
    assert len(open_reader(run).snapshots()) > 4


def test_matches_that_end_their_process_are_set_aside_and_the_league_goes_on(tmp_path):
    run = league.train(config(env={"id": f"{MODULE}:Deadly"}), tmp_path / "run")
    with analysis.open_run(run) as history:
        kinds = history.incidents()["kind"].value_counts()
        assert kinds["set_aside"] >= 1
        assert kinds["runner"] >= 2 + kinds["set_aside"]  # the first deaths count for all parts of a request
        reasons = history.matches()["reason"].value_counts()
        assert reasons["crash"] <= 64 // PARTS * kinds["set_aside"]
        assert reasons["finished"] > reasons["crash"]


def test_a_game_that_ends_its_process_in_all_matches_ends_the_run_with_that_reason(tmp_path):
    """Restarted runners for ever, at 0 env steps and without a word."""
    with pytest.raises(Failure, match=r"nothing can be played: .*killed, or crashed"):
        league.train(config(env={"id": f"{MODULE}:AlwaysDeadly"}, stop={"minutes": 5.0}), tmp_path / "run")
