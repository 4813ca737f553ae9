"""Schedules: numbers stay, lines go from start to end."""

import pytest
from pydantic import ValidationError

from league.learning.learner import LearnerSettings
from league.learning.schedules import Linear, value_at


def test_a_number_never_changes():
    assert [value_at(0.1, progress) for progress in (0.0, 0.5, 1.0)] == [0.1, 0.1, 0.1]


def test_a_line_goes_from_start_to_end_and_stays_there():
    line = Linear(start=1.0, end=0.5)
    assert [value_at(line, progress) for progress in (0.0, 0.5, 1.0, 1.3)] == [1.0, 0.75, 0.5, 0.5]


def test_a_line_may_end_before_the_run_does():
    line = Linear(start=1.0, end=0.0, until=0.5)
    assert [value_at(line, progress) for progress in (0.0, 0.25, 0.5, 0.9)] == [1.0, 0.5, 0.0, 0.0]


def test_settings_take_either_and_refuse_nonsense():
    assert LearnerSettings(lr={"start": 1e-3, "end": 0}).lr == Linear(start=1e-3, end=0.0)
    for wrong in (
        -1e-3,
        {"start": 1e-3},
        {"start": 1e-3, "end": -1.0},
        {"start": 1, "end": 0, "until": 2},
        float("nan"),
    ):
        with pytest.raises(ValidationError):
            LearnerSettings(lr=wrong)


def test_the_step_size_of_an_update_follows_the_progress_of_the_run(make_episodes):
    from league.learning.learner import Learner
    from league.models.policy import PolicySpec

    spec = PolicySpec("mlp", (8,), "relu", (4,), "float32", 3)
    settings = LearnerSettings(batch_steps=32, lr={"start": 1e-3, "end": 0})
    moved = []
    for progress in (0.0, 0.9, 1.0):
        learner = Learner("main-0", spec, settings, seed=0)
        before = learner.weights()["torso.0.weight"]
        learner.update_from_episodes(make_episodes([32]), progress)
        moved.append(float((learner.weights()["torso.0.weight"] - before).abs().max()))
    assert moved[0] == pytest.approx(1e-3, rel=0.1)
    assert moved[1] == pytest.approx(1e-4, rel=0.1)
    assert moved[2] == 0.0
