"""Leagues on Ray whose runners are killed, or whose game ends them: they go on, and each death is a row.

Processes of every kind are killed and stopped by `make faults-cluster`. The same reactions with a Ray that
is a fake: tests/league/rollout/test_runner_deaths.py, tests/league/learning/groups/test_learner_deaths.py,
tests/league/training/incidents.
"""

import os
import signal
import time

import pytest

import analysis
import league
from league.config.loading import load
from league.training.incidents.quarantine import MOST_KEPT
from league.training.loop import train as run_loop
from storage.archive import open_reader
from storage.errors import Failure
from tests.league.training.runs.mortal import Deadly

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
    killer = Killer(victims)
    run = run_loop(load(settings), tmp_path / "run", make_view=lambda: killer)
    return run, killer


def test_runners_in_the_place_of_others_play_snapshots_of_a_network_of_the_users_own(tmp_path):
    """Ended with "is code ... not in a config that you run", although the config names it."""
    policy = {"torso": f"{MODULE}:Net"}
    victims = [lambda session: session.runners._actors[0], lambda session: session.runners._actors[1]]
    run, killer = train(tmp_path, config(policy=policy, stop={"minutes": 0.5}), victims)
    assert killer.end > killer.steps[-1]
    assert len(open_reader(run).snapshots()) > 4


def reasons_by_seed(run, one_in):
    """The reasons of the matches whose seeds are bad, and of the others."""
    with analysis.open_run(run) as history:
        rows = history.sql("SELECT seed, reason FROM matches")
    bad = rows["seed"] % one_in == 0
    return rows["reason"][bad].tolist(), set(rows["reason"][~bad])


def test_exactly_the_matches_that_end_their_process_are_set_aside(tmp_path):
    """Were set aside with those beside them; one in 150 ended the run."""
    one_in = Deadly.one_in
    stop = {"env_steps": 20 * one_in * 2, "minutes": 10.0}
    rollout = {"slots": 256, "matches_per_request": 256, "check": "none"}
    run = league.train(config(env={"id": f"{MODULE}:Deadly"}, rollout=rollout, stop=stop), tmp_path / "run")
    bad, others = reasons_by_seed(run, one_in)
    assert len(bad) > 5
    assert set(bad) == {"crash"}
    assert others == {"finished"}
    with analysis.open_run(run) as history:
        kinds = history.incidents()["kind"].value_counts()
    assert kinds["set_aside"] == min(len(bad), MOST_KEPT)
    assert kinds["runner"] <= 2  # the further deaths were those of forks


def test_exactly_the_matches_that_end_no_step_are_set_aside(tmp_path):
    """Runners were lost to them one after the other."""
    rollout = {"slots": 256, "matches_per_request": 256, "check": "none"}
    settings = config(
        env={"id": f"{MODULE}:Endless"},
        rollout=rollout,
        resources={"patience_seconds": 3},
        stop={"env_steps": 20_000, "minutes": 10.0},
    )
    run = league.train(settings, tmp_path / "run")
    bad, others = reasons_by_seed(run, 3_000)
    assert bad
    assert set(bad) == {"crash"}
    assert others == {"finished"}


def test_a_game_that_ends_its_process_in_all_matches_ends_the_run_with_that_reason(tmp_path):
    """Restarted runners for ever, at 0 env steps and without a word."""
    settings = config(env={"id": f"{MODULE}:AlwaysDeadly"}, rollout={"check": "none"}, stop={"minutes": 5.0})
    with pytest.raises(Failure, match=r"nothing can be played: .*killed by SIGSEGV"):
        league.train(settings, tmp_path / "run")


def test_a_game_that_never_ends_a_step_ends_the_run_with_the_settings_that_help(tmp_path):
    settings = config(
        env={"id": f"{MODULE}:AlwaysEndless"},
        rollout={"check": "none"},
        resources={"patience_seconds": 3},
        stop={"minutes": 5.0},
    )
    expected = r"did not answer for 3 s: .*resources\.patience_seconds.*rollout\.step_limit.*AlwaysEndless"
    with pytest.raises(Failure, match=expected):
        league.train(settings, tmp_path / "run")
