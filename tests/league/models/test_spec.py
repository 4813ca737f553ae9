"""Specs survive JSON, and one that describes no policy is refused without anything being run."""

import json
import pickle
import sys
from types import SimpleNamespace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from league.envs import registry
from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart
from league.models.spec import PolicySettings, PolicySpec
from league.models.torsos import OwnTorso
from storage.errors import WeightsMismatch

SPEC = PolicySpec(PolicySettings(), ObservationSpec((4,), "int8"), ActionSpec("discrete", (3,)))
SPECS = [
    SPEC,
    PolicySpec(
        PolicySettings(
            torso="cnn",
            hidden=(8, 8),
            memory="lstm",
            connectors=[{"kind": "frame_stack", "frames": 2}, {"kind": "previous"}, {"kind": "normalise"}],
        ),
        ObservationSpec((2, 6, 7), "float32"),
        ActionSpec("multi_discrete", (2, 3)),
    ),
    PolicySpec(
        PolicySettings(torso={"use": "mine.nets:Deep", "width": 3, "names": ["a"]}, squash=False),
        ObservationSpec((7,), "float32", (SpacePart("board", (2, 3)), SpacePart("clock", ()))),
        ActionSpec("continuous", low=(-1.0,), high=(0.1,)),
    ),
    PolicySpec(
        PolicySettings(separate_value=True, value_sees="all"),
        ObservationSpec((2, 3, 3), "int8"),
        ActionSpec("discrete", (3,)),
        (
            ObservationSpec((2, 3, 3), "int8"),
            ObservationSpec((4,), "float32", (SpacePart("a", (3,)), SpacePart("b", ()))),
        ),
    ),
]


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def with_settings(**settings):
    return {**SPEC.to_json(), "settings": settings}


def places(fields, path=()):
    """The path of every value in a tree of JSON."""
    yield path
    if isinstance(fields, dict | list):
        for key in fields if isinstance(fields, dict) else range(len(fields)):
            yield from places(fields[key], (*path, key))


@pytest.mark.parametrize("spec", SPECS)
def test_a_spec_survives_json(spec):
    assert PolicySpec.from_json(json.loads(json.dumps(spec.to_json()))) == spec
    assert PolicySpec.from_json(spec.to_json()) == spec


@pytest.mark.parametrize("spec", SPECS)
def test_equal_specs_are_one_key(spec):
    again = pickle.loads(pickle.dumps(spec))
    assert again.settings is not spec.settings
    assert {spec: 1}[again] == 1
    other = PolicySpec(
        spec.settings.model_copy(update={"torso": OwnTorso(use="a:B")}), spec.observation, spec.action
    )
    assert other != spec


def test_a_spec_fits_the_game():
    spec = PolicySpec.for_game(PolicySettings(), registry.make("connect_four", 1))
    assert (spec.observation.shape, spec.observation.dtype) == ((2, 7, 6), "int8")
    assert spec.action == ActionSpec("discrete", (7,))
    assert spec.seen == spec.observation
    assert spec.architecture == "mlp"


def test_a_value_that_sees_all_is_shown_the_seats_after_the_own_one():
    wanted = PolicySettings(separate_value=True, value_sees="all")
    board, row = ObservationSpec((2, 3), "int8"), ObservationSpec((4,), "float32")
    taken = ActionSpec("discrete", (2,))
    game = SimpleNamespace(
        id="mine", num_seats=3, observation_specs=(board, row, board), action_specs=(taken,) * 3
    )
    spec = PolicySpec.for_game(wanted, game, (0,))
    assert spec.others == (row, board)
    assert (spec.learned.shape, spec.learned.dtype) == ((6 + 4 + 6,), "float32")
    assert [part.shape for part in spec.learned.parts] == [(2, 3), (4,), (2, 3)]
    assert PolicySpec.for_game(wanted, game, (1,)).others == (board, board)
    with pytest.raises(
        ValueError, match=r"value_sees: found all, but in env 'mine' the seats beside \[0, 2\]"
    ):
        PolicySpec.for_game(wanted, game, (0, 2))
    alone = SimpleNamespace(id="mine", num_seats=1, observation_specs=(row,), action_specs=(taken,))
    with pytest.raises(ValueError, match="env 'mine' has one seat, expected two or more; set it to seat"):
        PolicySpec.for_game(wanted, alone)


def test_a_spec_fits_those_seats_of_a_game_that_are_meant():
    seen, taken = ObservationSpec((4,), "float32"), ActionSpec("discrete", (2,))
    dial = ActionSpec("continuous", low=(-1.0,), high=(1.0,))
    game = SimpleNamespace(
        id="mine", num_seats=3, observation_specs=(seen,) * 3, action_specs=(taken, dial, taken)
    )
    assert PolicySpec.for_game(PolicySettings(), game, (0, 2)).action == taken
    assert PolicySpec.for_game(PolicySettings(), game, (1,)).action == dial
    with pytest.raises(ValueError, match="env 'mine': seats 0 and 1 differ in what is seen or done there"):
        PolicySpec.for_game(PolicySettings(), game)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"torso": {"use": "a:B", "x": (1, 2)}}, "that JSON can hold"),
        ({"torso": {"use": "a:B", "x": float("nan")}}, "that JSON can hold"),
        ({"hidden": ()}, "at least 1 item"),
        ({"hidden": (0,)}, "greater than or equal to 1"),
        ({"memory": "elephant"}, "expected none, gru, lstm, transformer"),
        ({"size": 3}, "Extra inputs"),
        ({"value_sees": "all"}, "set separate_value to true, or value_sees to seat"),
        ({"value_sees": "all", "separate_value": True, "torso": "a:B"}, "a torso of ours"),
    ],
)
def test_settings_that_cannot_be_are_refused(settings, message):
    with pytest.raises(ValidationError, match=message):
        PolicySettings(**settings)


@pytest.mark.parametrize(
    "fields",
    [
        None,
        "spec",
        {},
        {**SPEC.to_json(), "extra": 1},
        {**SPEC.to_json(), "settings": None},
        {**SPEC.to_json(), "observation": None},
        {**SPEC.to_json(), "observation": {"shape": [10**12], "dtype": "int8", "parts": []}},
        {**SPEC.to_json(), "others": [SPEC.to_json()["observation"]]},
        with_settings(value_sees="all", separate_value=True),
        with_settings(architecture="evil"),
        with_settings(extra=1),
        with_settings(hidden=[10**9]),
        with_settings(hidden=[8] * 1000),
        with_settings(architecture="cnn", kernel=10**6),
        with_settings(squash="yes"),
        with_settings(memory="gru", memory_size=10**9),
        with_settings(options={"a": 1}),
        with_settings(connectors=[{"kind": "reshape", "shape": [5]}]),
        with_settings(connectors=[{"kind": "frame_stack", "frames": 1000}] * 5),
        with_settings(connectors=[{"kind": "flatten"}] * 1000),
        with_settings(connectors=[{"kind": "normalise"}, {"kind": "flatten"}]),
    ],
)
def test_a_spec_that_describes_no_policy_is_refused(fields):
    with pytest.raises(WeightsMismatch, match=r"policy spec .* cannot be read: .*another version") as refusal:
        PolicySpec.from_json(fields)
    assert len(str(refusal.value)) < 1000


@pytest.mark.long
@settings(max_examples=150, deadline=None)
@given(st.sampled_from(SPECS), st.integers(0, 10**6), JUNK)
def test_whatever_a_file_says_it_is_a_spec_or_refused(spec, which, junk):
    fields = json.loads(json.dumps(spec.to_json()))
    paths = list(places(fields))[1:]
    *way, last = paths[which % len(paths)]
    holder = fields
    for key in way:
        holder = holder[key]
    holder[last] = junk
    try:
        read = PolicySpec.from_json(fields)
    except WeightsMismatch:
        return
    assert PolicySpec.from_json(read.to_json()) == read


def test_reading_a_spec_imports_nothing(tmp_path, monkeypatch):
    (tmp_path / "trap.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    spec = PolicySpec.from_json(with_settings(architecture="trap:Network", options={"a": 1}))
    assert spec.architecture == "trap:Network"
    assert "trap" not in sys.modules
