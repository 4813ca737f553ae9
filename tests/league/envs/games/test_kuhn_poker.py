"""Kuhn poker: every deal, every line of betting, by table."""

import itertools

import numpy as np
import pytest

from league.envs.games.kuhn_poker import KuhnPoker

# what the first seat gains when it holds the higher card, and when it holds the lower
PAYOFF = {"pp": (1, -1), "bb": (2, -2), "bp": (1, 1), "pbp": (-1, -1), "pbb": (2, -2)}


def seed_of(cards):
    game = KuhnPoker(200)
    game.reset(np.arange(200), np.arange(200))
    return int(np.flatnonzero((game._card == cards).all(axis=1))[0])


@pytest.mark.parametrize("cards", list(itertools.permutations(range(3), 2)))
def test_every_line_of_betting_pays_by_table(play_line, cards):
    for line, (higher, lower) in PAYOFF.items():
        gain = higher if cards[0] > cards[1] else lower
        rewards = play_line(KuhnPoker(1), ["pb".index(a) for a in line], seed_of(cards))
        assert rewards == [gain, -gain], (cards, line)


def test_deals_are_uniform_over_seeds():
    game = KuhnPoker(60_000)
    game.reset(np.arange(60_000), np.arange(60_000))
    deals = game._card @ [3, 1]
    counts = np.unique_counts(deals).counts
    assert len(counts) == 6
    assert np.abs(counts - 10_000).max() < 4 * np.sqrt(10_000 * 5 / 6)


def test_a_match_reads_as_at_a_table(play_line):
    game = KuhnPoker(1)
    play_line(game, [0, 1], seed_of([2, 0]))
    assert game.render(0, 0) == "seat 0: king, to play\nseat 1: ?\nso far: pass, bet"
    assert game.render(0, 1) == "seat 0: ?, to play\nseat 1: jack\nso far: pass, bet"
    assert [game.action_name(0, 0, action) for action in (0, 1)] == ["fold", "call"]
    play_line(game, [0, 1, 1], seed_of([2, 0]))
    assert game.render(0) == "seat 0: king\nseat 1: jack\nso far: pass, bet, call"
    play_line(game, [0], seed_of([2, 0]))
    assert [game.action_name(0, 1, action) for action in (0, 1)] == ["pass", "bet"]
