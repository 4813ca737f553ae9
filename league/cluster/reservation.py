"""Reservations of CPUs and GPUs for the learners' shards, as placement groups of Ray.

With placement `pack` each shard has a group of its own, so that it can move to other nodes while the others
stay where they are. The other placements concern all shards, which then are one group.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from league.cluster.fitness import fitness
from league.cluster.nodes import NODE_LABEL, look
from league.cluster.placement import ONE_CPU, Amounts, Placement, check_placement, text_of
from storage.errors import Mistake

PLACEMENT_SECONDS = 60.0  # a free cluster places a group at once; a busy one may take longer


@dataclass(slots=True)
class Reserved:
    """Placement groups, and for each bundle its group and its number in it."""

    groups: list[Any]
    places: list[tuple[Any, int]]
    pinned: bool = False  # to the nodes that were chosen: Ray finds no others when those are gone

    def give(self, index: int, group: Any, first: int, count: int) -> None:
        """Give a group's place to another one, with its `count` bundles, of which the number is `first`."""
        self.groups[index] = group
        for number in range(count):
            self.places[first + number] = group, number


def reserve(
    bundles: Sequence[Amounts],
    num_runners: int,
    of_runner: Amounts = ONE_CPU,
    *,
    wait_seconds: float | None = None,
    shards: Sequence[int] | None = None,
    placement: Placement = "pack",
) -> Reserved:
    """Return placement groups with these bundles, each of them on one node. A Ray session is needed.

    `shards`: the number of the shard of each bundle. Raise Mistake, with nothing reserved, if the cluster
    lacks resources for them and `of_runner` for each runner; with `wait_seconds` only after that time, in
    which the cluster may start more nodes.
    """
    import ray

    owners = list(range(len(bundles))) if shards is None else list(shards)
    if wait_seconds is None:
        staying = fitness.fit(look())
        ids, nodes = list(staying), [node.resources for node in staying.values()]
        of_bundle = check_placement(bundles, nodes, num_runners, of_runner, shards, placement)
        # Ray may place bundles so that a later one finds no room: then it gets their nodes too
        attempts: list[Any] = [None, [{NODE_LABEL: ids[i]} for i in of_bundle]]
        patience = PLACEMENT_SECONDS / len(attempts)
    else:
        attempts, patience = [None], wait_seconds
    for labels in attempts:
        reserved = ask(bundles, owners, placement, labels)
        give_up = time.monotonic() + patience
        # Ray waits whole seconds: a part of one would be cut off
        if all(group.wait(max(1, math.ceil(give_up - time.monotonic()))) for group in reserved.groups):
            return reserved
        free = ray.available_resources()
        release(reserved)
    nodes = [node.resources for node in fitness.fit(look()).values()]
    check_placement(bundles, nodes, num_runners, of_runner, shards, placement)
    raise Mistake(
        f"the learners' shards need {', '.join(map(text_of, bundles))}, each on one node; the cluster has "
        f"them, but only {text_of(free)} of it were free in {patience * len(attempts):.0f} s; "
        "end what else runs there, or ask for less"
    )


def ask(
    bundles: Sequence[Amounts], owners: Sequence[int], placement: Placement, labels: Any = None
) -> Reserved:
    """Ask for a group for each shard, or for one group where the placement concerns all of them.

    Return at once, whether or not there is room. `owners`: the number of the shard of each bundle; `labels`:
    those of the node that each bundle must be on.
    """
    parts = [[i for i, owner in enumerate(owners) if owner == own] for own in dict.fromkeys(owners)]
    if placement != "pack":
        parts = [list(range(len(bundles)))]
    reserved = Reserved([], [(None, 0)] * len(bundles), pinned=labels is not None)
    for part in parts:
        group = ask_group([bundles[i] for i in part], placement, labels and [labels[i] for i in part])
        reserved.groups.append(group)
        for number, i in enumerate(part):
            reserved.places[i] = group, number
    return reserved


def ask_group(bundles: Sequence[Amounts], placement: Placement = "pack", labels: Any = None) -> Any:
    """Ask for a placement group; return at once, whether or not there is room for it."""
    from ray.util.placement_group import placement_group

    avoid = fitness.selector()
    if labels is None and avoid is not None:
        labels = [avoid] * len(bundles)
    return placement_group([dict(each) for each in bundles], placement.upper(), bundle_label_selector=labels)


def nodes_of_group(group: Any) -> list[str] | None:
    """Return the id of the node of each bundle; `None` while the group waits for a place."""
    from ray.util.placement_group import placement_group_table

    found = placement_group_table(group)
    if found.get("state") != "CREATED":
        return None
    return [found["bundles_to_node_id"][i] for i in sorted(found["bundles_to_node_id"])]


def release(reserved: Reserved) -> None:
    """Give back all that `reserve` returned."""
    for group in reserved.groups:
        release_group(group)


def release_group(group: Any) -> None:
    """Release one placement group; what runs in it ends."""
    from ray.util.placement_group import remove_placement_group

    remove_placement_group(group)


def inside(reserved: Reserved, bundle: int) -> Any:
    """Return the scheduling strategy of actors that belong in this bundle."""
    from ray.util.scheduling_strategies import PlacementGroupSchedulingStrategy

    group, number = reserved.places[bundle]
    return PlacementGroupSchedulingStrategy(group, placement_group_bundle_index=number)
