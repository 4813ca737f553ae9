"""Connect Four: the lines that count. Whole matches: `test_truth.py`."""

import itertools

import numpy as np
import pytest

from league.envs.games.connect_four import ConnectFour, bitboards, has_four, planes


@pytest.mark.parametrize(
    ("columns", "winner"),
    [
        ([0, 6, 1, 6, 2, 6, 3], 0),  # along the row
        ([3, 6, 3, 6, 3, 5, 3], 0),  # up
        ([0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3], 0),  # up to the right
        ([6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3], 0),  # up to the left
        ([0, 6, 0, 6, 1, 6, 1, 6], 1),  # the second seat, up in the last column
        ([0, 3, 0, 4, 1, 5, 1, 6], 1),  # the second seat, along the row to the edge
    ],
)
def test_four_in_a_line_win(play_line, columns, winner):
    expected = [1.0, -1.0] if winner == 0 else [-1.0, 1.0]
    assert play_line(ConnectFour(1), columns) == expected


def test_has_four_agrees_with_a_search_on_every_line_and_nothing_wraps_around():
    directions = [(1, 0), (0, 1), (1, 1), (1, -1)]
    lines = [
        {(c + i * dc, r + i * dr) for i in range(4)}
        for c, r, (dc, dr) in itertools.product(range(7), range(6), directions)
    ]
    lines = {frozenset(line) for line in lines if all(0 <= c < 7 and 0 <= r < 6 for c, r in line)}
    assert len(lines) == 69
    bits = {frozenset(line): sum(1 << (6 * c + r) for c, r in line) for line in lines}
    assert has_four(np.array(list(bits.values()), dtype=np.uint64)).all()
    rng = np.random.default_rng(0)
    boards = rng.integers(0, 1 << 42, 4000) & rng.integers(0, 1 << 42, 4000)
    expected = [any(int(b) & line == line for line in bits.values()) for b in boards]
    assert 0.05 < np.mean(expected) < 0.95
    assert has_four(boards.astype(np.uint64)).tolist() == expected


def test_stones_across_the_end_of_a_column_are_no_line():
    # seat 0 holds the three top cells of column 0 and the bottom of column 1: bits 3, 4, 5, 6
    stones = np.array([0b1111 << 3], dtype=np.uint64)
    assert not has_four(stones)[0]


def test_a_full_board_without_a_line_is_a_draw(play_line):
    pairs = [0, 1, 0, 1, 1, 0, 1, 0, 0, 1, 0, 1]
    columns = [*pairs, *(c + 2 for c in pairs), *(c + 4 for c in pairs), *[6] * 6]
    game = ConnectFour(1)
    assert play_line(game, columns) == [0.0, 0.0]
    assert game.env_steps[0] == 42


@pytest.mark.slow
def test_a_line_completed_by_the_last_stone_wins():
    game = ConnectFour(1)
    rng = np.random.default_rng(0)
    for seed in range(60_000):
        game.reset(np.array([0]), np.array([seed]))
        game._stones[0] = _random_full_but_one(rng)
        game._height[0] = [6] * 6 + [5]
        game.env_steps[0] = 41
        game._mover[0] = 1
        last = game._stones[0, 1] | np.uint64(1 << 41)
        if has_four(game._stones[0]).any() or not has_four(np.array([last]))[0]:
            continue
        game.due()
        transition = game.step([np.array([6])])
        assert transition.rewards[0].tolist() == [-1.0, 1.0]
        return
    pytest.fail("no such position was found")


def _random_full_but_one(rng):
    cells = rng.permutation(41)
    first = sum(1 << int(c) for c in cells[:21])
    return np.array([first, ((1 << 41) - 1) ^ first], dtype=np.uint64)


def test_planes_and_bitboards_are_inverse():
    stones = np.random.default_rng(1).integers(0, 1 << 42, (100, 2)).astype(np.uint64)
    assert (bitboards(planes(stones)) == stones).all()


def test_a_full_column_is_not_legal():
    game = ConnectFour(1)
    game.reset(np.array([0]), np.array([0]))
    for _ in range(6):
        game.due()
        game.step([np.array([2])])
    (block,) = game.due()
    assert block.mask[0].tolist() == [True, True, False, True, True, True, True]


def test_a_match_reads_as_a_board(play_line):
    game = ConnectFour(1)
    play_line(game, [3, 3, 6])
    assert game.render(0, 0).splitlines() == [
        *[". . . . . . ."] * 4,
        ". . . O . . .",
        ". . . X . . X",
        "0 1 2 3 4 5 6",
        "seat 1 (O) to play",
    ]
    assert game.action_name(0, 1, 3) == "column 3"
