"""Tic-tac-toe: the frequencies of random play, and how a match reads. Its rules: `test_truth.py`."""

import numpy as np

from league.envs.games.tic_tac_toe import TicTacToe


def test_random_play_ends_as_often_as_combinatorics_says():
    # exact shares under uniformly random play: 737/1260, 121/420, 8/63
    expected = {1.0: 737 / 1260, -1.0: 121 / 420, 0.0: 8 / 63}
    num_matches = 20_000
    game = TicTacToe(num_matches)
    rng = np.random.default_rng(5)
    game.reset(np.arange(num_matches), np.arange(num_matches))
    returns = np.zeros(num_matches)
    while game.active.any():
        (block,) = game.due()
        returns += game.step([(rng.random(block.mask.shape) * block.mask).argmax(1)]).rewards[:, 0]
    for value, share in expected.items():
        margin = 1.96 * np.sqrt(share * (1 - share) / num_matches)
        assert abs((returns == value).mean() - share) < margin


def test_a_match_reads_as_a_board(play_line):
    game = TicTacToe(1)
    play_line(game, [4, 0, 6])
    assert game.render(0, 1).splitlines() == [
        "  a b c",
        "1 O . .",
        "2 . X .",
        "3 X . .",
        "seat 1 (O) to play",
    ]
    assert [game.action_name(0, 1, cell) for cell in (1, 2, 3, 8)] == ["b1", "c1", "a2", "c3"]
    play_line(game, [0, 1, 3, 4, 6])
    assert game.render(0).splitlines() == ["  a b c", "1 X O .", "2 X O .", "3 X . ."]
