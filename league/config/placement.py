"""Placement of a run: the plan of its shards, and what learners and runners ask Ray for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from league.cluster.placement import text_of
from league.config.settings import Settings
from league.learning.groups.shards import Shard, bundles_of, describe, evenly, plan_shards, with_runners
from storage.errors import Mistake


@dataclass(frozen=True, slots=True)
class Placement:
    """Shards of a run, and what is asked of Ray for them and for the runners; nothing without runners."""

    shards: list[Shard]
    bundles: list[list[dict[str, float]]]  # of each shard
    num_runners: int
    of_runner: dict[str, float]
    on_learners_cards: bool = False
    least_runners: int | None = None  # that there must be room for; None: all

    def lines(self) -> list[str]:
        """Return the placement as text, one line for each shard and for the runners."""
        lines = describe(self.shards)
        if not self.num_runners:
            return [*lines, "all of it, and play, in one process without Ray"]
        for i, bundles in enumerate(self.bundles):
            lines[i] += f"; asked of Ray: {', and on another node '.join(map(text_of, bundles))}"
        least = "" if self.least_runners is None else f"{self.least_runners} to "
        what = f"{least}{self.num_runners} runners of {text_of(self.of_runner)} each"
        if self.on_learners_cards:
            what += ", on the learners' cards and among what is asked for those"
        return [*lines, f"{what}; asked of Ray in all: {text_of(self.total())}"]

    def total(self) -> dict[str, float]:
        """Return the CPUs and GPUs of all actors together."""
        apart = 0 if self.on_learners_cards else self.num_runners
        total = {kind: amount * apart for kind, amount in self.of_runner.items()}
        for bundle in (bundle for bundles in self.bundles for bundle in bundles):
            for kind, amount in bundle.items():
                total[kind] = total.get(kind, 0.0) + amount
        return total


def place(settings: Settings, nodes: Sequence[int] | None = None) -> Placement:
    """Return the placement of a run on nodes with so many GPUs each; None: as `resources` describe them.

    Those are nodes of `gpus_per_node`, or one node that has enough.
    Raise Mistake if the nodes have too few GPUs, with the plan that would fit them.
    """
    gpus, learners, players = settings.resources.gpus, settings.learners, [*settings.players()]
    per_node = settings.resources.gpus_per_node
    if nodes is None and per_node is not None:
        nodes = [per_node] * -(-gpus // per_node)
    if nodes is not None and sum(nodes) < gpus:
        most = sum(nodes)
        count = None if learners.shards is None else min(learners.shards, most or len(players))
        fitting = plan_shards(most, players, learners.processes, shards=count, nodes=nodes)
        raise Mistake(
            f"resources.gpus is {gpus}, but the nodes have {' + '.join(map(str, nodes))} = {most}, expected "
            f"no more than that; this would fit, with resources.gpus {most}: {'; '.join(describe(fitting))}"
        )
    shards = plan_shards(gpus, players, learners.processes, shards=learners.shards, nodes=nodes)
    runners = settings.most_runners + settings.evaluation.runners
    bundles = bundles_of(shards, learners.aggregators)
    shared, of_runner = settings.resources.share_cards, settings.resources.of_runner
    if shared:
        bundles, _ = with_runners(bundles, runners, of_runner["CPU"])
    least = settings.least_runners + settings.evaluation.runners
    return Placement(
        shards, bundles if runners else [], runners, of_runner, shared, None if least == runners else least
    )


def nodes_of(gpus: int, nodes: str) -> list[int]:
    """Return the GPUs of each node, for "2" (`gpus` spread over so many nodes) or "4+2" (GPUs of each).

    Raise Mistake for text that is neither.
    """
    try:
        sizes = [int(part) for part in nodes.split("+")]
    except ValueError:
        sizes = [-1]
    if min(sizes) < 0 or sizes == [0]:
        raise Mistake(f"--nodes {nodes}: expected a number of nodes, such as 2, or the GPUs of each: 4+4")
    if len(sizes) > 1:
        return sizes
    return evenly(gpus, sizes[0])
