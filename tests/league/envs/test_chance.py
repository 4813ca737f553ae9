"""Chance depends on seed and counter alone, and looks like chance."""

import numpy as np

from league.envs import chance


def test_a_draw_is_the_same_alone_and_among_others():
    seeds = np.arange(1000)
    together = chance.deal(seeds, 6, 3)
    alone = [chance.deal(np.array([s]), 6, 3)[0].tolist() for s in range(0, 1000, 97)]
    assert together[::97].tolist() == alone


def test_cards_of_a_deal_are_distinct_and_a_whole_deck_can_be_dealt():
    deck = chance.deal(np.arange(500), 6, 6)
    assert (np.sort(deck, axis=1) == np.arange(6)).all()
    assert len(np.unique(deck, axis=0)) > 300


def test_below_is_uniform_for_seeds_in_a_row_and_for_counters_in_a_row():
    for draws in (chance.below(np.arange(70_000), 3, 7), chance.below(np.array([5]), np.arange(70_000), 7)):
        counts = np.bincount(draws, minlength=7)
        assert len(counts) == 7
        assert np.abs(counts - 10_000).max() < 4 * np.sqrt(10_000 * 6 / 7)


def test_draws_of_neighbouring_seeds_and_counters_are_uncorrelated():
    draws = chance.bits(np.arange(300)[:, None], np.arange(300)) / 2.0**64
    for neighbour in (
        draws[1:, :] * draws[:-1, :],
        draws[:, 1:] * draws[:, :-1],
        draws[1:, :-1] * draws[:-1, 1:],
    ):
        assert abs(neighbour.mean() - 0.25) < 4 * np.sqrt(7 / 144 / neighbour.size)


def test_the_largest_seed_is_no_overflow():
    seeds = np.array([0, 2**63 - 1])
    assert len(np.unique(chance.bits(seeds, 2**40))) == 2
