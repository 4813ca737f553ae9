"""RunnerGroup: requests out, rollouts back, with a bounded number of requests in flight.

With `runners: 0` the driver process plays, one request after the other, repeatable to the bit. Otherwise
each runner is a Ray actor: results return to the driver, and episodes stay in the object store and are
passed on as references.

A runner that dies is replaced by a new one with the same number and setup. Ray's own restarts are not used:
after one it is not known which calls were under way, and calls meanwhile fail as if they had been. A new
runner gets requests as soon as it has answered, so none waits for a place that the cluster no longer has.
One that does not answer for its patience (`league.cluster.answers`) is ended and replaced like a dead one.

The successor of a runner that died while it played is caged: what ends its play does not end it. It plays
what is suspected, and after CALM requests without another death it plays as the others do.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from league.cluster.answers import Watch
from league.cluster.calls import OUT_OF_MEMORY, Death, carried, death_of, has_process, node_of
from league.cluster.fitness import Trial, fitness, own_error, sentence_of
from league.cluster.head import is_lost, require_head
from league.cluster.nodes import NODE_LABEL
from league.cluster.placement import ONE_CPU, Amounts
from league.cluster.runners import ComingAndGoing
from league.cluster.runtime import ResourceSettings
from league.forked import CAN_FORK
from league.models.policies.resident import check_device
from league.rollout.cage import PlayKilled
from league.rollout.dispatch import Arrivals, LeastLoaded
from league.rollout.env_runner import EnvRunner
from league.rollout.guard import PlayStopped
from league.rollout.remote_runner import RemoteRunner
from league.rollout.requests import PlayRequest, PlaySetup, RolloutInfo
from league.rollout.settings import check_play_of_runners
from storage.errors import Failure, Mistake
from storage.incidents import SILENT, Incident
from storage.records import ResultBatch


@dataclass(frozen=True, slots=True)
class Rollout:
    """One request after its play. `episodes` holds each learner's episodes, or references to them."""

    request_id: int
    results: ResultBatch
    info: RolloutInfo
    episodes: Mapping[str, Any]


MOST_STARTS = 5  # of each runner in a row that die before they have begun, if no other runner is there
RECORDED_STARTS = 2  # of those
CALM = 200  # requests that a cage is left after
SAFE_SECONDS = 30.0  # to wait for a runner that is to be caged, before any other plays what is suspected
SLACK = 2.0  # times its patience that a caged runner gets: it watches its own process


@dataclass(frozen=True, slots=True)
class LostRequests:
    """Requests that come back no more, and the death that they were lost with."""

    requests: tuple[int, ...]
    suspect: int | None  # of these, the one that was played when the runner died; None: it is not to blame
    incident: Incident  # without what it cost
    others_go_on: bool = False  # the runner lives, with the matches that went on beside the request


class RunnerGroup(ABC):
    """Interface between the loop and its runners."""

    @abstractmethod
    def room(self, each: int | None = None) -> int:
        """Return the number of requests that may be submitted now.

        `each`: how many one runner may have, if that is less than settings allow.
        """

    @abstractmethod
    def in_flight(self) -> int:
        """Return the number of requests that are submitted and not finished."""

    @abstractmethod
    def next_runner(self) -> int:
        """Return the number of the runner that the next request will go to: the least loaded."""

    def safest_runner(self) -> int | None:
        """Return the runner that is to play what has ended a runner; `None`: not now."""
        return self.next_runner() if self.room() else None

    @abstractmethod
    def submit(
        self,
        request_id: int,
        request: PlayRequest,
        live_weights: Mapping[str, Any],
        runner: int | None = None,
    ) -> None:
        """Queue a request with its live players' weights, or references to them.

        `runner`: number of the runner that is to play it, else the next one.
        """

    @abstractmethod
    def ready(self, timeout_seconds: float) -> list[Rollout]:
        """Return finished rollouts; if there are none, wait up to `timeout_seconds` for one."""

    def until(self, overdue: Callable[[int], bool]) -> None:  # noqa: B027  # most have nothing to leave
        """Leave a request that is played in this process once `overdue` is true of its steps so far.

        The driver never waits for the end of one that is played elsewhere.
        """

    def parting(self) -> list[int]:
        """Return the runners that are to end, as their nodes do, and have nothing in flight."""
        return []

    def part(self, runner: int) -> None:
        """End such a runner: nothing is under way on it."""
        raise NotImplementedError

    def losses(self) -> list[LostRequests]:
        """Return what was lost with dead runners and nodes since the last call.

        Matches of those requests count as never played. A death may cost no request.
        """
        return []

    @abstractmethod
    def close(self) -> None:
        """Stop the runners and drop pending requests."""


def check_play(device: str, resources: ResourceSettings, runners: int, precision: str = "float32") -> None:
    """Raise Mistake if policies cannot play on `device`: here without runners, else by what runners ask for.

    Whether a runner finds the device is checked where it runs.
    """
    if not runners:
        check_device(device, precision)
    else:
        check_play_of_runners(device, resources, runners)


class LocalRunnerGroup(RunnerGroup):
    """Runner in the driver process, which plays one request at a time."""

    def __init__(self, setup: PlaySetup) -> None:
        self._runner = EnvRunner(setup)
        self._queue: deque[tuple[int, PlayRequest, Mapping[str, Any]]] = deque()

    def room(self, each: int | None = None) -> int:
        return 1 - len(self._queue)

    def in_flight(self) -> int:
        return len(self._queue)

    def next_runner(self) -> int:
        return 0

    def submit(
        self,
        request_id: int,
        request: PlayRequest,
        live_weights: Mapping[str, Any],
        runner: int | None = None,
    ) -> None:
        self._queue.append((request_id, request, live_weights))

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        if not self._queue:
            return []
        request_id, request, live_weights = self._queue.popleft()
        try:
            return [Rollout(request_id, *self._runner.play(request, live_weights))]
        except PlayStopped:  # the process ends, and the request is dropped
            return []

    def until(self, overdue: Callable[[int], bool]) -> None:
        self._runner.overdue = overdue

    def close(self) -> None:
        self._queue.clear()
        del self._runner  # processes of its bots end with it


class RayRunnerGroup(ComingAndGoing, RunnerGroup):
    """Runners as Ray actors. One that dies is replaced; its requests in flight are lost."""

    def __init__(
        self,
        num_runners: int,
        setup: PlaySetup,
        of_runner: Amounts = ONE_CPU,
        seats: Sequence[Any] = (),
        kind: str = "runner",
        *,
        as_room: bool = False,
    ) -> None:
        """Start the runners, with CPUs and GPUs `of_runner` for each.

        `seats`: Ray's scheduling strategy for each runner, if they are to be in reserved places; `kind`: what
        incidents call them; `as_room`: there need not be room for all, the others wait for nodes. Raise
        Mistake if one is to play on a GPU and there is none where it runs.
        """
        import ray

        self._ray: Any = ray
        self._remote: Any = ray.remote(RemoteRunner)
        self._setup, self._of_runner, self._seats, self._kind = setup, of_runner, seats, kind
        self._limit = setup.rollout.requests_in_flight
        self._as_room = as_room
        self._load = [0] * num_runners
        self._nodes = [""] * num_runners
        self._caged: dict[int, int] = {}  # requests in a row that did not end their process, by runner
        watch = Watch(setup.patience, lambda runner: has_process(ray, self._actors[runner]))
        ComingAndGoing.__init__(self, num_runners, watch)
        self._vain = [0] * num_runners  # starts in a row that no answer came of
        self._pending: dict[Any, tuple[int, int, Any]] = {}  # results -> request id, runner, episodes
        self._answers: dict[Any, int] = {}  # of runners to whether they have begun
        # replaced runners that have not begun, and those that may have to wait for a node
        self._starting: set[int] = set(range(num_runners)) if as_room else set()
        self._losses: list[LostRequests] = []
        self._played = False  # whether any request came back
        self._arrivals = Arrivals(ray)
        self._least_loaded = LeastLoaded(self._load, self._is_here)
        self._actors: list[Any] = []
        for runner in range(num_runners):
            self._actors.append(self._start(runner))
            self._least_loaded.note(runner)
        if setup.rollout.device != "cpu" and not as_room:
            try:
                ray.get(list(self._answers))
            except Mistake:
                self.close()
                raise

    def _start(self, runner: int) -> Any:
        """Return a new actor for the runner of this number."""
        caged = runner in self._caged
        self._watch.starts(runner, SLACK if caged else 1.0)
        place: dict[str, Any] = {"label_selector": fitness.selector()}
        if self._seats:
            place = {"scheduling_strategy": self._seats[runner]}
        actor = self._options(place).remote(replace(self._setup, caged=True) if caged else self._setup)
        answer = actor.where.remote()
        self._answers[answer] = runner
        self._arrivals.expect(answer)
        return actor

    def _options(self, place: Mapping[str, Any]) -> Any:
        return self._remote.options(
            num_cpus=self._of_runner["CPU"],
            num_gpus=self._of_runner.get("GPU", 0.0),
            max_restarts=0,
            max_task_retries=0,
            **place,
        )

    def _try_node(self, node_id: str) -> Trial:
        actor = self._options({"label_selector": {NODE_LABEL: node_id}}).remote(self._setup)
        return Trial(actor, actor.where.remote())

    def room(self, each: int | None = None) -> int:
        limit = self._limit if each is None else min(each, self._limit)
        if self._load[self.next_runner()] >= limit:
            return 0  # as in most turns, and found at once
        return sum(max(0, limit - self._load[runner]) for runner in self._here())

    def _is_here(self, runner: int) -> bool:
        """Return whether the runner may get requests."""
        return runner not in self._starting and runner not in self._leaving

    def _here(self) -> list[int]:
        """Return the numbers of the runners that may get requests."""
        away = self._starting | self._leaving
        return [runner for runner in range(len(self._actors)) if runner not in away]

    def in_flight(self) -> int:
        return len(self._pending)

    def next_runner(self) -> int:
        first = self._least_loaded.first()
        return min(range(len(self._load)), key=self._load.__getitem__) if first is None else first

    def safest_runner(self) -> int | None:
        """Return a caged runner with room; while none is or begins, the next one."""
        here = [runner for runner in self._caged if self._is_here(runner)]
        if not here and all(self._watch.starting_for(runner) > SAFE_SECONDS for runner in self._caged):
            return super().safest_runner()
        free = [runner for runner in here if self._load[runner] < self._limit]
        return min(free, key=self._load.__getitem__) if free else None

    def submit(
        self,
        request_id: int,
        request: PlayRequest,
        live_weights: Mapping[str, Any],
        runner: int | None = None,
    ) -> None:
        runner = self.next_runner() if runner is None else runner
        play = self._actors[runner].play_remotely.options(num_returns=1 + len(request.learners))
        weights = [carried(self._ray, handle) for handle in live_weights.values()]
        returned = play.remote(request, list(live_weights), *weights)
        results, *episodes = returned if request.learners else [returned]
        self._pending[results] = request_id, runner, dict(zip(request.learners, episodes, strict=True))
        self._arrivals.expect(results)
        self._watch.asked(runner, request_id, request.kind, request.size)
        self._load[runner] += 1
        self._least_loaded.note(runner)

    def ready(self, timeout_seconds: float) -> list[Rollout]:
        """Return finished rollouts; give up runners that do not answer.

        Raise Failure if none can start, or if the cluster is lost.
        """
        require_head()
        if not self._pending and not self._answers:
            return []
        rollouts: list[Rollout] = []
        for reference in self._arrivals.take(timeout_seconds, lambda: [*self._pending, *self._answers]):
            if reference in self._answers:
                self._begun(reference)
            elif reference in self._pending:  # else it was lost with its runner just now
                rollouts += self._finished(reference)
        for runner, seconds in self._watch.overdue():
            death = Death("process", f"{SILENT} for {seconds:.0f} s")
            rollouts += self._note_death(runner, death, began=self._has_begun(runner))
        return rollouts

    def _begun(self, reference: Any) -> None:
        """Note the answer of a runner, or its death before it has begun."""
        runner = self._answers.pop(reference)
        try:
            self._note_place(runner, self._ray.get(reference))
        except self._ray.exceptions.RayError as error:
            death = death_of(error, self._ray.exceptions)
            if death is None:
                self._blame_node(runner, error)
            else:
                self._note_death(runner, death, began=False)
        else:
            self._vain[runner] = 0
            self._watch.begun(runner)
            self._starting.discard(runner)
            self._least_loaded.note(runner)

    def _finished(self, reference: Any) -> list[Rollout]:
        """Return the rollout; if its runner has died, those that it had finished, and replace it."""
        request_id, runner, episodes = self._pending[reference]
        try:
            results, info = self._ray.get(reference)
        except PlayKilled as killed:  # before the others: it comes as one of Ray's errors, too
            self._note_killed(reference, getattr(killed, "cause", killed))
            return []
        except self._ray.exceptions.RayError as error:
            death = death_of(error, self._ray.exceptions)
            if death is not None and death.of == "process":
                return self._note_death(runner, death, began=self._has_begun(runner))
            if death is None:
                try:
                    return self._blame_node(runner, error)
                finally:
                    if reference in self._pending:
                        self._forget(reference)
            self._forget(reference)
            incident = Incident(
                kind="results",
                who=f"a request of {self._name(runner)}",
                node=self._node(runner),
                cause=death.cause,
                remedy="its matches are played again",
            )
            self._losses.append(LostRequests((request_id,), None, incident))
            return []
        self._forget(reference, played=True)
        self._played = True
        self._leave_cage(runner)
        self._nodes[runner] = info.process.rpartition(":")[0] or self._nodes[runner]
        return [Rollout(request_id, results, info, episodes)]

    def _note_killed(self, reference: Any, killed: PlayKilled) -> None:
        """Note that a request ended the process in which a caged runner played it."""
        request_id, runner, _ = self._pending[reference]
        self._forget(reference)
        self._caged[runner] = 0
        incident = Incident(
            kind="play",
            who=f"the process in which {self._name(runner)} played",
            node=self._node(runner),
            cause=killed.how,
            remedy="its matches are played again, in parts",
        )
        self._losses.append(LostRequests((request_id,), request_id, incident, killed.others_go_on))

    def _leave_cage(self, runner: int) -> None:
        """Note that a request was played; have the runner leave its cage after CALM of them."""
        if runner in self._caged:
            self._caged[runner] += 1
            if self._caged[runner] == CALM:
                del self._caged[runner]
                self._actors[runner].leave_cage.remote()

    def _note_death(self, runner: int, death: Death, *, began: bool) -> list[Rollout]:
        """Replace a runner that died; return the rollouts that it had finished. Raise Failure if none starts.

        A runner plays its requests in order, so the first that it did not finish was being played.
        """
        if (not began or death.cause == OUT_OF_MEMORY) and not self._seats:
            node_id = self._at[runner] or node_of(self._ray, self._actors[runner])
            if fitness.died(node_id, out_of_memory=began):
                incident = fitness.blame(node_id, death.cause)
                if incident is not None:
                    return self._leave_node(runner, node_id, incident)
        rollouts, lost = self._end_requests([runner])
        self._vain[runner] = 0 if began else self._vain[runner] + 1
        if lost or self._vain[runner] <= RECORDED_STARTS:
            incident = Incident(
                kind=self._kind,
                who=self._name(runner),
                node=self._node(runner),
                cause=death.cause if began else f"before it had begun: {death.cause}",
                remedy="another one takes its place",
            )
            self._losses.append(LostRequests(tuple(lost), lost[0] if lost and began else None, incident))
        if lost and began and CAN_FORK:
            self._caged[runner] = 0
        self.part(runner)
        tried = self._vain if not self._as_room or self._here() else [n for n in self._vain if n]
        if tried and all(vain >= MOST_STARTS for vain in tried):
            raise Failure(
                f"no {self._name()} can start: each died {MOST_STARTS} times in a row before it had begun, "
                f"the last one: {death.cause}. Everything that was recorded is kept: go on with --resume"
            )
        return rollouts

    def _end_requests(self, runners: Sequence[int]) -> tuple[list[Rollout], list[int]]:
        """Forget all requests of these runners; return those that are played, and numbers of the others."""
        mine = [reference for reference, pending in self._pending.items() if pending[1] in runners]
        done = self._ray.wait(mine, num_returns=len(mine), timeout=0)[0] if mine else []
        rollouts: list[Rollout] = []
        lost: list[int] = []
        for reference in mine:
            request_id, _, episodes = self._pending[reference]
            self._forget(reference)
            try:
                if reference not in done:
                    raise LookupError
                results, info = self._ray.get(reference)
            except (LookupError, self._ray.exceptions.RayError, PlayKilled):
                lost.append(request_id)
            else:
                rollouts.append(Rollout(request_id, results, info, episodes))
        return rollouts, lost

    def _blame_node(self, runner: int, error: Exception) -> list[Rollout]:
        """Have all runners of this one's node begin elsewhere if an error is the node's; else raise it.

        Return what they had played.
        """
        node_id = self._at[runner] or node_of(self._ray, self._actors[runner])
        if node_id in fitness:  # it was placed there before that was known
            return self._leave_node(runner, node_id, None)
        incident = None if self._seats else fitness.blame(node_id, sentence_of(error))
        if incident is None:
            raise own_error(error, self._nodes[runner], begun=self._played)
        return self._leave_node(runner, node_id, incident)

    def _leave_node(self, runner: int, node_id: str, incident: Incident | None) -> list[Rollout]:
        """End the runners of an unfit node, of which this is one; they begin where there is room."""
        going = list({runner, *self._on(node_id)})
        rollouts, lost = self._end_requests(going)
        for each in going:
            self._vain[each] = 0
            self.part(each)
        if lost and incident is None:
            incident = Incident(
                kind="results",
                who=f"{len(lost)} requests of {self._name()}s",
                node=self._seen.name(node_id),
                cause="the node is unfit",
                remedy="their matches are played again",
            )
        if incident is not None:
            self._losses.append(LostRequests(tuple(lost), None, incident))
        return rollouts

    def _has_begun(self, runner: int) -> bool:
        """Return whether a runner that died had begun: it had answered."""
        for reference in [r for r, number in self._answers.items() if number == runner]:
            try:
                self._ray.get(reference, timeout=0)
            except Exception:  # the same death, or no answer yet
                return False
            return True
        return runner not in self._starting

    def _forget(self, reference: Any, *, played: bool = False) -> None:
        request_id, runner, _ = self._pending.pop(reference)
        self._watch.answered(runner, request_id, counts=played)
        self._load[runner] -= 1
        self._least_loaded.note(runner)

    def _name(self, runner: int | None = None) -> str:
        name = self._kind.replace("_", " ")
        return name if runner is None else f"{name} {runner}"

    def losses(self) -> list[LostRequests]:
        begun = [LostRequests((), None, incident) for incident in fitness.untold()]
        losses, self._losses = [*begun, *self._losses], []
        return losses

    def close(self) -> None:
        if not is_lost():
            for actor in self._actors:
                self._ray.kill(actor)
        self._pending.clear()
        self._answers.clear()
