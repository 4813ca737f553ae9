"""Bots of games of lines see every win and every block."""

import itertools

import numpy as np
import pytest

from league.envs.games.connect_four import planes
from league.models.bots.scripted import make_bot
from tests.league.models.bots.games.matches import play

FOURS = [
    tuple((c + i * dc, r + i * dr) for i in range(4))
    for c, r, (dc, dr) in itertools.product(range(7), range(6), [(1, 0), (0, 1), (1, 1), (1, -1)])
    if 0 <= c + 3 * dc < 7 and 0 <= r + 3 * dr < 6
]


def connect_four_positions(line, side):
    """Positions (the missing cell; own bits, the opponent's) in which one cell completes `line` for `side`.

    Where the line hangs in the air, stones of both sides hold it up.
    """
    for missing in line:
        mine = {cell for cell in line if cell != missing}
        if any(c == missing[0] and r > missing[1] for c, r in mine):
            continue  # a stone of the line cannot stand on an empty cell
        below = {(c, r) for c, top in line for r in range(top)} - mine
        mine |= {(c, r) for c, r in below if (c // 2 + r) % 2 == 0}
        boards = [sum(1 << (6 * c + r) for c, r in cells) for cells in (mine, below - mine)]
        yield missing, boards if side == 0 else boards[::-1]


def completes(board, mask, heights):
    """Columns in which the next stone gives `board` four in a line, by search."""
    found = []
    for column in np.flatnonzero(mask):
        after = board | 1 << (6 * int(column) + heights[column])
        if any(all(after >> (6 * c + r) & 1 for c, r in line) for line in FOURS):
            found.append(int(column))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("side", [0, 1])
def test_one_ply_takes_wins_and_blocks_on_every_line_of_connect_four(side):
    assert len(FOURS) == 69
    bot = make_bot("one_ply", "connect_four")
    num_positions, blocks_seen = 0, 0
    for line in FOURS:
        for (column, _), (own, theirs) in connect_four_positions(line, side):
            heights = [((own | theirs) >> 6 * c & 63).bit_count() for c in range(7)]
            mask = np.array([h < 6 for h in heights])
            wins, blocks = completes(own, mask, heights), completes(theirs, mask, heights)
            assert column in (wins if side == 0 else blocks)
            observation = planes(np.array([[own, theirs]], dtype=np.uint64))
            preferred = np.flatnonzero(bot.preferred(observation, mask[None])[0]).tolist()
            assert preferred == (wins or blocks)
            num_positions += 1
            blocks_seen += not wins
    assert num_positions > 150
    assert side == 0 or blocks_seen > 100


def test_one_ply_takes_wins_and_blocks_on_every_line_of_tic_tac_toe():
    bot = make_bot("one_ply", "tic_tac_toe")
    lines = [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
    for line, (missing, side) in itertools.product(lines, itertools.product(range(3), range(2))):
        observation = np.zeros((1, 2, 9), np.int8)
        observation[0, side, [c for c in line if c != line[missing]]] = 1
        mask = observation.sum(axis=1) == 0
        action, log_prob = bot.act(observation.reshape(1, 18), mask, np.random.default_rng(0))
        assert action.tolist() == [line[missing]]
        assert log_prob.tolist() == [0.0]


def test_one_ply_prefers_a_win_to_a_block():
    observation = np.zeros((1, 18), np.int8)
    observation[0, [0, 1, 9 + 3, 9 + 4]] = 1  # both lack one cell: 2 wins, 5 only blocks
    mask = observation.reshape(1, 2, 9).sum(axis=1) == 0
    action, _ = make_bot("one_ply", "tic_tac_toe").act(observation, mask, np.random.default_rng(0))
    assert action.tolist() == [2]


def test_one_ply_beats_random_in_connect_four():
    one_ply, random = (make_bot(name, "connect_four") for name in ("one_ply", "random"))
    first = play("connect_four", (one_ply, random), 1000)
    second = play("connect_four", (random, one_ply), 1000)
    assert (first[:, 0] > 0).mean() > 0.9
    assert (second[:, 1] > 0).mean() > 0.9


def test_perfect_never_loses_to_random():
    perfect, random = (make_bot(name, "tic_tac_toe") for name in ("perfect", "random"))
    first = play("tic_tac_toe", (perfect, random), 1000)[:, 0]
    second = play("tic_tac_toe", (random, perfect), 1000, seed=1)[:, 1]
    assert first.min() >= 0
    assert second.min() >= 0
    assert (first > 0).mean() > 0.8


def test_perfect_draws_itself_along_many_lines():
    perfect = make_bot("perfect", "tic_tac_toe")
    assert not play("tic_tac_toe", (perfect, perfect), 500).any()
    opening = perfect.preferred(np.zeros((1, 18), np.int8), np.ones((1, 9), bool))
    assert opening.all()  # every first cell keeps the draw


def test_perfect_answers_a_corner_in_the_middle_only():
    observation = np.zeros((1, 18), np.int8)
    observation[0, 9] = 1
    mask = np.arange(9)[None] > 0
    preferred = make_bot("perfect", "tic_tac_toe").preferred(observation, mask)
    assert np.flatnonzero(preferred[0]).tolist() == [4]
