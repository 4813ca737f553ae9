"""Promises that every answer of a game keeps: whose turn it is, what is seen, what is legal, what is paid.

One table for the trial before training, for `league envs check`, and for the guard while matches are played;
and the fault that a broken promise becomes.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Space

from league.envs.spaces import ActionSpec
from league.envs.trial.blame import of_seats
from storage.arrays import Bools

# methods of a game that may break a promise, the likeliest first
TURN, SEEN, PAID = ("_turn", "step"), ("observe", "step"), ("_play", "step")
LEGAL = ("legal", "observe", "step")


class Broken(NamedTuple):
    """A promise that was broken: how, in which seats, and the methods that may be at fault."""

    found: str
    seats: tuple[int, ...] = ()
    methods: tuple[str, ...] = ()


NO_TURN = Broken("a match is active, but no seat has a turn", (), ("_turn", "_play"))


def of_turns(slot: npt.NDArray, seat: npt.NDArray, active: Bools, num_seats: int) -> Broken | None:
    """Return what is wrong with the decisions [n] that are due, by slot and seat; `active` [num_slots]."""
    if slot.shape != seat.shape or slot.ndim != 1 or not _whole(slot) or not _whole(seat):
        found = f"{slot.dtype} {slot.shape} and {seat.dtype} {seat.shape}"
        return Broken(f"`_turn` returned arrays {found}, expected whole numbers [n] and [n]", (), TURN)
    for name, named, most in (("slot", slot, len(active)), ("seat", seat, num_seats)):
        wrong = named[(named < 0) | (named >= most)]
        if len(wrong):
            seats = (int(wrong[0]),) if name == "seat" else ()
            found = f"a decision is due of {name} {wrong[0]}, but there are {most}, from 0"
            return Broken(found, seats, TURN)
    idle = ~active[slot]
    if idle.any():
        found = "a decision is due in a match that is over, or that never began (a slot without a match)"
        return Broken(found, (int(seat[idle][0]),), TURN)
    unordered = np.flatnonzero(np.diff(slot.astype(np.int64) * num_seats + seat) <= 0)
    if len(unordered):
        seats = (int(seat[unordered[0] + 1]),)
        return Broken("decisions are not ordered by slot, then seat, each once", seats, TURN)
    return None


def of_observations(
    space: Space[Any], n: int, seen: Any, seat: int, *, bounded: bool = True
) -> Broken | None:
    """Return what is wrong with what `seat` sees in n matches; `bounded`: numbers must be within bounds."""
    if not isinstance(space, Dict):
        return _of_part(space, n, seen, seat, "", bounded)
    if not isinstance(seen, Mapping) or set(seen) != set(space.spaces):
        found = sorted(seen) if isinstance(seen, Mapping) else type(seen).__name__
        expected = f"expected a dict of {sorted(space.spaces)}"
        return Broken(f"observations are {found}, {expected}", (seat,), SEEN)
    parts = (_of_part(space[name], n, seen[name], seat, f" '{name}'", bounded) for name in space.spaces)
    return next(filter(None, parts), None)


def _of_part(space: Space[Any], n: int, seen: Any, seat: int, name: str, bounded: bool) -> Broken | None:
    found = _of_array(f"observations{name}", seen, (n, *(space.shape or ())), space.dtype)
    if not found and isinstance(space, Box):
        wrong = fault_of_values(space, seen, bounded=bounded)
        found = wrong and f"an observation{name} {wrong}"
    return Broken(found, (seat,), SEEN) if found else None


def of_masks(spec: ActionSpec, n: int, mask: Any, seat: int) -> Broken | None:
    """Return what is wrong with the masks of n decisions of `seat`."""
    found = _of_array("masks", mask, (n, spec.mask_width), np.dtype(np.bool_))
    if not found and not has_choice(spec, mask).all():
        found = "it must act, and its mask has no legal action"
    return Broken(found, (seat,), LEGAL) if found else None


def of_rewards(rewards: npt.NDArray, shape: tuple[int, int]) -> Broken | None:
    """Return what is wrong with the rewards of a step, shaped [num_slots, num_seats]."""
    if rewards.shape != shape:
        return Broken(f"rewards are shaped {rewards.shape}, expected {shape}", (), PAID)
    wrong = np.argwhere(~np.isfinite(rewards))
    if not len(wrong):
        return None
    slot, seat = wrong[0].tolist()
    return Broken(f"its reward is {rewards[slot, seat]}, expected a finite number", (seat,), PAID)


def has_choice(spec: ActionSpec, mask: Bools) -> Bools:
    """Return whether each choice has a legal alternative: [n, number of choices]."""
    if len(spec.sizes) == 1:
        return np.logical_or.reduce(mask, axis=1, keepdims=True)
    first = np.cumsum((0, *spec.sizes[:-1]))
    return np.logical_or.reduceat(mask, first, axis=1) if spec.sizes else np.ones((len(mask), 1), np.bool_)


def _of_array(what: str, found: Any, shape: tuple[int, ...], dtype: Any) -> str:
    if not isinstance(found, np.ndarray):
        return f"{what} are {type(found).__name__}, expected an array of {dtype.name}s"
    if found.shape != shape:
        return f"{what} are shaped {found.shape}, expected {shape}"
    return "" if found.dtype == dtype else f"{what} are {found.dtype}, expected {dtype}"


def _whole(array: npt.NDArray) -> bool:
    return np.issubdtype(array.dtype, np.integer) or not array.size


SLACK = 1e-3  # by which an observation may miss its bounds, relative to a bound above 1
MOST_SHOWN = 60  # characters of a value that is shown


class Found(Exception):
    """What is wrong with a game."""

    def __init__(
        self, cause: str, seats: tuple[int, ...] = (), place: str = "", *, certain: bool = True
    ) -> None:
        """`seats` that it concerns, if they are known; `place`: " (FILE, line N, in FUNCTION)".

        `certain`: that it is a fault; random play may also be too weak to be paid.
        """
        super().__init__(cause)
        self.sentence = f"{of_seats(seats)}{cause}{place}"
        self.certain = certain


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
