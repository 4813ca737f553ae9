"""All learners in the driver's own process: for runs without runners, and to compare with."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from league.learning.data.queues import Queue, QueueInfo, Waiting, one_of_each
from league.learning.groups.shard_learners import Counters, LearnerStopped, LearnReport, ShardLearners
from league.learning.groups.shards import Shard, with_player, without_player
from league.learning.learner import LearnerSettings, LearnerState
from league.models.spec import PolicySpec


@dataclass(frozen=True, slots=True)
class LiveWeights:
    """A player's newest weights: a mapping of arrays, or a Ray reference to one."""

    version: int
    handle: Any


class Enrolled:
    """What a group knows of its players, wherever they learn."""

    _plan: list[Shard]
    _queues: dict[str, Queue]
    _live: dict[str, LiveWeights]

    def backlog(self, player: str) -> int:
        return self._queues[player].depth

    def full(self, player: str) -> bool:
        return self._queues[player].full()

    def queues(self) -> Mapping[str, QueueInfo]:
        return {player: queue.info() for player, queue in self._queues.items()}

    def plan(self) -> Sequence[Shard]:
        return tuple(self._plan)

    def players(self) -> tuple[str, ...]:
        return tuple(self._queues)

    def live(self, player: str) -> LiveWeights:
        return self._live[player]


class LocalLearnerGroup(Enrolled):
    """All learners in this process, one update at a time: repeatable to the bit."""

    def __init__(
        self,
        shards: Sequence[Shard],
        spec: PolicySpec,
        settings: LearnerSettings,
        seeds: Mapping[str, int],
        *,
        device: str = "cpu",
        threads: int = 1,
        own: Mapping[str, LearnerSettings] | None = None,
        own_specs: Mapping[str, PolicySpec] | None = None,
    ) -> None:
        players = tuple(player for shard in shards for player in shard.players)
        self._plan = [Shard(players, sum(shard.num_gpus for shard in shards))]
        self._shard = ShardLearners(
            self._plan[0], spec, settings, seeds, device, threads, own=own, own_specs=own_specs
        )
        self._bound = settings.max_backlog
        self._may_hold = settings.async_update
        self._waiting: deque[Waiting] = deque()
        self._unheard: list[LearnReport | LearnerStopped] = []  # learned before anybody asked
        self._queues = {player: Queue(player, self._bound) for player in players}
        self._live = {player: LiveWeights(*self._shard.publish(player)) for player in players}
        self._retired: dict[str, Counters] = {}

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        queue, steps = self._queues[player], steps or episodes.num_steps
        if queue.stopped:
            queue.lost(1, steps)
        else:
            self._waiting.append(Waiting(queue.block(1, steps), episodes, progress))

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        if not self._holds():
            self._learn_all()
        outcomes, self._unheard = self._unheard, []
        return outcomes

    def _learn_all(self) -> None:
        while self._waiting:
            turn = one_of_each(self._waiting) if self._shard.stacks() else [self._waiting.popleft()]
            told = self._shard.learn_together([(w.block.player, w.episodes, w.progress) for w in turn])
            for (block, _, _), (learned, weights) in zip(turn, told, strict=True):
                outcome = self._queues[block.player].settle(block, learned)
                if isinstance(outcome, LearnReport) and learned.published:
                    self._live[block.player] = LiveWeights(outcome.updates, weights)
                if outcome is not None:
                    self._unheard.append(outcome)

    def _holds(self) -> bool:
        """Whether what waits goes on waiting, to be stacked with what others bring.

        That is until all have something to learn from, or somebody's queue is full.
        """
        if not (self._may_hold and self._shard.stacks()):
            return False
        depths = [queue.depth for queue in self._queues.values() if not queue.stopped]
        return 0 in depths and max(depths) < self._bound

    def state(self, player: str) -> LearnerState:
        self._release(player)
        return self._shard.state(player)

    def load_state(self, player: str, state: LearnerState) -> None:
        self._release(player)
        self._live[player] = LiveWeights(*self._shard.load_state(player, state))
        self._queues[player].stopped = False

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Experience queued before is learned first, and forgotten with the weights it moved."""
        self._learn_unheard(player)
        self._live[player] = LiveWeights(*self._shard.reset(player, weights))

    def add(
        self,
        player: str,
        seed: int,
        weights: Mapping[str, Tensor] | None = None,
        settings: LearnerSettings | None = None,
        spec: PolicySpec | None = None,
    ) -> None:
        plan, _ = with_player(self._plan, player)
        counters = self._retired.pop(player, Counters())
        self._live[player] = LiveWeights(*self._shard.add(player, seed, weights, counters, settings, spec))
        self._plan, self._queues[player] = plan, Queue(player, self._bound)

    def remove(self, player: str) -> None:
        self._plan = without_player(self._plan, player)
        self._learn_unheard(player)
        self._retired[player] = self._shard.remove(player)
        del self._queues[player], self._live[player]

    def replace(self, player: str, seed: int, weights: Mapping[str, Tensor] | None = None) -> None:
        self._learn_unheard(player)
        self._live[player] = LiveWeights(*self._shard.replace(player, seed, weights))

    def _release(self, player: str) -> None:
        """Learn what was held back, if some of it is the player's."""
        if self._shard.stacks() and any(waiting.block.player == player for waiting in self._waiting):
            self._learn_all()

    def _learn_unheard(self, player: str) -> None:
        """Learn what waits for `player` without a report; its queue is empty then, and takes all again."""
        queue = self._queues[player]
        for block, episodes, progress in self._waiting:
            if block.player == player:
                queue.settle(block, self._shard.learn(player, episodes, progress)[0])
        self._waiting = deque(item for item in self._waiting if item.block.player != player)
        queue.stopped = False

    def close(self) -> None:
        self._waiting.clear()
