"""Placement of bundles on nodes: which node each one goes to, or what the nodes lack, as a sentence. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from storage.errors import Mistake

Amounts = Mapping[str, float]  # "CPU" and "GPU" to how many
ONE_CPU: Amounts = {"CPU": 1.0}
SEARCH_STEPS = 10_000  # vain ones, of the search for a place of all bundles: about a second

Placement = Literal["pack", "spread", "strict_pack", "strict_spread"]


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
        kinds = ("GPU", "CPU") if bundles[i].get("GPU") else ("CPU",)
        largest = max(free, key=lambda node: [node[kind] for kind in kinds], default={})
        shard = i if shards is None else shards[i]
        raise Mistake(
            f"shard {shard} needs {text_of(bundles[i])} on one node; the largest free node of "
            f"{len(nodes)} has {text_of(largest)} once the other shards are placed; lower resources.gpus, "
            "learners.shards, learners.processes or learners.aggregators, or join a larger cluster "
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


def text_of(amounts: Amounts) -> str:
    """Return the amounts as text, such as "2 GPUs and 1 CPU"."""
    counts = [(kind, amounts.get(kind, 0.0)) for kind in ("GPU", "CPU")]
    return (
        " and ".join(f"{n:g} {kind}{'' if n == 1 else 's'}" for kind, n in counts if n) or "no CPU and no GPU"
    )
