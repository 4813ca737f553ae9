"""A cache miss: a snapshot's first action in a process, beside loading it with torch.

    python -m tests.bench.storage_miss [--snapshots 64] [--rounds 5] [--folder DIR]

Files of about 5 MB, in the page cache for both, one thread. Turn by turn: through the process's and the
node's caches with the blob hashed every time, hashed when this node first sees it, and not hashed; and
`torch.load` of the same tensors with `load_state_dict` into a module that is there already. Each ends with
one action. The median counts.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from league.models.networks.networks import build_network
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from storage.cache.node_cache import NodeCache
from storage.snapshots.blobs import map_tensors
from tests.bench.shared import parser_of
from tests.bench.storage_policies import INPUTS, SPEC, act, make_snapshots

Load = Callable[[SnapshotSource], object]


def through_caches(cache: Path, verify: str) -> Load:
    """One policy fits in: each load is a miss."""
    policies = SnapshotPolicies(1, None, NodeCache(cache, verify=verify))

    def load(source: SnapshotSource) -> object:
        with policies.lease(source) as policy:
            return act(policy)

    return load


def through_torch(folder: Path) -> Load:
    network = build_network(SPEC).eval()
    observation = torch.ones(1, INPUTS)

    def load(source: SnapshotSource) -> object:
        network.load_state_dict(torch.load(folder / source.blob_hash, weights_only=True))
        with torch.no_grad():
            return network(observation)

    return load


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--snapshots", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--folder", type=Path, help="of the files; default: the temporary folder")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as name:
        folder = Path(name)
        sources = make_snapshots(folder / "objects", arguments.snapshots)
        for source in sources:
            torch.save(map_tensors(Path(source.path), verify=True), folder / source.blob_hash)
        ways = {
            "torch.load, load_state_dict": through_torch(folder),
            "caches, hashed always": through_caches(folder / "always", "always"),
            "caches, hashed on admission": through_caches(folder / "admission", "admission"),
            "caches, never hashed": through_caches(folder / "never", "never"),
        }
        times: dict[str, list[float]] = {way: [] for way in ways}
        first: list[float] = []  # admissions that hash
        for turn in range(1 + arguments.rounds):  # the first turn admits
            for source in sources:
                for way, load in ways.items():
                    began = time.perf_counter()
                    load(source)
                    seconds = time.perf_counter() - began
                    if turn > 0:
                        times[way].append(seconds)
                    elif way.endswith("admission"):
                        first.append(seconds)
        times["caches, admission itself"] = first
        size = Path(sources[0].path).stat().st_size / 2**20
    base = float(np.median(times["torch.load, load_state_dict"]))
    print(f"{f'{size:.1f} MiB a snapshot':<32}{'ms':>8}{'p95':>8}{'torch.load to it':>20}")
    for way, seconds in times.items():
        median, p95 = float(np.median(seconds)), float(np.quantile(seconds, 0.95))
        print(f"{way:<32}{1000 * median:>8.2f}{1000 * p95:>8.2f}{base / median:>20.2f}")


if __name__ == "__main__":
    main()
