"""Spaces become plain records, which survive JSON and refuse what cannot be."""

import json
from dataclasses import asdict

import gymnasium.spaces as gym
import numpy as np
import pytest
import scipy.stats

from league.envs.base import is_legal
from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart, pack

DICT = gym.Dict(
    {"board": gym.Box(0, 1, (2, 3, 4), np.int8), "clock": gym.Box(0, 9, (), np.float32)},
)
OBSERVATIONS = [gym.Box(0, 1, (5,), np.int8), gym.Box(-1.0, 1.0, (2, 3), np.float64), DICT]
ACTIONS = [
    gym.Discrete(4),
    gym.MultiDiscrete([3, 3, 2]),
    gym.Box(np.array([-1, 0], np.float32), np.array([1, 5], np.float32)),
    gym.Box(np.array([-np.inf, 0], np.float32), np.array([1, np.inf], np.float32)),
    gym.Tuple((gym.Box(-1, 1, (2,)), gym.Dict({"a": gym.Discrete(3), "b": gym.MultiDiscrete([2, 2])}))),
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
    [
        (ACTIONS[0], (), np.int64, 4),
        (ACTIONS[1], (3,), np.int64, 8),
        (ACTIONS[2], (2,), np.float32, 0),
        (ACTIONS[3], (2,), np.float32, 0),
        (ACTIONS[4], (5,), np.float32, 7),
    ],
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
        gym.Box(0.0, 1.0, (2, 2), np.float32),
        gym.Box(0, 5, (2,), np.int32),
        gym.MultiBinary(3),
        gym.Tuple((gym.Discrete(2), gym.Text(3))),
    ],
)
def test_other_actions_are_refused(space):
    with pytest.raises(ValueError, match="expected Discrete or MultiDiscrete from 0, a flat Box of floats"):
        ActionSpec.from_space(space)


@pytest.mark.parametrize("space", OBSERVATIONS)
def test_an_observation_survives_json(space):
    spec = ObservationSpec.from_space(space)
    assert ObservationSpec.from_json(json.loads(json.dumps(asdict(spec)))) == spec


@pytest.mark.parametrize("space", ACTIONS)
def test_an_action_survives_json(space):
    spec = ActionSpec.from_space(space)
    assert ActionSpec.from_json(json.loads(json.dumps(spec.to_json(), allow_nan=False))) == spec


@pytest.mark.parametrize(
    "change",
    [
        {"shape": [0]},
        {"shape": [2**40]},
        {"shape": [10**400]},
        {"shape": [1] * 100},
        {"shape": ["4"]},
        {"shape": [True]},
        {"shape": "4"},
        {"dtype": "object"},
        {"dtype": "i4,i4"},
        {"dtype": ["int8"]},
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
        {"kind": "discrete", "sizes": [2], "low": [0.0]},
        {"kind": "multi_discrete", "sizes": []},
        {"kind": "continuous"},
        {"kind": "continuous", "low": [0.0], "high": []},
        {"kind": "continuous", "low": [0.0], "high": [float("inf")]},
        {"kind": "continuous", "low": [float("nan")], "high": [1.0]},
        {"kind": "continuous", "low": [10**400], "high": [1.0]},
        {"kind": "continuous", "low": [1.0], "high": [1.0]},
        {"kind": "continuous", "low": [0.0], "high": [1.0], "sizes": [2]},
        {"kind": "evil", "sizes": [2]},
        {"kind": ["discrete"], "sizes": [2]},
    ],
)
def test_an_action_that_cannot_be_is_refused(fields):
    with pytest.raises((ValueError, TypeError)):
        ActionSpec.from_json({"sizes": [], "low": [], "high": [], **fields})


JOINT = ActionSpec("joint", (3, 2), (-np.inf, 0.0), (np.inf, 1.0))


def test_an_action_in_words_names_its_choices_and_its_real_numbers():
    said = [str(ActionSpec.from_space(space)) for space in ACTIONS]
    assert said[:3] == ["one of 4", "choices of 3, 3, 2", "2 real numbers"]
    assert str(JOINT) == "choices of 3, 2 and 2 real numbers"


def test_a_choice_of_a_row_of_real_numbers_is_legal_if_it_is_whole_and_allowed():
    mask = np.array([[True, False, True, True, True]]).repeat(7, axis=0)
    rows = [[2, 1, 5, 0], [1, 1, 5, 0], [0.5, 0, 5, 0], [0, 2, 5, 0], [0, 0, np.inf, 0], [0, 0, 5, 2]]
    rows.append([np.nan, 0, 5, 0])
    legal = is_legal(JOINT, mask, np.array(rows, np.float32))
    assert legal.tolist() == [True] + [False] * 6


def test_random_actions_are_legal_and_have_the_density_that_is_given():
    """Exponential beyond one bound, logistic without any: by their mean and by quadrature of the density."""
    spec = ActionSpec("continuous", (), (-np.inf, 3.0, -np.inf, -1.0), (np.inf, np.inf, 2.0, 1.0))
    share = np.random.default_rng(0).random((20_000, 4))
    numbers, log_density = spec.numbers_at(share)
    assert is_legal(spec, np.zeros((20_000, 0), bool), numbers).all()
    np.testing.assert_allclose(numbers.mean(axis=0), [0.0, 4.0, 1.0, 0.0], atol=0.05)
    x = np.linspace(-30.0, 30.0, 6001)
    logistic = scipy.stats.logistic.pdf(x)
    _, found = ActionSpec("continuous", (), (-np.inf,), (np.inf,)).numbers_at(
        scipy.stats.logistic.cdf(x)[:, None]
    )
    np.testing.assert_allclose(np.exp(found), logistic, atol=1e-9)
    assert log_density.shape == (20_000,)
    drawn = JOINT.random(
        np.array([[False, True, False, True, False]]), np.random.default_rng(1).random((1, 7))
    )
    assert drawn[0, :2].tolist() == [1.0, 0.0]


@pytest.mark.parametrize(
    ("other", "fits"), [((84,), True), ((2, 7, 6), True), ((7, 2, 6), False), ((85,), False)]
)
def test_a_board_and_its_flat_row_are_the_same_numbers_but_other_planes_are_not(other, fits):
    assert ObservationSpec((2, 7, 6), "int8").fits(ObservationSpec(other, "int8")) == fits
    assert not ObservationSpec(other, "int8").fits(ObservationSpec((2, 7, 6), "float32"))


def test_bounds_lie_within_those_of_the_game():
    spec = ActionSpec("continuous", low=(0.1, -0.1, 1.0), high=(0.7, 0.3, 2.0))
    low, high = spec.bounds()
    assert low.dtype == high.dtype == np.float32
    assert (low.astype(np.float64) >= spec.low).all()
    assert (high.astype(np.float64) <= spec.high).all()
    np.testing.assert_allclose([low, high], [spec.low, spec.high], rtol=1e-6)
