"""Spaces of gymnasium translated to spaces of a game's seats.

A seat sees a Box or a Dict of Boxes, as float32 (int8 and uint8 stay as they are); other spaces are
flattened by gymnasium. Actions count from 0 and are one row.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Space, flatten, flatten_space

Act = Callable[[npt.NDArray], Any]


def shown(space: Space[Any]) -> Space[Any]:
    """Return the space of a seat that is shown observations of `space`."""
    if isinstance(space, Dict):
        return Dict({name: _box(part) for name, part in space.spaces.items()})
    return _box(space)


def numbers(space: Space[Any], observation: Any) -> dict[str, Any]:
    """Return an observation of `space` in the form of `shown(space)`: by part, or under "" without parts."""
    if isinstance(space, Box):
        return {"": observation}
    if isinstance(space, Dict):
        return {name: _flat(part, observation[name]) for name, part in space.spaces.items()}
    return {"": flatten(space, observation)}


def taken(space: Space[Any]) -> tuple[Space[Any], Act]:
    """Return the action space of a seat, and a function from its actions to those of the env's `space`."""
    if isinstance(space, Discrete):
        start = int(space.start)
        return Discrete(int(space.n)), lambda action: int(action) + start
    if isinstance(space, MultiDiscrete | MultiBinary):
        multi = space if isinstance(space, MultiDiscrete) else MultiDiscrete(np.full(space.shape, 2))
        kind = space.dtype

        def counted(action: npt.NDArray) -> npt.NDArray:
            return (action.reshape(multi.nvec.shape) + multi.start).astype(kind)

        return MultiDiscrete(multi.nvec.ravel()), counted
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        box = space

        def bounded(action: npt.NDArray) -> npt.NDArray:  # a bound need not be a float32
            return np.clip(action.reshape(box.shape).astype(box.dtype), box.low, box.high)

        with np.errstate(over="ignore"):
            low, high = (bound.astype(np.float32).ravel() for bound in (space.low, space.high))
        return Box(low, high, dtype=np.float32), bounded
    return space, lambda action: action  # the game refuses it with a message that names it


def _flat(space: Space[Any], observation: Any) -> Any:
    return observation if isinstance(space, Box) else flatten(space, observation)


def _box(space: Space[Any]) -> Space[Any]:
    flat = space if isinstance(space, Box) else flatten_space(space)
    if not isinstance(flat, Box) or flat.dtype in (np.int8, np.uint8):
        return flat  # the game refuses other spaces
    with np.errstate(over="ignore"):  # bounds beyond float32 become infinite
        return Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)
