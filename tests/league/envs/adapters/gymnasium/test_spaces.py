"""What gymnasium's envs show and take, as rows and choices of a seat."""

import re
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    Graph,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
    Text,
    Tuple,
)

from league.envs.adapters.gymnasium.spaces import allowed, numbers, shown, taken
from league.envs.spaces import ActionSpec, ObservationSpec

SHOWN = [
    Box(-9, 9, (2, 3), np.float64),
    Box(-np.inf, np.inf, (2,), np.float32),
    Box(0, 255, (2, 2), np.uint8),
    Box(0, 9, (), np.float32),
    Discrete(4, start=-1),
    MultiBinary(3),
    MultiDiscrete([2, 3]),
    Tuple([Discrete(2), Box(0, 1, (2,), np.float32)]),
    OneOf([Discrete(2), Discrete(3)]),
    Text(4),
    Dict({"at": Box(-1, 1, (2, 2), np.float64), "mood": Discrete(3), "far": Box(0, 9, (), np.float32)}),
]

PAGE = (Path(__file__).parents[5] / "league" / "GAMES.md").read_text()
(ROWS,) = re.findall(r"^\| space of gymnasium .*\n\|---\|---\|---\|\n((?:\|.*\n)+)", PAGE, re.M)
TABLE = {row.split("|")[1].strip(): row.split("|")[2:4] for row in ROWS.splitlines()}
FIRST = {  # of each row of the table on the page
    "`Box`": [Box(-1, 1, (2,), np.float32)],
    "`Box` of whole numbers": [Box(0, 255, (4, 4, 3), np.uint8), Box(-2, 2, (2,), np.int64)],
    "`Discrete`": [Discrete(4)],
    "`MultiDiscrete`": [MultiDiscrete([2, 3])],
    "`MultiBinary`": [MultiBinary(3)],
    "`Dict`": [Dict({"at": Box(-1, 1, (2,), np.float32)})],
    "`Tuple`": [Tuple([Discrete(2), Box(-np.inf, np.inf, (2,))])],
    "`OneOf`": [OneOf([Discrete(2), Discrete(3)])],
    "`Text`": [Text(4)],
    "`Sequence`, `Graph`": [Sequence(Discrete(2)), Graph(Box(0, 1, (2,)), None)],
}


def fits(spec, space):
    try:
        spec.from_space(space)
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("row", FIRST)
def test_the_page_says_which_spaces_are_taken_of_envs_and_of_a_game_of_ones_own(row):
    """A cell that begins with the mark is about envs of libraries alone."""
    seen, done = (cell.strip() for cell in TABLE[row])
    for space in FIRST[row]:
        assert fits(ObservationSpec, shown(space)) == ("refused" not in seen)
        assert fits(ActionSpec, taken(space)[0]) == (not done.startswith("refused"))
        assert fits(ObservationSpec, space) == ("refused" not in seen and not seen.startswith("¹"))
        assert fits(ActionSpec, space) == (not done.startswith(("refused", "¹")))


def test_the_page_names_every_space_of_gymnasium():
    spaces = {
        name
        for name in gymnasium.spaces.__all__
        if name[0].isupper() and name not in ("Space", "GraphInstance")
    }
    assert set(TABLE) == set(FIRST)
    assert spaces == set(re.findall(r"`([A-Z]\w+)`", " ".join(TABLE)))


@pytest.mark.parametrize("space", SHOWN, ids=str)
def test_whatever_is_shown_fits_into_the_space_it_is_shown_in(space):
    seen = shown(space)
    ObservationSpec.from_space(seen)
    parts = seen.spaces if isinstance(seen, Dict) else {"": seen}
    space.seed(0)
    for _ in range(20):
        rows = numbers(space, space.sample())
        assert set(rows) == set(parts)
        for name, part in parts.items():
            assert part.contains(np.reshape(rows[name], part.shape).astype(part.dtype))


def test_small_integers_are_shown_as_they_are_and_the_rest_as_float32():
    assert shown(Box(-3, 3, (2,), np.int8)) == Box(-3, 3, (2,), np.int8)
    assert shown(Box(0, 9, (2,), np.int64)) == Box(0, 9, (2,), np.float32)
    assert shown(Box(-1e300, 1e300, (1,), np.float64)).is_bounded("both") is False


@pytest.mark.parametrize(
    "space",
    [
        Discrete(3, start=5),
        MultiDiscrete([[2, 3], [4, 5]], start=[[0, 1], [2, 3]]),
        MultiBinary((2, 2)),
        Box(-2, 2, (2, 1), np.float64),
        Box(0.1, 0.3, (1,), np.float64),
        Box(-np.inf, np.inf, (2,), np.float32),
        Box(np.array([[-3, 0]]), np.array([[-1, 2**40]]) // np.array([[1, 2**38]]), dtype=np.int64),
        Dict({"b": Box(-1, 1, (1,)), "a": Tuple([Discrete(3, start=2), Box(0, 5, (2,), np.uint8)])}),
    ],
    ids=str,
)
def test_every_action_of_a_seat_becomes_one_of_the_envs_own(space):
    seat, act = taken(space)
    ActionSpec.from_space(seat)
    seat.seed(0)
    spec = ActionSpec.from_space(seat)
    drawn = np.random.default_rng(0).random((50, spec.width))
    actions = [*spec.random(np.ones((50, spec.mask_width), bool), drawn)]
    if isinstance(seat, Box) and seat.is_bounded("both"):
        actions += [seat.low, seat.high]  # a float32 bound may be beyond the env's own
    told = [act(action) for action in actions]
    assert all(space.contains(action) for action in told)
    assert len({repr(action) for action in told}) > 2


CHOICE, THREE = np.array([1, 0, 1], np.int8), np.array([0, 0, 1], np.int8)
SEVERAL = Dict(
    {
        "aim": Box(-np.inf, np.inf, (2,)),
        "how": Tuple([Discrete(3), MultiDiscrete([2, 3])]),
        "flags": MultiBinary(2),
    }
)


@pytest.mark.parametrize(
    ("space", "mask", "row"),
    [
        (Discrete(3, start=4), CHOICE, [1, 0, 1]),
        (Discrete(3), CHOICE.astype(bool), [1, 0, 1]),
        (Discrete(3), [True, False, True], [1, 0, 1]),
        (MultiDiscrete([2, 3]), (np.array([0, 1], np.int8), CHOICE), [0, 1, 1, 0, 1]),
        (MultiDiscrete([2, 3]), np.array([0, 1, 1, 0, 1]), [0, 1, 1, 0, 1]),
        (MultiDiscrete([3, 3]), np.stack([CHOICE, THREE]), [1, 0, 1, 0, 0, 1]),
        (MultiDiscrete([[3], [3]]), ((CHOICE,), (THREE,)), [1, 0, 1, 0, 0, 1]),
        (MultiDiscrete([2, 3]), (np.zeros(2, np.int8), CHOICE), [1, 0, 1, 0, 1]),
        (MultiDiscrete([2, 3]), (np.zeros(2, np.int8), np.zeros(3, np.int8)), [0] * 5),
        (MultiBinary(3), np.array([0, 1, 2], np.int8), [1, 0, 0, 1, 1, 1]),
        (Box(-1, 1, (2,), np.int64), (CHOICE, THREE), [1, 0, 1, 0, 0, 1]),
        (Tuple([Discrete(2), Box(0, 1, (3,))]), (np.array([0, 1], np.int8), None), [0, 1]),
        (
            SEVERAL,
            {"aim": None, "how": (CHOICE, (np.array([1, 0], np.int8), THREE)), "flags": None},
            [1, 1, 1, 1, 1, 0, 1, 1, 0, 0, 0, 1],
        ),
        (SEVERAL, {"how": (CHOICE, None)}, [1, 1, 1, 1, 1, 0, 1, 1, 1, 1, 1, 1]),
        (SEVERAL, np.arange(12) % 2, [0, 1] * 6),
    ],
    ids=str,
)
def test_a_mask_is_taken_in_every_form_of_gymnasiums_own(space, mask, row):
    """The parts of a Dict are in gymnasium's order: aim, flags, how."""
    spec = ActionSpec.from_space(taken(space)[0])
    found = allowed(space, mask, spec)
    assert (found.dtype, found.astype(int).tolist()) == (np.bool_, row)


@pytest.mark.parametrize("space", [Discrete(3), MultiDiscrete([2, 3]), MultiBinary(3), SEVERAL], ids=str)
def test_gymnasiums_sample_and_a_seat_may_do_the_same_under_a_mask(space):
    rng, masks = np.random.default_rng(0), {"how": (CHOICE, (np.array([1, 0], np.int8), THREE))}
    of_kind = {Discrete: CHOICE, MultiDiscrete: masks["how"][1], MultiBinary: np.array([0, 1, 2], np.int8)}
    mask = of_kind.get(type(space), masks | {"aim": None, "flags": np.array([2, 0], np.int8)})
    seat, act = taken(space)
    spec = ActionSpec.from_space(seat)
    row = np.tile(allowed(space, mask, spec), (300, 1))
    ours = {repr(_choices(act(action))) for action in spec.random(row, rng.random((300, spec.width)))}
    space.seed(0)
    assert ours == {repr(_choices(space.sample(mask))) for _ in range(300)}


def _choices(action):
    """Return an action without the part of real numbers, as plain lists."""
    if isinstance(action, dict):
        return [_choices(part) for name, part in sorted(action.items()) if name != "aim"]
    return [_choices(part) for part in action] if isinstance(action, tuple) else np.asarray(action).tolist()


@pytest.mark.parametrize(
    ("space", "mask", "message"),
    [
        (Discrete(3), np.ones(4), "shaped (4,), expected (3,)"),
        (MultiDiscrete([2, 3]), (np.ones(3), np.ones(2)), "a tuple, expected what sample(mask) of Multi"),
        (MultiDiscrete([2, 3]), np.ones((2, 3)), "shaped (2, 3), expected what sample(mask) of"),
        (SEVERAL, {"how": None, "who": None}, "a dict, expected what sample(mask) of Dict("),
    ],
)
def test_a_mask_of_another_form_is_one_line_with_what_is_taken(space, mask, message):
    with pytest.raises(ValueError, match=re.escape(f"its mask is {message}")) as refusal:
        allowed(space, mask, ActionSpec.from_space(taken(space)[0]))
    assert "\n" not in str(refusal.value)


def test_what_a_seat_cannot_have_is_left_for_the_game_to_refuse():
    assert taken(Box(0, 2**40, (1,), np.int64))[0] == Box(0, 2**40, (1,), np.int64)
    assert not isinstance(shown(Sequence(Discrete(2))), Box | Dict)
