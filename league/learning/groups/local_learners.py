"""Learners in the driver's own process: for runs without runners, and for comparison."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from league.learning.data.queues import Block, Queue
from league.learning.groups.learner_group import Enrolled, LiveWeights
from league.learning.groups.shard_learners import Counters, LearnerStopped, LearnReport, ShardLearners
from league.learning.groups.shards import Shard, move_due, moved, shard_of, with_player, without_player
from league.learning.learner import LearnerState
from league.learning.recruits import Recruit, Recruits


class LocalLearnerGroup(Enrolled):
    """All learners in this process, one update at a time: repeatable to the bit.

    Each shard is one GPU, and without GPUs there is one shard: the process.
    """

    def __init__(self, shards: Sequence[Shard], recruits: Recruits) -> None:
        settings = recruits.shared
        players = tuple(player for shard in shards for player in shard.players)
        gpus = sum(shard.num_gpus for shard in shards)
        if gpus > len(shards):
            raise ValueError(f"{gpus} GPUs in {len(shards)} shards, expected one in each: one process learns")
        self._plan = list(shards) if gpus else [Shard(players, 0)]
        self._shard = ShardLearners(Shard((), gpus), recruits)
        self._recruits: dict[str, Recruit] = {}
        for recruit in recruits.in_order(players):
            self._shard.add(recruit, card=shard_of(self._plan, recruit.player))
            self._recruits[recruit.player] = recruit
        self._bound = settings.max_backlog
        self._waiting: deque[tuple[Block, Any, float]] = deque()  # with its experience and its progress
        self._queues = {player: Queue(player, self._bound) for player in players}
        self._live = {player: LiveWeights(*self._shard.publish(player)) for player in players}
        self._retired: dict[str, Counters] = {}
        self._arrived: dict[str, LearnerState] = {}  # states that were asked for

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        """Queue experience for `player`."""
        queue, steps = self._queues[player], steps or episodes.num_steps
        if queue.stopped:
            queue.lost(1, steps)
        else:
            self._waiting.append((queue.block(1, steps), episodes, progress))

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """Learn from everything that waits; return the reports."""
        outcomes: list[LearnReport | LearnerStopped] = []
        while self._waiting:
            block, episodes, progress = self._waiting.popleft()
            learned, weights = self._shard.learn(block.player, episodes, progress)
            outcome = self._queues[block.player].settle(block, learned)
            if isinstance(outcome, LearnReport) and learned.published:
                self._live[block.player] = LiveWeights(outcome.updates, weights)
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def state(self, player: str) -> LearnerState:
        """Return a copy of the learner's state, taken after everything submitted before."""
        return self._shard.state(player)

    def ask_states(self) -> None:
        """Take a copy of each learner's state."""
        self._arrived = {player: self.state(player) for player in self._queues}

    def arrived(self) -> dict[str, LearnerState]:
        """Return the states that were asked for since the last call."""
        found, self._arrived = self._arrived, {}
        return found

    def load_state(self, player: str, state: LearnerState) -> None:
        """Let the learner go on from `state`."""
        self._live[player] = LiveWeights(*self._shard.load_state(player, state))
        self._queues[player].stopped = False

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Go on from `weights`; experience queued before is learned first and forgotten with the old ones."""
        self._learn_unreported(player)
        self._live[player] = LiveWeights(*self._shard.reset(player, weights))

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None = None) -> None:
        """Add a learner, with `weights` or those that its seed gives."""
        player = recruit.player
        plan, card = with_player(self._plan, player)
        counters = self._retired.pop(player, Counters())
        self._live[player] = LiveWeights(*self._shard.add(recruit, weights, counters, card))
        self._recruits[player] = recruit
        self._plan, self._queues[player] = plan, Queue(player, self._bound)

    def remove(self, player: str) -> None:
        """Free the learner, its optimizer and its experience."""
        self._plan = without_player(self._plan, player)
        self._learn_unreported(player)
        self._retired[player] = self._shard.remove(player)
        del self._queues[player], self._live[player], self._recruits[player]
        while (move := move_due(self._plan)) is not None:
            state = self._shard.state(move.player)
            self._shard.remove(move.player)
            self._shard.add(self._recruits[move.player], card=move.target)
            self._live[move.player] = LiveWeights(*self._shard.load_state(move.player, state))
            self._plan = moved(self._plan, move)

    def _learn_unreported(self, player: str) -> None:
        """Learn what waits for `player` without a report, and open its queue again, empty."""
        queue = self._queues[player]
        for block, episodes, progress in self._waiting:
            if block.player == player:
                queue.settle(block, self._shard.learn(player, episodes, progress)[0])
        self._waiting = deque(item for item in self._waiting if item[0].player != player)
        queue.stopped = False

    def close(self) -> None:
        """Drop everything that waits."""
        self._waiting.clear()
