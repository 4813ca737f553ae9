"""Places of the learners of a program: a thread of its process, or Ray actors."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Protocol, TypeVar

from torch import Tensor

from league.learning.groups.ray_learners import RayLearnerGroup
from league.learning.groups.replacing import LearnersLost
from league.learning.groups.shard_learners import (
    Counters,
    Experience,
    Learned,
    LearnerStopped,
    LearnReport,
    Recruit,
    Recruits,
    ShardLearners,
    Weights,
)
from league.learning.groups.shards import Shard, num_cpus, plan_shards
from league.learning.learner.learner import LearnerState
from league.runtime import ResourceSettings, ray_session

WAIT_SECONDS = 1.0  # between two looks at processes that may have died

Result = TypeVar("Result")
Outcome = LearnReport | LearnerStopped


class Place(Protocol):
    """Learners in this process, or in others."""

    def submit(self, player: str, experience: Experience, progress: float) -> None:
        """Ask for the update of one player from its experience."""

    def under_way(self, player: str) -> int:
        """Return the number of its updates whose outcome was not returned."""

    def finished(self, *, wait: bool) -> list[Outcome]:
        """Return outcomes of updates that are made; with `wait`, one or more, if any are under way."""

    def weights(self, player: str) -> Weights:
        """Return copies of its newest weights."""

    def state(self, player: str) -> LearnerState:
        """Return a copy of all that its learner needs to go on."""

    def load_state(self, player: str, state: LearnerState) -> None:
        """Let its learner go on from `state`."""

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Let its learner go on from `weights` with a fresh optimizer."""

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None) -> None:
        """Add a learner, with `weights` or fresh ones."""

    def remove(self, player: str) -> None:
        """Free its learner."""

    def close(self) -> None:
        """Free all learners."""


class Here:
    """Learners in one thread of this process: all calls are made in their order."""

    def __init__(self, recruits: Recruits, gpus: int) -> None:
        self._thread = ThreadPoolExecutor(1, "learners")
        self._updates: list[tuple[str, Future[tuple[Learned, Weights | None]]]] = []
        self._retired: dict[str, Counters] = {}
        self._cards = range(max(1, gpus))
        self._card_of: dict[str, int] = {}
        try:
            self._shard = self._call(ShardLearners, Shard((), gpus), recruits)
            for recruit in recruits:
                self.add(recruit, None)
        except BaseException:
            self._thread.shutdown()
            raise

    def _call(self, function: Callable[..., Result], *arguments: Any) -> Result:
        return self._thread.submit(function, *arguments).result()

    def submit(self, player: str, experience: Experience, progress: float) -> None:
        self._updates.append((player, self._thread.submit(self._shard.learn, player, experience, progress)))

    def under_way(self, player: str) -> int:
        return sum(name == player for name, _ in self._updates)

    def finished(self, *, wait: bool) -> list[Outcome]:
        found: list[Outcome] = []
        while self._updates and (self._updates[0][1].done() or (wait and not found)):
            if found and self._updates[0][1].exception() is not None:
                break  # raised by the next call, so that what was found is kept
            learned, _ = self._updates.pop(0)[1].result()
            if learned.outcome is not None:  # else dropped, as its player is stopped
                found.append(learned.outcome)
        return found

    def weights(self, player: str) -> Weights:
        published = self._call(self._shard.publish, player)
        return published.weights or {}

    def state(self, player: str) -> LearnerState:
        return self._call(self._shard.state, player)

    def load_state(self, player: str, state: LearnerState) -> None:
        self._call(self._shard.load_state, player, state)

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        self._call(self._shard.reset, player, weights)

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None) -> None:
        """Add the learner on the card of the fewest players."""
        used = list(self._card_of.values())
        card = min(self._cards, key=used.count)
        self._call(self._shard.add, recruit, weights, self._retired.get(recruit.player, Counters()), card)
        self._card_of[recruit.player] = card

    def remove(self, player: str) -> None:
        self._retired[player] = self._call(self._shard.remove, player)
        del self._card_of[player]

    def close(self) -> None:
        self._thread.shutdown(cancel_futures=True)


class InProcesses:
    """Learners as Ray actors, in a session of Ray that is begun for them unless there is one."""

    def __init__(self, shards: list[Shard], recruits: Recruits, gpus: int, address: str | None) -> None:
        self._stack = contextlib.ExitStack()
        with contextlib.ExitStack() as begun:
            begun.enter_context(ray_session(ResourceSettings(gpus=gpus, address=address), num_cpus(shards)))
            self._group = RayLearnerGroup(shards, recruits)
            begun.callback(self._group.close)
            for recruit in recruits:
                self._group.state(recruit.player)  # errors while they are built are raised here
            self._stack = begun.pop_all()

    def submit(self, player: str, experience: Experience, progress: float) -> None:
        self._group.submit(player, experience, progress)

    def under_way(self, player: str) -> int:
        return self._group.queues()[player].depth

    def finished(self, *, wait: bool) -> list[Outcome]:
        """Return what is finished. Raise LearnersLost, once, if experience was lost with a process.

        The process is replaced by then, so the program may go on.
        """
        outcomes = list(self._group.ready(WAIT_SECONDS if wait else 0.0))
        if not outcomes and (losses := self._group.losses()):
            said = "; ".join(loss.incident.sentence() for loss in losses)
            raise LearnersLost(f"{said}. Its experience is lost: give it again, or other experience")
        return outcomes

    def weights(self, player: str) -> Weights:
        return self._group.weights(player)

    def state(self, player: str) -> LearnerState:
        return self._group.state(player)

    def load_state(self, player: str, state: LearnerState) -> None:
        self._group.load_state(player, state)

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        self._group.reset(player, weights)

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None) -> None:
        self._group.add(recruit, weights)

    def remove(self, player: str) -> None:
        self._group.remove(player)

    def close(self) -> None:
        self._stack.close()


def shards_of(processes: int, gpus: int, players: tuple[str, ...]) -> list[Shard]:
    """Return shards of players: as many as there are processes, or players if those are fewer."""
    if gpus:
        return plan_shards(gpus, players)
    count = min(processes, len(players))
    return [Shard(players[i::count], 0, processes // count + (i < processes % count)) for i in range(count)]
