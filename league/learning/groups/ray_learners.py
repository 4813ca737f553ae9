"""Learners as Ray actors, placed by shard, each shard on one node unless none is large enough.

Experience arrives as episodes or as references to them, which go to the shard's actors unopened.
Weights leave the same way.

What dies is replaced here, while the other shards go on:

    process of a shard, or   all processes of the shard are made anew; its players go on from the newest copy
    one of several peers     of their states, at a version of weights that was never used. What was under way
                             to the shard is dropped: it was played by weights that are gone
    aggregator               a new one takes its place; the blocks that it had are dropped
    experience, with a node  the block is dropped

Copies of states are in the driver's memory, so they outlive every other node: each state that was taken to
be saved, and one more every `learner.copy_seconds`. A learner that dies at every block stops its player, with
the block kept for inspection, as an update does whose loss is no number.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from torch import Tensor

from league.deaths import Death, death_of
from league.episode import Episodes
from league.learning.data.aggregator import Gathering, concatenate_as_tree
from league.learning.data.queues import Block, Queue, Waiting
from league.learning.groups.copies import Copies, First, first_of
from league.learning.groups.learner_group import Enrolled, LearnerLoss, LiveWeights
from league.learning.groups.shard_actors import Sent, ShardActors
from league.learning.groups.shard_learners import (
    Counters,
    Experience,
    Learned,
    LearnerStopped,
    LearnReport,
    Weights,
)
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
from storage.incidents import Incident

PEER_SECONDS = 5.0  # within which the death of a shard's process is known
DEATHS = 3  # of a shard's learners in a row, each at a block of experience, after which a player is stopped
MOST_DEATHS = 10  # of a shard's learners in a row, without anything learned in between


class LearnersLost(Failure):
    """Learners that die before they have learned anything, however often they are replaced."""


class _Pending(NamedTuple):
    """Call of `learn` under way."""

    block: Block
    weights: Any  # reference
    shard: int
    episodes: Any  # or a reference to them


def _own(error: Exception) -> Exception:
    """Return the error of a learner's process that is meant for the user, else `error` itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Failure | Mistake) else error


def _make(ray: Any, shard: Shard, **placing: Any) -> ShardActors:
    return ShardActors(ray, shard, **placing)


def arrays_of(experience: Experience) -> dict[str, np.ndarray]:
    """Return the arrays of a block of experience by name, to be kept in a file."""
    if isinstance(experience, Episodes):
        found = {name: getattr(experience, name) for name in Episodes.__slots__}
        return {name: value for name, value in found.items() if isinstance(value, np.ndarray)}
    return {name: np.asarray(value) for name, value in experience.items()}


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
        self._shards: list[ShardActors] = []
        self._makers: list[Callable[[Shard], ShardActors]] = []
        for i, (shard, n) in enumerate(zip(shards, aggregators, strict=True)):
            places = [place for place, owner in zip(placed, owners, strict=True) if owner == i]
            self._makers.append(
                functools.partial(_make, ray, aggregators=n, placed=places, recruits=recruits, share=share)
            )
            self._shards.append(self._makers[i](shard))
        self._pending: dict[Any, _Pending] = {}
        self._queues: dict[str, Queue] = {}
        self._gathering: dict[str, Gathering] = {}
        self._live: dict[str, LiveWeights] = {}
        self._retired: dict[str, tuple[Any, Counters]] = {}  # reference to Counters; those that are known
        self._recruits: dict[str, Recruit] = {}
        self._copies = Copies(ray, settings.copy_seconds)
        self._loading: dict[str, Any] = {}  # of players whose shard was made anew: when they are back
        self._deaths = [0] * len(shards)  # of each shard's learners in a row, with nothing learned in between
        self._at_blocks = [0] * len(shards)  # of those, deaths while they learned
        self._losses: list[LearnerLoss] = []
        self._stops: list[LearnerStopped] = []
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
            self._note(index, shard.learn(block, episodes, progress))

    def _note(self, index: int, sent: Sent) -> None:
        self._pending[sent.report] = _Pending(sent.block, sent.weights, index, sent.episodes)

    def _send_waiting(self, index: int, *, everything: bool) -> None:
        for sent in self._shards[index].send_waiting(everything=everything):
            self._note(index, sent)

    def ready(self, timeout_seconds: float) -> list[LearnReport | LearnerStopped]:
        """Return what is finished. What died is replaced first; raise LearnersLost if that is in vain."""
        self._check_watched()
        self._copies.refresh(
            self.players(), lambda player: self._of(player).processes[0].state.remote(player)
        )
        for index in range(len(self._shards)):
            self._send_waiting(index, everything=not self._settings.async_update)
        stops, self._stops = self._stops, []
        if not self._pending:
            return list(stops)
        waiting = list(self._pending)
        if self._settings.async_update:
            done, _ = self._ray.wait(waiting, num_returns=1, timeout=timeout_seconds)
            if done:  # one came: take all others that are there
                done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
        else:
            done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=None)
        for index in range(len(self._shards)):  # again: there may be room now
            self._send_waiting(index, everything=False)
        outcomes: list[LearnReport | LearnerStopped] = [*stops]
        for reference in done:
            if reference in self._pending:  # else its player was stopped, or its shard died, just now
                outcome = self._settle(reference)
                if outcome is not None:
                    outcomes.append(outcome)
        stops, self._stops = self._stops, []
        return [*outcomes, *stops]

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
        self._send_waiting(self._index(player), everything=True)
        if self._is_loading(player):
            return self._copies.newest[player].state
        state: LearnerState = self._ask(player, lambda shard: shard.processes[0].state.remote(player))
        self._copies.keep(player, state)
        return state

    def weights(self, player: str) -> Weights:
        """Return the newest published weights of `player`."""
        try:
            weights: Weights = self._ray.get(self._live[player].handle)
        except self._ray.exceptions.RayError as error:
            if death_of(error, self._ray.exceptions) is None:
                raise _own(error) from None
            weights = self._ask(player, lambda shard: shard.call("publish", player, num_returns=2)[1])
        return weights

    def load_state(self, player: str, state: LearnerState) -> None:
        """Let the learner go on from `state`."""
        self._send_waiting(self._index(player), everything=True)
        self._publish(player, "load_state", self._ray.put(state))
        self._copies.keep(player, state)
        self._queues[player].stopped = False

    def reset(self, player: str, weights: Mapping[str, Tensor]) -> None:
        """Go on from `weights`; experience queued before is learned first and forgotten with the old ones."""
        self._forget(player)
        self._publish(player, "reset", self._ray.put(dict(weights)))
        fresh = self._shards[self._index(player)].processes[0].state.remote(player)
        try:
            self._copies.keep(player, self._ray.get(fresh))
        except self._ray.exceptions.RayError as error:
            self._lose(self._index(player), error)
            self.reset(player, weights)  # the copy that it went back to is of before

    def _publish(self, player: str, method: str, *arguments: Any) -> None:
        """Call a method of the player's learner that publishes new weights, and wait for it."""
        handles = []

        def call(shard: ShardActors) -> Any:
            version, fresh = shard.call(method, player, *arguments, num_returns=2)
            handles.append(fresh)
            return version

        version = self._ask(player, call)
        self._live[player] = LiveWeights(version, handles[-1])

    def _is_loading(self, player: str) -> bool:
        """Return whether the player's shard was made anew and is not back yet."""
        if player not in self._loading:
            return False
        done, _ = self._ray.wait([self._loading[player]], num_returns=1, timeout=0)
        if done:
            del self._loading[player]
        return not done and player in self._copies.newest

    # ------------------------------------------------------------------ deaths

    def losses(self) -> list[LearnerLoss]:
        """Return what died since the last call: it is replaced already."""
        losses, self._losses = self._losses, []
        return losses

    def _ask(self, player: str, call: Callable[[ShardActors], Any], index: int | None = None) -> Any:
        """Return the result of a call of the player's shard, repeated on its successor if it dies.

        `call` returns a reference; `index`: number of another shard. Raise LearnersLost if its successors
        die, too.
        """
        index = self._index(player) if index is None else index
        while True:
            try:
                self._require_built(index)
                return self._ray.get(call(self._shards[index]))
            except self._ray.exceptions.RayError as error:
                self._lose(index, error)

    def _require_built(self, index: int) -> None:
        """Wait until the shard's learners are built: an error meanwhile causes all later ones."""
        shard = self._shards[index]
        if shard.built:
            self._ray.get(shard.built)
            shard.built = []

    def _lose(self, index: int, error: Exception, reference: Any = None) -> None:
        """Replace what an error of a call of this shard shows to be dead; raise errors of the code.

        `reference`: of the block that the call was to learn from.
        """
        death = death_of(error, self._ray.exceptions)
        if death is None:  # a peer's death shows as a sum that cannot be made
            death = self._dead_peer(index)
            if death is None:
                self._abandon(reference)
                raise _own(error) from None
        if death.of == "process":
            self._replace(index, death)
            return
        several = len(self._shards[index].processes) > 1
        block = self._abandon(reference)
        aggregator = self._shards[index].replace_aggregator(death.actor)
        incident = Incident(
            kind="aggregator" if aggregator else "experience",
            who=f"aggregator of shard {index}" if aggregator else f"experience for shard {index}",
            cause=death.cause,
            players=() if block is None else (block.player,),
            env_steps=0 if block is None else block.steps,
            remedy="another one takes its place" if aggregator else "learning goes on with other experience",
            happened_at=time.time(),
        )
        self._losses.append(LearnerLoss(incident, {}))
        if several:  # some of the processes may have had it, and wait for the sum with the others
            self._replace(index, Death("process", f"{incident.who} was lost"))

    def _dead_peer(self, index: int) -> Death | None:
        """Return the death of one of several processes of a shard, if one is known within PEER_SECONDS."""
        processes = self._shards[index].processes
        if len(processes) == 1:
            return None
        answers = [process.where.remote() for process in processes]
        done, _ = self._ray.wait(answers, num_returns=len(answers), timeout=PEER_SECONDS)
        for answer in done:
            try:
                self._ray.get(answer)
            except self._ray.exceptions.RayError as error:
                death = death_of(error, self._ray.exceptions)
                if death is not None and death.of == "process":
                    return death
        return None

    def _check_watched(self) -> None:
        """Replace shards of which a call has failed that is not waited for; raise errors of the code."""
        for index, shard in enumerate(self._shards):
            waited = [*shard.built, *shard.watched]
            if not waited:
                continue
            done, _ = self._ray.wait(waited, num_returns=len(waited), timeout=0)
            shard.built = [reference for reference in shard.built if reference not in done]
            shard.watched = [reference for reference in shard.watched if reference not in done]
            for reference in done:  # in this order: an error while they are built causes all later ones
                try:
                    self._ray.get(reference)
                except self._ray.exceptions.RayError as error:
                    self._lose(index, error)
                    break  # the others are of the same processes

    def _abandon(self, reference: Any) -> Block | None:
        """Drop a block that was sent; return it."""
        if reference not in self._pending:
            return None
        block = self._pending.pop(reference).block
        self._queues[block.player].drop(block)
        return block

    def _replace(self, index: int, death: Death) -> None:
        """Make a shard's processes anew, with its players as they were copied last.

        Raise LearnersLost if the last MOST_DEATHS successors died before they had learned anything.
        """
        dead, players = self._shards[index], self._plan[index].players
        rank = dead.rank_of(death.actor)
        self._deaths[index] += 1
        mine = [reference for reference, pending in self._pending.items() if pending.shard == index]
        suspect = self._pending[mine[0]] if mine else None
        if suspect is not None and self._had_begun(suspect.block.player):
            self._at_blocks[index] += 1
        name = f"learners of shard {index} ({', '.join(players)})"
        if self._deaths[index] > MOST_DEATHS:
            raise LearnersLost(
                f"{name} died {self._deaths[index]} times before they had learned anything, "
                f"last: {death.cause}; what was saved last is intact: go on with --resume"
            )
        dropped = sum(block.steps for block in map(self._abandon, mine) if block is not None)
        for player in players:
            for block in dead.take_back(player):
                self._queues[player].drop(block)
                dropped += block.steps
            dropped += self._drop_gathered(player)
        self._copies.forget_coming(players)
        node = dead.node_of(rank)
        dead.kill()
        shard = self._shards[index] = self._makers[index](replace(self._plan[index], players=()))
        updates, oldest, back = 0, 0.0, {}
        for player in players:
            lost, age = self._bring_back(player, shard)
            updates, oldest = updates + lost, max(oldest, age)
            back[player] = self._copies.counters[player]
        incident = Incident(
            kind="peer" if rank else "learner",
            who=f"process {rank} of the {name}" if len(dead.processes) > 1 else name,
            node=node,
            cause=death.cause,
            players=players,
            env_steps=dropped,
            updates=updates,
            remedy=f"a new process goes on from a copy {oldest:.0f} s old",
            happened_at=time.time(),
        )
        self._losses.append(LearnerLoss(incident, back))
        if suspect is not None and self._at_blocks[index] >= DEATHS:
            self._stop(suspect, death, self._at_blocks[index])
            self._deaths[index] = self._at_blocks[index] = 0

    def _had_begun(self, player: str) -> bool:
        """Return whether the player's learner could learn: it was not just being brought back."""
        if player not in self._loading:
            return True
        try:
            self._ray.get(self._loading[player], timeout=0)
        except Exception:  # the same death, or no answer yet
            return False
        return True

    def _bring_back(self, player: str, shard: ShardActors) -> tuple[int, float]:
        """Let the player go on in a shard that was made anew; return lost updates and the age of its copy.

        It goes on at a version of its weights that was never used: none is ever used twice.
        """
        known, recruit = self._copies.known(player), self._recruits[player]
        version = max(known.updates, self._live[player].version) + 1
        copy, first = self._copies.newest.get(player), self._copies.first.get(player, First())
        if copy is None:
            counters = Counters(version, first.counters.env_steps)
            loaded, weights = shard.call("add", recruit, first.weights, counters, num_returns=2)
            lost, age = known.updates - first.counters.updates, 0.0
        else:
            state = replace(copy.state, updates=version)
            counters = Counters(version, state.env_steps)
            added, _ = shard.call("add", recruit, None, Counters(), num_returns=2)
            shard.watched.append(added)
            loaded, _ = shard.call("load_state", player, self._ray.put(state), num_returns=2)
            # at once, and not when they are loaded: runners would wait for them in matches of other players
            weights = self._ray.put({name: tensor.numpy() for name, tensor in state.weights.items()})
            lost, age = known.updates - copy.state.updates, copy.age
            self._copies.newest[player] = copy._replace(state=state)
        shard.watched.append(loaded)
        self._loading[player] = loaded
        self._live[player] = LiveWeights(version, weights)
        self._copies.counters[player] = counters
        return max(0, lost), age

    def _stop(self, suspect: _Pending, death: Death, deaths: int) -> None:
        """Stop the player at whose blocks its learner keeps dying; keep the last one of them."""
        player = suspect.block.player
        message = (
            f"its learner died {deaths} times in a row while it learned, the last time of: {death.cause}"
        )
        try:
            episodes = suspect.episodes
            if isinstance(episodes, self._ray.ObjectRef):
                episodes = self._ray.get(episodes, timeout=PEER_SECONDS)
            tensors = arrays_of(episodes)
        except Exception:  # lost with the node, too
            tensors = {}
        self._queues[player].stopped = True
        update = self._copies.known(player).updates + 1
        self._stops.append(LearnerStopped(player, message, update, tensors))

    # ------------------------------------------------------------------ players come and go

    def add(self, recruit: Recruit, weights: Mapping[str, Tensor] | None = None) -> None:
        """Add a learner to the shard of the fewest players, with `weights` or those that its seed gives."""
        player = recruit.player
        plan, chosen = with_player(self._plan, player)
        first = first_of(self._ray, weights, self._counters_of_retired(player))
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
            counters: Counters = self._ray.get(reference)
        except self._ray.exceptions.RayError:  # its process has died since
            return known
        return counters

    def remove(self, player: str) -> None:
        """Free the learner, its optimizer and its experience."""
        self._forget(player)
        shard, known = self._of(player), self._copies.known(player)
        next_updates = max(known.updates, self._live[player].version) + 1
        self._retired[player] = shard.call("remove", player), Counters(next_updates, known.env_steps)
        self._plan = without_player(self._plan, player)
        self._copies.forget(player)
        self._loading.pop(player, None)
        del self._queues[player], self._gathering[player], self._live[player], self._recruits[player]
        while (move := move_due(self._plan)) is not None:
            self._move(move)

    def _move(self, move: Move) -> None:
        """Move a player to another shard, with all that it has learned; its part of the replay is dropped.

        Experience submitted before is learned from where it is, and reported as usual.
        """
        player, handles = move.player, []
        if not self._shards[move.target].aggregators:  # less than one update takes
            self._drop_gathered(player)
        stored = self._ray.put(self.state(player))
        source = self._shards[move.source]
        source.watched.append(source.call("remove", player))

        def load(target: ShardActors) -> Any:
            added, _ = target.call("add", self._recruits[player], None, Counters(), num_returns=2)
            target.watched.append(added)
            version, weights = target.call("load_state", player, stored, num_returns=2)
            handles.append(weights)
            return version

        version = self._ask(player, load, move.target)
        self._live[player] = LiveWeights(version, handles[-1])
        self._plan = moved(self._plan, move)

    def _open(self, recruit: Recruit, live: LiveWeights) -> None:
        """Open an empty queue for the player, with its weights."""
        player, settings = recruit.player, recruit.settings
        self._recruits[player] = recruit
        self._live[player] = live
        self._queues[player] = Queue(player, self._settings.max_backlog)
        self._gathering[player] = Gathering(settings.batch_steps * (1.0 - settings.replay.proportion))

    def _index(self, player: str) -> int:
        return shard_of(self._plan, player)

    def _of(self, player: str) -> ShardActors:
        return self._shards[self._index(player)]

    def _forget(self, player: str) -> None:
        """Wait for nothing of `player` any more: earlier reports would bring back old weights."""
        queue = self._queues[player]
        self._send_waiting(self._index(player), everything=True)
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            del self._pending[reference]
        queue.clear()
        self._drop_gathered(player)
        self._copies.forget_coming([player])
        queue.stopped = False

    def _drop(self, player: str) -> None:
        """Drop everything that waits for a stopped learner."""
        queue = self._queues[player]
        for reference in [r for r, pending in self._pending.items() if pending.block.player == player]:
            queue.drop(self._pending.pop(reference).block)
        for block in self._of(player).take_back(player):
            queue.drop(block)
        self._drop_gathered(player)

    def _drop_gathered(self, player: str) -> int:
        """Drop what waits at the aggregators for a block to fill; return its steps."""
        gathered = self._gathering[player].take()
        self._queues[player].lost(len(gathered.parts), gathered.steps)
        self._queues[player].gathering = 0
        return gathered.steps

    def close(self) -> None:
        """End all actors and free their resources."""
        for shard in self._shards:
            shard.kill()
        release(self._group)
        self._pending.clear()
