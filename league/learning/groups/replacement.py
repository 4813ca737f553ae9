"""What follows a death among learners on Ray: it is replaced, its cost is counted, others are not disturbed.

    process of a shard, or   all processes of the shard are made again; its players go on from the newest copy
    one of several peers     of their states, at a version of weights that was never used. What was under way
                             to the shard is dropped: it was played by weights that are gone
    aggregator               a new one takes its place; the blocks that it had are dropped
    experience, with a node  the block is dropped

A learner that dies at every block stops its player, with the block kept for inspection, as an update does
whose loss is no number. A shard that dies again and again before it has learned anything is given up: its
players are stopped, and it is tried once more when one of them gets other weights. This module does not
import Ray: the group passes the module.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from league.cluster.calls import Death, Inside, death_of
from league.episode import Episodes
from league.learning.groups.copies import Copies, First
from league.learning.groups.learners import LearnerLoss, Learners, LiveWeights
from league.learning.groups.queues import Block, Gathering
from league.learning.groups.shard_actors import ShardActors
from league.learning.groups.shard_learners import Counters, Experience, LearnerStopped, LearnReport, Recruit
from league.learning.groups.shards import shard_of
from storage.errors import Failure, Mistake
from storage.incidents import Incident

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


def arrays_of(experience: Experience) -> dict[str, np.ndarray]:
    """Return the arrays of a block of experience by name, to be kept in a file."""
    if isinstance(experience, Episodes):
        return experience.arrays()
    return {name: np.asarray(value) for name, value in experience.items()}


class Replacing(Learners):
    """Shards of actors, and what is done when one of these dies."""

    _ray: Any
    _shards: list[ShardActors]
    _pending: dict[Any, Pending]  # by the reference to its report
    _gathering: dict[str, Gathering]
    _recruits: dict[str, Recruit]
    _copies: Copies

    def __init__(self, num_shards: int) -> None:
        self._loading: dict[str, Any] = {}  # of players whose shard was made again: when they are back
        self._states: dict[Any, str] = {}  # references to states that are to be saved, to players
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
        """Return what died since the last call: it is replaced already."""
        losses, self._losses = self._losses, []
        return losses

    def _ask(self, player: str, call: Callable[[ShardActors], Any], index: int | None = None) -> Any:
        """Return the result of a call of the player's shard, repeated on its successor if it dies.

        `call` returns a reference; `index`: number of another shard. Raise LearnersLost if its successors
        die, too.
        """
        index = self._index(player) if index is None else index
        if index in self._given_up:
            self._make_again(index)
        while index not in self._given_up:
            try:
                self._require_built(index)
                return self._ray.get(call(self._shards[index]))
            except self._ray.exceptions.RayError as error:
                self._lose(index, error)
        raise LearnersLost(f"{self._given_up[index]}. What was saved last is intact: go on with --resume")

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
                raise own_error(error) from None
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
        """Make a shard's processes again, with its players as they were copied last, and count the cost.

        Give it up if the last MOST_DEATHS successors died before they had learned anything.
        """
        dead, players = self._shards[index], self._plan[index].players
        rank = dead.rank_of(death.actor)
        self._deaths[index] += 1
        mine = [reference for reference, pending in self._pending.items() if pending.shard == index]
        suspect = self._pending[mine[0]] if mine else None
        if suspect is not None and self._had_begun(suspect.block.player):
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

    def _drop_under_way(self, index: int) -> int:
        """Drop all experience that is under way to a shard; return its steps."""
        players = self._plan[index].players
        mine = [reference for reference, pending in self._pending.items() if pending.shard == index]
        dropped = sum(block.steps for block in map(self._abandon, mine) if block is not None)
        for player in players:
            dropped += self._drop_gathered(player)
        self._copies.forget_coming(players)
        self._forget_states(players)
        return dropped

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
            self._queues[player].stopped = True
            self._outcomes.append(LearnerStopped(player, message, self._copies.known(player).updates + 1, {}))
        self._deaths[index] = 0
        self._given_up[index] = message
        incident = Incident(
            kind="learner",
            who=name,
            cause=death.cause,
            players=self._plan[index].players,
            remedy="they are stopped, as they died whenever they were made again",
            happened_at=time.time(),
        )
        self._losses.append(LearnerLoss(incident, {}))

    def _forget_states(self, players: Sequence[str]) -> None:
        """Drop states of these players that were asked for: newer ones are known, or the learner is gone."""
        self._states = {r: player for r, player in self._states.items() if player not in players}

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
        """Let the player go on in a shard that was made again; return lost updates and the age of its copy.

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
            tensors = arrays_of(episodes)
        except Exception:  # lost with the node, too
            tensors = {}
        self._queues[player].stopped = True
        update = self._copies.known(player).updates + 1
        self._outcomes.append(LearnerStopped(player, message, update, tensors))

    def _is_away(self, player: str) -> bool:
        """Return whether the player's shard is given up, or not back yet, and its state was copied."""
        if self._index(player) in self._given_up:
            return player in self._copies.newest
        if player not in self._loading:
            return False
        done, _ = self._ray.wait([self._loading[player]], num_returns=1, timeout=0)
        if done:
            del self._loading[player]
        return not done and player in self._copies.newest

    def away(self) -> tuple[str, ...]:
        """Return the players whose learner died and is not back yet."""
        found = []
        for player, loaded in list(self._loading.items()):
            done, _ = self._ray.wait([loaded], num_returns=1, timeout=0)
            try:
                if not done:
                    raise LookupError
                self._ray.get(loaded)
            except (LookupError, self._ray.exceptions.RayError):  # it died once more
                found.append(player)
            else:
                del self._loading[player]
        return tuple(found)

    def _drop_gathered(self, player: str) -> int:
        """Drop what waits at the aggregators for a block to fill; return its steps."""
        gathered = self._gathering[player].take()
        self._queues[player].lost(len(gathered.parts), gathered.steps)
        self._queues[player].gathering = 0
        return gathered.steps
