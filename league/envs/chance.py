"""Chance from the seed of a match alone: a counter-based hash, so a match is the same in any slot or batch.

The hash is the finalizer of splitmix64 (Steele, Lea, Flood: Fast splittable pseudorandom number
generators, OOPSLA 2014, section 4), applied to the seed and again to seed and counter: draw c of
a match needs no state and no draw before it.
"""

from __future__ import annotations

import itertools

import numpy as np
import numpy.typing as npt

from league.hashing import GAMMA, mix
from storage.arrays import Indices


def bits(seeds: Indices, counter: npt.ArrayLike) -> npt.NDArray[np.uint64]:
    """Return 64 random bits for each seed and counter; the two are broadcast, to at least one axis."""
    start = mix(np.atleast_1d(seeds).astype(np.uint64) + GAMMA)
    return mix(start + (np.atleast_1d(counter).astype(np.uint64) + np.uint64(1)) * GAMMA)


def below(seeds: Indices, counter: npt.ArrayLike, bound: int) -> Indices:
    """Return a uniform integer in [0, bound) for each seed [k]; the bias is less than bound / 2**32."""
    high = bits(seeds, counter) >> np.uint64(32)
    return ((high * np.uint64(bound)) >> np.uint64(32)).astype(np.int64)


def deals(deck_size: int, num_cards: int) -> Indices:
    """Return all k equally likely results of `deal`: [k, num_cards]."""
    return np.array(list(itertools.permutations(range(deck_size), num_cards)), dtype=np.int64)


def deal(seeds: Indices, deck_size: int, num_cards: int) -> Indices:
    """Return the first `num_cards` of a shuffled deck for each seed [k]: [k, num_cards], all distinct."""
    deck = np.tile(np.arange(deck_size), (len(seeds), 1))
    row = np.arange(len(seeds))
    for i in range(num_cards):
        j = i + below(seeds, i, deck_size - i)
        deck[row, i], deck[row, j] = deck[row, j], deck[row, i]
    return deck[:, :num_cards]
