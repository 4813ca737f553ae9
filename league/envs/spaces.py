"""Spaces of observations and actions as plain records, which travel with every snapshot as JSON.

An observation is one array on its way from the game to the learner, whatever its space: the parts
of a dict space are packed side by side in one row, and separated again inside the network.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete

# limits of a spec: a foreign file must not exhaust the memory of this process
DTYPES = tuple(np.dtype(code).name for code in ("?", *"bhiqBHIQ", *"efd"))
MOST_NUMBERS = 2**24  # in one observation
MOST_CHOICES = 2**20  # in one action
MOST_AXES = 8
LARGEST_BOUND = float(np.finfo(np.float32).max)


@dataclass(frozen=True, slots=True)
class SpacePart:
    """One entry of a dict observation."""

    name: str
    shape: tuple[int, ...]

    @property
    def size(self) -> int:
        """Number of entries."""
        return math.prod(self.shape)


@dataclass(frozen=True, slots=True)
class ObservationSpec:
    """The array of one observation. With `parts` it is one row that holds them side by side."""

    shape: tuple[int, ...]
    dtype: str
    parts: tuple[SpacePart, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible or absurdly large array."""
        if self.dtype not in DTYPES:
            raise ValueError(f"observation dtype '{self.dtype}', expected one of {', '.join(DTYPES)}")
        if len(self.shape) > MOST_AXES or min(self.shape, default=1) < 1 or self.size > MOST_NUMBERS:
            raise ValueError(
                f"observation shape {_short(self.shape)}, expected at most {MOST_AXES} axes "
                f"and 1 to {MOST_NUMBERS} numbers"
            )
        if not self.parts:
            return
        names = [part.name for part in self.parts]
        if len(set(names)) < len(names):
            raise ValueError(f"parts of an observation {_short(names)}, expected different names")
        if any(len(part.shape) > MOST_AXES or min(part.shape, default=1) < 0 for part in self.parts):
            raise ValueError(f"parts of an observation {_short(self.parts)}, expected shapes")
        if self.shape != (sum(part.size for part in self.parts),):
            raise ValueError(
                f"observation shape {_short(self.shape)}, expected one row as long as its parts together "
                f"({sum(part.size for part in self.parts)})"
            )

    @property
    def size(self) -> int:
        """Number of entries of one observation."""
        return math.prod(self.shape)

    @staticmethod
    def from_space(space: gymnasium.Space[Any]) -> ObservationSpec:
        """Return the spec of `space`. Raise ValueError unless it is a Box or a Dict of Boxes."""
        if isinstance(space, Box):
            return ObservationSpec(tuple(space.shape), str(space.dtype))
        if isinstance(space, Dict) and all(isinstance(part, Box) for part in space.spaces.values()):
            parts = tuple(SpacePart(name, tuple(part.shape or ())) for name, part in space.spaces.items())
            dtype = np.result_type(*(part.dtype for part in space.spaces.values()))
            return ObservationSpec((sum(part.size for part in parts),), str(dtype), parts)
        raise ValueError(f"observation space {space}, expected a Box or a Dict of Boxes")

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> ObservationSpec:
        """Read a spec. Raise ValueError, TypeError or KeyError if `fields` describe none."""
        parts = tuple(SpacePart(str(p["name"]), _whole(p["shape"])) for p in fields["parts"])
        return ObservationSpec(_whole(fields["shape"]), str(fields["dtype"]), parts)


def pack(parts: Mapping[str, npt.NDArray], spec: ObservationSpec) -> npt.NDArray:
    """Return the parts of n dict observations, [n, *shape] each, as rows [n, spec.size]."""
    rows = [np.reshape(parts[part.name], (-1, part.size)) for part in spec.parts]
    return np.concatenate(rows, axis=1, dtype=spec.dtype, casting="same_kind")


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One action: a choice, several choices at once, or d real numbers.

    discrete         sizes = (A,); an int64; masks are [n, A]
    multi_discrete   sizes = (A_1, ..., A_k); int64 [k]; masks are side by side, [n, A_1 + ... + A_k]
    continuous       low and high, d finite bounds each; float32 [d]; masks are [n, 0]
    """

    kind: Literal["discrete", "multi_discrete", "continuous"]
    sizes: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible or absurdly large action."""
        if self.kind == "continuous":
            bounds = list(zip(self.low, self.high, strict=False))
            if len(self.low) != len(self.high) or not 1 <= len(bounds) <= MOST_CHOICES or self.sizes:
                raise ValueError("continuous actions: expected as many lower as upper bounds, and no sizes")
            for low, high in bounds:
                if not (math.isfinite(high - low) and low < high):
                    raise ValueError(
                        f"continuous actions: bounds {low} and {high}, expected finite low < high"
                    )
            return
        if self.kind not in ("discrete", "multi_discrete"):
            raise ValueError(f"kind of action '{self.kind}', expected discrete, multi_discrete or continuous")
        if self.low or self.high:
            raise ValueError(f"{self.kind} actions: expected sizes, and no bounds")
        if not self.sizes or (self.kind == "discrete" and len(self.sizes) != 1):
            raise ValueError(f"{self.kind} actions: {len(self.sizes)} sizes, expected 1 (discrete) or more")
        if min(self.sizes) < 1 or sum(self.sizes) > MOST_CHOICES:
            raise ValueError(
                f"{self.kind} actions: sizes {_short(self.sizes)}, expected 1 to {MOST_CHOICES} choices"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return () if self.kind == "discrete" else (len(self.sizes) or len(self.low),)

    @property
    def dtype(self) -> npt.DTypeLike:
        """Type of actions: float32 for continuous ones, else int64."""
        return np.float32 if self.kind == "continuous" else np.int64

    @property
    def mask_width(self) -> int:
        """Number of columns of a mask; 0 for continuous actions."""
        return sum(self.sizes)

    def bounds(self) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
        """Return the lowest and highest continuous action [d], rounded to stay within the game's bounds."""
        low, high = (np.array(bound, dtype=np.float32) for bound in (self.low, self.high))
        return (
            np.where(low < np.array(self.low), np.nextafter(low, np.float32(np.inf)), low),
            np.where(high > np.array(self.high), np.nextafter(high, np.float32(-np.inf)), high),
        )

    @staticmethod
    def from_space(space: gymnasium.Space[Any]) -> ActionSpec:
        """Return the spec of `space`.

        Raise ValueError unless it is Discrete, MultiDiscrete or a flat, bounded Box of floats.
        """
        if isinstance(space, Discrete) and int(space.start) == 0:
            return ActionSpec("discrete", (int(space.n),))
        if isinstance(space, MultiDiscrete) and space.nvec.ndim == 1 and not np.any(space.start):
            return ActionSpec("multi_discrete", tuple(int(n) for n in space.nvec))
        floats = isinstance(space, Box) and np.issubdtype(space.dtype, np.floating)
        if isinstance(space, Box) and floats and len(space.shape) == 1 and space.is_bounded("both"):
            low, high = (tuple(float(x) for x in bound) for bound in (space.low, space.high))
            return ActionSpec("continuous", low=low, high=high)
        raise ValueError(
            f"action space {space}, expected Discrete or MultiDiscrete from 0, "
            "or a flat Box of floats within bounds"
        )

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> ActionSpec:
        """Read a spec. Raise ValueError, TypeError or KeyError if `fields` describe none."""
        low, high = (tuple(_real(x) for x in fields[bound]) for bound in ("low", "high"))
        return ActionSpec(fields["kind"], _whole(fields["sizes"]), low, high)


def _whole(numbers: Any) -> tuple[int, ...]:
    if not isinstance(numbers, list | tuple) or not all(type(n) is int for n in numbers):
        raise ValueError(f"{_short(numbers)}, expected whole numbers")
    return tuple(numbers)


def _real(number: Any) -> float:
    if type(number) not in (int, float) or abs(number) > LARGEST_BOUND:
        raise ValueError(f"{_short(number)}, expected a finite number")
    return float(number)


def _short(found: object) -> str:
    text = repr(found)
    return text if len(text) <= 80 else f"{text[:80]}..."
