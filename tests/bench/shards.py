"""How many updates 12 players make on CPUs in one process, and in shards of a process each.

    python -m tests.bench.shards [--players 12] [--cpus 8] [--seconds 6]

The CPUs are counted by Ray: with fewer cores than shards, the cores are the bound, which the first
column shows. Each player has a network 84-256-256-7 and learns from batches of 4,096 steps. Last come the
shards after all players but four have been removed, most of them from the first shards.
"""

from __future__ import annotations

import argparse

import torch

from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shard_learners import Recruit, Recruits
from league.learning.groups.shards import describe, plan_shards
from league.runtime import ResourceSettings, available_cpus, ray_session
from tests.bench.learners import SETTINGS, SPEC, experience, measure_group


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--players", type=int, default=12)
    parser.add_argument("--cpus", type=int, default=8, help="that Ray counts")
    parser.add_argument("--seconds", type=float, default=6.0, help="of each measurement")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    import ray

    players = [f"main-{i}" for i in range(arguments.players)]
    recruits = Recruits(tuple(Recruit(player, SPEC, SETTINGS, 0) for player in players))
    with ray_session(ResourceSettings(), num_actors=arguments.cpus):
        blocks = {player: ray.put(experience(player, i)) for i, player in enumerate(players)}
        print("cores  shards  updates/s  ratio")
        first = 0.0
        for shards in (1, 2, 4):
            group = RayLearners(plan_shards(0, players, shards=shards), recruits)
            for player in players:
                group.state(player)  # all actors run
            rate = measure_group(group, arguments.seconds, blocks)
            first = first or rate
            print(f"{available_cpus():>5}  {shards:>6}  {rate:>9.1f}  {rate / first:>5.2f}", flush=True)
            if shards == 4:
                for player in [p for i, p in enumerate(players) if i % 4 < 2 or i >= 8]:
                    group.remove(player)
                print(f"after {len(players) - len(group.players())} removals:")
                print("\n".join(describe(group.plan())))
            group.close()


if __name__ == "__main__":
    main()
