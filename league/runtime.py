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
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, Self

import psutil
from pydantic import Field, field_validator, model_validator

from league.cluster.joining import check_cluster
from league.section import Section
from storage.errors import Mistake

Amounts = Mapping[str, float]  # "CPU" and "GPU" to how many
ONE_CPU: Amounts = {"CPU": 1.0}

PLACEMENT_SECONDS = 60.0  # a free cluster places a group at once; a busy one may take longer
SEARCH_STEPS = 10_000  # vain ones, of the search for a place of all bundles: about a second
NODE_LABEL = "ray.io/node-id"  # Ray gives each node its id as a label
OBJECT_STORE_BYTES = 2**30  # experience in flight is tens of megabytes; Ray's own default takes 30 % of RAM

# Options of glibc's mallopt: arrays up to the first size come from the heap (at most 32 MiB), and the heap
# is returned to the system only beyond the second size.
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
HEAP_ARRAY_BYTES, HEAP_SPARE_BYTES = 32 * 2**20, 256 * 2**20


Placement = Literal["pack", "spread", "strict_pack", "strict_spread"]


class ResourceSettings(Section):
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
        default=1, ge=1, description="Torch threads of each process; more than 1 slows busy cores down"
    )
    placement: Placement = Field(
        default="pack",
        description="Placement of the learners' shards on the nodes, by Ray: pack, on few nodes if possible; "
        "spread, on many if possible; strict_pack, all on one; strict_spread, each on a node of its own",
    )
    address: str | None = Field(
        default=None, description="Address of a running Ray cluster to join; `null`: use this machine alone"
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
    needed = settings.cards(runners)
    if needed and settings.address is None:
        import torch

        found = torch.cuda.device_count()
        if found < needed:
            beside = ""
            if needed > settings.gpus:
                each = f"{settings.gpus_per_runner:g}"
                beside = f" and resources.gpus_per_runner is {each} for {runners} runners, {needed} in all"
            raise Mistake(
                f"resources.gpus is {settings.gpus}{beside}, but torch sees {found} here, expected no more "
                "than that; lower it, or join a cluster that has them (resources.address)"
            )


@contextlib.contextmanager
def ray_session(
    settings: ResourceSettings, num_actors: int, num_runners: int = 0, modules: Sequence[str] = ("league",)
) -> Iterator[None]:
    """Start Ray with room for `num_runners` runners and `num_actors` other actors of one CPU; stop it later.

    A cluster of this machine alone has a CPU for each actor, although a runner and a learner may
    share a core. A cluster that is joined keeps its own number of CPUs; each of its nodes must have
    `modules`. Raise Mistake, with the cause in one sentence, if Ray cannot start or be joined.
    """
    os.environ.setdefault(
        "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0"
    )  # silences a warning about a future default
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    # a failure reaches the user once, through the call that gets the result; Ray would print all of them
    os.environ.setdefault("RAY_IGNORE_UNHANDLED_ERRORS", "1")
    began = "ray" in sys.modules and sys.modules["ray"].is_initialized()
    if settings.address is not None and not began:
        check_cluster(settings.address, modules, settings.runtime_env)  # before Ray reads the environment
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
    try:
        ray.init(logging_level=logging.ERROR, log_to_driver=False, **options)
    except Exception as error:  # Ray raises many kinds
        raise _not_started(settings.address, error) from None
    try:
        with _deaths_unprinted():
            yield
    finally:
        ray.shutdown()


@contextlib.contextmanager
def _deaths_unprinted() -> Iterator[None]:
    """Keep Ray from printing a paragraph about each process that dies: incidents name it in one line.

    Ray has no option for that. Without the function that prints it, nothing is changed.
    """
    module = sys.modules.get("ray._private.worker")
    printing = getattr(module, "print_to_stdstream", None)
    if module is None or printing is None:
        yield
        return
    module.print_to_stdstream = lambda *_, **__: None  # type: ignore[attr-defined]
    try:
        yield
    finally:
        module.print_to_stdstream = printing  # type: ignore[attr-defined]


def _not_started(address: str | None, error: Exception) -> Mistake:
    reason = " ".join(f"{type(error).__name__}: {error}".split())[:300]
    if address is not None:
        return Mistake(f"resources.address {address}: Ray could not join: {reason}")
    return Mistake(
        f"Ray could not start on this machine: {reason}; make room in memory and in its folder of temporary "
        "files (/tmp/ray), or set runners to 0, which needs no Ray"
    )


def gpus_of_nodes() -> list[int]:
    """Return the number of GPUs of each living node. A Ray session is needed."""
    return [int(resources.get("GPU", 0)) for _, resources in _nodes()]


def _nodes() -> list[tuple[str, Amounts]]:
    """Return id and resources of each living node."""
    import ray

    return [(node["NodeID"], dict(node["Resources"])) for node in ray.nodes() if node["Alive"]]


def reserve(
    bundles: Sequence[Amounts],
    num_runners: int,
    of_runner: Amounts = ONE_CPU,
    *,
    wait_seconds: float | None = None,
    shards: Sequence[int] | None = None,
    placement: Placement = "pack",
) -> Any:
    """Return a placement group with these bundles, each of them on one node. A Ray session is needed.

    `shards`: the number of the shard of each bundle, for messages. Raise Mistake, with nothing reserved, if
    the cluster lacks resources for them and `of_runner` for each runner; with `wait_seconds` only after that
    time, in which the cluster may start more nodes.
    """
    import ray
    from ray.util.placement_group import placement_group, remove_placement_group

    wanted = [dict(bundle) for bundle in bundles]
    if wait_seconds is None:
        found = _nodes()
        nodes = [has for _, has in found]
        of_bundle = check_placement(bundles, nodes, num_runners, of_runner, shards, placement)
        # Ray may place bundles so that a later one finds no room: then it gets their nodes too
        attempts: list[Any] = [None, [{NODE_LABEL: found[i][0]} for i in of_bundle]]
        patience = PLACEMENT_SECONDS / len(attempts)
    else:
        attempts, patience = [None], wait_seconds
    for labels in attempts:
        group = placement_group(wanted, placement.upper(), bundle_label_selector=labels)
        if group.wait(patience):
            return group
        free = ray.available_resources()
        remove_placement_group(group)
    check_placement(bundles, [has for _, has in _nodes()], num_runners, of_runner, shards, placement)
    raise Mistake(
        f"the learners' shards need {', '.join(map(text_of, bundles))}, each on one node; the cluster has "
        f"them, but only {text_of(free)} of it were free in {patience * len(attempts):.0f} s; "
        "end what else runs there, or ask for less"
    )


def release(group: Any) -> None:
    """Release the resources of a group that `reserve` returned."""
    from ray.util.placement_group import remove_placement_group

    remove_placement_group(group)


def inside(group: Any, bundle: int) -> Any:
    """Return the scheduling strategy of actors that belong in this bundle."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=bundle)


def over_nodes(settings: ResourceSettings) -> bool:
    """Return whether the cluster has several nodes, or may get them. A Ray session is needed."""
    return settings.address is not None or len(_nodes()) > 1


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


def node_id() -> str:
    """Return the id of the node that this actor runs on."""
    import ray

    return str(ray.get_runtime_context().get_node_id())


def node_address() -> str:
    """Return the address by which other nodes reach the node that this actor runs on."""
    import ray

    return str(ray.util.get_node_ip_address())


def check_placement(
    bundles: Sequence[Amounts],
    nodes: Sequence[Amounts],
    num_runners: int,
    of_runner: Amounts = ONE_CPU,
    shards: Sequence[int] | None = None,
    placement: Placement = "pack",
) -> list[int]:
    """Return the node of each bundle. Raise Mistake, with what is missing, if bundles or runners do not fit.

    The largest bundles are placed first, each on the node that has the least room left, unless a later
    one then finds no room. `shards`: the number of the shard of each bundle; None: one bundle for each.
    """
    free = [{kind: float(node.get(kind, 0.0)) for kind in ("GPU", "CPU")} for node in nodes]
    order = sorted(range(len(bundles)), key=lambda i: _size(bundles[i]), reverse=True)
    _check_strict(bundles, free, placement)
    if placement == "strict_pack":
        chosen = _place([_total(bundles)], free, set()) * len(bundles)
    else:
        chosen = _place([bundles[i] for i in order], free, set(), apart=placement == "strict_spread")
    for i, node in zip(order, chosen, strict=False):
        _take(free[node], bundles[i])
    if len(chosen) < len(bundles):
        i = order[len(chosen)]
        largest = max(free, key=_size if bundles[i].get("GPU") else _cpus, default={})
        shard = i if shards is None else shards[i]
        raise Mistake(
            f"shard {shard} needs {text_of(bundles[i])} on one node; the largest free node of "
            f"{len(nodes)} has {text_of(largest)} once the other shards are placed; lower resources.gpus, "
            "learner.shards, learner.processes or learner.aggregators, or join a larger cluster "
            "(resources.address)"
        )
    room = sum(_runners_on(node, of_runner) for node in free)
    if room < num_runners:
        raise Mistake(
            f"{num_runners} runners need {text_of(of_runner)} each; the cluster has room for {room} beside "
            "the learners'; lower runners, or join a larger cluster (resources.address)"
        )
    node_of = dict(zip(order, chosen, strict=True))
    return [node_of[i] for i in range(len(bundles))]


def _check_strict(bundles: Sequence[Amounts], nodes: Sequence[Amounts], placement: Placement) -> None:
    """Raise Mistake if bundles must be all on one node, or each on a node of its own, and cannot."""
    remedy = "set resources.placement to pack or spread, or join a cluster that has them (resources.address)"
    total = _total(bundles)
    if placement == "strict_pack" and not any(
        all(node[kind] >= n for kind, n in total.items()) for node in nodes
    ):
        largest = max(nodes, key=_size, default={})
        raise Mistake(
            f"resources.placement is strict_pack: all shards need {text_of(total)} on one node, the "
            f"largest of {len(nodes)} has {text_of(largest)}; {remedy}"
        )
    if placement == "strict_spread" and len(bundles) > len(nodes):
        raise Mistake(
            f"resources.placement is strict_spread: {len(bundles)} bundles of shards need as many nodes, the "
            f"cluster has {len(nodes)}; {remedy}"
        )


def _total(bundles: Sequence[Amounts]) -> Amounts:
    return {kind: sum(bundle.get(kind, 0.0) for bundle in bundles) for kind in ("GPU", "CPU")}


def _place(
    bundles: Sequence[Amounts], free: Sequence[Amounts], hopeless: set[Any], *, apart: bool = False
) -> list[int]:
    """Return the node of each of these bundles, or of as many first ones as can be placed.

    `hopeless`: what was tried in vain, so that nothing is tried twice. `apart`: no two on one node.
    """
    tried = (len(bundles), *sorted(_size(node) for node in free))
    if not bundles or tried in hopeless or len(hopeless) > SEARCH_STEPS:
        return []
    first, rest = bundles[0], bundles[1:]
    best: list[int] = []
    for node in sorted(range(len(free)), key=lambda i: _size(free[i])):
        if all(free[node][kind] >= n for kind, n in first.items()):
            left = [dict(amounts) for amounts in free]
            _take(left[node], first)
            if apart:
                left[node] = dict.fromkeys(left[node], -1.0)  # room for nothing
            found = [node, *_place(rest, left, hopeless, apart=apart)]
            if len(found) == len(bundles):
                return found
            best = max(best, found, key=len)
    hopeless.add(tried)
    return best


def _take(node: dict[str, float], bundle: Amounts) -> None:
    for kind, n in bundle.items():
        node[kind] -= n


def _runners_on(node: Amounts, of_runner: Amounts) -> int:
    """Return how many runners fit on what is left of a node; each part of a GPU is of one card."""
    room = int(node["CPU"] / of_runner["CPU"] + 1e-9)
    gpus = of_runner.get("GPU", 0.0)
    if not gpus:
        return room
    cards = int(node["GPU"])
    return min(room, cards * per_card(gpus) if gpus < 1 else cards // int(gpus))


def per_card(gpus: float) -> int:
    """Return how many runners with this part of a GPU share a card."""
    return int(1 / gpus + 1e-9)


def _size(amounts: Amounts) -> tuple[float, float]:
    """Return (GPUs, CPUs), to sort by."""
    return amounts.get("GPU", 0.0), amounts.get("CPU", 0.0)


def _cpus(amounts: Amounts) -> float:
    return amounts.get("CPU", 0.0)


def text_of(amounts: Amounts) -> str:
    """Return the amounts as text, such as "2 GPUs and 1 CPU"."""
    counts = [(kind, amounts.get(kind, 0.0)) for kind in ("GPU", "CPU")]
    return (
        " and ".join(f"{n:g} {kind}{'' if n == 1 else 's'}" for kind, n in counts if n) or "no CPU and no GPU"
    )
