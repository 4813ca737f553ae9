"""Which player trains where: a pure plan, from which all resource requests are read off."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Shard:
    """The GPUs of one placement bundle and the players that train on it."""

    players: tuple[str, ...]
    num_gpus: int

    @property
    def gpus_per_player(self) -> float:
        """Whole GPUs are floored; a GPU that players share is divided evenly."""
        share = self.num_gpus / len(self.players)
        return float(int(share)) if share >= 1 else share


def plan_shards(num_gpus: int, players: Sequence[str]) -> list[Shard]:
    """At most min(GPUs, players) shards (one on a machine without GPUs), as even as can be.

    Sizes differ by at most one, in players and in GPUs; every player is placed.
    """
    if num_gpus < 0 or not players:
        raise ValueError(f"{num_gpus} GPUs and {len(players)} players, expected none or more and one or more")
    count = min(num_gpus, len(players)) or 1
    return [Shard(tuple(players[i::count]), num_gpus // count + (i < num_gpus % count)) for i in range(count)]
