"""Leduc poker: deals, and lines worked out by hand. Whole matches: `test_truth.py`."""

import numpy as np
import pytest

from league.envs.games.leduc_poker import CALL, FOLD, RAISE, LeducPoker


def seed_of(ranks):
    game = LeducPoker(2000)
    game.reset(np.arange(2000), np.arange(2000))
    return int(np.flatnonzero((game._rank == ranks).all(axis=1))[0])


@pytest.mark.parametrize(
    ("ranks", "line", "gain"),
    [
        ([2, 0, 1], "cccc", 1),  # checked down, king over jack
        ([0, 2, 0], "cccc", 1),  # a pair of jacks over a king
        ([1, 2, 2], "cccc", -1),  # the other seat pairs
        ([1, 1, 2], "rcrc", 0),  # equal cards share
        ([2, 0, 1], "rf", 1),  # the blind alone
        ([0, 2, 1], "crf", -1),
        ([2, 0, 1], "rrf", -3),  # the first seat folds what it raised
        ([2, 0, 1], "rrcrrc", 13),  # all that can be paid
        ([0, 2, 1], "rrcrrc", -13),
        ([2, 0, 1], "rccc", 3),
        ([2, 0, 1], "rccrf", -3),
        ([2, 0, 1], "crrccc", 5),
        ([2, 0, 1], "ccrrf", -5),
    ],
)
def test_lines_pay_what_was_worked_out_by_hand(play_line, ranks, line, gain):
    actions = [{"f": FOLD, "c": CALL, "r": RAISE}[a] for a in line]
    assert play_line(LeducPoker(1), actions, seed_of(ranks)) == [gain, -gain]


def test_deals_are_uniform_over_seeds():
    num_seeds = 120_000
    game = LeducPoker(num_seeds)
    game.reset(np.arange(num_seeds), np.arange(num_seeds))
    deals, counts = np.unique(game._rank @ [9, 3, 1], return_counts=True)
    for deal, count in zip(deals, counts, strict=True):
        ranks = [deal // 9, deal // 3 % 3, deal % 3]
        left = [2, 2, 2]
        share = 1.0
        for number, rank in enumerate(ranks):
            share *= left[rank] / (6 - number)
            left[rank] -= 1
        assert abs(count / num_seeds - share) < 4 * np.sqrt(share * (1 - share) / num_seeds)
    assert len(deals) == 24  # of 27, three of one rank are impossible


def test_a_match_reads_as_at_a_table(play_line):
    game = LeducPoker(1)
    play_line(game, [CALL, RAISE], seed_of([2, 0, 1]))
    lines = ["public: -", "seat 0: king, paid 1, to play", "seat 1: ?, paid 3", "round 1: check, raise"]
    assert game.render(0, 0).splitlines() == lines
    assert [game.action_name(0, 0, action) for action in range(3)] == ["fold", "call", "raise"]
    play_line(game, [CALL, RAISE, CALL], seed_of([2, 0, 1]))
    assert game.render(0).splitlines() == [
        "public: queen",
        "seat 0: king, paid 3, to play",
        "seat 1: jack, paid 3",
        "round 1: check, raise, call",
        "round 2: -",
    ]
    assert game.action_name(0, 0, CALL) == "check"
