"""splitmix64: a hash of 64 bits that random numbers follow from, without a state.

Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014, section 4.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

GAMMA = np.uint64(0x9E3779B97F4A7C15)
"""Step between the states of two consecutive draws."""
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)


def mix(state: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Return 64 random bits for each `state` [...]: the finalizer of splitmix64."""
    state = (state ^ (state >> np.uint64(30))) * _FIRST
    state = (state ^ (state >> np.uint64(27))) * _SECOND
    return state ^ (state >> np.uint64(31))
