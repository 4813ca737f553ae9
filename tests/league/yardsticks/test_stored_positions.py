"""The stored positions of Connect Four, checked by the rules and by a search of its own."""

import functools

import numpy as np
import pytest

from league.yardsticks.positions import stored

COLUMNS, ROWS = 7, 6
POSITIONS = stored("connect_four")
LATE = [row for row in range(len(POSITIONS)) if POSITIONS.plies[row] >= 28]


def wins(stones, column, row):
    def along(x, y):
        length = 0
        while (column + (length + 1) * x, row + (length + 1) * y) in stones:
            length += 1
        return length

    return any(1 + along(x, y) + along(-x, -y) >= 4 for x, y in ((1, 0), (0, 1), (1, 1), (1, -1)))


def board(moves):
    """The stones of both sides, as (column, row), and the heights; no move may have ended the match."""
    sides, heights = (set(), set()), [0] * COLUMNS
    for ply, column in enumerate(moves):
        assert not wins(sides[ply % 2] | {(column, heights[column])}, column, heights[column]), moves
        sides[ply % 2].add((column, heights[column]))
        heights[column] += 1
    assert max(heights) <= ROWS
    return frozenset(sides[len(moves) % 2]), frozenset(sides[1 - len(moves) % 2]), tuple(heights)


@functools.cache
def value(mine, theirs, heights):
    """What the side to move scores by perfect play: the winner's stones that are left, plus one."""
    open_columns = [c for c in range(COLUMNS) if heights[c] < ROWS]
    if not open_columns:
        return 0
    return max(score(mine, theirs, heights, column) for column in open_columns)


def score(mine, theirs, heights, column):
    after = mine | {(column, heights[column])}
    if wins(after, column, heights[column]):
        return COLUMNS * ROWS // 2 - len(after) + 1
    lifted = tuple(h + (c == column) for c, h in enumerate(heights))
    return -value(theirs, after, lifted)


def test_there_are_a_thousand_of_1_to_30_plies_that_leave_a_choice():
    assert len(POSITIONS) == 1000
    assert (POSITIONS.plies.min(), POSITIONS.plies.max()) == (1, 30)
    assert POSITIONS.legal.sum(axis=1).min() >= 2
    assert 0.5 < POSITIONS.decisive.mean() < 0.8


def test_no_match_is_over_full_columns_have_no_score_and_no_position_is_there_twice():
    seen = set()
    for row, moves in enumerate(POSITIONS.actions):
        mine, theirs, heights = board(moves)
        np.testing.assert_array_equal(POSITIONS.legal[row], np.array(heights) < ROWS)
        mirrored = tuple(frozenset((COLUMNS - 1 - c, r) for c, r in side) for side in (mine, theirs))
        assert (mine, theirs) not in seen, moves
        assert mirrored not in seen or mirrored == (mine, theirs), moves
        seen.add((mine, theirs))


@pytest.mark.slow
def test_wins_at_once_and_the_answers_to_them_have_the_scores_that_the_rules_give():
    checked = 0
    for row, moves in enumerate(POSITIONS.actions):
        mine, theirs, heights = board(moves)
        for column in np.flatnonzero(POSITIONS.legal[row]).tolist():
            given = POSITIONS.score[row, column]
            after = mine | {(column, heights[column])}
            left = COLUMNS * ROWS // 2 - len(after)
            lifted = [h + (c == column) for c, h in enumerate(heights)]
            if wins(after, column, heights[column]):
                assert given == left + 1, moves
                checked += 1
            elif any(
                lifted[c] < ROWS and wins(theirs | {(c, lifted[c])}, c, lifted[c]) for c in range(COLUMNS)
            ):
                assert given == -(COLUMNS * ROWS // 2 - len(theirs)), moves
                checked += 1
            else:
                assert abs(given) <= left, moves  # a win takes three plies, a loss four, or more
    assert checked > 1500


@pytest.mark.long
def test_a_search_of_late_positions_finds_the_same_scores():
    assert len(LATE) >= 20
    for row in LATE:
        found = board(POSITIONS.actions[row])
        expected = [
            score(*found, column) if legal else np.nan for column, legal in enumerate(POSITIONS.legal[row])
        ]
        np.testing.assert_array_equal(POSITIONS.score[row], expected)
    value.cache_clear()


def test_the_replies_to_the_first_move_are_worth_what_is_known_of_the_game():
    """The first side wins from the middle column, with its last stone; beside it a draw, then it loses."""
    first = {
        moves[0]: np.nanmax(POSITIONS.score[row])
        for row, moves in enumerate(POSITIONS.actions)
        if len(moves) == 1
    }
    assert len(first) == 4
    known = {0: 2, 1: 1, 2: 0, 3: -1}
    assert first == {column: known[min(column, COLUMNS - 1 - column)] for column in first}
