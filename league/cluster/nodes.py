"""Nodes of a Ray cluster as they come and go. The groups that follow them: `league.cluster.runners`.

A node is about to leave when something has drained it: Ray's autoscaler, a notice of a spot machine,
`ray drain-node`. Ray starts nothing there any more, and the node ends itself as soon as nothing runs on it.

A thread looks at the nodes every LOOK_SECONDS, so that the loop waits for no answer of the cluster.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, MutableMapping
from dataclasses import dataclass, field
from typing import NamedTuple

from league.cluster.placement import Amounts

LOOK_SECONDS = 2.0
NODE_LABEL = "ray.io/node-id"  # Ray gives each node its id as a label

Room = MutableMapping[str, dict[str, float]]  # that shards lack, on each node


@dataclass(frozen=True, slots=True)
class Node:
    """A living node with all that it has, whether it is in use or not."""

    host: str
    resources: Amounts
    address: str = ""


@dataclass(frozen=True, slots=True)
class Seen:
    """The living nodes by their ids, as they were at one look."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    free: Mapping[str, Amounts] = field(default_factory=dict)  # what nothing uses, of each node

    def staying(self) -> dict[str, Node]:
        """Return the nodes that are not about to leave."""
        return {node_id: node for node_id, node in self.nodes.items() if node_id not in self.leaving}

    def name(self, node_id: str) -> str:
        """Return the host of a node, with its address and a part of its id where hosts have one name."""
        node = self.nodes.get(node_id)
        if node is not None and sum(other.host == node.host for other in self.nodes.values()) == 1:
            return node.host
        return self.full_name(node_id)

    def full_name(self, node_id: str) -> str:
        """Return the host of a node with its address and a part of its id."""
        node = self.nodes.get(node_id)
        if node is None:
            return node_id[:8]
        return f"{node.host} ({', '.join(filter(None, (node.address, node_id[:8])))})"


def look() -> Seen:
    """Return the nodes as they are now. A Ray session is needed."""
    import ray
    from ray._private.state import state  # as Ray's own libraries learn of draining nodes

    nodes = {
        node["NodeID"]: Node(node["NodeManagerHostname"], dict(node["Resources"]), node["NodeManagerAddress"])
        for node in ray.nodes()
        if node["Alive"]
    }
    leaving: Mapping[str, int] = getattr(state, "get_draining_nodes", dict)()
    return Seen(nodes, frozenset(leaving) & frozenset(nodes), state.available_resources_per_node())


def gpus_of_nodes() -> list[int]:
    """Return the number of GPUs of each node that stays. A Ray session is needed."""
    return [int(node.resources.get("GPU", 0)) for node in look().staying().values()]


class NodeWatch:
    """A thread that looks at the nodes again and again."""

    def __init__(self, looks: Callable[[], Seen] = look, seconds: float = LOOK_SECONDS) -> None:
        """`seconds` between two looks."""
        self._looks, self._seconds = looks, seconds
        self._newest: Seen | None = None
        self._ended = threading.Event()
        threading.Thread(target=self._run, name="nodes", daemon=True).start()

    def newest(self) -> Seen | None:
        """Return what the last look found, at once; `None` before the first."""
        return self._newest

    def close(self) -> None:
        """End the thread."""
        self._ended.set()

    def _run(self) -> None:
        while not self._ended.wait(self._seconds):
            try:
                self._newest = self._looks()
            except Exception:  # the head does not answer: what was seen last still counts
                continue


class ShardMoves(NamedTuple):
    """What shards have done about nodes that left or are about to leave."""

    room: Room  # that they lack for a place that they could have, on each node
    waiting: bool  # whether a shard has no place
    lines: list[str]  # what happened, a sentence each
