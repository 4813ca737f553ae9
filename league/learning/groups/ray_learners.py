"""Learners as Ray actors, placed by shard, each shard on one node unless none is large enough.

Experience arrives as episodes or as references to them, which go to the shard's actors unopened.
Weights leave the same way.

What dies or hangs is replaced (`Replacing`), and shards follow the nodes (`Moving`). Copies of states are in
the driver's memory, so they outlive every other node: each state that was taken to be saved, and one more
every `learners.copy_seconds`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from torch import Tensor

from league.cluster.answers import LOOK_SECONDS, Patience, Setting
from league.cluster.calls import carried, death_of
from league.cluster.head import is_lost
from league.cluster.placement import ONE_CPU, Amounts, Placement
from league.cluster.reservation import inside, release, reserve
from league.learning.groups.copies import Copies, First
from league.learning.groups.queues import Block, Gathering, Queue, concatenate_as_tree
from league.learning.groups.relocation import Moving
from league.learning.groups.replacement import PEER_SECONDS, Pending, own_error
from league.learning.groups.shard_actors import ShardActors
from league.learning.groups.shard_learners import (
    Counters,
    Learned,
    LearnerStopped,
    LearnReport,
    LiveWeights,
    Recruit,
    Recruits,
    Weights,
)
from league.learning.groups.shards import (
    PlayerMove,
    Shard,
    evenly,
    move_due,
    moved,
    shard_of,
    with_player,
    with_runners,
    without_player,
)
from league.learning.learner.learner import LearnerState
from league.learning.settings import LearnerSettings

UNHEARD = 1_000  # updates of a removed learner, at most, that its process made and did not report


class RayLearners(Moving):
    """Learners as Ray actors, each shard's in its bundle of one placement group.

    The driver sees references only. The queues are the actors' mailboxes, where calls wait with references
    to their experience; the driver counts them. Raises Mistake if the cluster cannot hold the shards and
    `num_runners` runners, each of which needs `of_runner`; with `wait_seconds` only after that time.

    With `share` below 1 the learners keep that part of each of their cards, and `seats` are the places of the
    runners on them. `patience` is `resources.patience_seconds`; `clock` returns seconds that only grow.
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
        patience: Setting = "auto",
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        import ray

        settings = self._settings = recruits.shared
        self._ray: Any = ray
        self._everyone, self._share, self._placement = recruits, share, placement
        self._patience, self._clock = Patience(patience), clock
        self._lay_out(shards)
        guests: list[int] = []  # the bundle of each runner that plays on a card of the learners
        if share < 1.0:
            self._bundles, guests = with_runners(self._bundles, num_runners, of_runner["CPU"])
        self._group = reserve(
            [bundle for bundles in self._bundles for bundle in bundles],
            num_runners - len(guests),
            of_runner,
            wait_seconds=wait_seconds,
            shards=[i for i, bundles in enumerate(self._bundles) for _ in bundles],
            placement=placement,
        )
        self.seats = [inside(self._group, i) for i in guests]
        self._shards = [self._make(i, shard.players) for i, shard in enumerate(shards)]
        if guests:  # two runners that came first could sit on one card, with no room for its learner
            for shard_actors in self._shards:
                shard_actors.await_processes()
        self._pending: dict[Any, Pending] = {}
        self._queues: dict[str, Queue] = {}
        self._step_bytes: dict[str, int] = {}  # of a step of experience, at least
        self._gathering: dict[str, Gathering] = {}
        self._live: dict[str, LiveWeights] = {}
        self._retired: dict[str, tuple[Any, Counters]] = {}  # reference to Counters; those that are known
        self._recruits: dict[str, Recruit] = {}
        self._copies = Copies(ray, settings.copy_seconds)
        Moving.__init__(self, len(shards))
        for recruit in recruits.in_order(player for shard in shards for player in shard.players):
            _, weights = self._of(recruit.player).call("publish", recruit.player, num_returns=2)
            self._open(recruit, LiveWeights(0, weights))

    def _make(self, index: int, players: tuple[str, ...]) -> ShardActors:
        first = sum(map(len, self._bundles[:index]))
        return ShardActors(
            self._ray,
            replace(self._plan[index], players=players),
            aggregators=evenly(self._settings.aggregators, len(self._plan))[index],
            placed=[inside(self._group, first + i) for i in range(len(self._bundles[index]))],
            recruits=self._everyone,
            share=self._share,
        )

    def submit(self, player: str, episodes: Any, progress: float = 0.0, steps: int = 0) -> None:
        """Queue experience, or a reference to it, for `player`."""
        shard, queue = self._of(player), self._queues[player]
        if queue.state.stopped:
            queue.lost(1, steps)
            return
        if not shard.aggregators or not steps:
            self._learn(player, episodes, progress, queue.block(1, steps))
            return
        part = carried(self._ray, episodes, steps * self._step_bytes[player])
        gathered = self._gathering[player].add(part, steps, time.monotonic())
        queue.state.gathering = len(self._gathering[player])
        if gathered is not None:
            block = queue.block(len(gathered.parts), gathered.steps, gathered.since)
            self._learn(player, concatenate_as_tree(gathered.parts, shard.concatenate), progress, block)

    def _learn(self, player: str, episodes: Any, progress: float, block: Block) -> None:
        index = shard_of(self._plan, player)
        episodes = carried(self._ray, episodes, block.steps * self._step_bytes[player])
        report, weights = self._shards[index].call("learn", player, episodes, progress, num_returns=2)
        self._pending[report] = Pending(block, weights, index, episodes)

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """Return what is finished. What died is replaced first; raise LearnersLost if that is in vain."""
        self._look_for_hangs()
        self._check_watched()
        self._copies.refresh(self.players(), lambda player: self._of(player).state(player))
        outcomes, self._outcomes = self._outcomes, []
        outcomes += self._settle_done(1, timeout_seconds)
        while self._pending and not self._settings.async_update:
            outcomes += self._settle_done(len(self._pending), LOOK_SECONDS)
            self._look_for_hangs()
        found, self._outcomes = self._outcomes, []
        return [*outcomes, *found]

    def _settle_done(self, count: int, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """Return the outcomes of blocks that are learned; wait until there are `count`, or for so long."""
        waiting = list(self._pending)
        if not waiting:
            return []
        done, _ = self._ray.wait(waiting, num_returns=count, timeout=timeout_seconds)
        if done:  # some came: take all others that are there
            done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        return self._settled(done)

    def _settled(self, done: Iterable[Any]) -> list[LearnReport | LearnerStopped]:
        """Return the outcomes of blocks that are learned, without those that were dropped."""
        # some may be gone meanwhile: their player was stopped, or their shard has died, just now
        outcomes = [self._settle(reference) for reference in done if reference in self._pending]
        return [outcome for outcome in outcomes if outcome is not None]

    def _settle(self, reference: Any) -> LearnReport | LearnerStopped | None:
        """Return the outcome of a block that was sent; `None` for one that was dropped."""
        block, weights, index, _ = self._pending[reference]
        queue = self._queues[block.player]
        try:
            self._require_built(index)
            learned: Learned = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            self._lose(index, error, reference)
            return None
        del self._pending[reference]
        self._deaths[index] = self._at_blocks[index] = 0
        outcome = queue.settle(block, learned)
        if isinstance(outcome, LearnReport):
            self._copies.counters[block.player] = Counters(outcome.updates, outcome.env_steps)
            if outcome.metrics is not None:
                self._shards[index].updated.add(block.player)
                spent = outcome.spent
                self._patience.learned(block.player, spent.learning + spent.broadcasting)
            if learned.published:
                self._live[block.player] = LiveWeights(outcome.updates, weights)
        if isinstance(outcome, LearnerStopped):
            self._drop(block.player)
        return outcome

    # ------------------------------------------------------------------ states

    def state(self, player: str) -> LearnerState:
        """Return a copy of the learner's state, taken after everything submitted before.

        If the learner has died, it is the state from which it goes on, and nothing waits until it does.
        """
        if not self._is_away(player):
            state: LearnerState | None = self._ask(
                player, lambda shard: shard.state(player), lambda: self._is_away(player)
            )
            if state is not None:
                self._copies.keep(player, state)
        self._copies.forget_coming([player])  # this one is newer
        return self._copies.newest[player].state

    def state_soon(self, player: str) -> LearnerState | None:
        """Return what `state` returns, or `None` until it has come."""
        if self._is_away(player) or self._index(player) in self._given_up:
            return self.state(player)
        soon = self._copies.soon
        if player not in soon:
            soon[player] = self._of(player).state(player)
        if not self._ray.wait([soon[player]], num_returns=1, timeout=0)[0]:
            return None
        try:
            state: LearnerState = self._ray.get(soon.pop(player))
        except self._ray.exceptions.RayError as error:
            self._lose(self._index(player), error)
            return None
        self._copies.keep(player, state)
        self._copies.forget_coming([player])
        return state

    def ask_states(self, players: Iterable[str] | None = None) -> None:
        """Ask for a copy of each learner's state; nothing waits for one that is away, stopped or cut off."""
        for player in self.players() if players is None else players:
            if self._index(player) not in self._given_up and not self._is_away(player):
                self._copies.save(player, lambda player: self._of(player).state(player))

    def arrived(self) -> dict[str, LearnerState]:
        return self._copies.arrived()

    def copies(self) -> dict[str, LearnerState]:
        return {player: copy.state for player, copy in self._copies.newest.items()}

    def weights(self, player: str) -> Weights:
        while not self._ray.wait([self._live[player].handle], num_returns=1, timeout=LOOK_SECONDS)[0]:
            self._look_for_hangs()  # which may give it other weights
        try:
            weights: Weights = self._ray.get(self._live[player].handle)
        except self._ray.exceptions.RayError as error:
            if death_of(error, self._ray.exceptions) is None:
                raise own_error(error) from None
            weights = self._ask(player, lambda shard: shard.call("publish", player, num_returns=2)[1])
        return weights

    def load_state(self, player: str, state: LearnerState) -> None:
        stored = self._ray.put(state)
        self._publish(player, lambda shard: shard.call("load_state", player, stored, num_returns=2))
        self._copies.keep(player, state)
        self._queues[player].state.stopped = False

    def reset(
        self, player: str, weights: Mapping[str, Tensor], settings: LearnerSettings | None = None
    ) -> None:
        """Go on from `weights`; experience queued before is learned first and forgotten with the old ones."""
        self._forget(player)
        if settings is not None:
            self._recruits[player] = replace(self._recruits[player], settings=settings)
        stored = self._ray.put(dict(weights))
        self._publish(player, lambda shard: shard.call("reset", player, stored, settings, num_returns=2))
        known = self._copies.known(player)
        self._copies.begin(player, First(stored, known._replace(updates=self._live[player].version)))

    def _publish(self, player: str, send: Callable[[ShardActors], tuple[Any, Any]]) -> None:
        """Make a call of the player's shard that gives the player new weights, and wait for it.

        `send` returns references to their version and to the weights.
        """
        handles: list[Any] = []

        def call(shard: ShardActors) -> Any:
            version, fresh = send(shard)
            handles.append(fresh)
            return version

        version = self._ask(player, call)
        self._live[player] = LiveWeights(version, handles[-1])

    # ------------------------------------------------------------------ players come and go

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None = None) -> None:
        """Add a learner to the shard of the fewest players, with `weights` or those that its seed gives."""
        player = recruit.player
        plan, chosen = with_player(self._plan, player)
        stored = None if weights is None else self._ray.put(dict(weights))
        first = First(stored, self._counters_of_retired(player))
        arguments = recruit, first.weights, first.counters
        version, fresh = self._shards[chosen].call("add", *arguments, num_returns=2)
        self._shards[chosen].watched.append(version)
        self._plan = plan
        self._copies.first[player] = first
        self._open(recruit, LiveWeights(first.counters.updates, fresh))

    def _counters_of_retired(self, player: str) -> Counters:
        """Return the counters at which a player of this name goes on; zeros if there was none."""
        if player not in self._retired:
            return Counters()
        reference, known = self._retired.pop(player)
        try:
            counters: Counters = self._ray.get(reference, timeout=PEER_SECONDS)
        except self._ray.exceptions.RayError:  # its process has died since, or hangs
            return known
        return counters

    def remove(self, player: str) -> None:
        self._forget(player)
        shard, known = self._of(player), self._copies.known(player)
        next_updates = max(known.updates, self._live[player].version) + UNHEARD
        self._retired[player] = shard.call("remove", player), Counters(next_updates, known.env_steps)
        self._plan = without_player(self._plan, player)
        self._copies.forget(player)
        self._loading.pop(player, None)
        for of_player in (self._queues, self._step_bytes, self._gathering, self._live, self._recruits):
            del of_player[player]
        while (move := move_due(self._plan)) is not None:
            self._move(move)

    def _move(self, move: PlayerMove) -> None:
        """Move a player to another shard, with its state, which has its replay too.

        Experience submitted before is learned from where it is, and reported as usual.
        """
        player = move.player
        if not self._shards[move.target].aggregators:  # less than one update takes
            self._drop_gathered(player)
        state = self.state(player)
        source = self._shards[move.source]
        source.watched.append(source.call("remove", player))
        self._load(player, state, self._shards[move.target])
        self._plan = moved(self._plan, move)

    def _open(self, recruit: Recruit, live: LiveWeights) -> None:
        """Open an empty queue for the player, with its weights."""
        player, settings = recruit.player, recruit.settings
        self._recruits[player] = recruit
        self._live[player] = live
        learned = recruit.spec.learned
        self._step_bytes[player] = learned.size * np.dtype(learned.dtype).itemsize
        self._queues[player] = Queue(player, self._settings.max_backlog)
        self._gathering[player] = Gathering(settings.batch_steps * (1.0 - settings.replay.proportion))

    def _forget(self, player: str) -> None:
        """Wait for nothing of `player` any more: earlier reports would bring back old weights."""
        queue = self._queues[player]
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            del self._pending[reference]
        queue.clear()
        self._drop_gathered(player)
        self._copies.forget_coming([player])
        queue.state.stopped = False

    def _drop(self, player: str) -> None:
        """Drop everything that waits for a stopped learner."""
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            self._abandon(reference)
        self._drop_gathered(player)

    def close(self) -> None:
        """End all actors and free their resources."""
        if is_lost():
            return
        for shard in self._shards:
            shard.kill()
        release(self._group)
        self._release_coming()
        self._pending.clear()
