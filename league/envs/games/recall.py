"""Recall: a game for one seat that needs memory. A cue is shown once, and asked for much later."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from gymnasium.spaces import Box, Discrete

from league.envs import chance
from league.envs.base import BatchedGame
from storage.arrays import Bools, Indices


class Recall(BatchedGame):
    """Action: a cue. The last of `length` decisions gives +1 if it names the cue of the first step, else -1.
    The other decisions have no effect.

    Observation, int8: the cue one-hot at the first step, else zeros (`cues`), and whether the answer
    is due now (1). All steps between look the same, so a seat cannot count them without memory.
    """

    id: ClassVar[str] = "recall"
    num_seats = 1
    renders = True

    def __init__(
        self, num_slots: int, *, cues: int = 4, length: int = 20, step_limit: int | None = None
    ) -> None:
        for name, found, least in (("cues", cues, 2), ("length", length, 1)):
            if not isinstance(found, int) or found < least:
                raise ValueError(f"{self.id}: {name} is {found!r}, expected a whole number, at least {least}")
        self.observation_spaces = (Box(0, 1, (cues + 1,), np.int8),)
        self.action_spaces = (Discrete(cues),)
        super().__init__(num_slots, step_limit=step_limit)
        self.cues = cues
        self.length = length
        self._shown = np.vstack([np.eye(cues, cues + 1), np.zeros(cues + 1)]).astype(np.int8)  # -1: nothing
        self._cue = np.zeros(num_slots, dtype=np.int64)

    def _reset(self, slots: Indices, seeds: Indices) -> None:
        self._cue[slots] = chance.below(seeds, 0, self.cues)

    def _turn(self) -> tuple[Indices, Indices]:
        slot = np.flatnonzero(self.active)
        return slot, np.zeros(len(slot), dtype=np.int64)

    def observe(self, slot: Indices, seat: Indices) -> npt.NDArray:
        step = self.env_steps[slot]
        observation = self._shown[np.where(step == 0, self._cue[slot], -1)]
        observation[:, -1] = step == self.length - 1
        return observation

    def legal(self, slot: Indices, seat: Indices) -> Bools:
        return np.ones((len(slot), self.cues), dtype=np.bool_)

    def _play(self, slot: Indices, seat: Indices, action: npt.NDArray) -> None:
        answered = self.env_steps[slot] == self.length  # this action is counted already
        right = action == self._cue[slot]
        self._rewards[slot, 0] = np.where(answered, np.where(right, 1.0, -1.0), 0.0)
        self._over[slot] = answered

    def render(self, slot: int, seat: int | None = None) -> str:
        """Return what the seat sees; for `None` also the cue and the number of steps."""
        step, cue = int(self.env_steps[slot]), f"cue {self._cue[slot]}"
        seen = [cue] if step == 0 else []
        seen += ["which cue was it?"] if step == self.length - 1 else []
        if seat is None:
            return f"{step} of {self.length} steps taken, {cue}: {', '.join(seen) or '-'}"
        return ", ".join(seen) or "-"

    def action_name(self, slot: int, seat: int, action: Any) -> str:
        """Return a name such as "cue 2"."""
        return f"cue {action}"
