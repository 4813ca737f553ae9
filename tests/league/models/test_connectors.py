"""Connectors show the network what they promise, remember each seat for itself, and are pure."""

import itertools

import numpy as np
import pytest
from pydantic import ValidationError

from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart
from league.models.connectors import Connectors
from league.models.spec import PolicySettings, PolicySpec

DISCRETE = ActionSpec("discrete", (3,))
MULTI = ActionSpec("multi_discrete", (2, 3))
CONTINUOUS = ActionSpec("continuous", low=(-1.0, -1.0), high=(1.0, 1.0))
ROW = ObservationSpec((4,), "int8")
BOARD = ObservationSpec((2, 2, 3), "int8")
DICT = ObservationSpec((7,), "float32", (SpacePart("board", (1, 2, 2)), SpacePart("clock", (3,))))

STACK, PREVIOUS = {"kind": "frame_stack", "frames": 3}, {"kind": "previous"}
PIPELINES = [
    [],
    [{"kind": "flatten"}],
    [{"kind": "scale", "divisor": 4}, STACK],
    [STACK],
    [PREVIOUS],
    [STACK, PREVIOUS],
    [PREVIOUS, STACK],
    [STACK, {"kind": "frame_stack", "frames": 2}, PREVIOUS, {"kind": "normalise"}],
    [{"kind": "flatten"}, {"kind": "previous", "action": False}, PREVIOUS, {"kind": "flatten"}],
]


def pipeline(connectors, observation=ROW, action=DISCRETE):
    return Connectors(spec(connectors).settings.connectors, observation, action)


def spec(connectors, observation=ROW, action=DISCRETE):
    return PolicySpec(PolicySettings(connectors=connectors), observation, action)


def rows(n, observation=ROW, seed=0):
    return np.random.default_rng(seed).integers(0, 5, (n, *observation.shape)).astype(observation.dtype)


def drawn(n, action, rng):
    if action.kind == "continuous":
        return rng.standard_normal((n, *action.shape)).astype(np.float32)
    return rng.integers(0, 2, (n, *action.shape))


def fresh(p, n):
    return np.zeros((n, p.memory_size), np.float32)


def float32(*values):
    return np.array(values, np.float32)


# ---------------------------------------------------------------------- one by one


def test_without_connectors_the_very_observation_goes_out():
    p, observation = pipeline([]), rows(5)
    assert p.memory_size == 0
    assert not p.wants_reward
    assert p.apply(observation, fresh(p, 5), None) is observation


def test_flatten_makes_one_row():
    p, observation = pipeline([{"kind": "flatten"}], BOARD), rows(5, BOARD)
    assert p.seen == ObservationSpec((12,), "int8")
    np.testing.assert_array_equal(p.apply(observation, fresh(p, 5), None), observation.reshape(5, 12))


def test_reshape_makes_planes_of_a_row():
    row = ObservationSpec((12,), "int8")
    p, observation = pipeline([{"kind": "reshape", "shape": [2, 2, 3]}], row), rows(5, row)
    assert p.seen == BOARD
    np.testing.assert_array_equal(p.apply(observation, fresh(p, 5), None), observation.reshape(5, 2, 2, 3))


def test_transpose_puts_the_planes_of_a_frame_first():
    p = pipeline([{"kind": "transpose"}], ObservationSpec((4, 5, 3), "uint8"))
    assert (p.seen.shape, p.seen.dtype) == ((3, 4, 5), "uint8")
    seen = rows(2, ObservationSpec((4, 5, 3), "uint8"))
    assert (p.apply(seen, fresh(p, 2), None) == seen.transpose(0, 3, 1, 2)).all()


def test_transpose_refuses_axes_that_are_not_there():
    with pytest.raises(
        ValueError, match=r"shaped \[4\], axes are \[2, 0, 1\], expected each of its 1 axes once"
    ):
        pipeline([{"kind": "transpose"}])


def test_scale_divides_pixels_into_floats():
    p = pipeline([{"kind": "scale"}], ObservationSpec((2,), "uint8"))
    assert p.seen == ObservationSpec((2,), "float32")
    shown = p.apply(np.array([[0, 51]], np.uint8), fresh(p, 1), None)
    assert shown.dtype == np.float32
    assert np.allclose(shown, [[0.0, 0.2]])


def test_frames_of_one_plane_are_stacked_as_planes():
    p = pipeline([STACK], ObservationSpec((4, 5), "uint8"))
    assert p.seen == ObservationSpec((3, 4, 5), "uint8")
    seen = rows(1, ObservationSpec((4, 5), "uint8"))
    assert (p.apply(seen, fresh(p, 1), None)[0, 2] == seen[0]).all()


def test_reshape_refuses_another_count_of_numbers():
    with pytest.raises(ValueError, match=r"reshape: an observation has 4 numbers, shape \[2, 3\] has 6"):
        spec([{"kind": "reshape", "shape": [2, 3]}]).seen  # noqa: B018


def test_normalise_leaves_the_observation_to_the_network():
    p, observation = pipeline([{"kind": "normalise"}]), rows(5)
    assert p.seen == ROW
    assert p.apply(observation, fresh(p, 5), None) is observation


def test_normalise_must_come_last():
    with pytest.raises(ValueError, match="normalise: it is the network's first layer, so it must come last"):
        spec([{"kind": "normalise"}, STACK]).seen  # noqa: B018


def test_frames_are_stacked_in_a_row_oldest_first_after_zeros():
    p, observation = pipeline([STACK]), rows(4)
    memory = fresh(p, 1)
    found = [p.apply(o[None], memory, None)[0] for o in observation]
    zero = np.zeros(4, np.int8)
    a, b, c, d = observation
    for row, frames in zip(found, [(zero, zero, a), (zero, a, b), (a, b, c), (b, c, d)], strict=True):
        np.testing.assert_array_equal(row, np.concatenate(frames))
        assert row.dtype == np.int8


def test_planes_are_stacked_along_the_first_axis():
    p, observation = pipeline([STACK], BOARD), rows(2, BOARD)
    assert p.seen == ObservationSpec((6, 2, 3), "int8")
    memory = fresh(p, 1)
    p.apply(observation[:1], memory, None)
    seen = p.apply(observation[1:], memory, None)[0]
    np.testing.assert_array_equal(seen, np.concatenate([np.zeros((2, 2, 3)), observation[0], observation[1]]))


def test_parts_of_a_dict_are_stacked_each_for_itself():
    p, observation = pipeline([{"kind": "frame_stack", "frames": 2}], DICT), rows(2, DICT)
    assert p.seen.parts == (SpacePart("board", (2, 2, 2)), SpacePart("clock", (6,)))
    memory = fresh(p, 1)
    p.apply(observation[:1], memory, None)
    a, b = observation
    seen = p.apply(observation[1:], memory, None)[0]
    np.testing.assert_array_equal(seen, np.concatenate([a[:4], b[:4], a[4:], b[4:]]))


def test_integers_that_float32_cannot_hold_leave_a_stack_as_floats():
    assert pipeline([STACK], ObservationSpec((4,), "int16")).seen.dtype == "int16"
    assert pipeline([STACK], ObservationSpec((4,), "int64")).seen.dtype == "float32"


def test_the_previous_choice_and_reward_are_appended():
    p, observation = pipeline([PREVIOUS]), rows(2)
    assert p.seen == ObservationSpec((8,), "float32")
    assert p.wants_reward
    memory = fresh(p, 2)
    first = p.apply(observation, memory, None)
    np.testing.assert_array_equal(first, np.concatenate([observation, np.zeros((2, 4))], 1))
    p.acted(memory, np.array([2, 0]))
    second = p.apply(observation, memory, float32(0.5, -1.0))
    np.testing.assert_array_equal(second[:, 4:], [[0, 0, 1, 0.5], [1, 0, 0, -1.0]])
    p.acted(memory, np.array([1, 0]))
    np.testing.assert_array_equal(p.apply(observation, memory, None)[:, 4:7], [[0, 1, 0], [1, 0, 0]])


def test_several_previous_choices_are_appended_side_by_side():
    p, observation = pipeline([{"kind": "previous", "reward": False}], action=MULTI), rows(2)
    assert not p.wants_reward
    memory = fresh(p, 2)
    p.acted(memory, np.array([[1, 2], [0, 0]]))
    seen = p.apply(observation, memory, None)
    np.testing.assert_array_equal(seen[:, 4:], [[0, 1, 0, 0, 1], [1, 0, 1, 0, 0]])


def test_previous_real_numbers_are_appended_as_they_were_drawn():
    p, observation = pipeline([PREVIOUS], action=CONTINUOUS), rows(1)
    memory = fresh(p, 1)
    p.acted(memory, float32([3.5, -0.25]))
    np.testing.assert_array_equal(p.apply(observation, memory, float32(1.0))[:, 4:], [[3.5, -0.25, 1.0]])


def test_previous_reward_alone_needs_no_memory():
    p, observation = pipeline([{"kind": "previous", "action": False}]), rows(2)
    assert p.memory_size == 0
    p.acted(fresh(p, 2), np.array([1, 2]))
    np.testing.assert_array_equal(p.apply(observation, fresh(p, 2), float32(3, 4))[:, 4], [3, 4])


def test_previous_with_nothing_to_show_is_refused():
    with pytest.raises(ValueError, match="neither action nor reward is shown"):
        spec([{"kind": "previous", "action": False, "reward": False}]).seen  # noqa: B018


def test_a_board_is_still_a_board_beside_the_previous_action():
    assert pipeline([PREVIOUS], BOARD).seen.parts == (
        SpacePart("observation", (2, 2, 3)),
        SpacePart("previous", (4,)),
    )
    assert pipeline([PREVIOUS], DICT).seen.parts == (*DICT.parts, SpacePart("previous", (4,)))
    named = ObservationSpec((2,), "int8", (SpacePart("previous", (2,)),))
    assert pipeline([PREVIOUS], named).seen.parts == (*named.parts, SpacePart("previous_", (4,)))
    stacked = pipeline([PREVIOUS, STACK], BOARD).seen
    assert stacked.parts == (SpacePart("observation", (6, 2, 3)), SpacePart("previous", (12,)))


def test_stacked_previous_actions_are_those_of_their_time():
    p, observation = pipeline([PREVIOUS, {"kind": "frame_stack", "frames": 2}]), rows(2)
    memory = fresh(p, 1)
    p.apply(observation[:1], memory, float32(9.0))
    p.acted(memory, np.array([1]))
    a, b = observation
    seen = p.apply(observation[1:], memory, float32(7.0))[0]
    np.testing.assert_array_equal(seen, [*a, 0, 0, 0, 9, *b, 0, 1, 0, 7])


# ---------------------------------------------------------------------- all of them


@pytest.mark.parametrize("connectors", PIPELINES)
@pytest.mark.parametrize(
    ("observation", "action"), list(itertools.product([ROW, BOARD, DICT], [DISCRETE, MULTI, CONTINUOUS]))
)
def test_what_goes_out_is_what_the_spec_says(connectors, observation, action):
    p, n = pipeline(connectors, observation, action), 3
    assert p.seen == spec(connectors, observation, action).seen
    memory, rng = fresh(p, n), np.random.default_rng(0)
    for seed in range(4):
        seen = p.apply(rows(n, observation, seed), memory, None)
        assert seen.shape == (n, *p.seen.shape)
        assert seen.dtype == p.seen.dtype
        p.acted(memory, drawn(n, action, rng))


@pytest.mark.parametrize("connectors", PIPELINES)
def test_the_same_goes_out_for_the_same_and_nothing_but_the_memory_is_written(connectors):
    p, observation, reward = pipeline(connectors, BOARD), rows(6, BOARD), np.arange(6, dtype=np.float32)
    start = np.random.default_rng(1).standard_normal((6, p.memory_size)).astype(np.float32)
    memories = [start.copy(), start.copy()]
    before = observation.copy()
    first, second = (p.apply(observation, memory, reward) for memory in memories)
    np.testing.assert_array_equal(first, second)
    np.testing.assert_array_equal(*memories)
    np.testing.assert_array_equal(observation, before)
    raw = np.array([0, 1, 2, 0, 1, 2])
    for memory in memories:
        p.acted(memory, raw)
    np.testing.assert_array_equal(*memories)
    np.testing.assert_array_equal(reward, np.arange(6))


@pytest.mark.parametrize(
    "connector",
    [
        {"kind": "evil"},
        {"kind": "reshape"},
        {"kind": "frame_stack", "frames": 10**9},
        {"kind": "normalise", "clip": 0},
    ],
)
def test_a_connector_that_is_none_is_refused(connector):
    with pytest.raises(ValidationError):
        PolicySettings(connectors=[connector])
