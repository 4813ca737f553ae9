"""Faults that a trial finds, and the mistake that they become."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium.spaces import Box, Dict, Space

from league.envs.trial.blame import of_seats
from storage.errors import Mistake

SLACK = 1e-3  # by which an observation may miss its bounds, relative to a bound above 1
MOST_SHOWN = 60  # characters of a value that is shown


class GameBroken(Mistake):
    """A game that cannot be trained on: the message has the game, the seat, the cause, file and line.

    `certain`: no game without a fault looks so.
    """

    certain = True


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with a game."""

    cause: str
    seats: tuple[int, ...] = ()  # that it concerns, if it is known
    place: str = ""  # " (FILE, line N, in FUNCTION)"
    certain: bool = True  # that it is a fault: random play may also be too weak to be paid

    @property
    def sentence(self) -> str:
        """The seat, the cause, and where it is in the user's code."""
        return f"{of_seats(self.seats)}{self.cause}{self.place}"


class Found(Exception):
    """A fault was found."""

    def __init__(
        self, cause: str, seats: tuple[int, ...] = (), place: str = "", *, certain: bool = True
    ) -> None:
        super().__init__(cause)
        self.fault = Fault(cause, seats, place, certain)


def shown(value: Any) -> str:
    """Return a value as it is shown in a message."""
    text = " ".join(repr(value).split())
    return text if len(text) <= MOST_SHOWN else text[: MOST_SHOWN - 3] + "..."


def fault_of_number(value: Any) -> str:
    """Return what is wrong with a reward, which must be one finite number; "" if nothing is."""
    if isinstance(value, np.ndarray) and value.size == 1:
        value = value.item()
    if isinstance(value, bool | np.bool_ | int | np.integer):
        return ""
    if not isinstance(value, float | np.floating):
        return f"{shown(value)}, expected a number"
    return "" if np.isfinite(value) else f"{float(value)}, expected a finite number"


def fault_of_observation(space: Space[Any], seen: Any, *, bounded: bool = True) -> str:
    """Return what is wrong with what an env of a library's kind shows; "" if it fits `space`.

    Numbers may be of another width than in the space. `bounded`: they must also be within its bounds.
    """
    if isinstance(space, Dict):
        if not isinstance(seen, dict) or set(seen) != set(space.spaces):
            found = f"a dict of {sorted(seen)}" if isinstance(seen, dict) else shown(seen)
            return f"is {found}, expected a dict of {sorted(space.spaces)}"
        for name, part in space.spaces.items():
            found = fault_of_observation(part, seen[name], bounded=bounded)
            if found:
                return f"'{name}' {found}"
        return ""
    if not isinstance(space, Box):
        return "" if not bounded or space.contains(seen) else f"is {shown(seen)}, expected one of {space}"
    array = np.asarray(seen)
    if array.dtype == object or (not np.issubdtype(array.dtype, np.number) and array.dtype != np.bool_):
        return f"is {shown(seen)}, expected numbers shaped {space.shape}"
    if array.shape != space.shape:
        return f"is shaped {array.shape}, expected {space.shape}"
    if np.issubdtype(space.dtype, np.integer) and np.issubdtype(array.dtype, np.inexact):
        return f"is {array.dtype}, expected {space.dtype}"
    return fault_of_values(space, array, bounded=bounded)


def fault_of_values(space: Box, array: Any, *, bounded: bool = True) -> str:
    """Return what is wrong with numbers of the right shape; "" if they are finite and within bounds."""
    if np.isnan(array).any():
        return "holds nan, expected numbers"
    if not bounded:
        return ""
    numbers = array.astype(np.float64)
    low, high = space.low.astype(np.float64), space.high.astype(np.float64)
    with np.errstate(invalid="ignore"):
        outside = (numbers < low - SLACK * np.maximum(1.0, np.abs(low))) | (
            numbers > high + SLACK * np.maximum(1.0, np.abs(high))
        )
    if not outside.any():
        return ""
    low, high = (
        np.broadcast_to(low, numbers.shape)[outside][0],
        np.broadcast_to(high, numbers.shape)[outside][0],
    )
    return f"holds {numbers[outside][0]:g}, outside of its space, which goes from {low:g} to {high:g}"
