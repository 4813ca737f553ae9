"""Spaces of observations and actions as plain records, which travel with every snapshot as JSON.

An observation is one array on its way from the game to the learner, whatever its space: the parts
of a dict space are packed side by side in one row, and separated again inside the network.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Dict, Discrete, MultiDiscrete, Tuple

from storage.arrays import Bools, Floats, Floats32

# limits of a spec: a foreign file must not exhaust the memory of this process
DTYPES = tuple(np.dtype(code).name for code in ("?", *"bhiqBHIQ", *"efd"))
MOST_NUMBERS = 2**24  # in one observation
MOST_CHOICES = 2**20  # in one action
MOST_AXES = 8
MOST_SHOWN = 6  # sizes of an action in a message
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
                f"and 1 to {MOST_NUMBERS} numbers; show less of the game, such as smaller frames"
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

    def __str__(self) -> str:
        """Return shape and type, or those of the parts."""
        parts = ", ".join(f"{part.name} {list(part.shape)}" for part in self.parts)
        return f"{{{parts}}} {self.dtype}" if parts else f"{list(self.shape)} {self.dtype}"

    @property
    def size(self) -> int:
        """Number of entries of one observation."""
        return math.prod(self.shape)

    def fits(self, shown: ObservationSpec) -> bool:
        """Return whether a policy for these observations can be shown those of `shown`.

        They are the same numbers in the same order; one of the two may be a flat row, as boards once were.
        """
        if self.shape != shown.shape and 1 not in (len(self.shape), len(shown.shape)):
            return False
        return (self.size, self.dtype, self.parts) == (shown.size, shown.dtype, shown.parts)

    @staticmethod
    def from_space(space: gymnasium.Space[Any]) -> ObservationSpec:
        """Return the spec of `space`. Raise ValueError unless it is a Box or a Dict of Boxes."""
        if isinstance(space, Box):
            return ObservationSpec(tuple(space.shape), str(space.dtype))
        inside = space.spaces if isinstance(space, Dict) else {}
        if inside and all(isinstance(part, Box) for part in inside.values()):
            parts = tuple(SpacePart(name, tuple(part.shape or ())) for name, part in inside.items())
            dtype = np.result_type(*(part.dtype for part in inside.values()))
            return ObservationSpec((sum(part.size for part in parts),), str(dtype), parts)
        raise ValueError(
            f"observation space {space}, expected a Box or a Dict of Boxes; show arrays of a fixed size"
        )

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> ObservationSpec:
        """Read a spec. Raise ValueError, TypeError or KeyError if `fields` describe none."""
        parts = tuple(SpacePart(str(p["name"]), _whole(p["shape"])) for p in fields["parts"])
        return ObservationSpec(_whole(fields["shape"]), str(fields["dtype"]), parts)


def pack(parts: Mapping[str, npt.NDArray], spec: ObservationSpec) -> npt.NDArray:
    """Return the parts of n dict observations, [n, *shape] each, as rows [n, spec.size]."""
    rows = [np.reshape(parts[part.name], (-1, part.size)) for part in spec.parts]
    return np.concatenate(rows, axis=1, dtype=spec.dtype, casting="same_kind")


def leaves(space: gymnasium.Space[Any]) -> list[gymnasium.Space[Any]]:
    """Return the parts of a Tuple or Dict and the parts of those, in order; of another space itself."""
    if not isinstance(space, Dict | Tuple):
        return [space]
    parts = space.spaces.values() if isinstance(space, Dict) else space.spaces
    return [leaf for part in parts for leaf in leaves(part)]


Kind = Literal["discrete", "multi_discrete", "continuous", "joint"]


@dataclass(frozen=True, slots=True)
class ActionSpec:
    """One action: k choices, d real numbers, or both.

    discrete         sizes = (A,); an int64; masks are [n, A]
    multi_discrete   sizes = (A_1, ..., A_k); int64 [k]; masks are side by side, [n, A_1 + ... + A_k]
    continuous       low and high, d bounds each, which may be infinite; float32 [d]; masks are [n, 0]
    joint            both: float32 [k + d], the choices first; masks are those of the choices
    """

    kind: Kind
    sizes: tuple[int, ...] = ()
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError for an impossible or absurdly large action."""
        if self.kind not in _PARTS:
            raise ValueError(f"kind of action '{self.kind}', expected one of {', '.join(_PARTS)}")
        if (bool(self.sizes), bool(self.low)) != _PARTS[self.kind] or len(self.low) != len(self.high):
            raise ValueError(
                f"{self.kind} actions: {len(self.sizes)} choices, {len(self.low)} lower and {len(self.high)} "
                "upper bounds, expected choices, real numbers with both bounds, or both"
            )
        if self.kind == "discrete" and len(self.sizes) != 1:
            raise ValueError(f"discrete actions: {len(self.sizes)} sizes, expected 1")
        if min(self.sizes, default=1) < 1 or sum(self.sizes) + len(self.low) > MOST_CHOICES:
            raise ValueError(
                f"{self.kind} actions: sizes {_short(self.sizes)}, expected 1 to {MOST_CHOICES} choices"
            )
        for low, high in zip(self.low, self.high, strict=True):
            one_sided = low == -math.inf or high == math.inf
            if not (low < high and (one_sided or math.isfinite(high - low))):
                raise ValueError(f"{self.kind} actions: bounds {low} and {high}, expected low < high")

    def __str__(self) -> str:
        """Return the action in words."""
        sizes = ", ".join(map(str, self.sizes[:MOST_SHOWN])) + ", ..." * (len(self.sizes) > MOST_SHOWN)
        chosen = f"one of {sizes}" if self.kind == "discrete" else f"choices of {sizes}"
        numbers = f"{len(self.low)} real number{'' if len(self.low) == 1 else 's'}"
        return " and ".join([chosen] * bool(self.sizes) + [numbers] * bool(self.low))

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one action."""
        return () if self.kind == "discrete" else (len(self.sizes) + len(self.low),)

    @property
    def dtype(self) -> npt.DTypeLike:
        """Type of actions: float32 if there are real numbers, else int64."""
        return np.float32 if self.low else np.int64

    @property
    def mask_width(self) -> int:
        """Number of columns of a mask; 0 for continuous actions."""
        return sum(self.sizes)

    @property
    def width(self) -> int:
        """Number of outputs for one action: a logit for each choice, a mean for each real number."""
        return self.mask_width + len(self.low)

    @property
    def columns(self) -> list[tuple[int, int]]:
        """First and last column (exclusive) of each choice in a mask."""
        return list(itertools.pairwise(itertools.accumulate(self.sizes, initial=0)))

    def bounds(self) -> tuple[Floats32, Floats32]:
        """Return the lowest and highest real numbers [d], rounded to stay within the game's bounds."""
        low, high = (np.array(bound, dtype=np.float32) for bound in (self.low, self.high))
        return (
            np.where(low < np.array(self.low), np.nextafter(low, np.float32(np.inf)), low),
            np.where(high > np.array(self.high), np.nextafter(high, np.float32(-np.inf)), high),
        )

    def clipped(self, action: npt.NDArray) -> npt.NDArray:
        """Return actions [n, *shape] with their real numbers within the bounds."""
        if not self.low:
            return action
        k = len(self.sizes)
        return np.concatenate([action[:, :k], np.clip(action[:, k:], *self.bounds())], axis=1)

    def joined(self, choices: npt.NDArray, numbers: npt.NDArray) -> npt.NDArray:
        """Return actions [n, *shape] of choices [n, k] and real numbers [n, d]."""
        found = np.concatenate([choices, numbers], axis=1, dtype=self.dtype, casting="unsafe")
        return found.reshape(len(found), *self.shape)

    def numbers_at(self, share: Floats) -> tuple[Floats32, npt.NDArray]:
        """Return real numbers [n, d] for draws `share` [n, d] from 0 to 1, and their log-densities [n].

        They are uniform between two bounds, exponential beyond a single one, logistic without any.
        """
        if not self.low:
            return np.zeros(share.shape, np.float32), np.zeros(len(share))
        low, high = (bound.astype(np.float64) for bound in self.bounds())
        share = share.clip(2.0**-53, 1.0 - 2.0**-53)
        up, down = -np.log1p(-share), -np.log(share)  # of exponential draws, from the one bound or the other
        below, above = np.isfinite(low), np.isfinite(high)
        with np.errstate(invalid="ignore"):
            between, log_width = low + (high - low) * share, np.log(high - low)
            drawn = np.select([below & above, below, above], [between, low + up, high - down], up - down)
        log_density = -np.select([below & above, below, above], [log_width, up, down], up + down)
        return np.clip(drawn.astype(np.float32), *self.bounds()), log_density.sum(axis=1)

    def random(self, mask: Bools, share: Floats) -> npt.NDArray:
        """Return random legal actions [n, *shape] by masks [n, mask_width] and draws [n, width] in [0, 1)."""
        valued = np.where(mask, share[:, : self.mask_width], -1.0)  # legal choices get at least 0
        chosen = [valued[:, start:end].argmax(axis=1) for start, end in self.columns]
        choices = np.stack(chosen, axis=1) if chosen else np.zeros((len(mask), 0), np.int64)
        return self.joined(choices, self.numbers_at(share[:, self.mask_width :])[0])

    @staticmethod
    def from_space(space: gymnasium.Space[Any]) -> ActionSpec:
        """Return the spec of `space`.

        Raise ValueError unless it is Discrete, MultiDiscrete, a flat Box of floats, or a Tuple or Dict of
        these.
        """
        sizes: list[int] = []
        low: list[float] = []
        high: list[float] = []
        for part in leaves(space):
            if isinstance(part, Discrete) and int(part.start) == 0:
                sizes.append(int(part.n))
            elif isinstance(part, MultiDiscrete) and part.nvec.ndim == 1 and not np.any(part.start):
                sizes += part.nvec.tolist()
            elif isinstance(part, Box) and np.issubdtype(part.dtype, np.floating) and len(part.shape) == 1:
                low += part.low.astype(np.float64).tolist()
                high += part.high.astype(np.float64).tolist()
            else:
                raise ValueError(
                    f"action space {part}, expected Discrete or MultiDiscrete from 0, a flat Box of floats, "
                    "or a Tuple or Dict of these"
                )
        kind: Kind = "joint" if sizes and low else "multi_discrete" if sizes else "continuous"
        if isinstance(space, Discrete):
            kind = "discrete"
        return ActionSpec(kind, tuple(sizes), tuple(low), tuple(high))

    def to_json(self) -> dict[str, Any]:
        """Return the spec as JSON values, with `None` where there is no bound."""
        bounds = {
            name: [number if math.isfinite(number) else None for number in getattr(self, name)]
            for name in ("low", "high")
        }
        return {"kind": self.kind, "sizes": list(self.sizes), **bounds}

    @staticmethod
    def from_json(fields: Mapping[str, Any]) -> ActionSpec:
        """Read a spec. Raise ValueError, TypeError or KeyError if `fields` describe none."""
        low = tuple(-math.inf if x is None else _real(x) for x in fields["low"])
        high = tuple(math.inf if x is None else _real(x) for x in fields["high"])
        return ActionSpec(fields["kind"], _whole(fields["sizes"]), low, high)


# of each kind of action, whether it has choices, and whether real numbers
_PARTS: dict[Any, tuple[bool, bool]] = {
    "discrete": (True, False),
    "multi_discrete": (True, False),
    "continuous": (False, True),
    "joint": (True, True),
}


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
