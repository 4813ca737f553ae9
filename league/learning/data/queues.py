"""Queues in front of the learners, as the driver counts them: depth, waits and losses.

The experience itself waits with the learner; here are only its numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from league.learning.groups.shard_learners import Learned, LearnerStopped, LearnReport


@dataclass(frozen=True, slots=True)
class QueueInfo:
    """State of one player's queue; counts begin when the player is added."""

    depth: int  # blocks of experience submitted and not yet reported: rollouts, or several as one
    bound: int  # depth from which play waits
    gathering: int  # rollouts that wait at the aggregators for a block to fill
    waits: int  # times that play had to wait
    wait_seconds: float
    dropped_rollouts: int
    dropped_steps: int
    age_seconds: float  # of the experience last reported on: from its submission until then
    lag: float  # of the last update, in updates
    stopped: bool  # its learner takes no more experience: what arrives is dropped


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
        self._bound = bound
        self._clock = clock
        self._depth = 0
        self.gathering = 0
        self._waits = 0
        self._wait_seconds = 0.0
        self._full_since: float | None = None
        self._dropped_rollouts = 0
        self._dropped_steps = 0
        self._age_seconds = 0.0
        self._lag = 0.0
        self.stopped = False

    @property
    def depth(self) -> int:
        """Number of blocks in the queue."""
        return self._depth

    def block(self, rollouts: int, steps: int, submitted: float | None = None) -> Block:
        """Add a block and return it; `submitted`: time of its oldest rollout, now if not given."""
        self._depth += 1
        return Block(self.player, rollouts, steps, self._clock() if submitted is None else submitted)

    def settle(self, block: Block, learned: Learned) -> LearnReport | LearnerStopped | None:
        """Remove a block, learned or dropped; return the outcome that is to be reported."""
        outcome = learned.outcome
        self._leave(1)
        if isinstance(outcome, LearnReport):
            self._age_seconds = self._clock() - block.submitted
            self._lag = self._lag if outcome.metrics is None else outcome.metrics["lag"]
        else:  # the block that stopped a learner is lost too
            self.stopped = True
            self.lost(block.rollouts, block.steps)
        return outcome

    def drop(self, block: Block) -> None:
        """Remove a block that is not learned from."""
        self._leave(1)
        self.lost(block.rollouts, block.steps)

    def lost(self, rollouts: int, steps: int) -> None:
        """Count rollouts that no learner uses."""
        self._dropped_rollouts += rollouts
        self._dropped_steps += steps

    def clear(self) -> None:
        """Remove all blocks: they will be learned from, but not reported."""
        self._leave(self._depth)

    def full(self) -> bool:
        """Return whether play must wait; a wait lasts from the first True until there is room again."""
        if self._depth < self._bound:
            return False
        if self._full_since is None:
            self._full_since = self._clock()
            self._waits += 1
        return True

    def _leave(self, blocks: int) -> None:
        self._depth -= blocks
        if self._full_since is not None and self._depth < self._bound:
            self._wait_seconds += self._clock() - self._full_since
            self._full_since = None

    def info(self) -> QueueInfo:
        """Return the state of the queue."""
        waiting = 0.0 if self._full_since is None else self._clock() - self._full_since
        return QueueInfo(
            depth=self._depth,
            bound=self._bound,
            gathering=self.gathering,
            waits=self._waits,
            wait_seconds=self._wait_seconds + waiting,
            dropped_rollouts=self._dropped_rollouts,
            dropped_steps=self._dropped_steps,
            age_seconds=self._age_seconds,
            lag=self._lag,
            stopped=self.stopped,
        )
