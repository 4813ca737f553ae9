"""Learners in this process: for runs without runners, for programs, and for comparison."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

from torch import Tensor

from league.episode import Episodes
from league.learning.groups.learners import Learners
from league.learning.groups.queues import Block, Queue
from league.learning.groups.shard_learners import (
    Counters,
    Learned,
    LearnerStopped,
    LearnReport,
    LiveWeights,
    Recruit,
    Recruits,
    ShardLearners,
    Weights,
)
from league.learning.groups.shards import Shard, move_due, moved, shard_of, with_player, without_player
from league.learning.learner.learner import LearnerState
from league.learning.settings import LearnerSettings

Result = TypeVar("Result")


class Update(NamedTuple):
    """Block of experience whose outcome was not returned yet."""

    block: Block
    made: Callable[[], tuple[Learned, Weights | None]]  # makes it, or waits for the thread that does
    future: Future[tuple[Learned, Weights | None]] | None


class LocalLearners(Learners):
    """All learners in this process, one update at a time: repeatable to the bit.

    Each shard is one GPU, and without GPUs there is one shard: the process. Updates are made by `ready`, or,
    with a `thread` of their own, from when they are submitted.
    """

    def __init__(self, shards: Sequence[Shard], recruits: Recruits, *, thread: bool = False) -> None:
        players = tuple(player for shard in shards for player in shard.players)
        gpus = sum(shard.num_gpus for shard in shards)
        if gpus > len(shards):
            raise ValueError(f"{gpus} GPUs in {len(shards)} shards, expected one in each: one process learns")
        self._plan = list(shards) if gpus else [Shard(players, 0)]
        self._thread = ThreadPoolExecutor(1, "learners") if thread else None
        self._bound = recruits.shared.max_backlog
        self._updates: deque[Update] = deque()
        self._recruits: dict[str, Recruit] = {}
        self._queues: dict[str, Queue] = {}
        self._live: dict[str, LiveWeights] = {}
        self._retired: dict[str, Counters] = {}
        self._arrived: dict[str, LearnerState] = {}  # states that were asked for
        try:
            self._shard = self._call(ShardLearners, Shard((), gpus), recruits)
            for recruit in recruits.in_order(players):
                self._open(recruit, None, Counters(), shard_of(self._plan, recruit.player))
        except BaseException:
            self.close()
            raise

    def _call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        """Return the result of a call that is made after all updates submitted to the thread."""
        if self._thread is None:
            return function(*arguments)
        return self._thread.submit(function, *arguments).result()

    def submit(self, player: str, experience: Any, progress: float = 0.0, steps: int = 0) -> None:
        queue = self._queues[player]
        if not steps and isinstance(experience, Episodes):
            steps = experience.num_steps
        if queue.state.stopped:
            queue.lost(1, steps)
            return
        block = queue.block(1, steps)
        learn = functools.partial(self._shard.learn, player, experience, progress)
        if self._thread is None:
            self._updates.append(Update(block, learn, None))
        else:
            future = self._thread.submit(learn)
            self._updates.append(Update(block, future.result, future))

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """Make all updates that wait; return the reports. Of the thread's, return those that are made.

        With a thread and `timeout_seconds` above 0, wait until there is one, however long. Without one, those
        behind the first are dropped once the run is over.
        """
        outcomes: list[LearnReport | LearnerStopped] = []
        while self._updates:
            future = self._updates[0].future
            if future is None and outcomes and self._shard.over():
                block = self._updates.popleft().block
                self._queues[block.player].drop(block)
                continue
            if future is not None:
                if not future.done() and (outcomes or not timeout_seconds):
                    break
                if outcomes and future.exception() is not None:
                    break  # raised by the next call, so that what was found is kept
            outcome = self._settle(self._updates.popleft())
            if outcome is not None:  # else dropped, as its player is stopped
                outcomes.append(outcome)
        return outcomes

    def _settle(self, update: Update) -> LearnReport | LearnerStopped | None:
        queue = self._queues[update.block.player]
        try:
            learned, weights = update.made()
        except BaseException:
            queue.drop(update.block)
            raise
        outcome = queue.settle(update.block, learned)
        if isinstance(outcome, LearnReport) and learned.published:
            self._live[queue.player] = LiveWeights(outcome.updates, weights)
        return outcome

    def until(self, over: Callable[[], bool]) -> None:
        self._shard.over = over

    def weights(self, player: str) -> Weights:
        """Return copies of the newest weights of `player`, which are published with that."""
        published = self._call(self._shard.publish, player)
        self._live[player] = published
        return published.handle or {}

    def state(self, player: str) -> LearnerState:
        return self._call(self._shard.state, player)

    def ask_states(self, players: Iterable[str] | None = None) -> None:
        """Take a copy of each learner's state."""
        asked = self._queues if players is None else players
        self._arrived |= {player: self.state(player) for player in asked}

    def arrived(self) -> dict[str, LearnerState]:
        found, self._arrived = self._arrived, {}
        return found

    def load_state(self, player: str, state: LearnerState) -> None:
        self._live[player] = self._call(self._shard.load_state, player, state)
        self._queues[player].state.stopped = False

    def reset(
        self, player: str, weights: Mapping[str, Tensor], settings: LearnerSettings | None = None
    ) -> None:
        """Go on from `weights`; experience queued before is learned first and forgotten with the old ones."""
        self._learn_unreported(player)
        if settings is not None:
            self._recruits[player] = replace(self._recruits[player], settings=settings)
        self._live[player] = self._call(self._shard.reset, player, weights, settings)

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None = None) -> None:
        """Add a learner, with `weights` or those that its seed gives."""
        plan, card = with_player(self._plan, recruit.player)
        self._open(recruit, weights, self._retired.get(recruit.player, Counters()), card)
        self._plan = plan

    def _open(
        self, recruit: Recruit, weights: Mapping[str, Tensor] | None, counters: Counters, card: int
    ) -> None:
        player = recruit.player
        self._live[player] = self._call(self._shard.add, recruit, weights, counters, card)
        self._recruits[player], self._queues[player] = recruit, Queue(player, self._bound)

    def remove(self, player: str) -> None:
        self._plan = without_player(self._plan, player)
        self._learn_unreported(player)
        self._retired[player] = self._call(self._shard.remove, player)
        del self._queues[player], self._live[player], self._recruits[player]
        while (move := move_due(self._plan)) is not None:
            state = self.state(move.player)
            self._call(self._shard.remove, move.player)
            self._call(self._shard.add, self._recruits[move.player], None, Counters(), move.target)
            self._live[move.player] = self._call(self._shard.load_state, move.player, state)
            self._plan = moved(self._plan, move)

    def _learn_unreported(self, player: str) -> None:
        """Learn what waits for `player` without a report, and open its queue again, empty."""
        queue = self._queues[player]
        for update in [update for update in self._updates if update.block.player == player]:
            self._updates.remove(update)
            queue.settle(update.block, update.made()[0])
        queue.state.stopped = False

    def close(self) -> None:
        """Drop everything that waits."""
        self._updates.clear()
        if self._thread is not None:
            self._thread.shutdown(cancel_futures=True)
