"""Learners as Ray actors, placed by shard, each shard on one node unless none is large enough.

Experience arrives as episodes or as references to them, which go to the shard's actors unopened.
Weights leave the same way.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from torch import Tensor

from league.learning.data.aggregator import Gathering, concatenate_as_tree
from league.learning.data.queues import Block, Queue, Waiting
from league.learning.groups.learner_group import Enrolled, LiveWeights
from league.learning.groups.shard_actors import Sent, ShardActors
from league.learning.groups.shard_learners import Counters, Learned, LearnerStopped, LearnReport, Weights
from league.learning.groups.shards import (
    Move,
    Shard,
    move_due,
    moved,
    shard_of,
    spread,
    with_player,
    with_runners,
    without_player,
)
from league.learning.learner import LearnerState
from league.learning.recruits import Recruit, Recruits
from league.runtime import ONE_CPU, Amounts, Placement, inside, release, reserve
from storage.errors import Failure, Mistake

LOST = (
    "the process of the learners died (out of memory, or killed); what was saved last is intact: "
    "go on with --resume"
)
PEER_SECONDS = 5.0  # within which the death of a shard's process is known


class LearnersLost(Failure):
    """Death of the process of a shard's learners; what they learned since the last save is lost."""


class _Pending(NamedTuple):
    """Call of `learn` under way."""

    block: Block
    weights: Any  # reference


def _own(error: Exception) -> Exception:
    """Return the error of a learner's process that is meant for the user, else `error` itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Failure | Mistake) else error


class RayLearnerGroup(Enrolled):
    """Learners as Ray actors, each shard's in its bundle of one placement group.

    The driver sees references only. The queues are the actors' mailboxes, where calls wait with references
    to their experience; the driver counts them. Raises Mistake if the cluster cannot hold the shards and
    `num_runners` runners, each of which needs `of_runner`; with `wait_seconds` only after that time.

    With `share` below 1 the learners keep that part of each of their cards, and `seats` are the places of the
    runners on them.
    """

    def __init__(
        self,
        shards: Sequence[Shard],
        recruits: Recruits,
        *,
        num_runners: int = 0,
        of_runner: Amounts = ONE_CPU,
        wait_seconds: float | None = None,
        share: float = 1.0,
        placement: Placement = "pack",
    ) -> None:
        import ray

        settings = recruits.shared
        if settings.aggregators > num_runners > 0:
            raise Mistake(
                f"learner.aggregators is {settings.aggregators} with {num_runners} runners, expected no more "
                "than those: an aggregator gathers what several of them bring; lower it"
            )
        self._ray: Any = ray
        self._settings = settings
        self._plan = list(shards)
        aggregators = spread(settings.aggregators, shards)
        of_shard = [shard.bundles(n) for shard, n in zip(shards, aggregators, strict=True)]
        owners = [i for i, bundles in enumerate(of_shard) for _ in bundles]
        guests: list[int] = []  # the bundle of each runner that plays on a card of the learners
        if share < 1.0:
            of_shard, guests = with_runners(of_shard, num_runners, of_runner["CPU"])
        self._group = reserve(
            [bundle for bundles in of_shard for bundle in bundles],
            num_runners - len(guests),
            of_runner,
            wait_seconds=wait_seconds,
            shards=owners,
            placement=placement,
        )
        placed = [inside(self._group, i) for i in range(len(owners))]
        self.seats = [placed[i] for i in guests]
        self._shards = []
        for i, (shard, n) in enumerate(zip(shards, aggregators, strict=True)):
            places = [place for place, owner in zip(placed, owners, strict=True) if owner == i]
            self._shards.append(ShardActors(ray, shard, n, places, recruits, share))
        self._building = [reference for shard in self._shards for reference in shard.built]
        self._pending: dict[Any, _Pending] = {}
        self._queues: dict[str, Queue] = {}
        self._gathering: dict[str, Gathering] = {}
        self._live: dict[str, LiveWeights] = {}
        self._retired: dict[str, Any] = {}  # references to Counters
        self._recruits: dict[str, Recruit] = {}
        for recruit in recruits.in_order(player for shard in shards for player in shard.players):
            _, weights = self._of(recruit.player).call("publish", recruit.player, num_returns=2)
            self._open(recruit, LiveWeights(0, weights))

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        """Queue experience, or a reference to it, for `player`."""
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
        """Return what is finished; raise LearnersLost if a process died."""
        self._check_watched()
        for shard in self._shards:
            self._send_waiting(shard, everything=not self._settings.async_update)
        if not self._pending:
            return []
        waiting = list(self._pending)
        if self._settings.async_update:
            done, _ = self._ray.wait(waiting, num_returns=1, timeout=timeout_seconds)
            if done:  # one came: take all others that are there
                done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        else:
            done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=None)
        for shard in self._shards:  # again: there may be room now
            self._send_waiting(shard, everything=False)
        outcomes: list[LearnReport | LearnerStopped] = []
        for reference in done:
            if reference not in self._pending:  # its player was stopped by another report just now
                continue
            block, weights = self._pending.pop(reference)
            try:
                learned: Learned = self._get(reference)
            except Exception:
                self._queues[block.player].drop(block)
                raise
            outcome = self._queues[block.player].settle(block, learned)
            if isinstance(outcome, LearnReport) and learned.published:
                self._live[block.player] = LiveWeights(outcome.updates, weights)
            if isinstance(outcome, LearnerStopped):
                self._drop(block.player)
            if outcome is not None:
                outcomes.append(outcome)
        return outcomes

    def state(self, player: str) -> LearnerState:
        """Return a copy of the learner's state, taken after everything submitted before."""
        shard = self._of(player)
        self._send_waiting(shard, everything=True)
        return self._get(shard.processes[0].state.remote(player))

    def weights(self, player: str) -> Weights:
        """Return the newest published weights of `player`."""
        weights: Weights = self._get(self._live[player].handle)
        return weights

    def load_state(self, player: str, state: LearnerState) -> None:
        """Let the learner go on from `state`."""
        self._send_waiting(self._of(player), everything=True)
        stored = self._ray.put(state)
        version, weights = self._of(player).call("load_state", player, stored, num_returns=2)
        self._live[player] = LiveWeights(self._get(version), weights)
        self._queues[player].stopped = False

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Go on from `weights`; experience queued before is learned first and forgotten with the old ones."""
        self._forget(player)
        stored = self._ray.put(dict(weights))
        version, fresh = self._of(player).call("reset", player, stored, num_returns=2)
        self._live[player] = LiveWeights(self._get(version), fresh)

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None = None) -> None:
        """Add a learner to the shard of the fewest players, with `weights` or those that its seed gives."""
        player = recruit.player
        plan, chosen = with_player(self._plan, player)
        counters = self._get(self._retired.pop(player)) if player in self._retired else Counters()
        stored = None if weights is None else self._ray.put(dict(weights))
        version, fresh = self._shards[chosen].call("add", recruit, stored, counters, num_returns=2)
        self._shards[chosen].watched.append(version)
        self._plan = plan
        self._open(recruit, LiveWeights(counters.updates, fresh))

    def remove(self, player: str) -> None:
        """Free the learner, its optimizer and its experience."""
        self._forget(player)
        self._retired[player] = self._of(player).call("remove", player)
        self._plan = without_player(self._plan, player)
        del self._queues[player], self._gathering[player], self._live[player], self._recruits[player]
        while (move := move_due(self._plan)) is not None:
            self._move(move)

    def _move(self, move: Move) -> None:
        """Move a player to another shard, with all that it has learned; its part of the replay is dropped.

        Experience submitted before is learned from where it is, and reported as usual.
        """
        player, source, target = move.player, self._shards[move.source], self._shards[move.target]
        if not target.aggregators:  # less than one update takes
            self._drop_gathered(player)
        self._send_waiting(source, everything=True)
        state = source.processes[0].state.remote(player)
        self._get(state)  # of a process that died, in words
        source.watched.append(source.call("remove", player))
        added, _ = target.call("add", self._recruits[player], None, Counters(), num_returns=2)
        target.watched.append(added)
        version, weights = target.call("load_state", player, state, num_returns=2)
        self._live[player] = LiveWeights(self._get(version), weights)
        self._plan = moved(self._plan, move)

    def _open(self, recruit: Recruit, live: LiveWeights) -> None:
        """Open an empty queue for the player, with its weights."""
        player, settings = recruit.player, recruit.settings
        self._recruits[player] = recruit
        self._live[player] = live
        self._queues[player] = Queue(player, self._settings.max_backlog)
        self._gathering[player] = Gathering(settings.batch_steps * (1.0 - settings.replay.proportion))

    def _of(self, player: str) -> ShardActors:
        return self._shards[shard_of(self._plan, player)]

    def _get(self, reference: Any) -> Any:
        errors = self._ray.exceptions
        try:
            if self._building:  # an error while learners are built causes all later ones
                self._ray.get(self._building)
                self._building = []
            return self._ray.get(reference)
        except errors.RayActorError as error:
            raise LearnersLost(LOST) from error
        except errors.RayTaskError as error:
            self._check_watched(PEER_SECONDS)  # a peer's death shows here as a sum that cannot be made
            raise _own(error) from None

    def _check_watched(self, timeout_seconds: float = 0.0) -> None:
        """Raise the error of a process whose results are not waited for."""
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
            raise _own(found[0]) from None

    def _forget(self, player: str) -> None:
        """Wait for nothing of `player` any more: earlier reports would bring back old weights."""
        queue = self._queues[player]
        self._send_waiting(self._of(player), everything=True)
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            del self._pending[reference]
        queue.clear()
        self._drop_gathered(player)
        queue.stopped = False

    def _drop(self, player: str) -> None:
        """Drop everything that waits for a stopped learner."""
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
        """End all actors and free their resources."""
        for shard in self._shards:
            shard.kill()
        release(self._group)
        self._pending.clear()
