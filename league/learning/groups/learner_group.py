"""All learners of a run, placed by shard: in this process, or as Ray actors, each shard on one node.

Experience arrives as whatever the runners handed out: episodes themselves, or references to
them, which go to the shard's actors unopened. Weights leave the same way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from torch import Tensor

from league.learning.data.aggregator import Gathering, concatenate_as_tree
from league.learning.data.queues import Block, Queue, QueueInfo, Waiting
from league.learning.groups.local_learners import Enrolled, LiveWeights, LocalLearnerGroup
from league.learning.groups.shard_actors import Sent, ShardActors
from league.learning.groups.shard_learners import Counters, Learned, LearnerStopped, LearnReport
from league.learning.groups.shards import Shard, shard_of, spread, with_player, without_player
from league.learning.learner import LearnerSettings, LearnerState
from league.models.spec import PolicySpec
from league.runtime import release, reserve
from storage.errors import Failure, Mistake

__all__ = [
    "LearnReport",
    "LearnerGroup",
    "LearnerStopped",
    "LearnersLost",
    "LiveWeights",
    "LocalLearnerGroup",
    "RayLearnerGroup",
]

LOST = (
    "the process of the learners died (out of memory, or killed); what was saved last is intact: "
    "go on with --resume"
)
PEER_SECONDS = 5.0  # within which the death of a shard's process is known


class LearnersLost(Failure):
    """The process of a shard's learners died, and with it what they had learned since the last save."""


class LearnerGroup(Protocol):
    """What the loop asks of its learners."""

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        """Queue experience for `player`; `progress` is the part of the run that is done, in [0, 1].

        `steps` is how many steps it has; 0: not known (it is then learned from as it is).
        """

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """What is finished, at once if there is anything; new weights are live from here on.

        Without `learner.async_update`: everything submitted, when it is finished.
        """

    def backlog(self, player: str) -> int:
        """Blocks of `player`'s experience that were submitted and not yet reported."""

    def full(self, player: str) -> bool:
        """Whether so much waits for `player`'s learner that play should wait; counted as a wait then."""

    def queues(self) -> Mapping[str, QueueInfo]: ...

    def plan(self) -> Sequence[Shard]:
        """Who trains where now."""

    def players(self) -> tuple[str, ...]: ...

    def live(self, player: str) -> LiveWeights: ...

    def state(self, player: str) -> LearnerState:
        """A copy of the learner's state, taken after everything submitted before."""

    def load_state(self, player: str, state: LearnerState) -> None: ...

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Go on from `weights`. What was submitted before still counts, but is reported no more."""

    def add(
        self,
        player: str,
        seed: int,
        weights: Mapping[str, Tensor] | None = None,
        settings: LearnerSettings | None = None,
        spec: PolicySpec | None = None,
    ) -> None:
        """A new learner, in the shard of the fewest players; the others go on meanwhile.

        Its weights are those of `seed`, its settings and policy those of the group, if none are given.
        """

    def remove(self, player: str) -> None:
        """Free the learner, its optimizer and its experience; its place is for the next to come."""

    def replace(self, player: str, seed: int, weights: Mapping[str, Tensor] | None = None) -> None:
        """A new learner in the place of the old, which is freed. Counters and versions go on."""

    def close(self) -> None: ...


class _Pending(NamedTuple):
    """A call of `learn` under way."""

    block: Block
    weights: Any  # reference


class RayLearnerGroup(Enrolled):
    """Ray actors, each shard's in its bundle of one placement group. The driver sees references only.

    The queues are the actors' mailboxes, where calls wait with references to their experience; the
    driver counts them. Raises Mistake if the cluster cannot hold the shards and `num_runners` runners.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        spec: PolicySpec,
        settings: LearnerSettings,
        seeds: Mapping[str, int],
        *,
        device: str = "cpu",
        threads: int = 1,
        num_runners: int = 0,
        own: Mapping[str, LearnerSettings] | None = None,
        own_specs: Mapping[str, PolicySpec] | None = None,
    ) -> None:
        """`own`: players that learn by other settings than `settings`, which hold for all the rest;
        `own_specs`: players whose policies are other than `spec`."""
        import ray

        if settings.aggregators > num_runners > 0:
            raise Mistake(
                f"learner.aggregators is {settings.aggregators} with {num_runners} runners, expected no more "
                "than those: an aggregator gathers what several of them bring; lower it"
            )
        self._ray: Any = ray
        self._settings = settings
        self._plan = list(shards)
        aggregators = spread(settings.aggregators, shards)
        bundles = [shard.bundle(n) for shard, n in zip(shards, aggregators, strict=True)]
        self._group = reserve(bundles, num_runners)
        self._own = dict(own or {})
        learning = (spec, settings, dict(seeds), device, threads, self._own, dict(own_specs or {}))
        self._shards = [
            ShardActors(ray, shard, n, self._group, i, learning)
            for i, (shard, n) in enumerate(zip(shards, aggregators, strict=True))
        ]
        self._building = [reference for shard in self._shards for reference in shard.built]
        self._pending: dict[Any, _Pending] = {}
        self._queues: dict[str, Queue] = {}
        self._gathering: dict[str, Gathering] = {}
        self._live: dict[str, LiveWeights] = {}
        self._retired: dict[str, Any] = {}  # references to Counters
        for player in (player for shard in shards for player in shard.players):
            self._open(player, LiveWeights(0, self._of(player).call("publish", player, num_returns=2)[1]))

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        shard, queue = self._of(player), self._queues[player]
        if queue.stopped:
            queue.lost(1, steps)
            return
        if not shard.aggregators or not steps:
            self._learn(player, episodes, progress, queue.block(1, steps))
            return
        gathered = self._gathering[player].add(episodes, steps, time.monotonic())
        queue.gathering = len(self._gathering[player])
        if gathered is not None:
            block = queue.block(len(gathered.parts), gathered.steps, gathered.since)
            self._learn(player, concatenate_as_tree(gathered.parts, shard.concatenate), progress, block)

    def _learn(self, player: str, episodes: Any, progress: float, block: Block) -> None:
        index = shard_of(self._plan, player)
        shard, trained = self._shards[index], self._plan[index]
        several = len(trained.players) > 1 and trained.processes == 1
        if self._settings.stacked == "auto" and (several or shard.waiting):
            shard.waiting.append(Waiting(block, episodes, progress))  # until `ready`, for others to come
        else:
            self._note(shard.learn(block, episodes, progress))

    def _note(self, sent: Sent) -> None:
        self._pending[sent.report] = _Pending(sent.block, sent.weights)

    def _send_waiting(self, shard: ShardActors, *, everything: bool) -> None:
        for sent in shard.send_waiting(everything=everything):
            self._note(sent)

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        self._check_watched()
        for shard in self._shards:
            self._send_waiting(shard, everything=not self._settings.async_update)
        if not self._pending:
            return []
        waiting = list(self._pending)
        if self._settings.async_update:
            done, _ = self._ray.wait(waiting, num_returns=1, timeout=timeout_seconds)
            if done:  # one came: take whatever else is there
                done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        else:
            done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=None)
        for shard in self._shards:  # again: there may be room now
            self._send_waiting(shard, everything=False)
        outcomes: list[LearnReport | LearnerStopped] = []
        for reference in done:
            if reference not in self._pending:  # its player was found to be stopped just now
                continue
            block, weights = self._pending.pop(reference)
            learned: Learned = self._get(reference)
            outcome = self._queues[block.player].settle(block, learned)
            if isinstance(outcome, LearnReport) and learned.published:
                self._live[block.player] = LiveWeights(outcome.updates, weights)
            if isinstance(outcome, LearnerStopped):
                self._drop(block.player)
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def nodes(self) -> list[list[str]]:
        """For each shard, the ids of the nodes of its actors: all the same."""
        return [shard.nodes() for shard in self._shards]

    def state(self, player: str) -> LearnerState:
        shard = self._of(player)
        self._send_waiting(shard, everything=True)
        return self._get(shard.processes[0].state.remote(player))

    def load_state(self, player: str, state: LearnerState) -> None:
        self._send_waiting(self._of(player), everything=True)
        stored = self._ray.put(state)
        version, weights = self._of(player).call("load_state", player, stored, num_returns=2)
        self._live[player] = LiveWeights(self._get(version), weights)
        self._queues[player].stopped = False

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Experience queued before is learned first, and forgotten with the weights it moved."""
        self._forget(player)
        stored = self._ray.put(dict(weights))
        version, fresh = self._of(player).call("reset", player, stored, num_returns=2)
        self._live[player] = LiveWeights(self._get(version), fresh)

    def add(
        self,
        player: str,
        seed: int,
        weights: Mapping[str, Tensor] | None = None,
        settings: LearnerSettings | None = None,
        spec: PolicySpec | None = None,
    ) -> None:
        plan, chosen = with_player(self._plan, player)
        counters = self._get(self._retired.pop(player)) if player in self._retired else Counters()
        stored = None if weights is None else self._ray.put(dict(weights))
        arguments = (player, seed, stored, counters, settings, spec)
        version, fresh = self._shards[chosen].call("add", *arguments, num_returns=2)
        self._shards[chosen].watched.append(version)
        self._plan = plan
        if settings is not None:
            self._own[player] = settings
        self._open(player, LiveWeights(counters.updates, fresh))

    def remove(self, player: str) -> None:
        self._forget(player)
        self._retired[player] = self._of(player).call("remove", player)
        self._plan = without_player(self._plan, player)
        self._own.pop(player, None)
        del self._queues[player], self._gathering[player], self._live[player]

    def replace(self, player: str, seed: int, weights: Mapping[str, Tensor] | None = None) -> None:
        self._forget(player)
        stored = None if weights is None else self._ray.put(dict(weights))
        version, fresh = self._of(player).call("replace", player, seed, stored, num_returns=2)
        self._live[player] = LiveWeights(self._get(version), fresh)

    def _open(self, player: str, live: LiveWeights) -> None:
        """An empty queue for `player`, with its weights."""
        self._live[player] = live
        self._queues[player] = Queue(player, self._settings.max_backlog)
        settings = self._own.get(player, self._settings)
        self._gathering[player] = Gathering(settings.batch_steps * (1.0 - settings.replay.proportion))

    def _of(self, player: str) -> ShardActors:
        return self._shards[shard_of(self._plan, player)]

    def _get(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            if self._building:  # whatever keeps learners from being made is the cause of all that follows
                self._ray.get(self._building)
                self._building = []
            return self._ray.get(reference)
        except errors.RayActorError as error:
            raise LearnersLost(LOST) from error
        except errors.RayTaskError:
            self._check_watched(PEER_SECONDS)  # a peer's death shows here as a sum that cannot be made
            raise

    def _check_watched(self, timeout_seconds: float = 0.0) -> None:
        """Raise what went wrong in a process that nobody waits for."""
        found: list[Exception] = []
        for shard in self._shards:
            if shard.watched:
                done, shard.watched = self._ray.wait(
                    shard.watched, num_returns=len(shard.watched), timeout=timeout_seconds
                )
                for reference in done:
                    try:
                        self._ray.get(reference)
                    except self._ray.exceptions.RayError as error:
                        found.append(error)
        for cause in found:
            if isinstance(cause, self._ray.exceptions.RayActorError):
                raise LearnersLost(LOST) from cause
        if found:
            raise found[0]

    def _forget(self, player: str) -> None:
        """Nothing of `player` is waited for any more: reports of before would bring back old weights."""
        queue = self._queues[player]
        self._send_waiting(self._of(player), everything=True)
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            del self._pending[reference]
        queue.clear()
        self._drop_gathered(player)
        queue.stopped = False

    def _drop(self, player: str) -> None:
        """A stopped learner will take nothing of what waits for it."""
        queue = self._queues[player]
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            queue.drop(self._pending.pop(reference).block)
        for block in self._of(player).take_back(player):
            queue.drop(block)
        self._drop_gathered(player)

    def _drop_gathered(self, player: str) -> None:
        gathered = self._gathering[player].take()
        self._queues[player].lost(len(gathered.parts), gathered.steps)
        self._queues[player].gathering = 0

    def close(self) -> None:
        for shard in self._shards:
            shard.kill()
        release(self._group)
        self._pending.clear()
