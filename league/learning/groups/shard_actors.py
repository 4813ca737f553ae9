"""One shard's Ray actors, all in the shard's bundle and so on one node, or in its bundles on several.

This module does not import Ray: the group that makes the actors passes the module.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any

import torch

from league.cluster.answers import Silence
from league.cluster.calls import Inside, carried, opened
from league.cluster.runtime import keep_to_card_part, node_address
from league.learning.data.peers import ALONE, DistributedPeers, free_address
from league.learning.groups.queues import Aggregator
from league.learning.groups.shard_learners import Learned, Recruits, ShardLearners, Weights
from league.learning.groups.shards import Shard
from storage.errors import Mistake


class RemoteShardLearners(ShardLearners):
    """One of a shard's processes as a Ray actor. Its learners are built when all have the meeting address."""

    def __init__(self) -> None:
        pass

    def where(self) -> str:
        """Return the name of the node that this process is on."""
        return socket.gethostname()

    def address(self, over_nodes: bool = False) -> str:
        """Return the address where the shard's processes meet; called on the first of them."""
        return free_address(node_address()) if over_nodes else free_address()

    def build(self, shard: Shard, recruits: Recruits, rank: int, address: str | Inside | None) -> None:
        """Build the shard's learners; `address` is where its processes meet, None if there is only one.

        Raise Mistake if the GPU that they are to use is missing here.
        """
        if recruits.device == "cuda" and not torch.cuda.is_available():
            raise Mistake(
                f"resources.gpus: Ray gave a learner a GPU on node {socket.gethostname()}, but torch sees "
                "none there; install torch with CUDA on that node, or start its Ray without GPUs"
            )
        if recruits.device == "cuda":
            keep_to_card_part()
        (meeting,) = opened([address])
        join = DistributedPeers.join
        peers = ALONE if meeting is None else join(meeting, rank, shard.processes, recruits.device)
        super().__init__(shard, recruits, peers)

    def learn(self, player: str, episodes: Any, progress: float = 0.0) -> tuple[Learned, Weights | None]:
        """Learn from episodes, which may be references inside the argument."""
        (given,) = opened([episodes])
        return super().learn(player, given, progress)


class ShardActors:
    """One shard's actors: its processes, which all get the same calls, and its aggregators."""

    def __init__(
        self,
        ray: Any,
        shard: Shard,
        aggregators: int,
        placed: Sequence[Any],
        recruits: Recruits,
        share: float = 1.0,
    ) -> None:
        """Start the actors where `placed`, Ray's scheduling strategy for each of the bundles, puts them.

        `share`: the part of its card that each process asks for, if the shard has any.
        """
        process = ray.remote(RemoteShardLearners)
        self._aggregator = ray.remote(Aggregator).options(num_cpus=1, scheduling_strategy=placed[0])
        self.processes: list[Any] = [
            process.options(
                num_cpus=1, num_gpus=share if shard.num_gpus else 0.0, scheduling_strategy=placed[bundle]
            ).remote()
            for bundle in shard.bundles_of_processes()
        ]
        self._where: list[Any] = [actor.where.remote() for actor in self.processes]
        self.aggregators: list[Any] = [self._aggregator.remote() for _ in range(aggregators)]
        self.watched: list[Any] = []  # results that are not waited for, only checked for errors
        self.silence = Silence(ray)  # of the first process: the others wait with it for each sum
        self.silences = [Silence(ray) for _ in self.aggregators]
        self.updated: set[str] = set()  # players of which these processes have made an update
        self._ray = ray
        self._turn = 0
        several = shard.processes > 1
        address = carried(ray, self.processes[0].address.remote(bool(shard.nodes))) if several else None
        self.built = [
            actor.build.remote(shard, recruits, rank, address) for rank, actor in enumerate(self.processes)
        ]
        for built in self.built:
            self.silence.asked(built)

    def call(self, method: str, *arguments: Any, num_returns: int = 1) -> Any:
        """Make the same call on every process; return references to the first one's results."""
        options = {"num_returns": num_returns}
        first, *others = (
            getattr(actor, method).options(**options).remote(*arguments) for actor in self.processes
        )
        self.watched += [other if num_returns == 1 else other[0] for other in others]
        self.silence.asked(first if num_returns == 1 else first[0])
        return first

    def state(self, player: str) -> Any:
        """Return a reference to a copy of the player's state, taken after all calls made before."""
        reference = self.processes[0].state.remote(player)
        self.silence.asked(reference)
        return reference

    def concatenate(self, *parts: Any) -> Any:
        """Return a reference to the episodes of all `parts`, for other calls; the aggregators take turns."""
        self._turn = (self._turn + 1) % len(self.aggregators)
        reference = self.aggregators[self._turn].concatenate.remote(*parts)
        self.silences[self._turn].asked(reference)
        return carried(self._ray, reference)

    def rank_of(self, actor: str) -> int:
        """Return the number of the process with this id in hexadecimal; 0 if it is not known."""
        ids = [process._actor_id.hex() for process in self.processes]
        return ids.index(actor) if actor in ids else 0

    def node_of(self, rank: int) -> str:
        """Return the node of a process, also of a dead one; "" if it died before it was known."""
        try:
            return str(self._ray.get(self._where[rank], timeout=0))
        except Exception:
            return ""

    def await_processes(self) -> None:
        """Wait until all processes have begun."""
        self._ray.wait(self._where, num_returns=len(self._where))

    def replace_aggregator(self, actor: str) -> bool:
        """Replace the aggregator with this id in hexadecimal; return False if there is none."""
        for i, dead in enumerate(self.aggregators):
            if dead._actor_id.hex() == actor:
                self.aggregators[i], self.silences[i] = self._aggregator.remote(), Silence(self._ray)
                return True
        return False

    def kill(self) -> None:
        """End all actors, those that died already included."""
        for actor in (*self.processes, *self.aggregators):
            self._ray.kill(actor)
