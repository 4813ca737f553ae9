"""The learners of one shard, with the devices and the process that they share."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from league.cluster.cards import TO_LEARN, CardBroken, CardFull, card_errors
from league.cluster.runtime import prepare_process
from league.episode import Episodes
from league.learning.data.peers import ALONE, Peers
from league.learning.groups.shards import Shard
from league.learning.learner.learner import Learner, LearnerState, NonFiniteLoss
from league.learning.settings import LearnerSettings, LearnersSettings
from league.models.spec import PolicySpec

Weights = Mapping[str, np.ndarray]
Experience = Episodes | Mapping[str, Any]  # or tensors by names of a program's own


@dataclass(frozen=True, slots=True)
class Recruit:
    """A player that is to learn: the policy and the settings that it learns with, and its seed."""

    player: str
    spec: PolicySpec
    settings: LearnerSettings
    seed: int  # of its first weights and of its shuffling
    teacher: Mapping[str, Tensor] | None = field(default=None, repr=False, compare=False)
    """Weights of a magnet of kind `snapshot`, which fit the policy."""


@dataclass(frozen=True, slots=True)
class Recruits:
    """All players that a run begins with, one or more, and what their processes compute on."""

    each: tuple[Recruit, ...]
    device: str = "cpu"  # or cuda
    threads: int = 1  # of torch, in each process
    shared: LearnersSettings = field(default_factory=LearnersSettings)

    def in_order(self, players: Iterable[str]) -> list[Recruit]:
        """Return the recruits of `players`, in their order. Raise KeyError for an unknown one."""
        by_name = {recruit.player: recruit for recruit in self.each}
        return [by_name[player] for player in players]


class Spent(NamedTuple):
    """Seconds of a learner's process for one block of experience."""

    learning: float = 0.0
    broadcasting: float = 0.0  # copying new weights out
    waiting: float = 0.0  # with nothing to learn from, before the block came


@dataclass(frozen=True, slots=True)
class LearnReport:
    """Outcome of a block of experience. `metrics` is None while it waits for a batch to fill."""

    player: str
    updates: int
    env_steps: int
    metrics: Mapping[str, float] | None
    spent: Spent = Spent()  # noqa: RUF009  # a tuple


@dataclass(frozen=True, slots=True, eq=False)
class LearnerStopped:
    """Stop of `player` after an update whose loss was no finite number, or that its GPU has no room for.

    Its last good weights are kept, and still play. It goes on with other weights.
    """

    player: str
    message: str
    update: int  # that failed: one more than were made
    tensors: Mapping[str, np.ndarray]  # the batch that it failed on, by field name


class Counters(NamedTuple):
    """Numbers at which a learner begins to count."""

    updates: int = 0
    env_steps: int = 0


class Learned(NamedTuple):
    """Result of `learn`, beside new weights."""

    outcome: LearnReport | LearnerStopped | None  # None: dropped, its player is stopped
    published: bool  # whether there are new weights


class LiveWeights(NamedTuple):
    """A player's newest weights, with which it plays from here on."""

    version: int
    handle: Any  # a mapping of arrays, or a Ray reference to one; None: another process gives them


def cards_of(cards: int) -> list[str]:
    """Return the names of the first `cards` GPUs that this process sees."""
    return [f"cuda:{i}" for i in range(cards)]


class ShardLearners:
    """The learners of one shard. The same class runs in the driver and as a Ray actor.

    With `peers` it is one of several processes that hold the same learners and get the same calls in
    the same order; only rank 0 returns weights and tensors.
    """

    def __init__(self, shard: Shard, recruits: Recruits, peers: Peers = ALONE) -> None:
        """Add the learners of the shard's players; `recruits` are all of the run."""
        prepare_process(recruits.threads)
        settings = recruits.shared
        self._broadcast_updates = settings.broadcast_updates
        self._peers = peers
        cards = shard.num_gpus // shard.processes if recruits.device == "cuda" else 0
        self._devices = cards_of(cards) or [recruits.device]
        self._learners: dict[str, Learner] = {}
        self._published: dict[str, int] = {}
        self._stopped: set[str] = set()
        for recruit in recruits.in_order(shard.players):
            self.add(recruit)
        self.over: Callable[[], bool] = lambda: False  # whether the run is: then an update is not completed
        self._idle_since = time.monotonic()

    def learn(
        self, player: str, episodes: Experience, progress: float = 0.0
    ) -> tuple[Learned, Weights | None]:
        """Update `player`; return new weights if `broadcast_updates` were made since the last.

        Without room for an update on its GPU the player stops. Raise CardBroken for a GPU that fails.
        """
        if player in self._stopped:
            return Learned(None, False), None
        began, learner = time.monotonic(), self._learners[player]
        outcome: dict[str, float] | NonFiniteLoss | None
        try:
            with self._named(player):
                if isinstance(episodes, Episodes):
                    outcome = learner.learn_from(episodes, progress, self.over)
                else:
                    outcome = learner.update_from_batch(episodes, progress)
        except NonFiniteLoss as refusal:
            outcome = refusal
        except CardFull as full:
            if self._peers.size > 1:  # the others wait for the sum
                raise CardBroken(str(full)) from full
            message = f"{full}; its last weights are kept"
            outcome = NonFiniteLoss(message, learner.updates + 1)
        spent = Spent(time.monotonic() - began, 0.0, began - self._idle_since)
        result = self._result(player, outcome, spent)
        self._idle_since = time.monotonic()
        return result

    def _result(
        self, player: str, outcome: dict[str, float] | NonFiniteLoss | None, spent: Spent
    ) -> tuple[Learned, Weights | None]:
        """Return the outcome of an update for the driver, and the weights if they are published."""
        learner = self._learners[player]
        if isinstance(outcome, NonFiniteLoss):
            self._stopped.add(player)
            if learner.device.type != "cpu":  # room for the others
                gc.collect()
                torch.cuda.empty_cache()
            tensors = {} if self._peers.rank else outcome.tensors
            return Learned(LearnerStopped(player, str(outcome), outcome.update, tensors), False), None
        report = LearnReport(player, learner.updates, learner.env_steps, outcome, spent)
        if learner.updates - self._published[player] < self._broadcast_updates:
            return Learned(report, False), None
        began = time.monotonic()
        weights = self.publish(player).handle
        spent = spent._replace(broadcasting=time.monotonic() - began)
        return Learned(replace(report, spent=spent), True), weights

    def add(
        self,
        recruit: Recruit,
        weights: Mapping[str, Tensor] | None = None,
        counters: Counters = Counters(),  # noqa: B008  # a tuple
        card: int = 0,
    ) -> LiveWeights:
        """Add a learner on this card of the process.

        Its code is trusted: it is named by a config or a program, not by a snapshot.
        """
        player = recruit.player
        recruit.spec.trust()
        with self._named(player, self._devices[card]):
            learner = Learner(
                player,
                recruit.spec,
                recruit.settings,
                recruit.seed,
                self._devices[card],
                self._peers,
                teacher=recruit.teacher,
            )
            if weights is not None:
                learner.reset(weights)
        learner.updates, learner.env_steps = counters
        self._learners[player] = learner
        return self.publish(player)

    def remove(self, player: str) -> Counters:
        """Free the learner, its optimizer and its experience; return the counters of the next of its name.

        They are one more than the updates made: a version of weights is never used twice.
        """
        learner = self._learners.pop(player)
        del self._published[player]
        self._stopped.discard(player)
        return Counters(learner.updates + 1, learner.env_steps)

    def reset(
        self, player: str, weights: Mapping[str, Tensor], settings: LearnerSettings | None = None
    ) -> LiveWeights:
        """Go on from `weights` with a fresh optimizer, without the experience of before."""
        with self._named(player):
            self._learners[player].reset(weights, settings)
        self._stopped.discard(player)
        return self.publish(player)

    def state(self, player: str) -> LearnerState:
        """Return a copy of the learner's state."""
        with self._named(player):
            return self._learners[player].state()

    def load_state(self, player: str, state: LearnerState) -> LiveWeights:
        """Go on from `state`; a stopped player learns again."""
        with self._named(player):
            self._learners[player].load_state(state)
        self._stopped.discard(player)
        return self.publish(player)

    def publish(self, player: str) -> LiveWeights:
        """Return a copy of the present weights, with which the player plays from here on."""
        learner = self._learners[player]
        self._published[player] = learner.updates
        if self._peers.rank:
            return LiveWeights(learner.updates, None)
        with self._named(player):
            weights = {name: tensor.numpy() for name, tensor in learner.weights().items()}
        return LiveWeights(learner.updates, weights)

    def _named(self, player: str, device: str | None = None) -> AbstractContextManager[None]:
        """Return a context in which errors of a GPU become sentences with the player, bytes and settings.

        `device` of the player; `None`: that of its learner.
        """
        number = torch.device(device or self._learners[player].device).index
        return card_errors(f"player {player}", TO_LEARN, number)
