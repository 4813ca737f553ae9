"""Schedules: numbers stay, ramps go from start to end, lines go through their points."""

import math

import pytest
from pydantic import ValidationError

from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.schedules import Ramp, extremes, value_at


def test_a_number_never_changes():
    assert [value_at(0.1, progress) for progress in (0.0, 0.5, 1.0)] == [0.1, 0.1, 0.1]


def test_a_ramp_goes_from_start_to_end_and_stays_there():
    ramp = Ramp(start=1.0, end=0.5)
    assert [value_at(ramp, progress) for progress in (0.0, 0.5, 1.0, 1.3)] == [1.0, 0.75, 0.5, 0.5]


def test_a_ramp_may_end_before_the_run_does():
    ramp = Ramp(start=1.0, end=0.0, until=0.5)
    assert [value_at(ramp, progress) for progress in (0.0, 0.25, 0.5, 0.9)] == [1.0, 0.5, 0.0, 0.0]


def test_a_cosine_leaves_slowly_and_arrives_slowly():
    ramp = Ramp(start=1.0, end=0.0, until=0.8, shape="cosine")
    golden = {0.0: 1.0, 0.2: (1 + math.sqrt(0.5)) / 2, 0.4: 0.5, 0.6: (1 - math.sqrt(0.5)) / 2, 0.9: 0.0}
    for progress, expected in golden.items():
        assert value_at(ramp, progress) == pytest.approx(expected, abs=1e-12)


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


def test_a_power_law_may_rise():
    ramp = Ramp(start=0.1, end=1.0, shape="power")
    assert [value_at(ramp, progress) for progress in (0.0, 1.0)] == pytest.approx([0.1, 1.0])


def test_a_line_goes_through_its_points_and_is_level_outside_of_them():
    points = LearnerSettings(entropy=[[0.2, 1.0], [0.4, 0.0], [0.8, 0.5]]).entropy
    golden = {0.0: 1.0, 0.2: 1.0, 0.3: 0.5, 0.4: 0.0, 0.6: 0.25, 0.8: 0.5, 1.0: 0.5}
    for progress, expected in golden.items():
        assert value_at(points, progress) == pytest.approx(expected, abs=1e-12)


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
