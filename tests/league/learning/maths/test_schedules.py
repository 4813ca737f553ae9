"""Schedules: numbers stay, ramps go from start to end, lines go through their points."""

import math

import pytest
from pydantic import ValidationError

from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.schedules import Ramp, extremes, value_at

RAMP = {"start": 1.0, "end": 0.0}


@pytest.mark.parametrize(
    ("given", "golden"),
    [
        (0.1, {0.0: 0.1, 0.5: 0.1, 1.0: 0.1}),
        ({"start": 1.0, "end": 0.5}, {0.0: 1.0, 0.5: 0.75, 1.0: 0.5, 1.3: 0.5}),
        (RAMP | {"until": 0.5}, {0.0: 1.0, 0.25: 0.5, 0.5: 0.0, 0.9: 0.0}),
        (
            RAMP | {"until": 0.8, "shape": "cosine"},
            {0.0: 1.0, 0.2: (1 + math.sqrt(0.5)) / 2, 0.4: 0.5, 0.6: (1 - math.sqrt(0.5)) / 2, 0.9: 0.0},
        ),
        ({"start": 0.1, "end": 1.0, "shape": "power"}, {0.0: 0.1, 1.0: 1.0}),
        (
            [[0.2, 1.0], [0.4, 0.0], [0.8, 0.5]],
            {0.0: 1.0, 0.2: 1.0, 0.3: 0.5, 0.4: 0.0, 0.6: 0.25, 0.8: 0.5, 1.0: 0.5},
        ),
    ],
    ids=["number", "ramp", "until", "cosine", "rising power", "points"],
)
def test_a_schedule_has_its_golden_numbers_and_is_level_outside_of_them(given, golden):
    schedule = LearnerSettings(entropy=given).entropy
    assert {p: value_at(schedule, p) for p in golden} == pytest.approx(golden, abs=1e-12)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_a_power_law_falls_fast_at_first_and_reaches_its_end(exponent):
    ramp = Ramp(start=1.0, end=0.1, until=0.5, shape="power", exponent=exponent)
    values = [value_at(ramp, progress) for progress in (0.0, 0.25, 0.5, 0.9)]
    c = (10.0 ** (1.0 / exponent) - 1.0) / 0.5
    golden = [(1.0 + c * p) ** -exponent for p in (0.0, 0.25, 0.5, 0.5)]
    assert values == pytest.approx(golden, rel=1e-12)
    assert values[2] == pytest.approx(0.1, rel=1e-12)
    assert values[1] < value_at(Ramp(start=1.0, end=0.1, until=0.5), 0.25)


def test_a_power_law_with_the_exponent_of_mmd_is_one_over_the_root_of_time():
    ramp = Ramp(start=1.0, end=0.01, shape="power")
    late = [value_at(ramp, progress) * math.sqrt(progress) for progress in (0.25, 0.5, 1.0)]
    assert late == pytest.approx([0.01] * 3, rel=1e-3)


def test_extremes_are_the_smallest_and_largest_value():
    assert extremes(0.3) == (0.3, 0.3)
    assert extremes(Ramp(start=0.1, end=0.7, shape="cosine")) == (0.1, 0.7)
    assert extremes(((0.0, 2.0), (0.5, 0.1), (1.0, 1.0))) == (0.1, 2.0)


def test_settings_take_all_three_and_give_them_back():
    for given, taken in (
        (1, 1.0),
        ({"start": 1e-3, "end": 0}, Ramp(start=1e-3, end=0.0)),
        ([[0, 1e-3], [1, 0]], ((0.0, 1e-3), (1.0, 0.0))),
    ):
        settings = LearnerSettings(lr=given)
        assert settings.lr == taken
        assert LearnerSettings.model_validate(settings.model_dump(mode="json")) == settings


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (-1e-3, "greater than or equal to 0"),
        (float("nan"), "finite number"),
        ("fast", "valid number"),
        ({"start": 1e-3}, "Field required"),
        ({"start": 1e-3, "end": -1.0}, "greater than or equal to 0"),
        ({"start": 1, "end": 0, "until": 2}, "less than or equal to 1"),
        ({"start": 1, "end": 0, "shape": "round"}, "'linear', 'cosine' or 'power'"),
        ({"start": 1, "end": 0, "shape": "power"}, "end: found 0 with shape power, expected more than 0"),
        ({"start": 0, "end": 1, "shape": "power"}, "start: found 0 with shape power"),
        ({"start": 1, "end": 0.5, "exponent": 2}, "exponent: found 2.0 with shape linear, which has none"),
        ({"start": 1, "end": 0.1, "shape": "power", "exponent": 1e-3}, "exponent: found 0.001, too small"),
        ([], r"valid number, a ramp, or points \[\[progress, value\], ...\]"),
        ([[0.0, 1.0], [0.5]], "valid number, a ramp, or points"),
        ([[0.0, 1.0], [0.5, -1.0]], "greater than or equal to 0"),
        ([[0.5, 1.0], [0.5, 2.0]], r"progress grows within \[0, 1\]"),
        ([[0.5, 1.0], [1.5, 2.0]], r"progress grows within \[0, 1\]"),
        (0.0, "more than 0 at some time"),
        ({"start": 0, "end": 0}, "more than 0 at some time"),
    ],
)
def test_settings_refuse_nonsense(wrong, message):
    with pytest.raises(ValidationError, match=message):
        LearnerSettings(lr=wrong)


def test_the_step_size_of_an_update_follows_the_progress_of_the_run(make_spec, make_episodes):
    settings = LearnerSettings(batch_steps=32, lr={"start": 1e-3, "end": 0})
    moved = []
    for progress in (0.0, 0.9, 1.0):
        learner = Learner("main-0", make_spec(), settings, seed=0)
        before = learner.weights()["torso.0.weight"]
        learner.update_from_episodes(make_episodes([32]), progress)
        moved.append(float((learner.weights()["torso.0.weight"] - before).abs().max()))
    assert moved[0] == pytest.approx(1e-3, rel=0.1)
    assert moved[1] == pytest.approx(1e-4, rel=0.1)
    assert moved[2] == 0.0
