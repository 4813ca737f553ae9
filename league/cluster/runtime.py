"""Start and stop Ray, and find the resources of this machine. Only runs with runners import Ray."""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import logging
import math
import os
import resource
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from league.cluster.cards import limit_memory, set_tf32
from league.cluster.connection import check_cluster
from league.cluster.fitness import fitness
from league.cluster.head import begun, errors_to_file
from league.cluster.nodes import look
from league.cluster.placement import Placement, per_card
from league.interrupts import outlive_sigterm, signals_blocked
from league.section import SettingsGroup
from league.terminal import rest_to_file
from storage.errors import Mistake

OBJECT_STORE_BYTES = 2**30  # experience in flight is tens of megabytes; Ray's own default takes 30 % of RAM

QUOTA = Path("/sys/fs/cgroup/cpu.max")  # of a container: microseconds of cores in each period, or "max"
GIVES_WAY = 4  # steps of niceness: a learner gets about 2.4 times the time of a runner on the same core

# Options of glibc's mallopt: arrays up to the first size come from the heap (at most 32 MiB), and the heap
# is returned to the system only beyond the second size.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_ARRAY_BYTES, HEAP_SPARE_BYTES = 32 * 2**20, 256 * 2**20


class ResourceSettings(SettingsGroup):
    """Resources that the run may use."""

    gpus: int = Field(default=0, ge=0, description="Number of GPUs for learners")
    gpus_per_runner: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="GPUs that each runner asks Ray for, with rollout.device cuda; 0.25: four share a card, "
        "apart from the learners' cards",
    )
    share_cards: bool = Field(
        default=False,
        description="Let runners play on the learners' cards, of which they take gpus_per_runner each, less "
        "than half of a card together",
    )
    cpus_per_runner: float = Field(
        default=1.0, gt=0, allow_inf_nan=False, description="CPUs that each runner asks Ray for"
    )
    threads: int = Field(
        default=1,
        ge=1,
        le=1024,
        description="Torch threads of each process; more than 1 slows busy cores down",
    )
    learner_threads: Annotated[int, Field(ge=1, le=1024)] | Literal["auto"] = Field(
        default="auto",
        description="Torch threads of each process that learns, with runners; auto: as `threads`, or more on "
        "a machine with cores that runners leave free, up to a quarter of them for all learners",
    )
    placement: Placement = Field(
        default="pack",
        description="Placement of the learners' shards on the nodes, by Ray: pack, on few nodes if possible; "
        "spread, on many if possible; strict_pack, all on one; strict_spread, each on a node of its own",
    )
    address: str | None = Field(
        default=None,
        description="Address of a running Ray cluster to join; `null`: use this machine alone, and refuse to "
        "start where the environment variable RAY_ADDRESS names a cluster",
    )
    runtime_env: dict[str, Any] | None = Field(
        default=None,
        description="Code and environment that Ray brings to each node, as its `runtime_env`: "
        "`{working_dir: .}` sends this folder, with games and networks of your own in it; `null`: nodes have "
        "all that is needed",
    )
    wait_seconds: float | None = Field(
        default=None,
        gt=0,
        allow_inf_nan=False,
        description="Seconds to wait for nodes that the cluster has yet to start (autoscaler); `null`: "
        "refuse at once what its nodes cannot hold",
    )

    gpus_per_node: int | None = Field(
        default=None,
        ge=1,
        description="GPUs of each node that the cluster starts, with wait_seconds; `null`: enough for any "
        "shard",
    )
    patience_seconds: Annotated[float, Field(ge=1, allow_inf_nan=False)] | Literal["auto"] = Field(
        default="auto",
        description="Seconds without an answer after which a runner, a learner or an aggregator is ended and "
        "replaced, with runners; auto: ten times the longest answer so far, and at least 30",
    )

    @field_validator("gpus_per_runner")
    @classmethod
    def _gpus_are_whole_or_a_part(cls, gpus: float) -> float:
        if gpus > 1 and gpus != int(gpus):
            raise ValueError(f"found {gpus:g}, expected a whole number, or less than 1: parts of one card")
        return gpus

    @model_validator(mode="after")
    def _only_a_cluster_is_waited_for(self) -> Self:
        if self.wait_seconds is not None and self.address is None:
            raise ValueError(
                f"wait_seconds: found {self.wait_seconds:g} without address: this machine starts no nodes; "
                "set address to the cluster's, or wait_seconds to null"
            )
        if self.gpus_per_node is not None and self.wait_seconds is None:
            raise ValueError(
                f"gpus_per_node: found {self.gpus_per_node} without wait_seconds: the nodes that are there "
                "are counted; set wait_seconds, or gpus_per_node to null"
            )
        return self

    @property
    def of_runner(self) -> dict[str, float]:
        """What one runner asks Ray for."""
        runner = {"CPU": self.cpus_per_runner}
        return runner | {"GPU": self.gpus_per_runner} if self.gpus_per_runner else runner

    def share_of_learners(self, num_runners: int) -> float:
        """Return the part of each of their cards that the learners keep."""
        if not self.share_cards:
            return 1.0
        return 1.0 - self.gpus_per_runner * math.ceil(num_runners / max(1, self.gpus))

    def cards(self, num_runners: int) -> int:
        """Return the number of GPUs that the learners and so many runners need."""
        each = self.gpus_per_runner
        if not each or self.share_cards:
            return self.gpus
        return self.gpus + (math.ceil(num_runners / per_card(each)) if each < 1 else num_runners * int(each))


def available_cpus() -> int:
    """Return the number of cores that this process may run on, or that its container has the time of."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    with contextlib.suppress(OSError, ValueError):  # not Linux, no such limit, or another kind of it
        quota, period = QUOTA.read_text().split()
        cores = min(cores, math.ceil(int(quota) / int(period)))
    return max(1, cores)


def give_way() -> None:
    """Let other processes of this machine go first: learners, as what they wait for is already played."""
    with contextlib.suppress(OSError):  # a system may forbid it
        os.nice(GIVES_WAY)


def prepare_process(threads: int) -> None:
    """Set this process up to play or learn: threads, float32 on GPUs, memory reuse, limit of open files.

    A mapped snapshot takes two open files, so their limit is raised to the system's maximum. By default
    glibc returns large arrays to the system at every free, and each step pays for fresh pages; with
    memory reuse a league of 2 runners plays 5 % more (`python -m tests.bench.throughput`).
    """
    import torch

    torch.set_num_threads(threads)
    outlive_sigterm()
    set_tf32(False)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(ValueError, OSError):  # macOS reports "unlimited" and allows less
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    # other C libraries have no mallopt, or a different one
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and sys.platform == "linux":
        mallopt(M_MMAP_THRESHOLD, HEAP_ARRAY_BYTES)
        mallopt(M_TRIM_THRESHOLD, HEAP_SPARE_BYTES)


def check_resources(settings: ResourceSettings, runners: int) -> None:
    """Raise Mistake if this machine lacks resources, or RAY_ADDRESS names a cluster that the config does not.

    Resources of a joined cluster are not checked here.
    """
    if runners and importlib.util.find_spec("ray") is None:
        raise Mistake(f"runners is {runners}, but ray is not installed; install ray, or set runners to 0")
    elsewhere = os.environ.get("RAY_ADDRESS", "local")
    # sizes and limits follow the config: a cluster joined without its word would get those of this machine
    if runners and settings.address is None and elsewhere not in ("", "local") and not _started_already():
        raise Mistake(
            f"RAY_ADDRESS is '{elsewhere}', but resources.address is not set; give --set resources.address="
            f"{elsewhere} to join that cluster, or unset RAY_ADDRESS to use this machine alone"
        )
    needed = settings.cards(runners)
    if needed and settings.address is None:
        import torch

        found = torch.cuda.device_count()
        slices = os.environ.get("CUDA_VISIBLE_DEVICES", "").count("MIG-")
        if runners:  # CUDA shows a process one slice of a card, whatever is listed
            found = max(found, slices)
        if found < needed:
            beside = ""
            if needed > settings.gpus:
                each = f"{settings.gpus_per_runner:g}"
                beside = f" and resources.gpus_per_runner is {each} for {runners} runners, {needed} in all"
            join = "join a cluster that has them (resources.address)"
            if slices >= needed:
                join = "set runners to 1 or more: a process uses one slice of a card (MIG)"
            raise Mistake(
                f"resources.gpus is {settings.gpus}{beside}, but torch sees {found} here, expected no more "
                f"than that; lower it, or {join}"
            )


def _started_already() -> bool:
    """Return whether the program that this is a part of has started Ray."""
    return "ray" in sys.modules and sys.modules["ray"].is_initialized()


@contextlib.contextmanager
def ray_session(
    settings: ResourceSettings, num_actors: int, num_runners: int = 0, modules: Sequence[str] = ("league",)
) -> Iterator[None]:
    """Start Ray with room for `num_runners` runners and `num_actors` other actors of one CPU; stop it later.

    A cluster of this machine alone has a CPU for each actor, although a runner and a learner may
    share a core. A cluster that is joined keeps its own number of CPUs; each of its nodes must have
    `modules`. Raise Mistake, with the cause in one sentence, if Ray cannot start or be joined.
    """
    # processes without GPUs see none: JAX, for one, would take most of the first one's memory
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "1")
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a failure reaches the user once, through the call that gets the result; Ray would print all of them
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    unfit: dict[str, str] = {}
    if settings.address is not None and not _started_already():
        # before Ray reads the environment
        unfit = check_cluster(settings.address, modules, settings.runtime_env)
    import psutil
    import ray

    if ray.is_initialized():  # by the program that this is a part of, which also stops it
        yield
        return
    options: dict[str, Any] = {"address": settings.address}
    if settings.address is None:
        options = {
            "address": "local",  # not a cluster that already runs on this machine
            "num_cpus": max(available_cpus(), num_actors + math.ceil(num_runners * settings.cpus_per_runner)),
            "num_gpus": settings.cards(num_runners),
            "include_dashboard": False,
            "object_store_memory": min(OBJECT_STORE_BYTES, psutil.virtual_memory().available // 4),
        }
    if settings.runtime_env is not None:
        options["runtime_env"] = settings.runtime_env
    with contextlib.ExitStack() as stack:
        move_lines = stack.enter_context(rest_to_file())
        stack.enter_context(errors_to_file())
        try:
            with signals_blocked():  # in Ray's processes, for good
                ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
        except Exception as error:  # Ray raises many kinds
            reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
            if settings.address is not None:
                raise Mistake(f"resources.address {settings.address}: Ray could not join: {reason}") from None
            raise Mistake(
                f"Ray could not start on this machine: {reason}; make room in memory and in its folder of "
                "temporary files (/tmp/ray), or set runners to 0, which needs no Ray"
            ) from None
        stack.enter_context(begun(settings.address, move_lines))
        fitness.begin(unfit)
        yield


def over_nodes(settings: ResourceSettings) -> bool:
    """Return whether the cluster has several nodes, or may get them. A Ray session is needed."""
    return settings.address is not None or len(look().nodes) > 1


def beside_driver(actor: type, *arguments: Any) -> Any:
    """Start an actor that takes no CPU on the node of this process; it starts again when it dies."""
    import ray
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

    here = NodeAffinitySchedulingStrategy(node_id(), soft=False)
    remote: Any = ray.remote(actor)
    return remote.options(num_cpus=0, max_restarts=-1, scheduling_strategy=here).remote(*arguments)


def share(value: Any) -> Any:
    """Put a value where every node can get it; in a list, so that Ray hands on the reference itself."""
    import ray

    return [ray.put(value)]


def answer(reference: Any, timeout_seconds: float) -> Any:
    """Return the value of a reference. Raise TimeoutError if it cannot be had now, else what the call raised.

    It cannot be had when its actor is being started again, or its only copy was lost with a node.
    """
    import ray

    errors = ray.exceptions
    gone = (errors.RayActorError, errors.ObjectLostError, errors.GetTimeoutError, errors.RaySystemError)
    try:
        return ray.get(reference, timeout=timeout_seconds)
    except errors.RayTaskError as error:
        raise error.cause from None  # its own message is a traceback
    except gone as error:
        raise TimeoutError(f"{type(error).__name__} within {timeout_seconds:.0f} s") from None


def keep_to_card_part() -> None:
    """Let this actor take no more of a GPU's memory than the part of it that Ray gave it, less than 1."""
    import ray

    limit_memory(float(ray.get_runtime_context().get_assigned_resources().get("GPU", 0.0)))


def node_id() -> str:
    """Return the id of the node that this actor runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def node_address() -> str:
    """Return the address by which other nodes reach the node that this actor runs on."""
    import ray

    return str(ray.util.get_node_ip_address())
