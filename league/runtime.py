"""Start and stop Ray, and find the resources of this machine. Only runs with runners import Ray."""

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

PLACEMENT_SECONDS = 60.0  # a free cluster places a group at once; a busy one may take longer
OBJECT_STORE_BYTES = 2**30  # experience in flight is tens of megabytes; Ray's own default takes 30 % of RAM

# Options of glibc's mallopt: arrays up to the first size come from the heap (at most 32 MiB), and the heap
# is returned to the system only beyond the second size.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_ARRAY_BYTES, HEAP_SPARE_BYTES = 32 * 2**20, 256 * 2**20


class ResourceSettings(Section):
    """Resources that the run may use."""

    gpus: int = Field(default=0, ge=0, description="Number of GPUs for learners")
    threads: int = Field(
        default=1, ge=1, description="Torch threads of each process; more than 1 slows busy cores down"
    )
    address: str | None = Field(
        default=None, description="Address of a running Ray cluster to join; `null`: use this machine alone"
    )


def available_cpus() -> int:
    """Return the number of cores that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def prepare_process(threads: int) -> None:
    """Set this process up to play or learn: torch threads, memory reuse, and the limit of open files.

    A mapped snapshot takes two open files, so their limit is raised to the system's maximum. By default
    glibc returns large arrays to the system at every free, and each step pays for fresh pages; with
    memory reuse a league of 2 runners plays 5 % more (`python -m tests.bench.throughput`).
    """
    import torch

    torch.set_num_threads(threads)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS reports "unlimited" and allows less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    mallopt = getattr(
        ctypes.CDLL(None), "mallopt", None
    )  # other C libraries have no mallopt, or a different one
    if mallopt is not None and sys.platform == "linux":
        mallopt(M_MMAP_THRESHOLD, HEAP_ARRAY_BYTES)
        mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_BYTES)


def check_resources(settings: ResourceSettings, runners: int) -> None:
    """Raise Mistake if this machine lacks resources. Those of a joined cluster are not checked here."""
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
    """Start Ray with room for `num_actors` one-CPU actors (runners, learners, aggregators); stop it later.

    A cluster of this machine alone has a CPU for each actor, although a runner and a learner may
    share a core. A cluster that is joined keeps its own number of CPUs.
    """
    os.environ.setdefault(
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
    )  # silences a warning about a future default
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a failure reaches the user once, through the call that gets the result; Ray would print all of them
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    import ray

    if settings.address is not None:
        ray.init(address=settings.address, logging_level=logging.ERROR, log_to_driver=False)
    else:
        ray.init(
            address="local",  # not a cluster that already runs on this machine
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
    """Return a placement group with these bundles, each of them on one node. A Ray session is needed.

    Raise Mistake, with nothing reserved, if the cluster lacks resources for them and a CPU per runner.
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
            f"the learners' shards need {', '.join(_text(bundle) for bundle in bundles)}, each on one node; "
            f"the cluster has them, but only {_text(free)} of it were free in {PLACEMENT_SECONDS:.0f} s; "
            "end what else runs there, or ask for less"
        )
    return group


def release(group: Any) -> None:
    """Release the resources of a group that `reserve` returned."""
    from ray.util.placement_group import remove_placement_group

    remove_placement_group(group)


def inside(group: Any, bundle: int) -> Any:
    """Return the scheduling strategy of actors that belong in this bundle."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)


def node_id() -> str:
    """Return the id of the node that this actor runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def check_placement(bundles: Sequence[Amounts], nodes: Sequence[Amounts], num_runners: int) -> None:
    """Raise Mistake, with what is missing, unless all bundles and a CPU per runner fit on the nodes.

    The largest bundles are placed first, each on the node that has the least room left.
    """
    free = [{kind: float(node.get(kind, 0.0)) for kind in ("GPU", "CPU")} for node in nodes]
    for i in sorted(range(len(bundles)), key=lambda i: _size(bundles[i]), reverse=True):
        fitting = [node for node in free if all(node[kind] >= n for kind, n in bundles[i].items())]
        if not fitting:
            largest = max(free, key=_size if bundles[i].get("GPU") else _cpus, default={})
            raise Mistake(
                f"shard {i} needs {_text(bundles[i])} on one node; the largest free node of {len(nodes)} has "
                f"{_text(largest)} once the other shards are placed; lower resources.gpus, "
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
    """Return (GPUs, CPUs), to sort by."""
    return amounts.get("GPU", 0.0), amounts.get("CPU", 0.0)


def _cpus(amounts: Amounts) -> float:
    return amounts.get("CPU", 0.0)


def _text(amounts: Amounts) -> str:
    """Return the amounts as text, such as "2 GPUs and 1 CPU"."""
    counts = [(kind, amounts.get(kind, 0.0)) for kind in ("GPU", "CPU")]
    return (
        " and ".join(f"{n:g} {kind}{'' if n == 1 else 's'}" for kind, n in counts if n) or "no CPU and no GPU"
    )
