"""The learners of one shard, with what they share: the device, the replay, the turn to compute."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.episode import Episodes
from league.learning.data.replay import Replay
from league.learning.groups.peers import ALONE, Peers
from league.learning.groups.shards import Shard
from league.learning.learner import Learner, LearnerSettings, LearnerState, NonFiniteLoss
from league.learning.shared_pass.together import Outcome, Together
from league.models.spec import PolicySpec
from league.runtime import prepare_process

log = logging.getLogger(__name__)

Weights = Mapping[str, np.ndarray]


@dataclass(frozen=True, slots=True)
class LearnReport:
    """What became of a block of experience. `metrics` is None while it waits for a batch to fill."""

    player: str
    updates: int
    env_steps: int
    metrics: Mapping[str, float] | None


@dataclass(frozen=True, slots=True, eq=False)
class LearnerStopped:
    """An update of `player` came out as no number: it learns no more until it gets other weights.

    Its last good weights are kept, and still play.
    """

    player: str
    message: str
    update: int  # that failed: one more than were made
    tensors: Mapping[str, np.ndarray]  # the batch that it failed on, by field name


class Counters(NamedTuple):
    """Where a learner's counting begins."""

    updates: int = 0
    env_steps: int = 0


class Learned(NamedTuple):
    """What `learn` gives, beside new weights."""

    outcome: LearnReport | LearnerStopped | None  # None: dropped, its player is stopped
    published: bool  # whether there are new weights


class Published(NamedTuple):
    """Weights that others may play with from here on."""

    version: int
    weights: Weights | None  # None: another process gives them


class ShardLearners:
    """The learners of one shard. The same class serves in the driver and as a Ray actor.

    With `peers` it is one of several processes that hold the same learners and are called alike, in
    the same order; only rank 0's answers carry weights and tensors.
    """

    def __init__(
        self,
        shard: Shard,
        spec: PolicySpec,
        settings: LearnerSettings,
        seeds: Mapping[str, int],
        device: str,
        threads: int,
        peers: Peers = ALONE,
        own: Mapping[str, LearnerSettings] | None = None,
        own_specs: Mapping[str, PolicySpec] | None = None,
    ) -> None:
        """`own`: players that learn by other settings than `settings`, which hold for all the rest;
        `own_specs`: players whose policies are other than `spec`."""
        prepare_process(threads)
        self._spec = spec
        self._settings = settings
        self._own = dict(own or {})
        self._own_specs = dict(own_specs or {})
        self._peers = peers
        cards = torch.cuda.device_count() if device == "cuda" else 0
        self._devices = [f"cuda:{i}" for i in range(cards)] or [device]
        self._replay = Replay(settings.replay.capacity_steps) if settings.replay.proportion else None
        self._together = Together(spec, settings, peers) if settings.stacked == "auto" else None
        self._stack_no_strangers()
        self._learners: dict[str, Learner] = {}
        self._device_of: dict[str, str] = {}
        self._published: dict[str, int] = {}
        self._stopped: set[str] = set()
        for player in shard.players:
            self.add(player, seeds[player])

    def learn(self, player: str, episodes: Episodes, progress: float = 0.0) -> tuple[Learned, Weights | None]:
        """Update `player`; the new weights, when `broadcast_updates` were made since the last."""
        if self._together is not None:
            return self.learn_together([(player, episodes, progress)])[0]
        if player in self._stopped:
            return Learned(None, False), None
        try:
            outcome: Outcome = self._learners[player].update_from_episodes(episodes, progress)
        except NonFiniteLoss as refusal:
            outcome = refusal
        return self._told(player, outcome)

    def learn_together(
        self, blocks: Sequence[tuple[str, Episodes, float]]
    ) -> list[tuple[Learned, Weights | None]]:
        """`learn` of each of these, no player twice; stacked, if the settings allow and it is faster."""
        if self._together is None:
            return [self.learn(*block) for block in blocks]
        going = [block for block in blocks if block[0] not in self._stopped]
        outcomes = self._together.update_from_episodes(
            [(self._learners[player], episodes, progress) for player, episodes, progress in going]
        )
        told = {block[0]: self._told(block[0], o) for block, o in zip(going, outcomes, strict=True)}
        return [told.get(player, (Learned(None, False), None)) for player, _, _ in blocks]

    def stacks(self) -> bool:
        """Whether it may pay to wait until several players have something to learn."""
        return self._together is not None and self._together.promising

    def _told(self, player: str, outcome: Outcome) -> tuple[Learned, Weights | None]:
        """What is to be told of an update."""
        learner = self._learners[player]
        if isinstance(outcome, NonFiniteLoss):
            self._stopped.add(player)
            self._forget(player)
            tensors = {} if self._peers.rank else outcome.tensors
            return Learned(LearnerStopped(player, str(outcome), outcome.update, tensors), False), None
        report = LearnReport(player, learner.updates, learner.env_steps, outcome)
        if learner.updates - self._published[player] < self._settings.broadcast_updates:
            return Learned(report, False), None
        return Learned(report, True), self.publish(player).weights

    def add(
        self,
        player: str,
        seed: int,
        weights: Mapping[str, Tensor] | None = None,
        counters: Counters = Counters(),  # noqa: B008  # a tuple
        settings: LearnerSettings | None = None,
        spec: PolicySpec | None = None,
    ) -> Published:
        """A new learner, on the device that fewest others use."""
        if player in self._learners:
            raise ValueError(f"player '{player}' trains here already")
        used = list(self._device_of.values())
        device = min(self._devices, key=used.count)
        if settings is not None:
            self._own[player] = settings
        if spec is not None:
            self._own_specs[player] = spec
        self._stack_no_strangers()
        learner = Learner(
            player,
            self._own_specs.get(player, self._spec),
            self._own.get(player, self._settings),
            seed,
            device,
            self._peers,
            replay=self._replay,
        )
        if weights is not None:
            learner.reset(weights)
        learner.updates, learner.env_steps = counters
        self._learners[player] = learner
        self._device_of[player] = device
        return self.publish(player)

    def remove(self, player: str) -> Counters:
        """Free the learner, its optimizer and its experience; from where the next of its name counts on.

        One more than the updates made: a version of weights is never used twice.
        """
        learner = self._learners.pop(player)
        self._forget(player)
        self._own.pop(player, None)
        self._own_specs.pop(player, None)
        del self._device_of[player], self._published[player]
        self._stopped.discard(player)
        return Counters(learner.updates + 1, learner.env_steps)

    def replace(self, player: str, seed: int, weights: Mapping[str, Tensor] | None = None) -> Published:
        """A new learner that counts on."""
        own, own_spec = self._own.get(player), self._own_specs.get(player)
        return self.add(player, seed, weights, self.remove(player), own, own_spec)

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> Published:
        """Go on from `weights` with a fresh optimizer, without the experience of before."""
        self._learners[player].reset(weights)
        self._stopped.discard(player)
        return self.publish(player)

    def state(self, player: str) -> LearnerState:
        return self._learners[player].state()

    def load_state(self, player: str, state: LearnerState) -> Published:
        self._learners[player].load_state(state)
        self._stopped.discard(player)
        return self.publish(player)

    def publish(self, player: str) -> Published:
        """A copy of the weights as they are: what the player is known by from here on."""
        learner = self._learners[player]
        self._published[player] = learner.updates
        if self._peers.rank:
            return Published(learner.updates, None)
        return Published(
            learner.updates, {name: tensor.numpy() for name, tensor in learner.weights().items()}
        )

    def report(self) -> dict[str, Any]:
        """What this process holds, for logs and tests: device of each player, steps kept for replay."""
        return {
            "devices": dict(self._device_of),
            "replay_steps": 0 if self._replay is None else self._replay.info().steps,
            "stopped": sorted(self._stopped),
        }

    def _stack_no_strangers(self) -> None:
        """One pass is for players that learn alike."""
        if self._together is None:
            return
        if any(own != self._settings for own in self._own.values()):
            log.warning("learner.stacked: players are updated one by one: their roles learn differently")
            self._together = None
        elif any(own != self._spec for own in self._own_specs.values()):
            log.warning("learner.stacked: players are updated one by one: their policies differ")
            self._together = None

    def _forget(self, player: str) -> None:
        if self._replay is not None:
            self._replay.forget(player)
