"""Experience on its way from runner to learner: `Episodes`, many sequences as one set of arrays.

An episode is one learning seat's consecutive steps in one match, or in a fragment of one. Thousands leave
a runner at once, so they travel as flat arrays with offsets; `episodes[i]` is the record of one of them.

Where a match `goes_on`, the episode's bootstrap is the first observation of the seat's next episode in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import numpy.typing as npt

from storage.arrays import Bools, Floats32, Indices

OF_STEPS = ("observation", "mask", "action", "log_prob", "reward")  # columns with a row for each step


@dataclass(frozen=True, slots=True)
class Episode:
    """T consecutive steps of one seat: a whole match, or a fragment of one.

    `bootstrap` is the next observation, if the match was not terminated.
    """

    match_id: int
    seat: int
    version: int
    observation: npt.NDArray  # [T, *shape], as the network saw it
    mask: Bools  # [T, mask_width]
    action: npt.NDArray  # [T, *action.shape], as it was drawn
    log_prob: Floats32  # [T], under the weights that acted
    reward: Floats32  # [T], sum of rewards after this action until the next
    bootstrap: npt.NDArray | None  # [*shape], or None when the match terminated
    memory: Floats32 | None = None  # [S] of the network before the first step; None: empty


@dataclass(frozen=True, slots=True)
class Episodes:
    """E episodes of one player, N steps in all, concatenated episode by episode."""

    player: str
    offset: Indices  # [E + 1]; episode e is steps offset[e] : offset[e + 1]
    match_id: Indices  # [E]
    seat: npt.NDArray[np.int8]  # [E]
    version: Indices  # [E], number of updates that made the weights that acted
    terminated: Bools  # [E]; False: truncated, value continues at `bootstrap`
    observation: npt.NDArray  # [N, *shape], as the network saw it
    mask: Bools  # [N, mask_width]
    action: npt.NDArray  # [N, *action.shape], as it was drawn: before tanh or clipping
    log_prob: Floats32  # [N]
    reward: Floats32  # [N]
    bootstrap: npt.NDArray  # [K, *shape], one for each episode that was not terminated, in order
    # [E, S] of the network before each episode's first step, as it acted; None: all empty, whole matches
    memory: Floats32 | None = None
    # [E], True: not terminated, and a later episode of this match and seat begins at `bootstrap`; None: none
    goes_on: Bools | None = None
    # [E], True: recorded at consecutive decisions of the seat, none of which is missing; None: not known
    unbroken: Bools | None = None

    def __len__(self) -> int:
        return len(self.match_id)

    @property
    def num_steps(self) -> int:
        """N, the number of steps of all episodes."""
        return len(self.action)

    def arrays(self) -> dict[str, npt.NDArray]:
        """Return the arrays by name, none of them `None`; `Episodes(player, **arrays)` is the inverse."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: array for name, array in found.items() if isinstance(array, np.ndarray)}

    def __getitem__(self, e: int) -> Episode:
        if not 0 <= e < len(self):
            raise IndexError(f"episode {e} of {len(self)}")
        steps = slice(int(self.offset[e]), int(self.offset[e + 1]))
        bootstrap = None if self.terminated[e] else self.bootstrap[np.count_nonzero(~self.terminated[:e])]
        return Episode(
            match_id=int(self.match_id[e]),
            seat=int(self.seat[e]),
            version=int(self.version[e]),
            **{name: getattr(self, name)[steps] for name in OF_STEPS},
            bootstrap=bootstrap,
            memory=None if self.memory is None else self.memory[e],
        )

    def take(self, indices: Indices) -> Episodes:
        """Return copies of these episodes, in this order."""
        length = np.diff(self.offset)[indices]
        offset = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
        steps = ranges(self.offset[:-1][indices], length)
        cut = ~self.terminated
        bootstraps = (np.cumsum(cut) - 1)[indices][cut[indices]]
        rows = dict.fromkeys(OF_STEPS, steps) | {"bootstrap": bootstraps}
        columns = self.arrays()
        del columns["offset"]
        taken = {name: column[rows.get(name, indices)] for name, column in columns.items()}
        return Episodes(self.player, offset, **taken)

    @staticmethod
    def concatenate(parts: Sequence[Episodes]) -> Episodes:
        """Return all episodes of `parts` (one player, at least one part) as one."""
        if len(parts) == 1:
            return parts[0]
        lengths = np.concatenate([np.diff(p.offset) for p in parts])
        offset = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        columns = (field.name for field in fields(Episodes) if field.name not in ("player", "offset"))
        return Episodes(parts[0].player, offset, **{name: _joined(parts, name) for name in columns})


def ranges(start: Indices, length: Indices) -> Indices:
    """Return the numbers of all ranges, one behind the other: `length[i]` of them from `start[i]` on."""
    return np.repeat(start - (np.cumsum(length) - length), length) + np.arange(length.sum())


def _joined(parts: Sequence[Episodes], name: str) -> Any:
    """Return column `name` of all `parts` as one: zeros where a part has none, `None` if all have none."""
    columns = [getattr(part, name) for part in parts]
    known = next((column for column in columns if column is not None), None)
    if known is None:
        return None
    empty = ((len(part), *known.shape[1:]) for part in parts)
    return np.concatenate(
        [
            np.zeros(shape, known.dtype) if column is None else column
            for shape, column in zip(empty, columns, strict=True)
        ]
    )
