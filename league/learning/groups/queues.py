"""Experience on its way to the learners: queues as the driver counts them, and aggregators.

The experience itself waits with the learner; here are only its numbers. Where aggregators make one large
block of many small rollouts, the driver gathers references until they are worth an update. Aggregators near
the learner then concatenate them: at once if they are few, else in levels, as a tree, so that no single
process takes in everything at once.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from league.cluster.calls import Inside, opened
from league.episode import Episodes
from league.learning.groups.shard_learners import Learned, LearnerStopped, LearnReport

FAN_IN = 8  # rollouts that one call concatenates, at most


@dataclass(slots=True)
class QueueInfo:
    """State of one player's queue; counts begin when the player is added."""

    bound: int  # depth from which play waits
    depth: int = 0  # blocks of experience submitted and not yet reported: rollouts, or several as one
    gathering: int = 0  # rollouts that wait at the aggregators for a block to fill
    waits: int = 0  # times that play had to wait
    wait_seconds: float = 0.0
    dropped_rollouts: int = 0
    dropped_steps: int = 0
    age_seconds: float = 0.0  # of the experience last reported on: from its submission until then
    lag: float = 0.0  # of the last update, in updates
    stopped: bool = False  # its learner takes no more experience: what arrives is dropped


@dataclass(frozen=True, slots=True)
class Block:
    """Experience under way to a learner."""

    player: str
    rollouts: int
    steps: int
    submitted: float  # on the queue's clock: the oldest of its rollouts


class Queue:
    """Counter of one player's blocks. `clock` returns seconds that only grow."""

    def __init__(self, player: str, bound: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.player = player
        self.state = QueueInfo(bound)  # without a wait that lasts
        self._clock = clock
        self._full_since: float | None = None

    def block(self, rollouts: int, steps: int, submitted: float | None = None) -> Block:
        """Add a block and return it; `submitted`: time of its oldest rollout, now if not given."""
        self.state.depth += 1
        return Block(self.player, rollouts, steps, self._clock() if submitted is None else submitted)

    def settle(self, block: Block, learned: Learned) -> LearnReport | LearnerStopped | None:
        """Remove a block, learned or dropped; return the outcome that is to be reported."""
        outcome = learned.outcome
        self._leave(1)
        if isinstance(outcome, LearnReport):
            self.state.age_seconds = self._clock() - block.submitted
            self.state.lag = self.state.lag if outcome.metrics is None else outcome.metrics["lag"]
        else:  # the block that stopped a learner is lost too
            self.state.stopped = True
            self.lost(block.rollouts, block.steps)
        return outcome

    def drop(self, block: Block) -> None:
        """Remove a block that is not learned from."""
        self._leave(1)
        self.lost(block.rollouts, block.steps)

    def lost(self, rollouts: int, steps: int) -> None:
        """Count rollouts that no learner uses."""
        self.state.dropped_rollouts += rollouts
        self.state.dropped_steps += steps

    def clear(self) -> None:
        """Remove all blocks: they will be learned from, but not reported."""
        self._leave(self.state.depth)

    def full(self) -> bool:
        """Return whether play must wait; a wait lasts from the first True until there is room again."""
        if self.state.depth < self.state.bound:
            return False
        if self._full_since is None:
            self._full_since = self._clock()
            self.state.waits += 1
        return True

    def _leave(self, blocks: int) -> None:
        self.state.depth -= blocks
        if self._full_since is not None and self.state.depth < self.state.bound:
            self.state.wait_seconds += self._clock() - self._full_since
            self._full_since = None

    def info(self) -> QueueInfo:
        """Return a copy of the state of the queue, as it is now."""
        waiting = 0.0 if self._full_since is None else self._clock() - self._full_since
        return replace(self.state, wait_seconds=self.state.wait_seconds + waiting)


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


class GatheredRollouts(NamedTuple):
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

    def add(self, part: Any, steps: int, now: float) -> GatheredRollouts | None:
        """Add a rollout; return the block if it is full now, and begin an empty one."""
        if not self._parts:
            self._since = now
        self._parts.append(part)
        self._steps += steps
        return self.take() if self._steps >= self._block_steps else None

    def take(self) -> GatheredRollouts:
        """Return the rollouts so far, full or not, and begin an empty block."""
        gathered = GatheredRollouts(self._parts, self._steps, self._since)
        self._parts, self._steps = [], 0
        return gathered
