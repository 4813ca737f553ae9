"""Room for a shard on the nodes of a cluster: which could hold each of its bundles, and what they lack."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from league.cluster.nodes import Seen
from league.cluster.placement import Amounts

KINDS = ("GPU", "CPU")
Lacking = dict[str, dict[str, float]]  # by node


def find_room(bundles: Sequence[Amounts], seen: Seen, kept: Mapping[str, Amounts]) -> Lacking | None:
    """Return what is lacking on the nodes where these bundles could be; `None` if no node can hold one.

    `kept`: what other shards have of each node. The rest of a node counts as room, since runners can end;
    each bundle goes where the least is lacking. Nodes that lack nothing are left out.
    """
    room = {
        node_id: {
            kind: node.resources.get(kind, 0.0) - kept.get(node_id, {}).get(kind, 0.0) for kind in KINDS
        }
        for node_id, node in seen.staying().items()
    }
    free = {node_id: {kind: seen.free.get(node_id, {}).get(kind, 0.0) for kind in KINDS} for node_id in room}
    lacking: Lacking = {}
    for bundle in sorted(bundles, key=lambda each: [each.get(kind, 0.0) for kind in KINDS], reverse=True):
        able = [i for i, has in room.items() if all(has[kind] >= n for kind, n in bundle.items())]
        if not able:
            return None
        chosen = min(able, key=lambda i: [max(0.0, bundle.get(kind, 0.0) - free[i][kind]) for kind in KINDS])
        for kind, n in bundle.items():
            room[chosen][kind] -= n
            free[chosen][kind] -= n
    for node_id, has in free.items():
        lacks = {kind: -n for kind, n in has.items() if n < -1e-9}
        if lacks:
            lacking[node_id] = lacks
    return lacking
