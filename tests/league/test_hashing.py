"""The bits that every seed of a match and every shuffled deck follows from: they never change."""

import numpy as np

from league.hashing import GAMMA, mix


def test_the_first_draws_are_those_of_the_reference_implementation():
    """Sebastiano Vigna: splitmix64.c, public domain, from state 1234567."""
    states = np.uint64(1234567) + GAMMA * np.arange(1, 6, dtype=np.uint64)
    assert mix(states).tolist() == [
        6457827717110365317,
        3203168211198807973,
        9817491932198370423,
        4593380528125082431,
        16408922859458223821,
    ]
