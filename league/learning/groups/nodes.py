"""GPUs of each shard on each node: whole nodes where they can be, over nodes where they must be."""

from __future__ import annotations

from collections.abc import Sequence

Parts = tuple[int, ...]  # GPUs of one shard on each of its nodes, most first


def divide(num_gpus: int, count: int, nodes: Sequence[int] | None = None) -> list[Parts]:
    """Return the GPUs of each of `count` shards, largest shard first; all `num_gpus` are used.

    Sizes differ by at most one if such shards fit on `nodes`, the numbers of GPUs of each node; None: one
    node that holds all. Otherwise whole nodes are divided among the shards: a node with several shards
    divides its GPUs evenly among them, and with fewer shards than nodes a shard goes over several nodes.
    Raise ValueError for fewer GPUs than shards, or for nodes that have too few GPUs together.
    """
    if not 0 < count <= num_gpus:
        raise ValueError(f"{count} shards of {num_gpus} GPUs, expected one or more and no more than the GPUs")
    even = _evenly(num_gpus, count)
    if nodes is None or _fit(even, nodes):
        return [(size,) for size in even]
    used = _taken(num_gpus, nodes)
    parts = _over_nodes(used, count) if count < len(used) else _within_nodes(used, count)
    return sorted(parts, key=lambda part: (-sum(part), len(part), part))


def _evenly(num_gpus: int, count: int) -> list[int]:
    """Return `count` sizes that differ by at most one, largest first."""
    return [num_gpus // count + (i < num_gpus % count) for i in range(count)]


def _fit(sizes: Sequence[int], nodes: Sequence[int]) -> bool:
    """Return whether these sizes, largest first, fit when each goes where the least room is left."""
    free = list(nodes)
    for size in sizes:
        fitting = [i for i, room in enumerate(free) if room >= size]
        if not fitting:
            return False
        free[min(fitting, key=free.__getitem__)] -= size
    return True


def _taken(num_gpus: int, nodes: Sequence[int]) -> list[int]:
    """Return how many GPUs are taken of each node that is used, the largest nodes first."""
    taken, left = [], num_gpus
    for room in sorted(nodes, reverse=True):
        if left and room:
            taken.append(min(room, left))
            left -= taken[-1]
    if left:
        raise ValueError(f"{num_gpus} GPUs, expected no more than the {sum(nodes)} of the nodes")
    return taken


def _within_nodes(used: Sequence[int], count: int) -> list[Parts]:
    """Return whole shards: each further one goes to the node whose shards are largest by then."""
    shards = [1] * len(used)
    for _ in range(count - len(used)):
        shards[max(range(len(used)), key=lambda i: used[i] / shards[i])] += 1
    return [(size,) for i, gpus in enumerate(used) for size in _evenly(gpus, shards[i])]


def _over_nodes(used: Sequence[int], count: int) -> list[Parts]:
    """Return shards of one or more whole nodes: each next node, largest first, goes to the smallest shard."""
    parts: list[Parts] = [()] * count
    for gpus in used:
        smallest = min(range(count), key=lambda i: sum(parts[i]))
        parts[smallest] += (gpus,)
    return parts
