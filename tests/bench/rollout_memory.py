"""Whether a runner's memory stays flat, with 1,000 snapshots in its pool.

    python -m tests.bench.rollout_memory [--matches 200000] [--snapshots 1000]

One EnvRunner plays tic-tac-toe with small networks, request after request; each seats a few snapshots
drawn from the pool, so that its map loads and evicts all the time. An hour's worth of matches,
compressed: what could grow does so with requests, matches and loads, not with time. Printed is the
resident memory at each tenth, then its slope over the last nine.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
import psutil

from league.envs import registry
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import LiveSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import SnapshotSource
from storage.cache.settings import CacheSettings
from storage.records import MatchBatch, Purpose
from storage.snapshots.blobs import publish

GAME, PER_REQUEST, SEATED = "tic_tac_toe", 1024, 32


def make_pool(folder: Path, spec: PolicySpec, snapshots: int) -> list[SnapshotSource]:
    """Snapshots with weights of their own, as files."""
    pool = []
    for i in range(snapshots):
        blob_hash, _ = publish(folder, initial_weights(spec, i))
        path = folder / blob_hash[:2] / f"{blob_hash}.safetensors"
        pool.append(SnapshotSource(f"main-0@{i}", blob_hash, str(path), spec))
    return pool


def make_request(main: LiveSource, seated: list[SnapshotSource], rng: np.random.Generator) -> PlayRequest:
    """`PER_REQUEST` matches of main-0, in either seat, against those seated."""
    games = np.arange(PER_REQUEST)
    seat = np.zeros((PER_REQUEST, 2), dtype=np.int32)
    seat[games, games % 2] = 1 + rng.integers(len(seated), size=PER_REQUEST)
    matches = MatchBatch(
        env=GAME,
        purpose=Purpose.TRAINING,
        match_types=("pfsp",),
        competitors=(main.player, *(source.snapshot_id for source in seated)),
        match_id=games,
        seed=rng.integers(2**62, size=PER_REQUEST),
        match_type=np.zeros(PER_REQUEST, dtype=np.int16),
        seat=seat,
        learning=seat == 0,
    )
    return PlayRequest(matches, (main, *seated), (main.player,), int(rng.integers(2**62)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--matches", type=int, default=200_000)
    parser.add_argument("--snapshots", type=int, default=1000)
    arguments = parser.parse_args()
    rng = np.random.default_rng(0)
    spec = PolicySpec.for_game(PolicySettings(hidden=(16,)), registry.make(GAME, 1))
    player = LiveSource("main-0", 0, spec)
    weights = {"main-0": {name: tensor.numpy() for name, tensor in initial_weights(spec, 0).items()}}
    resident: list[tuple[int, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        pool = make_pool(Path(folder) / "objects", spec, arguments.snapshots)
        runner = EnvRunner(
            PlaySetup(
                GAME, {}, RolloutSettings(policy_map_capacity=64), cache=CacheSettings(f"{folder}/cache")
            )
        )
        played = 0
        print("matches   resident MiB   snapshots at hand   loaded so far")
        while played < arguments.matches:
            seated = [pool[i] for i in rng.choice(len(pool), min(SEATED, len(pool)), replace=False)]
            _, info, _ = runner.play(make_request(player, seated, rng), weights)
            played += PER_REQUEST
            if played * 10 // arguments.matches > len(resident):
                resident.append((played, psutil.Process().memory_info().rss / 2**20))
                mapped = info.tiers[0]
                print(
                    f"{played:>7}   {resident[-1][1]:>12.1f}   {mapped.resident:>17}   {mapped.misses:>13}",
                    flush=True,
                )
    matches, mebibytes = zip(*resident[1:], strict=True)
    slope = np.polyfit(np.array(matches) / 1e6, mebibytes, 1)[0]
    print(f"slope after the first tenth: {slope:.1f} MiB for each million matches")


if __name__ == "__main__":
    main()
