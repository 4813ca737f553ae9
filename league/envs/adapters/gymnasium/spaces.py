"""Spaces of gymnasium translated to spaces of a game's seats, and where the mask of legal actions is.

A seat sees a Box or a Dict of Boxes, as float32 (int8 and uint8 stay as they are); other spaces are
flattened by gymnasium. Actions count from 0 and are one row: of a Tuple or Dict first its choices, then its
real numbers. Masks are read as `sample(mask)` of the env's space takes them, or as one flat row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import (
    Box,
    Dict,
    Discrete,
    MultiBinary,
    MultiDiscrete,
    Space,
    Tuple,
    flatten,
    flatten_space,
)

from league.envs.spaces import MOST_CHOICES, ActionSpec, leaves
from storage.arrays import Bools

Act = Callable[[npt.NDArray], Any]


def shown(space: Space[Any]) -> Space[Any]:
    """Return the space of a seat that is shown observations of `space`."""
    if isinstance(space, Dict):
        return Dict({name: _box(part) for name, part in space.spaces.items()})
    box = _box(space)
    if box.shape == ():  # one number is a row of one
        return Box(box.low.reshape(1), box.high.reshape(1), dtype=box.dtype.type)
    return box


def numbers(space: Space[Any], observation: Any) -> dict[str, Any]:
    """Return an observation of `space` in the form of `shown(space)`: by part, or under "" without parts."""
    if isinstance(space, Box):
        return {"": observation}
    if isinstance(space, Dict):
        return {name: _flat(part, observation[name]) for name, part in space.spaces.items()}
    return {"": flatten(space, observation)}


def paid(reward: Any) -> float:
    """Return a reward of an env as a number; some envs give an array of one."""
    return float(reward.item() if isinstance(reward, np.ndarray) else reward)


def taken(space: Space[Any]) -> tuple[Space[Any], Act]:
    """Return the action space of a seat, and a function from its actions to those of the env's `space`."""
    if isinstance(space, Dict | Tuple):
        parts = [taken(leaf) for leaf in leaves(space)]
        specs, acts = [ActionSpec.from_space(own) for own, _ in parts], [act for _, act in parts]
        return Tuple([own for own, _ in parts]), lambda row: _built(space, _split(specs, acts, row))
    if isinstance(space, Discrete):
        start = int(space.start)
        return Discrete(int(space.n)), lambda action: int(action) + start
    if (multi := _multi(space)) is not None:
        kind, first = space.dtype, multi.start

        def counted(action: npt.NDArray) -> npt.NDArray:
            return (action.reshape(first.shape).astype(first.dtype) + first).astype(kind)

        return MultiDiscrete(multi.nvec.ravel()), counted
    if isinstance(space, Box) and np.issubdtype(space.dtype, np.floating):
        box = space

        def bounded(action: npt.NDArray) -> npt.NDArray:  # a bound need not be a float32
            return np.clip(action.reshape(box.shape).astype(box.dtype), box.low, box.high)

        with np.errstate(over="ignore"):
            low, high = (bound.astype(np.float32).ravel() for bound in (space.low, space.high))
        return Box(low, high, dtype=np.float32), bounded
    return space, lambda action: action  # the game refuses it with a message that names it


def _multi(space: Space[Any]) -> MultiDiscrete | None:
    """Return a space of whole numbers as a MultiDiscrete; `None` for others, and for too many choices."""
    if isinstance(space, MultiDiscrete):
        return space
    if isinstance(space, MultiBinary):
        return MultiDiscrete(np.full(space.shape, 2))
    if not isinstance(space, Box) or np.issubdtype(space.dtype, np.floating):
        return None
    low, high = space.low.astype(object), space.high.astype(object)  # Python's numbers do not overflow
    if not space.is_bounded("both") or np.sum(sizes := high - low + 1) > MOST_CHOICES:
        return None
    return MultiDiscrete(sizes.astype(np.int64), start=low.astype(np.int64))


def _split(specs: Sequence[ActionSpec], acts: Sequence[Act], row: npt.NDArray) -> Iterator[Any]:
    """Yield the action of each part of a space, from a row of its choices and its real numbers."""
    choice, number = 0, sum(len(spec.sizes) for spec in specs)
    for spec, act in zip(specs, acts, strict=True):
        ends = choice + len(spec.sizes), number + len(spec.low)
        own = row[choice : ends[0]].astype(np.int64) if spec.sizes else row[number : ends[1]]
        yield act(own if spec.shape else own[0])
        choice, number = ends


def _built(space: Space[Any], actions: Iterator[Any]) -> Any:
    """Return the actions of the parts of a Tuple or Dict in its form."""
    if isinstance(space, Dict):
        return {name: _built(part, actions) for name, part in space.spaces.items()}
    if isinstance(space, Tuple):
        return tuple(_built(part, actions) for part in space.spaces)
    return next(actions)


def allowed(space: Space[Any], mask: Any, spec: ActionSpec) -> Bools:
    """Return the mask of an env's action space as one row [mask_width]: all choices side by side.

    `mask` is what `space.sample(mask)` takes, in which a part may be `None`, or one flat row; `spec`: of the
    seat. As in `sample`, a choice that nothing is legal of is its first one, unless nothing is legal at all.
    Raise ValueError.
    """
    row = _row(space, mask)
    if len(spec.sizes) > 1 and row.any():
        for start, end in spec.columns:
            row[start] |= not row[start:end].any()
    return row


def _row(space: Space[Any], mask: Any) -> Bools:
    """Return the mask of a space, or of a part of one, as a row. Raise ValueError."""
    if mask is None:
        return np.ones(_width(space), dtype=np.bool_)
    several = isinstance(mask, tuple | list)
    if isinstance(space, Dict) and isinstance(mask, Mapping) and set(mask) <= set(space.spaces):
        return np.concatenate([_row(part, mask.get(name)) for name, part in space.spaces.items()])
    if isinstance(space, Tuple) and several and len(mask) == len(space.spaces):
        return np.concatenate([_row(part, own) for part, own in zip(space.spaces, mask, strict=True)])
    if several and (multi := _multi(space)) is not None:
        rows = mask
        for _ in multi.shape[1:]:
            rows = [row for part in rows for row in part]
        if [np.size(row) for row in rows] == multi.nvec.ravel().tolist():
            return np.concatenate(rows) != 0
    try:
        found = np.asarray(mask)
    except ValueError:  # rows of different lengths
        found = np.asarray(None)
    if isinstance(space, MultiBinary) and found.shape == space.shape:  # 2: both are legal
        return np.stack([found != 1, found != 0], axis=-1).ravel()
    if found.dtype == object or found.size != _width(space):
        shape = f"a {type(mask).__name__}" if found.dtype == object else f"shaped {found.shape}"
        one = f"{(_width(space),)}"
        expected = one if isinstance(space, Discrete) else f"what sample(mask) of {space} takes, or {one}"
        raise ValueError(f"its mask is {shape}, expected {expected}; env.options: {{mask: none}} ignores it")
    return found.ravel() != 0


def _width(space: Space[Any]) -> int:
    """Return the number of columns of a mask of a space, all choices side by side."""
    if isinstance(space, Dict | Tuple):
        return sum(map(_width, leaves(space)))
    multi = _multi(space)
    return int(space.n) if isinstance(space, Discrete) else 0 if multi is None else int(multi.nvec.sum())


def _flat(space: Space[Any], observation: Any) -> Any:
    return observation if isinstance(space, Box) else flatten(space, observation)


def _box(space: Space[Any]) -> Any:
    flat = space if isinstance(space, Box) else flatten_space(space)
    if not isinstance(flat, Box) or flat.dtype in (np.int8, np.uint8):
        return flat  # the game refuses other spaces
    with np.errstate(over="ignore"):  # bounds beyond float32 become infinite
        return Box(flat.low.astype(np.float32), flat.high.astype(np.float32), dtype=np.float32)


MASK = "action_mask"

MaskSource = Literal["observation", "info", "auto", "none"]


@dataclass(frozen=True, slots=True)
class SeatView:
    """The spaces of one agent, and their translation for its seat."""

    agent: Any
    sees: Space[Any]  # the observation of the env without the mask
    inside: str | None  # the only other entry of a dict observation with a mask
    shows: Space[Any]  # the same as a Box, or a Dict of Boxes
    acts: Space[Any]  # of the env
    takes: Space[Any]
    act: Callable[[Any], Any]  # translates an action for the env
    mask: MaskSource  # auto: in `info`, if present

    def mask_in(self, observation: Any, info: Mapping[str, Any]) -> Any:
        """Return the mask as the env gives it; `None` if it gives none. Raise ValueError for one missing."""
        if self.mask == "observation":
            return observation[MASK]
        mask = None if self.mask == "none" else info.get(MASK)
        if mask is None and self.mask == "info":
            raise ValueError(f"mask is 'info', but the info of a seat is {info}, without '{MASK}'")
        return mask

    def allow(self, mask: Any, row: Bools, spec: ActionSpec) -> bool:
        """Write `mask` into the `row` of the seat [mask_width]; return whether anything is legal.

        Raise ValueError for a mask of another form.
        """
        if not len(row):
            return True
        plain = len(spec.sizes) == 1 and isinstance(mask, np.ndarray) and mask.shape == row.shape
        row[:] = True if mask is None else mask if plain else allowed(self.acts, mask, spec)
        return bool(np.count_nonzero(row))


def view_seat(
    agent: Any,
    sees: Space[Any],
    takes: Space[Any],
    mask: MaskSource,
    show: Callable[[Space[Any]], Space[Any]] = shown,
) -> SeatView:
    """Return the view of one agent. `mask`: place of the mask; "auto": the observation, or else `info`.

    Raise ValueError if the mask must be in the observation but is not.
    """
    inside = None
    if mask in ("auto", "observation") and isinstance(sees, Dict) and MASK in sees.spaces:
        mask = "observation"
        rest = {name: part for name, part in sees.spaces.items() if name != MASK}
        inside = next(iter(rest)) if len(rest) == 1 else None
        sees = Dict(rest) if inside is None else rest[inside]
    elif mask == "observation":
        raise ValueError(f"mask is 'observation', but agent {agent!r} sees {sees}, without '{MASK}'")
    own, act = taken(takes)
    return SeatView(agent, sees, inside, show(sees), takes, own, act, mask)
