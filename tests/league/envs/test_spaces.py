"""Spaces become plain records, which survive JSON and refuse what cannot be."""

import json
from dataclasses import asdict

import gymnasium.spaces as gym
import numpy as np
import pytest

from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart, pack

DICT = gym.Dict(
    {"board": gym.Box(0, 1, (2, 3, 4), np.int8), "clock": gym.Box(0, 9, (), np.float32)},
)
OBSERVATIONS = [gym.Box(0, 1, (5,), np.int8), gym.Box(-1.0, 1.0, (2, 3), np.float64), DICT]
ACTIONS = [
    gym.Discrete(4),
    gym.MultiDiscrete([3, 3, 2]),
    gym.Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32)),
]


def test_a_box_keeps_its_shape_and_dtype():
    assert ObservationSpec.from_space(OBSERVATIONS[1]) == ObservationSpec((2, 3), "float64")


def test_a_dict_becomes_one_row_of_its_parts():
    spec = ObservationSpec.from_space(DICT)
    assert spec == ObservationSpec((25,), "float32", (SpacePart("board", (2, 3, 4)), SpacePart("clock", ())))
    board, clock = np.arange(48, dtype=np.int8).reshape(2, 2, 3, 4), np.array([7.0, 8.0], np.float32)
    rows = pack({"clock": clock, "board": board}, spec)
    assert rows.dtype == np.float32
    np.testing.assert_array_equal(rows[:, :24], board.reshape(2, 24))
    np.testing.assert_array_equal(rows[:, 24], clock)


@pytest.mark.parametrize("space", [gym.Discrete(3), gym.Dict({"a": gym.Discrete(3)}), gym.Text(5)])
def test_other_observations_are_refused(space):
    with pytest.raises(ValueError, match="expected a Box or a Dict of Boxes"):
        ObservationSpec.from_space(space)


@pytest.mark.parametrize(
    ("space", "shape", "dtype", "mask_width"),
    [(ACTIONS[0], (), np.int64, 4), (ACTIONS[1], (3,), np.int64, 8), (ACTIONS[2], (2,), np.float32, 0)],
)
def test_actions_say_how_they_are_stored(space, shape, dtype, mask_width):
    spec = ActionSpec.from_space(space)
    assert (spec.shape, spec.dtype, spec.mask_width) == (shape, dtype, mask_width)


@pytest.mark.parametrize(
    "space",
    [
        gym.Discrete(3, start=1),
        gym.MultiDiscrete([2, 2], start=[0, 1]),
        gym.MultiDiscrete([[2, 2], [2, 2]]),
        gym.Box(-np.inf, np.inf, (2,), np.float32),
        gym.Box(0.0, 1.0, (2, 2), np.float32),
        gym.Box(0, 5, (2,), np.int32),
        gym.MultiBinary(3),
    ],
)
def test_other_actions_are_refused(space):
    with pytest.raises(ValueError, match="expected Discrete or MultiDiscrete from 0, or a flat Box"):
        ActionSpec.from_space(space)


@pytest.mark.parametrize("space", OBSERVATIONS)
def test_an_observation_survives_json(space):
    spec = ObservationSpec.from_space(space)
    assert ObservationSpec.from_json(json.loads(json.dumps(asdict(spec)))) == spec


@pytest.mark.parametrize("space", ACTIONS)
def test_an_action_survives_json(space):
    spec = ActionSpec.from_space(space)
    assert ActionSpec.from_json(json.loads(json.dumps(asdict(spec)))) == spec


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [0]},
        {"shape": [-3, -3]},
        {"shape": [2**40]},
        {"shape": [10**400]},
        {"shape": [1] * 100},
        {"shape": ["4"]},
        {"shape": [4.5]},
        {"shape": [True]},
        {"shape": "4"},
        {"shape": None},
        {"dtype": "object"},
        {"dtype": "U5"},
        {"dtype": "i4,i4"},
        {"dtype": None},
        {"dtype": ["int8"]},
        {"parts": None},
        {"parts": [3]},
        {"parts": [{"name": "a", "shape": [3]}]},
        {"parts": [{"name": "a", "shape": [-2]}, {"name": "b", "shape": [-2]}]},
        {"parts": [{"name": "a", "shape": [2]}, {"name": "a", "shape": [2]}]},
        {"parts": [{"name": "a"}]},
    ],
)
def test_an_observation_that_cannot_be_is_refused(change):
    fields = {"shape": [4], "dtype": "int8", "parts": []}
    assert ObservationSpec.from_json(fields).size == 4
    with pytest.raises((ValueError, TypeError, KeyError)):
        ObservationSpec.from_json({**fields, **change})


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "discrete", "sizes": []},
        {"kind": "discrete", "sizes": [2, 3]},
        {"kind": "discrete", "sizes": [0]},
        {"kind": "discrete", "sizes": [2**40]},
        {"kind": "discrete", "sizes": [2.5]},
        {"kind": "discrete", "sizes": [2], "low": [0.0]},
        {"kind": "multi_discrete", "sizes": []},
        {"kind": "multi_discrete", "sizes": [2, -1]},
        {"kind": "continuous"},
        {"kind": "continuous", "low": [0.0], "high": []},
        {"kind": "continuous", "low": [0.0], "high": [float("inf")]},
        {"kind": "continuous", "low": [float("nan")], "high": [1.0]},
        {"kind": "continuous", "low": [10**400], "high": [1.0]},
        {"kind": "continuous", "low": ["0"], "high": [1.0]},
        {"kind": "continuous", "low": [1.0], "high": [1.0]},
        {"kind": "continuous", "low": [0.0], "high": [1.0], "sizes": [2]},
        {"kind": "evil", "sizes": [2]},
        {"kind": ["discrete"], "sizes": [2]},
    ],
)
def test_an_action_that_cannot_be_is_refused(fields):
    with pytest.raises((ValueError, TypeError)):
        ActionSpec.from_json({"sizes": [], "low": [], "high": [], **fields})


def test_bounds_lie_within_those_of_the_game():
    spec = ActionSpec("continuous", low=(0.1, -0.1, 1.0), high=(0.7, 0.3, 2.0))
    low, high = spec.bounds()
    assert low.dtype == high.dtype == np.float32
    assert (low.astype(np.float64) >= spec.low).all()
    assert (high.astype(np.float64) <= spec.high).all()
    np.testing.assert_allclose([low, high], [spec.low, spec.high], rtol=1e-6)
