"""RunnerGroup: requests out, rollouts back, with a bounded number of requests in flight.

With `runners: 0` the driver process plays, one request after the other, repeatable to the bit. Otherwise
each runner is a Ray actor: results return to the driver, and episodes stay in the object store and are
passed on as references.
"""

from __future__ import annotations

import socket
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from league.models.policies.resident import check_device
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import PlayRequest, PlaySetup, RolloutInfo
from league.runtime import ONE_CPU, Amounts, ResourceSettings
from storage.errors import Mistake
from storage.records import ResultBatch


@dataclass(frozen=True, slots=True)
class Rollout:
    """One request after its play. `episodes` holds each learner's episodes, or references to them."""

    request_id: int
    results: ResultBatch
    info: RolloutInfo
    episodes: Mapping[str, Any]


class RunnerGroup(Protocol):
    """Interface between the loop and its runners."""

    def room(self) -> int:
        """Return the number of requests that may be submitted now."""

    def in_flight(self) -> int:
        """Return the number of requests that are submitted and not finished."""

    def next_runner(self) -> int:
        """Return the number of the runner that the next request will go to: the least loaded."""

    def submit(self, request_id: int, request: PlayRequest, live_weights: Mapping[str, Any]) -> None:
        """Queue a request with its live players' weights, or references to them."""

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        """Return finished rollouts; if there are none, wait up to `timeout_seconds` for one."""

    def lost(self) -> list[int]:
        """Return the ids of requests lost with a dead runner since the last call.

        Their matches count as never played.
        """

    def close(self) -> None:
        """Stop the runners and drop pending requests."""


def check_play(device: str, resources: ResourceSettings, runners: int) -> None:
    """Raise Mistake if policies cannot play on `device`: here without runners, else by what runners ask for.

    Whether a runner finds the device is checked where it runs.
    """
    if not runners:
        check_device(device)
    elif device == "cuda" and not resources.gpus_per_runner:
        raise Mistake(
            f"rollout.device is cuda with runners {runners}, but resources.gpus_per_runner is 0, so that Ray "
            "would give runners no GPU; set it, to 0.25 if four are to share a card, or rollout.device to cpu"
        )


class LocalRunnerGroup:
    """Runner in the driver process, which plays one request at a time."""

    def __init__(self, setup: PlaySetup) -> None:
        self._runner = EnvRunner(setup)
        self._queue: deque[tuple[int, PlayRequest, Mapping[str, Any]]] = deque()

    def room(self) -> int:
        return 1 - len(self._queue)

    def in_flight(self) -> int:
        return len(self._queue)

    def next_runner(self) -> int:
        return 0

    def submit(self, request_id: int, request: PlayRequest, live_weights: Mapping[str, Any]) -> None:
        self._queue.append((request_id, request, live_weights))

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        if not self._queue:
            return []
        request_id, request, live_weights = self._queue.popleft()
        return [Rollout(request_id, *self._runner.play(request, live_weights))]

    def lost(self) -> list[int]:
        return []

    def close(self) -> None:
        self._queue.clear()


class RemoteRunner(EnvRunner):
    """EnvRunner as a Ray actor. Weights arrive as separate arguments, so that Ray resolves references."""

    def __init__(self, setup: PlaySetup) -> None:
        """Make the runner, unless its device is missing here; `check` raises then."""
        self._wanted = setup.rollout.device
        try:
            self.check()
        except Mistake:
            return  # an error of a constructor would reach the group as the runner's death
        super().__init__(setup)

    def check(self) -> None:
        """Raise Mistake if the node of this actor lacks the device that policies compute on."""
        check_device(self._wanted, f"on node {socket.gethostname()}")

    def play_remotely(
        self, request: PlayRequest, players: Sequence[str], *weights: Mapping[str, np.ndarray]
    ) -> Any:
        """Return results and info, followed by each learner's episodes as separate objects."""
        if self._wanted != "cpu":
            self.check()  # it may have been started again, on another node
        results, info, episodes = self.play(request, dict(zip(players, weights, strict=True)))
        own = [episodes[learner] for learner in request.learners]
        return ((results, info), *own) if own else (results, info)


class RayRunnerGroup:
    """Runners as Ray actors. A runner that dies is started again; its requests in flight are lost."""

    def __init__(
        self, num_runners: int, setup: PlaySetup, of_runner: Amounts = ONE_CPU, seats: Sequence[Any] = ()
    ) -> None:
        """Start the runners, with CPUs and GPUs `of_runner` for each.

        `seats`: Ray's scheduling strategy for each runner, if they are to be in reserved places.
        Raise Mistake if one is to play on a GPU and there is none where it runs.
        """
        import ray

        self._ray: Any = ray
        remote: Any = ray.remote(RemoteRunner)
        self._actors: list[Any] = [
            remote.options(
                num_cpus=of_runner["CPU"],
                num_gpus=of_runner.get("GPU", 0.0),
                max_restarts=-1,
                max_task_retries=0,
                scheduling_strategy=seats[i] if seats else None,
            ).remote(setup)
            for i in range(num_runners)
        ]
        self._limit = setup.rollout.requests_in_flight
        self._load = [0] * num_runners
        self._pending: dict[Any, tuple[int, int, Any]] = {}  # results -> request id, runner, episodes
        self._lost: list[int] = []
        if setup.rollout.device != "cpu":
            try:
                ray.get([actor.check.remote() for actor in self._actors])
            except Mistake:
                self.close()
                raise

    def room(self) -> int:
        return self._limit * len(self._actors) - len(self._pending)

    def in_flight(self) -> int:
        return len(self._pending)

    def next_runner(self) -> int:
        return min(range(len(self._actors)), key=self._load.__getitem__)

    def submit(self, request_id: int, request: PlayRequest, live_weights: Mapping[str, Any]) -> None:
        runner = self.next_runner()
        play = self._actors[runner].play_remotely.options(num_returns=1 + len(request.learners))
        returned = play.remote(request, list(live_weights), *live_weights.values())
        results, *episodes = returned if request.learners else [returned]
        self._pending[results] = request_id, runner, dict(zip(request.learners, episodes, strict=True))
        self._load[runner] += 1

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        if not self._pending:
            return []
        done, _ = self._ray.wait(list(self._pending), num_returns=1, timeout=timeout_seconds)
        if done:  # take all others that are finished, too
            done, _ = self._ray.wait(list(self._pending), num_returns=len(self._pending), timeout=0)
        rollouts = []
        for reference in done:
            request_id, runner, episodes = self._pending.pop(reference)
            self._load[runner] -= 1
            try:
                results, info = self._ray.get(reference)
            except (self._ray.exceptions.ActorDiedError, self._ray.exceptions.ActorUnavailableError):
                self._lost.append(request_id)
                continue
            rollouts.append(Rollout(request_id, results, info, episodes))
        return rollouts

    def lost(self) -> list[int]:
        lost, self._lost = self._lost, []
        return lost

    def close(self) -> None:
        for actor in self._actors:
            self._ray.kill(actor)
        self._pending.clear()
