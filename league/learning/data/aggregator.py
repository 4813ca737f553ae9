"""Aggregators: make one large block of many small rollouts, so that the learner does not have to.

The driver only sees references and counts of steps. It gathers the references of one player until
they are worth an update. Aggregators near the learner then concatenate them: at once if they are few,
else in levels, as a tree, so that no single process takes in everything at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from league.cluster.references import Inside, opened
from league.episode import Episodes

FAN_IN = 8  # rollouts that one call concatenates, at most


class Aggregator:
    """Concatenator of episodes; as a Ray actor, its arguments and results stay in the object store."""

    def concatenate(self, *parts: Episodes | Inside) -> Episodes:
        """Return all episodes of `parts` (of one player), in the order given."""
        return Episodes.concatenate(opened(parts))


def concatenate_as_tree(parts: Sequence[Any], concatenate: Callable[..., Any], fan_in: int = FAN_IN) -> Any:
    """Return all `parts` as one, in order; each call of `concatenate` takes at most `fan_in` of them."""
    while len(parts) > 1:
        parts = [
            group[0] if len(group) == 1 else concatenate(*group)
            for group in (parts[i : i + fan_in] for i in range(0, len(parts), fan_in))
        ]
    return parts[0]


class Gathered(NamedTuple):
    """Rollouts that are to be concatenated to a block."""

    parts: list[Any]
    steps: int
    since: float  # when its first part came


class Gathering:
    """One player's rollouts until they are worth an update, which takes `block_steps` steps."""

    def __init__(self, block_steps: float) -> None:
        self._block_steps = block_steps
        self._parts: list[Any] = []
        self._steps = 0
        self._since = 0.0

    def __len__(self) -> int:
        return len(self._parts)

    def add(self, part: Any, steps: int, now: float) -> Gathered | None:
        """Add a rollout; return the block if it is full now, and begin an empty one."""
        if not self._parts:
            self._since = now
        self._parts.append(part)
        self._steps += steps
        return self.take() if self._steps >= self._block_steps else None

    def take(self) -> Gathered:
        """Return the rollouts so far, full or not, and begin an empty block."""
        gathered = Gathered(self._parts, self._steps, self._since)
        self._parts, self._steps = [], 0
        return gathered
