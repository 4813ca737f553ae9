"""Plan of which player trains where, from which all resource requests follow.

GPUs  players   plan
0     5         one shard, all players on the CPU
2     5         two shards of one GPU each, which 3 and 2 players share
8     3         three shards of 3, 3 and 2 GPUs; each player is data-parallel on all of its shard's
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Shard:
    """The GPUs of one placement bundle and the players that train on it."""

    players: tuple[str, ...]
    num_gpus: int
    processes: int = 1  # each holds a part of every update of every player of the shard

    @property
    def gpus_per_player(self) -> float:
        """GPUs of each player: whole ones rounded down, or an even part of a GPU that players share."""
        share = self.num_gpus / max(1, len(self.players))
        return float(int(share)) if share >= 1 else share

    @property
    def gpus_per_process(self) -> float:
        """GPUs of each process: whole ones rounded down, or an even part."""
        share = self.num_gpus / self.processes
        return float(int(share)) if share >= 1 else share

    def bundle(self, aggregators: int = 0) -> dict[str, float]:
        """Return the shard's needs on one node: a CPU per process and per aggregator, and its GPUs."""
        bundle = {"CPU": float(self.processes + aggregators)}
        return bundle | {"GPU": float(self.num_gpus)} if self.num_gpus else bundle


def plan_shards(num_gpus: int, players: Sequence[str], processes: int = 1) -> list[Shard]:
    """Return at most min(GPUs, players) shards (one on a machine without GPUs), as even as possible.

    Sizes differ by at most one, in players and in GPUs; every player is placed; players share a
    GPU only when there are fewer GPUs than players, and then no GPU is idle. A player with
    several GPUs has a process on each; without GPUs the shard has `processes`. Raise ValueError for
    negative numbers, no players or a name that comes twice.
    """
    if num_gpus < 0 or not players:
        raise ValueError(f"{num_gpus} GPUs and {len(players)} players, expected none or more and one or more")
    if processes < 1:
        raise ValueError(f"{processes} processes, expected one or more")
    if len(set(players)) < len(players):
        raise ValueError(f"players {list(players)}, expected each name once")
    count = min(num_gpus, len(players)) or 1
    shards = []
    for i in range(count):
        shard = Shard(tuple(players[i::count]), num_gpus // count + (i < num_gpus % count))
        parallel = max(1, int(shard.gpus_per_player)) if num_gpus else processes
        shards.append(replace(shard, processes=parallel))
    return shards


def with_player(plan: Sequence[Shard], player: str) -> tuple[list[Shard], int]:
    """Return the plan with `player` in the shard of the fewest players, and that shard's number."""
    if any(player in shard.players for shard in plan):
        raise ValueError(f"player '{player}' trains already")
    chosen = min(range(len(plan)), key=lambda i: len(plan[i].players))
    return [
        replace(shard, players=(*shard.players, player)) if i == chosen else shard
        for i, shard in enumerate(plan)
    ], chosen


def without_player(plan: Sequence[Shard], player: str) -> list[Shard]:
    """Return the plan without `player`. A shard without players stays, for later ones."""
    shard_of(plan, player)
    return [replace(shard, players=tuple(name for name in shard.players if name != player)) for shard in plan]


def shard_of(plan: Sequence[Shard], player: str) -> int:
    """Return the number of the shard that `player` trains on. Raise KeyError if it trains nowhere."""
    for i, shard in enumerate(plan):
        if player in shard.players:
            return i
    raise KeyError(f"player '{player}' does not train; found {[n for shard in plan for n in shard.players]}")


def spread(count: int, plan: Sequence[Shard]) -> list[int]:
    """Return how many of `count` aggregators each shard gets; they differ by at most one."""
    return [count // len(plan) + (i < count % len(plan)) for i in range(len(plan))]


def num_cpus(plan: Sequence[Shard], aggregators: int = 0) -> int:
    """Return the number of CPUs of all bundles together."""
    return sum(shard.processes for shard in plan) + aggregators


def describe(plan: Sequence[Shard]) -> list[str]:
    """Return where each player trains and why, one sentence per shard."""
    return [f"shard {i}: {_sentence(shard)}" for i, shard in enumerate(plan)]


def _sentence(shard: Shard) -> str:
    count = len(shard.players)
    if not count:
        return f"no player yet, {_counted(shard.num_gpus, 'GPU')} kept for the next player"
    names = ", ".join(shard.players)
    parallel = f"data-parallel in {shard.processes} processes"
    if not shard.num_gpus:
        how = f"{parallel} of one CPU each" if shard.processes > 1 else "in one process"
        return f"{names} on the CPU {how}, as there are no GPUs"
    if shard.num_gpus < count:
        return (
            f"{names} share {_counted(shard.num_gpus, 'GPU')}, {shard.gpus_per_player:.3g} each, "
            "as there are more players than GPUs"
        )
    if shard.processes > 1:
        each = "" if count == 1 else "one after another "
        return f"{names} {each}on {shard.num_gpus} GPUs, {parallel}, as there are more GPUs than players"
    each = "alone" if count == 1 else "with a GPU each"
    return f"{names} {each} on {_counted(shard.num_gpus, 'GPU')}, as there are enough for every player"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
