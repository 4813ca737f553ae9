"""What each further runner costs: time to start, memory of its own, messages of the driver.

    python -m tests.bench.runners [--runners 1 4 16 64] [--snapshots 100]

Runners of tic-tac-toe with tiny networks, on counted CPUs: more than the machine has, so the time to start is
the processor's time for all of them, divided by its cores. Printed for each number of runners:

start        seconds from the first call until all have played a request, and the processor's seconds for each
private      MiB that a runner has written and shares with none, before it has snapshots, and what it grows
             by when it has played with 100 of them, of 1.42 MiB each, which all map from the same files
requests     of one match each that the driver submits and takes in a second, and its time for each: what is
             left of the processor decides how many runners one driver can serve

The goal is no more than 6 MiB grown for each runner.
"""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import psutil

from league.cluster.runtime import ResourceSettings, ray_session
from league.envs import registry
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.requests import LiveSource, PlayRequest, PlaySetup
from league.rollout.runner_group import RayRunnerGroup
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import SnapshotSource
from storage.settings import CacheSettings
from storage.snapshots.blobs import publish
from tests import made_up
from tests.bench.shared import parser_of

GAME, GOAL_MIB = "tic_tac_toe", 6.0
WIDE, TINY = (512, 512, 190), (16,)  # 1.42 MiB of weights; a few hundred bytes
SECONDS = 5.0  # of requests
MIB = 2**20


class Cost(NamedTuple):
    """What so many runners took."""

    start_seconds: float
    processor_seconds: float  # of each
    private_mib: float  # of each, after its first request
    grown_mib: float  # of each, after it has played with all snapshots
    requests: float  # in a second, of all
    driver_seconds: float  # of the driver's processor, for each request


def spec_of(hidden: tuple[int, ...]) -> PolicySpec:
    """The policy of the game with these layers."""
    return PolicySpec.for_game(PolicySettings(hidden=hidden), registry.make(GAME, 1))


def make_pool(folder: Path, snapshots: int) -> list[SnapshotSource]:
    """Snapshots with weights of their own, as files."""
    spec, pool = spec_of(WIDE), []
    for i in range(snapshots):
        blob_hash, _ = publish(folder, initial_weights(spec, i))
        path = folder / blob_hash[:2] / f"{blob_hash}.safetensors"
        pool.append(SnapshotSource(f"main-0@{i}", blob_hash, str(path), spec))
    return pool


def request_of(seated: list[Any], matches: int, rng: np.random.Generator) -> PlayRequest:
    """So many matches of main-0 against those seated."""
    main = LiveSource("main-0", 0, spec_of(TINY))
    seat = np.zeros((matches, 2), dtype=np.int32)
    seat[:, 1] = 1 + np.arange(matches) % len(seated) if seated else 0
    names = tuple(source.snapshot_id for source in seated)
    seeds = rng.integers(2**62, size=matches)
    batch = made_up.matches((main.player, *names), seat, env=GAME, seed=seeds)
    return PlayRequest(batch, (main, *seated), (), int(rng.integers(2**62)))


def private_bytes(pid: int) -> int:
    """Memory that a process has written and shares with none; pages of files can be dropped at any time."""
    with open(f"/proc/{pid}/smaps_rollup") as rollup:
        return sum(1024 * int(line.split()[1]) for line in rollup if line.startswith("Private_Dirty"))


def play_once(group: RayRunnerGroup, request: PlayRequest, weights: Any, times: int = 1) -> list[int]:
    """Have each runner play the request `times` times; return the ids of their processes."""
    count, left = 0, {}
    for runner in range(len(group._actors)):
        for _ in range(times):
            group.submit(count, request, weights, runner)
            left[count] = runner
            count += 1
    found: dict[int, int] = {}
    while left:
        for rollout in group.ready(1.0):
            found[left.pop(rollout.request_id)] = int(rollout.info.process.rpartition(":")[2])
    return list(found.values())


def requests_in(
    group: RayRunnerGroup, request: PlayRequest, weights: Any, seconds: float
) -> tuple[float, float]:
    """Requests in a second, and seconds of the driver's processor for each."""
    count = done = 0
    began, worked = time.monotonic(), time.process_time()
    while time.monotonic() - began < seconds:
        while group.room():
            group.submit(count, request, weights)
            count += 1
        done += len(group.ready(1.0))
    spent = time.process_time() - worked
    rate = done / (time.monotonic() - began)
    while group.in_flight():
        group.ready(1.0)
    return rate, spent / max(1, done)


def processor_seconds(pids: list[int]) -> float:
    return sum(sum(psutil.Process(pid).cpu_times()[:2]) for pid in pids)


def measure(runners: int, pool: list[SnapshotSource], cache: str) -> Cost:
    """Start so many runners, have them play, and count."""
    import ray

    rng = np.random.default_rng(0)
    rollout = RolloutSettings(slots=8, policy_map_capacity=len(pool) + 1)
    own = {name: tensor.numpy() for name, tensor in initial_weights(spec_of(TINY), 0).items()}
    began = time.monotonic()
    group = RayRunnerGroup(runners, PlaySetup(GAME, {}, rollout, cache=CacheSettings(cache)))
    weights = {"main-0": ray.put(own)}
    empty = request_of([], 8, rng)
    pids = play_once(group, empty, weights)
    start = time.monotonic() - began
    worked = processor_seconds(pids) / runners
    play_once(group, request_of(pool[:1], 8, rng), weights, 2)  # what is loaded once is loaded
    before = sum(map(private_bytes, pids)) / runners / MIB
    play_once(group, request_of(pool, 2 * len(pool), rng), weights, 2)
    grown = sum(map(private_bytes, pids)) / runners / MIB - before
    rate, spent = requests_in(group, request_of([], 1, rng), weights, SECONDS)
    group.close()
    return Cost(start, worked, before, grown, rate, spent)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--runners", type=int, nargs="+", default=[1, 4, 16, 64])
    parser.add_argument("--snapshots", type=int, default=100)
    arguments = parser.parse_args()
    print(
        f"{os.cpu_count()} cores\n\nrunners   start s   processor s each   private MiB   grown MiB   "
        "requests/s   driver ms each"
    )
    most = 0.0
    with tempfile.TemporaryDirectory() as folder:
        pool = make_pool(Path(folder) / "objects", arguments.snapshots)
        for runners in arguments.runners:
            with ray_session(ResourceSettings(), 0, runners):
                cost = measure(runners, pool, f"{folder}/cache")
            most = max(most, cost.grown_mib)
            print(
                f"{runners:>7}   {cost.start_seconds:>7.1f}   {cost.processor_seconds:>16.1f}   "
                f"{cost.private_mib:>11.1f}   {cost.grown_mib:>9.1f}   {cost.requests:>10,.0f}   "
                f"{1000 * cost.driver_seconds:>14.2f}",
                flush=True,
            )
    print(f"grown, of the goal of {GOAL_MIB:g} MiB: {most / GOAL_MIB:.2f}")


if __name__ == "__main__":
    main()
