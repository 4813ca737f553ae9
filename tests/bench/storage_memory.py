"""Memory of many workers that play the same snapshots: one copy for the node, or one for each.

    python -m tests.bench.storage_memory [--workers 16] [--private 4] [--snapshots 100] [--folder DIR]

Workers are processes that keep all snapshots at hand (`SnapshotPolicies` over `NodeCache`) and have acted
with each. Counted is the sum of their proportional set sizes (/proc/<pid>/smaps_rollup) beyond what they
had before; a page that several processes share counts in parts. A few workers with private copies, for
comparison, are measured as they are and multiplied up.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import torch

from league.models.policies.policy import Policy
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from storage.cache.node_cache import NodeCache
from storage.snapshots.blobs import map_tensors
from tests.bench.storage_policies import SPEC, act, make_snapshots

GOAL = 1.3  # copies


def share_bytes() -> int:
    """This process's proportional set size."""
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(1024 * int(line.split()[1]) for line in rollup if line.startswith("Pss:"))


def work(sources: list[SnapshotSource], cache: str, private: bool, parent: Connection) -> None:
    """Answers the parent with the memory it has: bare, then with all snapshots but the first, which is for
    loading whatever is loaded once."""
    first, *sources = sources
    torch.set_num_threads(1)
    act(Policy(SPEC, map_tensors(Path(first.path), verify=False)))
    parent.recv()
    parent.send(share_bytes())
    parent.recv()
    with contextlib.ExitStack() as leases:
        policies = SnapshotPolicies(len(sources), None, NodeCache(cache))
        kept = []
        for source in sources:
            if private:
                tensors = map_tensors(Path(source.path), verify=False)
                policy = Policy(SPEC, {name: tensor.clone() for name, tensor in tensors.items()})
            else:
                policy = leases.enter_context(policies.lease(source))
            act(policy)
            kept.append(policy)
        parent.send(None)
        parent.recv()
        parent.send(share_bytes())
        parent.recv()


def measure(sources: list[SnapshotSource], cache: str, workers: int, private: bool) -> int:
    """Bytes of all workers together, beyond bare ones."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(workers):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(sources, cache, private, theirs)))
        processes[-1].start()
        pipes.append(mine)

    def ask() -> list[int]:
        for pipe in pipes:
            pipe.send("go on")
        return [pipe.recv() for pipe in pipes]

    bare = sum(ask())
    ask()  # all have loaded before any is counted: a page is shared by who has it then
    loaded = sum(ask())
    for pipe, process in zip(pipes, processes, strict=True):
        pipe.send("end")
        process.join()
    return loaded - bare


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--private", type=int, default=4, help="Workers with private copies, for comparison")
    parser.add_argument("--snapshots", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="of the blobs; default: the temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        sources = make_snapshots(Path(folder) / "objects", arguments.snapshots + 1)
        one = sum(Path(source.path).stat().st_size for source in sources[1:])
        cache = str(Path(folder) / "cache")
        shared = measure(sources, cache, arguments.workers, private=False)
        private = measure(sources, cache, arguments.private, private=True)
    computed = private / arguments.private * arguments.workers
    lines = {
        f"one copy of {arguments.snapshots} snapshots": one,
        f"{arguments.workers} workers, mapped": shared,
        f"{arguments.private} workers, private copies": private,
        f"{arguments.workers} workers, private copies, computed": computed,
    }
    for name, size in lines.items():
        print(f"{name:<44}{size / 2**20:>9,.0f} MiB{size / one:>8.2f} copies")
    print(f"{'mapped, of the goal':<65}{shared / one / GOAL:>8.2f}")


if __name__ == "__main__":
    main()
