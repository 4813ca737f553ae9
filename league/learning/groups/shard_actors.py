"""One shard's Ray actors, all in the shard's bundle and so on one node.

This module knows no Ray of its own: it is handed the module by the group that makes the actors.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from league.learning.data.aggregator import Aggregator
from league.learning.data.queues import Block, Waiting, one_of_each
from league.learning.groups.peers import ALONE, DistributedPeers, free_address
from league.learning.groups.shard_learners import ShardLearners
from league.learning.groups.shards import Shard
from league.learning.learner import LearnerSettings
from league.models.networks.networks import trust_network
from league.models.spec import PolicySpec
from league.runtime import inside, node_id

AHEAD = 2  # calls for stacked updates under way: one is worked on, one is there when that is done


class RemoteShardLearners(ShardLearners):
    """One of a shard's processes as a Ray actor. Its learners are built when all know where to meet."""

    def __init__(self) -> None:
        pass

    def address(self) -> str:
        """Where the shard's processes meet; asked of the first."""
        return free_address()

    def build(
        self,
        shard: Shard,
        spec: PolicySpec,
        settings: LearnerSettings,
        seeds: Mapping[str, int],
        device: str,
        threads: int,
        own: Mapping[str, LearnerSettings],
        own_specs: Mapping[str, PolicySpec],
        rank: int,
        address: str | None,
    ) -> None:
        for each in (spec, *own_specs.values()):
            trust_network(each.architecture)  # it comes from the run's own config, not from a snapshot
        peers = ALONE if address is None else DistributedPeers.join(address, rank, shard.processes, device)
        super().__init__(shard, spec, settings, seeds, device, threads, peers, own, own_specs)

    def learn_these(self, players: Sequence[str], progress: Sequence[float], *episodes: Any) -> list[Any]:
        """`learn_together`, flat: Ray opens references that are arguments, not what lies in their lists."""
        told = self.learn_together(list(zip(players, episodes, progress, strict=True)))
        return [part for learned_and_weights in told for part in learned_and_weights]

    def node(self) -> str:
        return node_id()


class Sent(NamedTuple):
    """A block that its learner works on, or will; references to what it says, and to its weights."""

    block: Block
    report: Any
    weights: Any


class ShardActors:
    """One shard's actors: its processes, which are always called alike, and its aggregators."""

    def __init__(
        self, ray: Any, shard: Shard, aggregators: int, group: Any, bundle: int, learning: Sequence[Any]
    ) -> None:
        placed = inside(group, bundle)
        process = ray.remote(RemoteShardLearners).options(
            num_cpus=1, num_gpus=shard.gpus_per_process, scheduling_strategy=placed
        )
        aggregator = ray.remote(Aggregator).options(num_cpus=1, scheduling_strategy=placed)
        self.processes: list[Any] = [process.remote() for _ in range(shard.processes)]
        self.aggregators: list[Any] = [aggregator.remote() for _ in range(aggregators)]
        self.watched: list[Any] = []  # results that nobody waits for; they are looked at for errors
        self.waiting: deque[Waiting] = deque()  # to be sent together, for stacked updates
        self._calls: list[Any] = []  # a result of each of those under way
        self._ray = ray
        self._turn = 0
        address = self.processes[0].address.remote() if shard.processes > 1 else None
        self.built = [
            actor.build.remote(shard, *learning, rank, address) for rank, actor in enumerate(self.processes)
        ]

    def call(self, method: str, *arguments: Any, num_returns: int = 1) -> Any:
        """Call every process alike; references to the first one's results."""
        options = {"num_returns": num_returns}
        first, *others = (
            getattr(actor, method).options(**options).remote(*arguments) for actor in self.processes
        )
        self.watched += [other if num_returns == 1 else other[0] for other in others]
        return first

    def learn(self, block: Block, episodes: Any, progress: float) -> Sent:
        return Sent(block, *self.call("learn", block.player, episodes, progress, num_returns=2))

    def send_waiting(self, *, everything: bool) -> Iterator[Sent]:
        """Send what waits, that of several players in one call; not `everything`: while the actor has room.

        The busier it is, the more comes together meanwhile.
        """
        while self.waiting and (everything or self._has_room()):
            turn = one_of_each(self.waiting)
            if len(turn) == 1:
                sent = [self.learn(*turn[0])]
            else:
                blocks, episodes, progress = zip(*turn, strict=True)
                players = [block.player for block in blocks]
                found = self.call("learn_these", players, progress, *episodes, num_returns=2 * len(turn))
                sent = [Sent(*each) for each in zip(blocks, found[::2], found[1::2], strict=True)]
            if not everything:
                self._calls.append(sent[0].report)
            yield from sent

    def take_back(self, player: str) -> list[Block]:
        """The player's blocks that wait here go nowhere any more."""
        found = [waiting.block for waiting in self.waiting if waiting.block.player == player]
        self.waiting = deque(waiting for waiting in self.waiting if waiting.block.player != player)
        return found

    def _has_room(self) -> bool:
        if self._calls:
            _, self._calls = self._ray.wait(self._calls, num_returns=len(self._calls), timeout=0)
        return len(self._calls) < AHEAD

    def concatenate(self, *parts: Any) -> Any:
        """A reference to the episodes of all `parts`, made by the aggregator whose turn it is."""
        self._turn = (self._turn + 1) % len(self.aggregators)
        return self.aggregators[self._turn].concatenate.remote(*parts)

    def nodes(self) -> list[str]:
        return self._ray.get([actor.node.remote() for actor in (*self.processes, *self.aggregators)])

    def kill(self) -> None:
        for actor in (*self.processes, *self.aggregators):
            self._ray.kill(actor)
