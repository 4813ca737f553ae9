"""All learners of a run, placed by shard: in this process, or as one Ray actor per shard.

Experience arrives as whatever the runners handed out: episodes themselves, or references to
them, which go to the shard's actor unopened. Weights leave the same way.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from torch import Tensor

from league.episode import Episodes
from league.learning.learner import Learner, LearnerSettings, LearnerState
from league.learning.shards import Shard
from league.models.policy import PolicySpec
from storage.errors import Failure

Weights = Mapping[str, np.ndarray]


class LearnersLost(Failure):
    """The process of a shard's learners died, and with it what they had learned since the last save."""


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What became of one rollout's episodes. `metrics` is None while they wait for a batch to fill."""

    player: str
    updates: int
    env_steps: int
    metrics: Mapping[str, float] | None


@dataclass(frozen=True, slots=True)
class LiveWeights:
    """A player's newest weights: a mapping of arrays, or a Ray reference to one."""

    version: int
    handle: Any


class LearnerGroup(Protocol):
    """What the loop asks of its learners."""

    def submit(self, player: str, episodes: Any, progress: float = 0.0) -> None:
        """Queue experience for `player`; `progress` is the part of the run that is done, in [0, 1]."""

    def ready(self, timeout_seconds: float) -> list[LearnReport]:
        """Reports that are finished, at once if there are any; new weights are live from here on."""

    def backlog(self, player: str) -> int:
        """Rollouts of `player` that were submitted and not yet reported."""

    def live(self, player: str) -> LiveWeights: ...

    def state(self, player: str) -> LearnerState:
        """A copy of the learner's state, taken after everything submitted before."""

    def load_state(self, player: str, state: LearnerState) -> None: ...

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Go on from `weights`. What was submitted before still counts, but is reported no more."""

    def close(self) -> None: ...


class ShardLearners:
    """The learners of one shard. The same class serves in the driver and as a Ray actor."""

    def __init__(
        self,
        shard: Shard,
        spec: PolicySpec,
        settings: Mapping[str, LearnerSettings],
        seeds: Mapping[str, int],
        device: str,
        threads: int,
    ) -> None:
        import torch

        torch.set_num_threads(threads)
        self._learners = {
            player: Learner(player, spec, settings[player], seeds[player], device) for player in shard.players
        }

    def learn(self, player: str, episodes: Episodes, progress: float) -> tuple[LearnReport, Weights | None]:
        """Update `player`; the new weights, or None if no update was made."""
        learner = self._learners[player]
        metrics = learner.update_from_episodes(episodes, progress)
        report = LearnReport(player, learner.updates, learner.env_steps, metrics)
        return report, None if metrics is None else self.weights(player)

    def weights(self, player: str) -> Weights:
        return {name: tensor.numpy() for name, tensor in self._learners[player].weights().items()}

    def state(self, player: str) -> LearnerState:
        return self._learners[player].state()

    def load_state(self, player: str, state: LearnerState) -> Weights:
        self._learners[player].load_state(state)
        return self.weights(player)

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> Weights:
        self._learners[player].reset(weights)
        return self.weights(player)


class LocalLearnerGroup:
    """All learners in this process, one update at a time: repeatable to the bit."""

    def __init__(
        self,
        shards: Sequence[Shard],
        spec: PolicySpec,
        settings: Mapping[str, LearnerSettings],
        seeds: Mapping[str, int],
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        players = tuple(player for shard in shards for player in shard.players)
        gpus = sum(shard.num_gpus for shard in shards)
        self._shard = ShardLearners(Shard(players, gpus), spec, settings, seeds, device, threads)
        self._queue: deque[tuple[str, Episodes, float]] = deque()
        self._live = {player: LiveWeights(0, self._shard.weights(player)) for player in players}

    def submit(self, player: str, episodes: Episodes, progress: float = 0.0) -> None:
        self._queue.append((player, episodes, progress))

    def ready(self, timeout_seconds: float) -> list[LearnReport]:
        reports = []
        while self._queue:
            report, weights = self._shard.learn(*self._queue.popleft())
            if weights is not None:
                self._live[report.player] = LiveWeights(report.updates, weights)
            reports.append(report)
        return reports

    def backlog(self, player: str) -> int:
        return sum(name == player for name, _, _ in self._queue)

    def live(self, player: str) -> LiveWeights:
        return self._live[player]

    def state(self, player: str) -> LearnerState:
        return self._shard.state(player)

    def load_state(self, player: str, state: LearnerState) -> None:
        self._live[player] = LiveWeights(state.updates, self._shard.load_state(player, state))

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Experience queued before is learned first, and forgotten with the weights it moved."""
        for queued in [item for item in self._queue if item[0] == player]:
            self._shard.learn(*queued)
        self._queue = deque(item for item in self._queue if item[0] != player)
        fresh = self._shard.reset(player, weights)
        self._live[player] = LiveWeights(self._shard.state(player).updates, fresh)

    def close(self) -> None:
        self._queue.clear()


class RayLearnerGroup:
    """One Ray actor per shard. Episodes and weights move between actors; the driver sees references."""

    def __init__(
        self,
        shards: Sequence[Shard],
        spec: PolicySpec,
        settings: Mapping[str, LearnerSettings],
        seeds: Mapping[str, int],
        *,
        device: str = "cpu",
        threads: int = 1,
    ) -> None:
        import ray

        self._ray: Any = ray
        remote: Any = ray.remote(ShardLearners)
        self._actors: list[Any] = [
            remote.options(num_cpus=0 if shard.num_gpus else 1, num_gpus=shard.num_gpus).remote(
                shard, spec, dict(settings), dict(seeds), device, threads
            )
            for shard in shards
        ]
        self._of_player = {
            player: actor
            for shard, actor in zip(shards, self._actors, strict=True)
            for player in shard.players
        }
        self._pending: dict[Any, tuple[str, Any]] = {}
        self._backlog: Counter[str] = Counter()
        self._live = {
            player: LiveWeights(0, actor.weights.remote(player)) for player, actor in self._of_player.items()
        }

    def submit(self, player: str, episodes: Any, progress: float = 0.0) -> None:
        learn = self._of_player[player].learn.options(num_returns=2)
        report, weights = learn.remote(player, episodes, progress)
        self._pending[report] = player, weights
        self._backlog[player] += 1

    def ready(self, timeout_seconds: float) -> list[LearnReport]:
        if not self._pending:
            return []
        done, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=timeout_seconds)
        if done:  # one came: take whatever else is there
            done, _ = self._ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        reports = []
        for reference in done:
            player, weights = self._pending.pop(reference)
            self._backlog[player] -= 1
            report = self._get(reference)
            if report.metrics is not None and report.updates > self._live[player].version:
                self._live[player] = LiveWeights(report.updates, weights)
            reports.append(report)
        return reports

    def backlog(self, player: str) -> int:
        return self._backlog[player]

    def live(self, player: str) -> LiveWeights:
        return self._live[player]

    def state(self, player: str) -> LearnerState:
        return self._get(self._of_player[player].state.remote(player))

    def load_state(self, player: str, state: LearnerState) -> None:
        weights = self._of_player[player].load_state.remote(player, state)
        self._live[player] = LiveWeights(state.updates, weights)

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Experience queued before is learned first, and forgotten with the weights it moved."""
        fresh = self._of_player[player].reset.remote(player, dict(weights))
        self._discard(player)
        self._live[player] = LiveWeights(self.state(player).updates, fresh)

    def _get(self, reference: Any) -> Any:
        try:
            return self._ray.get(reference)
        except self._ray.exceptions.ActorDiedError as error:
            raise LearnersLost(
                "the process of the learners died (out of memory, or killed); what was saved last is intact: "
                "go on with --resume"
            ) from error

    def _discard(self, player: str) -> None:
        """Reports of before a reset would bring back the old weights."""
        for reference in [r for r, (name, _) in self._pending.items() if name == player]:
            del self._pending[reference]
        self._backlog[player] = 0

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._pending.clear()
