"""Processes of a run are decided from the cores of the machine: no core is idle, and none is starved."""

import pytest

from league.config.file import ConfigError
from league.config.loading import load
from league.config.settings import Processes, runners_for, threads_for


@pytest.mark.parametrize(
    ("cores", "learners", "runners", "threads"),
    [(1, 1, 1, 1), (2, 1, 2, 1), (4, 1, 3, 1), (16, 1, 15, 1), (16, 4, 12, 1), (2, 8, 2, 1)],
)
def test_runners_take_the_cores_that_learners_leave(cores, learners, runners, threads):
    found = runners_for(cores, learners)
    assert found == runners
    assert threads_for(cores, found, learners) == threads


def test_a_learner_has_more_threads_where_the_runners_asked_for_leave_cores():
    assert threads_for(16, runners=4, learners=1) == 4  # a quarter of the machine
    assert threads_for(16, runners=14, learners=1) == 2
    assert threads_for(16, runners=4, learners=2) == 2
    assert threads_for(4, runners=16, learners=1) == 1


def test_evaluation_runners_take_cores_too_and_one_runner_always_plays():
    assert runners_for(4, 1, evaluation=2) == 1
    assert runners_for(2, 1, evaluation=2) == 1


def test_the_schedule_is_one_sentence_which_says_who_gives_way():
    assert Processes(2, 2, 1, 1).sentence() == (
        "2 cores: 2 runners and 1 learner process; runners give way to learners"
    )
    assert Processes(16, 4, 2, 2).sentence() == "16 cores: 4 runners and 2 learner processes of 2 threads"


def test_auto_runners_are_counted_on_this_machine_alone(tiny, monkeypatch):
    monkeypatch.setattr("league.config.settings.available_cpus", lambda: 8)
    settings = load(tiny(runners="auto"))
    assert settings.most_runners == settings.least_runners == 7
    assert settings.processes == Processes(8, 7, 1, 1)
    assert load(tiny(runners=2)).processes.threads == 2
    assert load(tiny(runners=2, resources={"learner_threads": 1})).processes.threads == 1
    with pytest.raises(ConfigError, match=r"found auto with resources\.address"):
        load(tiny(runners="auto", resources={"address": "head:6379"}))
