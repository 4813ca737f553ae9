"""Aggregators: make one large block of many small rollouts, so that the learner does not have to.

The driver only sees references and counts of steps. It gathers the references of one player until
they are worth an update, and has them concatenated near their learner: at once if they are few,
else in levels, as a tree, so that no single process takes in everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from league.episode import Episodes
from league.runtime import node_id

FAN_IN = 8  # rollouts that one call concatenates, at most


class Aggregator:
    """Concatenates; as a Ray actor, its arguments and results stay in the object store."""

    def concatenate(self, *parts: Episodes) -> Episodes:
        """All episodes of `parts` (of one player), in the order given."""
        return Episodes.concatenate(parts)

    def node(self) -> str:
        return node_id()


def concatenate_as_tree(parts: Sequence[Any], concatenate: Callable[..., Any], fan_in: int = FAN_IN) -> Any:
    """All `parts` as one, in order, by calls of `concatenate` with at most `fan_in` of them each."""
    while len(parts) > 1:
        parts = [
            group[0] if len(group) == 1 else concatenate(*group)
            for group in (parts[i : i + fan_in] for i in range(0, len(parts), fan_in))
        ]
    return parts[0]


class Gathered(NamedTuple):
    """A block to be concatenated."""

    parts: list[Any]
    steps: int
    since: float  # when its first part came


class Gathering:
    """One player's rollouts that are not yet worth an update, which takes `block_steps`."""

    def __init__(self, block_steps: float) -> None:
        self._block_steps = block_steps
        self._parts: list[Any] = []
        self._steps = 0
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: Any, steps: int, now: float) -> Gathered | None:
        """The block, if it is full with this part; the next one begins empty."""
        if not self._parts:
            self._since = now
        self._parts.append(part)
        self._steps += steps
        return self.take() if self._steps >= self._block_steps else None

    def take(self) -> Gathered:
        """What there is, full or not."""
        gathered = Gathered(self._parts, self._steps, self._since)
        self._parts, self._steps = [], 0
        return gathered
