"""All learners of a run or of a program: what is asked of them, and the bookkeeping that all kinds share."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from league.learning.groups.queues import Queue, QueueInfo
from league.learning.groups.shard_learners import (
    Counters,
    LearnerStopped,
    LearnReport,
    LiveWeights,
    Recruit,
    Weights,
)
from league.learning.groups.shards import Shard
from league.learning.learner.learner import LearnerState
from league.learning.settings import LearnerSettings
from storage.incidents import Incident


@dataclass(frozen=True, slots=True)
class LearnerLoss:
    """Death of a process that learns or brings experience, with its cost, and where its players are now."""

    incident: Incident
    back: Mapping[str, Counters] = field(default_factory=dict)  # of players that went back to a copy


class Learners(ABC):
    """Learners by player: in this process (`LocalLearners`) or as Ray actors (`RayLearners`)."""

    _plan: list[Shard]
    _queues: dict[str, Queue]
    _live: dict[str, LiveWeights]

    # ------------------------------------------------------------------ updates

    @abstractmethod
    def submit(self, player: str, experience: Any, progress: float = 0.0, steps: int = 0) -> None:
        """Queue experience for `player`; `progress` is the part of the run that is done, in [0, 1].

        `steps`: number of its steps; 0 if not known, and it is then learned from as it is.
        """

    @abstractmethod
    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """Return what is finished, at once if there is anything; new weights are live from here on.

        Without `learners.async_update`: wait for everything submitted and return all of it.
        """

    def until(self, over: Callable[[], bool]) -> None:  # noqa: B027  # most have nothing to leave
        """Leave updates that are made in this process, between two minibatches, once `over` is true."""

    def full(self, player: str) -> bool:
        """Return whether play should wait for `player`'s learner; if so, count it as a wait."""
        return self._queues[player].full()

    def queues(self) -> Mapping[str, QueueInfo]:
        """Return the state of each player's queue."""
        return {player: queue.info() for player, queue in self._queues.items()}

    def under_way(self, player: str) -> int:
        """Return the number of blocks of experience submitted and not yet reported."""
        return self._queues[player].state.depth

    def lost(self, player: str, steps: int) -> None:
        """Count a rollout of so many steps that `player` does not learn from."""
        self._queues[player].lost(1, steps)

    # ------------------------------------------------------------------ weights and states

    def live(self, player: str) -> LiveWeights:
        """Return the newest published weights of `player`."""
        return self._live[player]

    @abstractmethod
    def weights(self, player: str) -> Weights:
        """Return copies of the newest weights of `player`."""

    @abstractmethod
    def state(self, player: str) -> LearnerState:
        """Return a copy of the learner's state, taken after everything submitted before."""

    def state_soon(self, player: str) -> LearnerState | None:
        """Return what `state` returns, or `None` until it has come: call it again then."""
        return self.state(player)

    @abstractmethod
    def ask_states(self, players: Iterable[str] | None = None) -> None:
        """Ask for copies of the states of `players`, or of all, taken after everything submitted before."""

    @abstractmethod
    def arrived(self) -> dict[str, LearnerState]:
        """Return the states that were asked for and have come since the last call, without waiting."""

    def copies(self) -> dict[str, LearnerState]:
        """Return the newest copies of the learners' states that this process has, without waiting."""
        return {}

    @abstractmethod
    def load_state(self, player: str, state: LearnerState) -> None:
        """Let the learner go on from `state`; publish its weights."""

    @abstractmethod
    def reset(
        self, player: str, weights: Mapping[str, Tensor], settings: LearnerSettings | None = None
    ) -> None:
        """Go on from `weights`. What was submitted before still counts, but is no longer reported.

        `settings`: with other numbers than those so far; `None`: the same.
        """

    # ------------------------------------------------------------------ players, places and processes

    def plan(self) -> Sequence[Shard]:
        """Return the shards as they are now, with their players."""
        return tuple(self._plan)

    def players(self) -> tuple[str, ...]:
        """Return the names of all players that learn."""
        return tuple(self._queues)

    @abstractmethod
    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None = None) -> None:
        """Add a learner to the shard of the fewest players, while the others go on.

        It begins with `weights`, or with those that its seed gives. A player that was here before counts on.
        """

    @abstractmethod
    def remove(self, player: str) -> None:
        """Free the learner, its optimizer, its experience and its place.

        If that leaves a shard idle beside one that several players share, one of those moves there.
        """

    def losses(self) -> list[LearnerLoss]:
        """Return what died since the last call: it is replaced already."""
        return []

    def away(self) -> tuple[str, ...]:
        """Return the players whose learner died and is not back yet, or has been silent for long."""
        return ()

    def news(self) -> list[str]:
        """Return sentences since the last call that are of no loss."""
        return []

    @abstractmethod
    def close(self) -> None:
        """Stop all learners and free what they hold."""
