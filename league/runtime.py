"""Start and stop Ray; what this machine has. Ray is imported only by runs that have runners."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import logging
import os
import resource
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import psutil
from pydantic import Field

from league.section import Section
from storage.errors import Mistake

Amounts = Mapping[str, float]  # "CPU" and "GPU" to how many

PLACEMENT_SECONDS = 60.0  # a cluster that has the resources places us at once, unless others hold them
OBJECT_STORE_BYTES = 2**30  # experience in flight is tens of megabytes; Ray's own default takes 30 % of RAM

# glibc's mallopt: arrays up to the first size come from the heap (32 MiB is the most it takes), and the
# heap is given back only beyond the second
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_ARRAY_BYTES, HEAP_SPARE_BYTES = 32 * 2**20, 256 * 2**20


class ResourceSettings(Section):
    """What the run may use."""

    gpus: int = Field(default=0, ge=0, description="GPUs for learners")
    threads: int = Field(
        default=1, ge=1, description="Torch threads of each process; more than 1 spins on busy cores"
    )
    address: str | None = Field(
        default=None, description="A running Ray cluster to join; none: a cluster of this machine alone"
    )


def available_cpus() -> int:
    """Cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_process(threads: int) -> None:
    """Make this process fit to play or learn: torch threads, memory that is kept for the next step, and
    as many open files as the system allows (a mapped snapshot takes two).

    By default glibc returns large arrays to the system at every free, and each step pays for fresh
    pages; kept, a league of 2 runners plays 5 % more (`python -m tests.bench.throughput`).
    """
    import torch

    torch.set_num_threads(threads)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS says "unlimited" and allows less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none, or another
    if mallopt is not None and sys.platform == "linux":
        mallopt(M_MMAP_THRESHOLD, HEAP_ARRAY_BYTES)
        mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_BYTES)


def check_resources(settings: ResourceSettings, runners: int) -> None:
    """Raise Mistake for what this machine cannot give. A cluster that is joined answers for itself."""
    if runners and importlib.util.find_spec("ray") is None:
        raise Mistake(f"runners is {runners}, but ray is not installed; install ray, or set runners to 0")
    if settings.gpus and settings.address is None:
        import torch

        found = torch.cuda.device_count()
        if found < settings.gpus:
            raise Mistake(
                f"resources.gpus is {settings.gpus}, but torch sees {found} here, expected no more "
                "than that; lower it, or join a cluster that has them (resources.address)"
            )


@contextlib.contextmanager
def ray_session(settings: ResourceSettings, num_actors: int) -> Iterator[None]:
    """A Ray session with room for `num_actors` one-CPU actors (runners, learners, aggregators).

    It is shut down at the end.

    On a cluster of our own the CPUs are counted as actors want them: a runner and a learner may
    well share a core. A cluster that is joined keeps its own count.
    """
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # its warning of a coming default
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a failure reaches the user once, through whoever asks for the result; Ray would print the others' too
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    import ray

    if settings.address is not None:
        ray.init(address=settings.address, logging_level=logging.ERROR, log_to_driver=False)
    else:
        ray.init(
            address="local",  # not somebody's who happens to have one on this machine
            num_cpus=max(available_cpus(), num_actors),
            num_gpus=settings.gpus,
            include_dashboard=False,
            object_store_memory=min(OBJECT_STORE_BYTES, psutil.virtual_memory().available // 4),
            logging_level=logging.ERROR,
            log_to_driver=False,
        )
    try:
        yield
    finally:
        ray.shutdown()


def reserve(bundles: Sequence[Amounts], num_runners: int) -> Any:
    """A placement group with these bundles, each of them on one node. Needs a Ray session.

    Raises Mistake, with nothing left behind, if the cluster cannot give them and a CPU per runner.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    nodes = [dict(node["Resources"]) for node in ray.nodes() if node["Alive"]]
    check_placement(bundles, nodes, num_runners)
    group = placement_group([dict(bundle) for bundle in bundles], strategy="PACK")
    if not group.wait(PLACEMENT_SECONDS):
        free = ray.available_resources()
        remove_placement_group(group)
        raise Mistake(
            f"the learners' shards need {', '.join(_said(bundle) for bundle in bundles)}, each on one node; "
            f"the cluster has them, but only {_said(free)} of it were free in {PLACEMENT_SECONDS:.0f} s; "
            "end what else runs there, or ask for less"
        )
    return group


def release(group: Any) -> None:
    """Give back what `reserve` took."""
    from ray.util.placement_group import remove_placement_group

    remove_placement_group(group)


def inside(group: Any, bundle: int) -> Any:
    """The scheduling strategy of actors that belong in this bundle."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)


def node_id() -> str:
    """Of the node that this actor runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def check_placement(bundles: Sequence[Amounts], nodes: Sequence[Amounts], num_runners: int) -> None:
    """Raise Mistake, naming what is missing, unless every bundle fits on a node and the runners beside them.

    The largest bundles are placed first, each on the node where it leaves least.
    """
    free = [{kind: float(node.get(kind, 0.0)) for kind in ("GPU", "CPU")} for node in nodes]
    for i in sorted(range(len(bundles)), key=lambda i: _size(bundles[i]), reverse=True):
        fitting = [node for node in free if all(node[kind] >= n for kind, n in bundles[i].items())]
        if not fitting:
            largest = max(free, key=_size if bundles[i].get("GPU") else _cpus, default={})
            raise Mistake(
                f"shard {i} needs {_said(bundles[i])} on one node; the largest free node of {len(nodes)} has "
                f"{_said(largest)} once the other shards are placed; lower resources.gpus, "
                "learner.processes or learner.aggregators, or join a larger cluster (resources.address)"
            )
        node = min(fitting, key=_size)
        for kind, n in bundles[i].items():
            node[kind] -= n
    left = sum(int(node["CPU"]) for node in free)
    if left < num_runners:
        raise Mistake(
            f"{num_runners} runners need a CPU each; the cluster has {left} left beside the learners'; "
            "lower runners, or join a larger cluster (resources.address)"
        )


def _size(amounts: Amounts) -> tuple[float, float]:
    """GPUs decide, then CPUs."""
    return amounts.get("GPU", 0.0), amounts.get("CPU", 0.0)


def _cpus(amounts: Amounts) -> float:
    return amounts.get("CPU", 0.0)


def _said(amounts: Amounts) -> str:
    """Such as "2 GPUs and 1 CPU"."""
    counts = [(kind, amounts.get(kind, 0.0)) for kind in ("GPU", "CPU")]
    return (
        " and ".join(f"{n:g} {kind}{'' if n == 1 else 's'}" for kind, n in counts if n) or "no CPU and no GPU"
    )
