"""Shards on three raylets with counted GPUs: one drained, one killed, and learning goes on."""

import time

import numpy as np
import pytest

from league.cluster.nodes import look
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shards import plan_shards
from league.learning.learner.learner import LearnerSettings
from tests.league.learning.groups.recruiting import SPEC, STORE, node_of, raylets, recruits_of

pytestmark = [pytest.mark.long, pytest.mark.alone, pytest.mark.variant]

SETTINGS = LearnerSettings(batch_steps=32)
SECONDS = 120.0


@pytest.fixture
def cluster():
    """A head without GPUs, and two nodes of one GPU each."""
    with raylets({"num_cpus": 1}, *[{"num_cpus": 1, "num_gpus": 1}] * 2) as made:
        yield made


def learn(group, player, episodes, lines):
    """Learn from one block, while the nodes are followed; return the report."""
    group.submit(player, episodes, 0.0)
    give_up, followed = time.monotonic() + SECONDS, 0.0
    while True:
        for report in group.ready(0.1):
            if report.player == player:
                return report
        assert time.monotonic() < give_up, lines
        if time.monotonic() - followed > 1.0:
            lines += group.follow(look()).lines
            followed = time.monotonic()


def homes(group):
    return [group._ray.get(shard.processes[0].__ray_call__.remote(node_of)) for shard in group._shards]


def drain(address, node_id):
    from ray._raylet import GcsClient
    from ray.core.generated import autoscaler_pb2

    reason = autoscaler_pb2.DrainNodeReason.Value("DRAIN_NODE_REASON_PREEMPTION")
    accepted, why = GcsClient(address=address).drain_node(node_id, reason, "spot", 2**62)
    assert accepted, why


def test_a_shard_moves_off_a_drained_and_a_killed_node_and_lost_gpus_are_replanned(cluster, make_episodes):
    names = ("main-0", "main-1")
    group = RayLearners(plan_shards(2, names), recruits_of(SPEC, SETTINGS, {"main-0": 0, "main-1": 1}))
    episodes, lines = make_episodes([10, 3, 20, 40], [True, False, True, False]), []
    reports = {name: learn(group, name, episodes, lines) for name in names}
    spare = cluster.add_node(num_cpus=1, num_gpus=1, object_store_memory=STORE)
    before = homes(group)
    drain(cluster.address, before[0])
    state = group.state("main-0")
    while not any("shard 0 (main-0) are on" in line for line in lines):
        reports |= {name: learn(group, name, episodes, lines) for name in names}
    after = homes(group)
    assert after == [spare.node_id, before[1]]
    assert group.losses() == []
    assert reports["main-0"].updates > state.updates

    killed = next(worker for worker in cluster.workers if worker.node_id == before[1])
    cluster.remove_node(killed, allow_graceful=False)
    lines.clear()
    while not any("planned again for 1 GPU" in line for line in lines):
        learn(group, "main-0", episodes, lines)
        lines += group.follow(look()).lines
    for name in names:
        assert learn(group, name, episodes, lines).updates > reports[name].updates
    assert set(homes(group)) == {spare.node_id}
    assert {loss.incident.kind for loss in group.losses()} <= {"learner", "experience"}
    for name in names:
        assert all(np.isfinite(tensor.numpy()).all() for tensor in group.state(name).weights.values())
    group.close()
