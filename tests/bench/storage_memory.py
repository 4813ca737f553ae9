"""Memory of many workers that play the same snapshots: one copy for the node, or one for each.

    python -m tests.bench.storage_memory [--workers 16] [--private 4] [--snapshots 100] [--folder DIR]

Workers are processes that keep all snapshots at hand (`SnapshotPolicies` over `NodeCache`) and have acted
with each, in float32, and others in bfloat16 (in a group of all, as a runner has them). Counted is the sum of
their proportional set sizes (/proc/<pid>/smaps_rollup) beyond what they had before; a page that several
processes share counts in parts. A few workers with private copies, for comparison, are measured as they are
and multiplied up.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import tempfile
from multiprocessing.connection import Connection
from pathlib import Path

import numpy as np
import torch

from league.models.actor import Look
from league.models.policies.policy import Policy
from league.models.policies.policy_group import PolicyGroup
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from storage.cache.node_cache import NodeCache
from storage.snapshots.blobs import map_tensors
from tests.bench.shared import parser_of
from tests.bench.storage_policies import ACTIONS, INPUTS, SPEC, act, make_snapshots

GOAL = 1.1  # copies
ROWS = 64  # of each snapshot in a call; enough to be computed in bfloat16


def share_bytes() -> int:
    """This process's proportional set size."""
    with open("/proc/self/smaps_rollup") as rollup:
        return sum(1024 * int(line.split()[1]) for line in rollup if line.startswith("Pss:"))


def play(policies: list[Policy]) -> PolicyGroup:
    """Act with all in bfloat16, in one call; return their group, which has copies of its own."""
    group = PolicyGroup(policies, "bfloat16")
    n = ROWS * len(policies)
    look = Look(np.ones((n, INPUTS), np.float32), np.ones((n, ACTIONS), bool))
    group.decide(np.full(len(policies), ROWS), look, np.random.default_rng(0))
    return group


def work(sources: list[SnapshotSource], cache: str, way: str, parent: Connection) -> None:
    """Answer the parent with the memory it has: bare, then with all snapshots.

    The first snapshot is not counted: it is for loading whatever is loaded once.
    """
    torch.set_num_threads(1)
    with contextlib.ExitStack() as leases:
        node = SnapshotPolicies(len(sources), None, NodeCache(cache))

        def load(source: SnapshotSource) -> Policy:
            if way != "private":
                return leases.enter_context(node.lease(source))
            tensors = map_tensors(Path(source.path), verify=False)
            return Policy(SPEC, {name: tensor.clone() for name, tensor in tensors.items()})

        def use(some: list[SnapshotSource]) -> object:
            policies = [load(source) for source in some]
            if way == "bfloat16":
                return policies, play(policies)
            for policy in policies:
                act(policy)
            return policies

        kept = [use(sources[:1])]
        parent.recv()
        parent.send(share_bytes())
        parent.recv()
        kept.append(use(sources[1:]))
        parent.send(None)
        parent.recv()
        parent.send(share_bytes())
        parent.recv()


def measure(sources: list[SnapshotSource], cache: str, workers: int, way: str) -> int:
    """Bytes of all workers together, beyond bare ones."""
    context = multiprocessing.get_context("spawn")
    pipes, processes = [], []
    for _ in range(workers):
        mine, theirs = context.Pipe()
        processes.append(context.Process(target=work, args=(sources, cache, way, theirs), daemon=True))
        processes[-1].start()
        theirs.close()  # one that dies ends its pipe, and `recv` with it
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
    parser = parser_of(__doc__)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--private", type=int, default=4, help="Workers with private copies, for comparison")
    parser.add_argument("--snapshots", type=int, default=100)
    parser.add_argument("--folder", type=Path, help="of the blobs; default: the temporary folder")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        sources = make_snapshots(Path(folder) / "objects", arguments.snapshots + 1)
        one = sum(Path(source.path).stat().st_size for source in sources[1:])
        cache = str(Path(folder) / "cache")
        shared = measure(sources, cache, arguments.workers, "float32")
        low = measure(sources, cache, arguments.workers, "bfloat16")
        private = measure(sources, cache, arguments.private, "private")
    computed = private / arguments.private * arguments.workers
    lines = {
        f"one copy of {arguments.snapshots} snapshots": one,
        f"{arguments.workers} workers, mapped": shared,
        f"{arguments.workers} workers, in bfloat16": low,
        f"{arguments.private} workers, private copies": private,
        f"{arguments.workers} workers, private copies, computed": computed,
    }
    for name, size in lines.items():
        print(f"{name:<44}{size / 2**20:>9,.0f} MiB{size / one:>8.2f} copies")
    print(f"{'mapped, of the goal':<65}{max(shared, low) / one / GOAL:>8.2f}")


if __name__ == "__main__":
    main()
