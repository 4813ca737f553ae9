"""Files of positions: what is read, what is refused, and which moves count as good."""

import numpy as np
import pytest

from league.yardsticks.positions import parse, read, stored
from storage.errors import Mistake


def positions(*lines):
    return parse(lines, "mine", "mine.txt")


def test_a_line_is_actions_a_colon_and_a_score_for_each_action():
    found = positions("# tic-tac-toe, three cells", "", "0 2 : . -1 .5", ": 1 0 -1  # the start")
    assert found.actions == ((0, 2), ())
    assert found.plies.tolist() == [2, 0]
    np.testing.assert_array_equal(found.score, [[np.nan, -1, 0.5], [1, 0, -1]])
    np.testing.assert_array_equal(found.legal, [[False, True, True], [True, True, True]])


def test_best_is_the_highest_score_and_kept_the_same_outcome():
    found = positions(": 3 1 0", ": 0 -1 0", ": -2 -1 .", ": 2 1 .", ": 0 0 .")
    assert found.best.tolist() == [
        [True, False, False],
        [True, False, True],
        [False, True, False],
        [True, False, False],
        [True, True, False],
    ]
    assert found.kept.tolist() == [
        [True, True, False],
        [True, False, True],
        [True, True, False],  # lost in any case
        [True, True, False],
        [True, True, False],
    ]
    assert found.decisive.tolist() == [True, True, False, False, False]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["0 1 0 1"], "line 1: found '0 1 0 1', expected actions, a colon"),
        (["0 1 :"], "line 1: found '0 1 :', expected"),
        (["# ok", "0 x : 1 0"], "line 2: found '0 x : 1 0'"),
        (["0 -1 : 1 0"], "line 1"),
        ([": 1 inf"], "line 1"),
        ([": 1 0", ": 1 0 1"], "with 3 scores, expected 2"),
        ([": 1 . ."], "less than two legal actions"),
        (["# nothing"], "found no position"),
    ],
)
def test_a_line_that_is_none_is_named(lines, message):
    with pytest.raises(Mistake, match=r"positions mine\.txt") as error:
        positions(*lines)
    assert message in str(error.value)


def test_a_file_is_called_by_its_name_and_one_that_cannot_be_read_is_a_mistake(tmp_path):
    path = tmp_path / "mine.txt"
    path.write_text("0 : 1 0\n")
    assert read(path).name == "mine.txt"
    for bad in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(Mistake, match="cannot be read"):
            read(bad)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(Mistake, match="not UTF-8"):
        read(path)


def test_a_game_without_stored_positions_is_one_message():
    with pytest.raises(Mistake, match="none are stored for 'whist', only for connect_four"):
        stored("whist")
