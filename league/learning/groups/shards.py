"""Plan of which player trains where, from which all resource requests follow.

GPUs  players   plan
0     5         one shard, all players on the CPU
2     5         two shards of one GPU each, which 3 and 2 players share
8     3         three shards of 3, 3 and 2 GPUs; each player is data-parallel on all of its shard's
4+4   3         three shards of 4, 2 and 2 GPUs, as no node holds more than one of 3
4+4   1         one shard of 8 GPUs, data-parallel over both nodes

The number of shards can be given, also without GPUs: each then has a process of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

Parts = tuple[int, ...]  # GPUs of one shard on each of its nodes, most first


@dataclass(frozen=True, slots=True)
class Shard:
    """The GPUs of one placement bundle and the players that train on it.

    A shard that no node can hold has a bundle on each of its nodes.
    """

    players: tuple[str, ...]
    num_gpus: int
    processes: int = 1  # each holds a part of every update of every player; with GPUs, one on each
    nodes: tuple[int, ...] = ()  # processes on each of several nodes; (): all are on one

    def bundles(self, aggregators: int = 0) -> list[dict[str, float]]:
        """Return the shard's needs on each of its nodes: a CPU per process, and the GPUs of those.

        The aggregators, with a CPU each, are on the first node.
        """
        found = []
        for i, processes in enumerate(self.nodes or (self.processes,)):
            bundle = {"CPU": float(processes + (aggregators if i == 0 else 0))}
            found.append(bundle | {"GPU": float(processes)} if self.num_gpus else bundle)
        return found

    def bundles_of_processes(self) -> list[int]:
        """Return the number of its bundle for each process."""
        return [i for i, n in enumerate(self.nodes or (self.processes,)) for _ in range(n)]


class PlayerMove(NamedTuple):
    """Change of a player's shard."""

    player: str
    source: int  # numbers of shards
    target: int


def plan_shards(
    num_gpus: int,
    players: Sequence[str],
    processes: int = 1,
    *,
    shards: int | None = None,
    nodes: Sequence[int] | None = None,
) -> list[Shard]:
    """Return `shards` shards, or min(GPUs, players) of them (one on a machine without GPUs), evenly filled.

    Numbers of players differ by at most one, and so do those of GPUs where the `nodes` (GPUs of each; None:
    one that holds all) permit it. Every player is placed and every GPU is used: each has a process, and
    players share one only when there are more players than GPUs. Without GPUs each shard has `processes`.
    Raise ValueError for negative numbers, no players, a name that comes twice, more shards than GPUs or
    players, or nodes that have too few GPUs.
    """
    if num_gpus < 0 or not players:
        raise ValueError(f"{num_gpus} GPUs and {len(players)} players, expected none or more and one or more")
    if processes < 1:
        raise ValueError(f"{processes} processes, expected one or more")
    if len(set(players)) < len(players):
        raise ValueError(f"players {list(players)}, expected each name once")
    most = min(num_gpus or len(players), len(players))
    if shards is not None and not 1 <= shards <= most:
        raise ValueError(
            f"{shards} shards for {len(players)} players on {num_gpus} GPUs, expected 1 to {most}: each has "
            "a player, and a GPU if there are any"
        )
    count = shards or min(num_gpus, len(players)) or 1
    groups = [tuple(players[i::count]) for i in range(count)]
    if not num_gpus:
        return [Shard(group, 0, processes) for group in groups]
    parts = divide(num_gpus, count, nodes)
    return [
        Shard(group, sum(part), sum(part), part if len(part) > 1 else ())
        for group, part in zip(groups, parts, strict=True)
    ]


def with_player(plan: Sequence[Shard], player: str) -> tuple[list[Shard], int]:
    """Return the plan with `player` in the shard of the fewest players, and that shard's number.

    Of several such shards it is the one of the most GPUs.
    """
    if any(player in shard.players for shard in plan):
        raise ValueError(f"player '{player}' trains already")
    chosen = min(range(len(plan)), key=lambda i: (len(plan[i].players), -plan[i].num_gpus))
    return [
        replace(shard, players=(*shard.players, player)) if i == chosen else shard
        for i, shard in enumerate(plan)
    ], chosen


def without_player(plan: Sequence[Shard], player: str) -> list[Shard]:
    """Return the plan without `player`. A shard without players stays, for later ones."""
    shard_of(plan, player)
    return [replace(shard, players=tuple(name for name in shard.players if name != player)) for shard in plan]


def move_due(plan: Sequence[Shard]) -> PlayerMove | None:
    """Return the move after which players are more evenly spread, or None if they are.

    So no shard is without players while several players share another one.
    """
    crowded = max(range(len(plan)), key=lambda i: (len(plan[i].players), -plan[i].num_gpus, -i))
    idle = min(range(len(plan)), key=lambda i: (len(plan[i].players), -plan[i].num_gpus, i))
    if len(plan[crowded].players) - len(plan[idle].players) < 2:
        return None
    return PlayerMove(plan[crowded].players[-1], crowded, idle)


def moved(plan: Sequence[Shard], move: PlayerMove) -> list[Shard]:
    """Return the plan after `move`."""
    changed = without_player(plan, move.player)
    target = changed[move.target]
    changed[move.target] = replace(target, players=(*target.players, move.player))
    return changed


def shard_of(plan: Sequence[Shard], player: str) -> int:
    """Return the number of the shard that `player` trains on. Raise KeyError if it trains nowhere."""
    for i, shard in enumerate(plan):
        if player in shard.players:
            return i
    raise KeyError(f"player '{player}' does not train; found {[n for shard in plan for n in shard.players]}")


def bundles_of(plan: Sequence[Shard], aggregators: int) -> list[list[dict[str, float]]]:
    """Return the bundles of each shard, over which the aggregators are spread evenly."""
    counts = evenly(aggregators, len(plan))
    return [shard.bundles(n) for shard, n in zip(plan, counts, strict=True)]


def num_cpus(plan: Sequence[Shard], aggregators: int = 0) -> int:
    """Return the number of CPUs of all bundles together."""
    return sum(shard.processes for shard in plan) + aggregators


def with_runners(
    bundles: Sequence[Sequence[Mapping[str, float]]], num_runners: int, cpus: float
) -> tuple[list[list[dict[str, float]]], list[int]]:
    """Return the bundles of all shards with `cpus` for each runner that plays on a card of theirs.

    Runners go from card to card. The second result is the bundle of each, counted through all shards.
    """
    filled = [[dict(bundle) for bundle in of_shard] for of_shard in bundles]
    flat = [bundle for of_shard in filled for bundle in of_shard]
    cards = [i for i, bundle in enumerate(flat) for _ in range(int(bundle.get("GPU", 0.0)))]
    chosen = [cards[runner % len(cards)] for runner in range(num_runners)]
    for i in chosen:
        flat[i]["CPU"] += cpus
    return filled, chosen


def describe(plan: Sequence[Shard]) -> list[str]:
    """Return where each player trains and why, one sentence per shard."""
    return [f"shard {i}: {_sentence(shard)}" for i, shard in enumerate(plan)]


def _sentence(shard: Shard) -> str:
    count = len(shard.players)
    if not count:
        kept = counted(shard.num_gpus, "GPU") if shard.num_gpus else "a process"
        return f"no player yet, {kept} kept for the next player"
    names = ", ".join(shard.players)
    parallel = f"data-parallel in {shard.processes} processes"
    if not shard.num_gpus:
        how = f"{parallel} of one CPU each" if shard.processes > 1 else "in one process"
        return f"{names} on the CPU {how}, as there are no GPUs"
    if shard.processes > 1:
        each = "" if count == 1 else "one after another "
        where = f"{shard.num_gpus} GPUs"
        if shard.nodes:
            where += f" of {len(shard.nodes)} nodes ({' + '.join(map(str, shard.nodes))})"
        why = "there are more GPUs than players" if count == 1 else "fewer shards than GPUs are asked for"
        return f"{names} {each}on {where}, {parallel}, as {why}"
    if shard.num_gpus < count:
        return (
            f"{names} share {counted(shard.num_gpus, 'GPU')}, {shard.num_gpus / count:.3g} each, "
            "as there are more players than GPUs"
        )
    each = "alone" if count == 1 else "with a GPU each"
    return f"{names} {each} on {counted(shard.num_gpus, 'GPU')}, as there are enough for every player"


def counted(number: int, noun: str) -> str:
    """Return the number with its noun: "1 GPU", "2 GPUs", "2 processes"."""
    return f"{number} {noun}{'' if number == 1 else 'es' if noun.endswith('s') else 's'}"


def divide(num_gpus: int, count: int, nodes: Sequence[int] | None = None) -> list[Parts]:
    """Return the GPUs of each of `count` shards, largest shard first; all `num_gpus` are used.

    Sizes differ by at most one if such shards fit on `nodes`, the numbers of GPUs of each node; None: one
    node that holds all. Otherwise whole nodes are divided among the shards: a node with several shards
    divides its GPUs evenly among them, and with fewer shards than nodes a shard goes over several nodes.
    Raise ValueError for fewer GPUs than shards, or for nodes that have too few GPUs together.
    """
    if not 0 < count <= num_gpus:
        raise ValueError(f"{count} shards of {num_gpus} GPUs, expected one or more and no more than the GPUs")
    even = evenly(num_gpus, count)
    if nodes is None or _fit(even, nodes):
        return [(size,) for size in even]
    used = _taken(num_gpus, nodes)
    parts = _over_nodes(used, count) if count < len(used) else _within_nodes(used, count)
    return sorted(parts, key=lambda part: (-sum(part), len(part), part))


def evenly(total: int, count: int) -> list[int]:
    """Return `count` sizes that differ by at most one, largest first."""
    return [total // count + (i < total % count) for i in range(count)]


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
    return [(size,) for i, gpus in enumerate(used) for size in evenly(gpus, shards[i])]


def _over_nodes(used: Sequence[int], count: int) -> list[Parts]:
    """Return shards of one or more whole nodes: each next node, largest first, goes to the smallest shard."""
    parts: list[Parts] = [()] * count
    for gpus in used:
        smallest = min(range(count), key=lambda i: sum(parts[i]))
        parts[smallest] += (gpus,)
    return parts
