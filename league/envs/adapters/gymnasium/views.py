"""View of a seat: the spaces of an env's agent, and where its mask of legal actions is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from gymnasium.spaces import Dict, Space

from league.envs.adapters.gymnasium.spaces import allowed, shown, taken
from league.envs.spaces import ActionSpec
from storage.arrays import Bools

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
