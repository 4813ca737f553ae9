"""What follows a death or hang among learners on Ray: replacement, with its cost counted, and no one waits.

    process of a shard, or   all processes of the shard are made again; its players go on from the newest copy
    one of several peers     of their states, at a version of weights that was never used. What was under way
                             to the shard is dropped: it was played by weights that are gone
    aggregator               a new one takes its place; the blocks that it had are dropped
    experience, with a node  the block is dropped
    any of them, by a hang   it is ended when its patience is over, and then it has died

Where the driver waits for an answer, as for a state at the end, it looks at what hangs meanwhile. So no call
takes longer than the work before it and the patience.

A learner that dies at every block stops its player, with the block kept for inspection, as an update does
whose loss is no number. A shard that dies again and again before it has learned anything is given up: its
players are stopped, and it is tried once more when one of them gets other weights. This module does not
import Ray: the group passes the module.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from league.cluster.answers import LOOK_SECONDS, Looks, Patience
from league.cluster.calls import Death, Inside, death_of, has_process
from league.episode import Episodes
from league.learning.data.peers import PeersLost
from league.learning.groups.copies import Copies, First
from league.learning.groups.learners import LearnerLoss, Learners
from league.learning.groups.queues import Block, Gathering
from league.learning.groups.shard_actors import ShardActors
from league.learning.groups.shard_learners import Counters, LearnerStopped, LearnReport, LiveWeights, Recruit
from league.learning.groups.shards import shard_of
from league.learning.learner.learner import LearnerState
from storage.errors import Failure, Mistake
from storage.incidents import SILENT, Incident

PEER_SECONDS = 5.0  # within which the death of a shard's process is known
DEATHS = 3  # of a shard's learners in a row, each at a block of experience, after which a player is stopped
MOST_DEATHS = 10  # of a shard's learners in a row, without anything learned in between


class LearnersLost(Failure):
    """Learners that die before they have learned anything, however often they are replaced."""


class Pending(NamedTuple):
    """Call of `learn` under way."""

    block: Block
    weights: Any  # reference
    shard: int
    episodes: Any  # or a reference to them, or one inside


def own_error(error: Exception) -> Exception:
    """Return the error of a learner's process that is meant for the user, else `error` itself."""
    cause = getattr(error, "cause", None)
    return cause if isinstance(cause, Failure | Mistake) else error


class Replacing(Learners):
    """Shards of actors, and what is done when one of these dies."""

    _ray: Any
    _shards: list[ShardActors]
    _pending: dict[Any, Pending]  # by the reference to its report
    _gathering: dict[str, Gathering]
    _recruits: dict[str, Recruit]
    _copies: Copies
    _patience: Patience
    _clock: Callable[[], float]

    def __init__(self, num_shards: int) -> None:
        self._looks = Looks(self._clock)
        self._loading: dict[str, Any] = {}  # of players whose shard was made again: when they are back
        self._hung: dict[str, str] = {}  # causes of the ends of aggregators, by their ids
        self._losses: list[LearnerLoss] = []
        self._outcomes: list[LearnReport | LearnerStopped] = []  # to be returned by `ready`
        self._forget_deaths(num_shards)

    def _forget_deaths(self, num_shards: int) -> None:
        self._deaths = [0] * num_shards  # of each shard's learners in a row, with nothing learned in between
        self._at_blocks = [0] * num_shards  # of those, deaths while they learned
        self._given_up: dict[int, str] = {}  # shards, and why

    @abstractmethod
    def _make(self, index: int, players: tuple[str, ...]) -> ShardActors:
        """Return new actors of a shard, in its places of the groups, with learners of these players."""

    def _index(self, player: str) -> int:
        return shard_of(self._plan, player)

    def _of(self, player: str) -> ShardActors:
        return self._shards[self._index(player)]

    def losses(self) -> list[LearnerLoss]:
        losses, self._losses = self._losses, []
        return losses

    def _ask(
        self, player: str, call: Callable[[ShardActors], Any], enough: Callable[[], bool] = lambda: False
    ) -> Any:
        """Return the result of a call of the player's shard, repeated on its successor if it dies or hangs.

        `call` returns a reference. Return `None` once `enough` is true without it. Raise LearnersLost if the
        successors die, too.
        """
        index = self._index(player)
        if index in self._given_up:
            self._make_again(index)
        while not (enough() or index in self._given_up):
            shard = self._shards[index]
            reference = call(shard)
            try:
                while self._shards[index] is shard and index not in self._given_up:
                    done, _ = self._ray.wait([reference], num_returns=1, timeout=LOOK_SECONDS)
                    if done:
                        self._require_built(index)
                        return self._ray.get(reference)
                    self._look_for_hangs()
            except self._ray.exceptions.RayError as error:
                self._lose(index, error)
        if enough():
            return None
        raise LearnersLost(f"{self._given_up[index]}. What was saved last is intact: go on with --resume")

    def _require_built(self, index: int) -> None:
        """Raise the error of building a shard's learners, if there is one: it causes all later ones."""
        shard = self._shards[index]
        if shard.built:
            done, shard.built = self._ray.wait(shard.built, num_returns=len(shard.built), timeout=0)
            self._ray.get(done)

    def _lose(self, index: int, error: Exception, reference: Any = None) -> None:
        """Replace what an error of a call of this shard shows to be dead; raise errors of the code.

        `reference`: of the block that the call was to learn from.
        """
        death = death_of(error, self._ray.exceptions)
        if death is None:  # a peer's death shows as a sum that cannot be made
            death, cause = self._dead_peer(index), own_error(error)
            if death is None and isinstance(cause, PeersLost):  # it hangs
                death = Death("process", str(cause))
            if death is None:
                self._abandon(reference)
                raise cause from None
        if death.of == "process":
            self._replace(index, death)
            return
        several = len(self._shards[index].processes) > 1
        block = self._abandon(reference)
        aggregator = self._shards[index].replace_aggregator(death.actor)
        incident = Incident(
            kind="aggregator" if aggregator else "experience",
            who=f"aggregator of shard {index}" if aggregator else f"experience for shard {index}",
            cause=self._hung.pop(death.actor, death.cause),
            players=() if block is None else (block.player,),
            env_steps=0 if block is None else block.steps,
            remedy="another one takes its place" if aggregator else "learning goes on with other experience",
        )
        self._losses.append(LearnerLoss(incident))
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
        """Make a shard's processes again, with its players as they were copied last, and count the cost.

        Give it up if the last MOST_DEATHS successors died before they had learned anything.
        """
        dead, players = self._shards[index], self._plan[index].players
        rank = dead.rank_of(death.actor)
        self._deaths[index] += 1
        suspect = next(map(self._pending.__getitem__, self._under_way(index)), None)
        if suspect is not None and self._is_back(suspect.block.player):
            self._at_blocks[index] += 1
        name = f"learners of shard {index} ({', '.join(players)})"
        dropped = self._drop_under_way(index)
        if self._deaths[index] > MOST_DEATHS:
            self._give_up(index, name, death)
            return
        node = dead.node_of(rank)
        dead.kill()
        updates, oldest, back = self._make_again(index)
        incident = Incident(
            kind="peer" if rank else "learner",
            who=f"process {rank} of the {name}" if death.actor and len(dead.processes) > 1 else name,
            node=node,
            cause=death.cause,
            players=players,
            env_steps=dropped,
            updates=updates,
            remedy=f"a new process goes on from a copy {oldest:.0f} s old",
        )
        self._losses.append(LearnerLoss(incident, back))
        if suspect is not None and self._at_blocks[index] >= DEATHS:
            self._stop(suspect, death, self._at_blocks[index])
            self._deaths[index] = self._at_blocks[index] = 0

    def _drop_under_way(self, index: int) -> int:
        """Drop all experience that is under way to a shard; return its steps."""
        players = self._plan[index].players
        dropped = self._drop_sent(index)
        for player in players:
            dropped += self._drop_gathered(player)
        self._copies.forget_coming(players)
        return dropped

    def _drop_sent(self, index: int) -> int:
        """Drop the blocks that were sent to a shard; return their steps."""
        blocks = map(self._abandon, self._under_way(index))
        return sum(block.steps for block in blocks if block is not None)

    def _under_way(self, index: int) -> list[Any]:
        """Return the references to the blocks that were sent to a shard, in order."""
        return [reference for reference, pending in self._pending.items() if pending.shard == index]

    def _make_again(self, index: int) -> tuple[int, float, dict[str, Counters]]:
        """Make a shard's actors again, with its players as they were copied last.

        Return the updates that are lost, the age of the oldest copy, and where the players go on.
        """
        plan = self._plan[index]
        self._given_up.pop(index, None)
        shard = self._shards[index] = self._make(index, ())
        updates, oldest = 0, 0.0
        back: dict[str, Counters] = {}
        for player in plan.players:
            lost, age = self._bring_back(player, shard)
            updates, oldest = updates + lost, max(oldest, age)
            back[player] = self._copies.counters[player]
        return updates, oldest, back

    def _give_up(self, index: int, name: str, death: Death) -> None:
        """Stop the players of a shard that dies whenever it is made, before it has learned anything."""
        shard = self._shards[index]
        shard.kill()
        shard.built, shard.watched = [], []
        message = f"{name} died {self._deaths[index]} times before they had learned anything: {death.cause}"
        for player in self._plan[index].players:
            self._queues[player].state.stopped = True
            self._outcomes.append(LearnerStopped(player, message, self._copies.known(player).updates + 1, {}))
        self._deaths[index] = 0
        self._given_up[index] = message
        incident = Incident(
            kind="learner",
            who=name,
            cause=death.cause,
            players=self._plan[index].players,
            remedy="they are stopped, as they died whenever they were made again",
        )
        self._losses.append(LearnerLoss(incident))

    def _is_back(self, player: str) -> bool:
        """Return whether the player's learner can learn: it is not just being brought back."""
        if player in self._loading:
            try:
                self._ray.get(self._loading[player], timeout=0)
            except Exception:  # it died once more, or there is no answer yet
                return False
            del self._loading[player]
        return True

    def _bring_back(self, player: str, shard: ShardActors) -> tuple[int, float]:
        """Let the player go on in a shard that was made again; return lost updates and the age of its copy.

        It goes on at a version of its weights that was never used: none is ever used twice.
        """
        known, recruit = self._copies.known(player), self._recruits[player]
        version = max(known.updates, self._live[player].version) + 1
        copy, first = self._copies.newest.get(player), self._copies.first.get(player, First())
        if copy is None:
            counters = Counters(version, first.counters.env_steps)
            loaded, weights = shard.call("add", recruit, first.weights, counters, num_returns=2)
            self._note_loading(player, shard, loaded, LiveWeights(version, weights))
            lost, age = known.updates - first.counters.updates, 0.0
        else:
            state = replace(copy.state, updates=version)
            counters = Counters(version, state.env_steps)
            self._load(player, state, shard)
            lost, age = known.updates - copy.state.updates, copy.age
            self._copies.newest[player] = copy._replace(state=state)
        self._copies.counters[player] = counters
        return max(0, lost), age

    def _load(self, player: str, state: LearnerState, shard: ShardActors) -> None:
        """Add the player to a shard, where it goes on from `state`.

        Its weights are live at once: runners would wait for them in matches of other players.
        """
        added, _ = shard.call("add", self._recruits[player], None, Counters(), num_returns=2)
        shard.watched.append(added)
        loaded, _ = shard.call("load_state", player, self._ray.put(state), num_returns=2)
        weights = self._ray.put({name: tensor.numpy() for name, tensor in state.weights.items()})
        self._note_loading(player, shard, loaded, LiveWeights(state.updates, weights))

    def _note_loading(self, player: str, shard: ShardActors, loaded: Any, live: LiveWeights) -> None:
        shard.watched.append(loaded)
        self._loading[player] = loaded
        self._live[player] = live

    def _stop(self, suspect: Pending, death: Death, deaths: int) -> None:
        """Stop the player at whose blocks its learner keeps dying; keep the last one of them."""
        player = suspect.block.player
        message = (
            f"its learner died {deaths} times in a row while it learned, the last time of: {death.cause}"
        )
        try:
            episodes = suspect.episodes
            if isinstance(episodes, Inside):
                episodes = episodes.reference
            if isinstance(episodes, self._ray.ObjectRef):
                episodes = self._ray.get(episodes, timeout=PEER_SECONDS)
            arrays = episodes.arrays() if isinstance(episodes, Episodes) else episodes
            tensors = {name: np.asarray(value) for name, value in arrays.items()}
        except Exception:  # lost with the node, too
            tensors = {}
        self._queues[player].state.stopped = True
        update = self._copies.known(player).updates + 1
        self._outcomes.append(LearnerStopped(player, message, update, tensors))

    def _is_away(self, player: str) -> bool:
        """Return whether the player's shard is given up, or not back yet, and its state was copied."""
        gone = self._index(player) in self._given_up
        if player in self._loading:
            gone |= not self._ray.wait([self._loading[player]], num_returns=1, timeout=0)[0]
        return gone and player in self._copies.newest

    def away(self) -> tuple[str, ...]:
        coming = [player for player in list(self._loading) if not self._is_back(player)]
        late = [
            player
            for index, shard in enumerate(self._shards)
            if self._is_late(index, shard)
            for player in self._plan[index].players
        ]
        return tuple(dict.fromkeys([*coming, *late]))

    def _drop_gathered(self, player: str) -> int:
        """Drop what waits at the aggregators for a block to fill; return its steps."""
        gathered = self._gathering[player].take()
        self._queues[player].lost(len(gathered.parts), gathered.steps)
        self._queues[player].state.gathering = 0
        return gathered.steps

    # ------------------------------------------------------------------ hangs

    def _look_for_hangs(self) -> None:
        """End processes that have been silent for too long; to be called at any time."""
        passed = self._looks.passed()
        for index, shard in enumerate(self._shards if passed else ()):
            if index not in self._given_up:
                self._end_if_silent(index, shard, passed)

    def _end_if_silent(self, index: int, shard: ShardActors, seconds: float) -> None:
        """End what hangs of a shard, the aggregators first: its learners may wait for them."""
        players, waits = self._plan[index].players, False
        for aggregator, silence in zip(shard.aggregators, shard.silences, strict=True):
            silent, actor = silence.look(seconds), aggregator._actor_id.hex()
            patience = self._patience.seconds(()) if silence.answered else self._patience.first()
            if silent > patience and actor not in self._hung:  # its blocks fail, and it is replaced with that
                self._hung[actor], waits = f"{SILENT} for {silent:.0f} s", True
                self._ray.kill(aggregator)
            waits |= silent > 0.0 and actor not in self._hung  # such as one that is just being started
        silent = shard.silence.look(seconds)
        learning = {self._pending[reference].block.player for reference in self._under_way(index)}
        fresh = shard.built or not learning <= shard.updated
        patience = self._patience.first() if fresh else self._patience.seconds(players)
        if shard.aggregators:  # the end of one of them is to be known first
            patience += PEER_SECONDS
        if silent <= patience or waits:
            return
        if shard.built and not all(has_process(self._ray, process) for process in shard.processes):
            shard.silence.seconds = 0.0  # one waits for a node, which may take long
        else:
            self._replace(index, Death("process", f"{SILENT} for {silent:.0f} s"))

    def _is_late(self, index: int, shard: ShardActors) -> bool:
        return shard.silence.seconds > self._patience.late(self._plan[index].players)

    def news(self) -> list[str]:
        return self._patience.news()
