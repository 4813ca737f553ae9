"""Learners on three raylets with counted GPUs: whole shards on nodes, and one player over all of them."""

import os
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from league.cluster.nodes import gpus_of_nodes
from league.cluster.reservation import release, reserve
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shards import plan_shards
from league.learning.learner.learner import LearnerSettings
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import RayRunnerGroup
from league.rollout.settings import RolloutSettings
from storage.errors import Mistake
from tests.league.learning.groups.recruiting import SPEC, STORE, collect, node_of, raylets, recruits_of

pytestmark = [pytest.mark.long, pytest.mark.alone]

SETTINGS = LearnerSettings(batch_steps=32)


@pytest.fixture(scope="module")
def cluster():
    """Three nodes of 2, 2 and 1 GPUs."""
    with raylets(*({"num_cpus": gpus, "num_gpus": gpus} for gpus in (2, 2, 1))) as made:
        yield made


def learn(group, episodes):
    """The reports of one block for each player."""
    for player in group.players():
        group.submit(player, episodes, 0.0)
    return {report.player: report.updates for report in collect(group, len(group.players()), 120.0)}


SHAPES = [
    (1, [(2, 2, 1)]),
    pytest.param(2, [(2, 1), (2,)], marks=pytest.mark.variant),
    pytest.param(3, [(2,), (2,), (1,)], marks=pytest.mark.variant),
]


@pytest.mark.parametrize(("players", "shape"), SHAPES)
def test_a_plan_of_the_nodes_is_placed_as_it_is_and_trains_as_one_process_would(
    cluster, make_episodes, players, shape
):
    names = [f"main-{i}" for i in range(players)]
    assert sorted(gpus_of_nodes()) == [1, 2, 2]
    plan = plan_shards(5, names, nodes=gpus_of_nodes())
    assert [shard.nodes or (shard.processes,) for shard in plan] == shape
    recruits = recruits_of(SPEC, SETTINGS, {name: i for i, name in enumerate(names)})
    group, alone = RayLearners(plan, recruits), LocalLearners(plan_shards(0, names), recruits)
    for shard, parts in zip(group._shards, shape, strict=True):
        nodes = group._ray.get([actor.__ray_call__.remote(node_of) for actor in shard.processes])
        assert len(set(nodes)) == len(parts)
        assert tuple(nodes.count(each) for each in dict.fromkeys(nodes)) == parts
    episodes = make_episodes([10, 3, 20, 40], [True, False, True, False])
    assert learn(group, episodes) == learn(alone, episodes)
    for name in names:
        mine, theirs = alone.state(name).weights, group.state(name).weights
        for part in mine:
            np.testing.assert_allclose(mine[part].numpy(), theirs[part].numpy(), atol=1e-5, err_msg=part)
    group.close()


@pytest.mark.variant
def test_runners_that_share_the_learners_cards_see_those_and_no_others(cluster):
    plan = plan_shards(2, ["main-0"])
    recruits = recruits_of(SPEC, SETTINGS, {"main-0": 0})
    runner = {"CPU": 0.1, "GPU": 0.2}
    with pytest.raises(Mistake, match=r"shard 0 needs 2 GPUs and 2\.2 CPUs on one node"):  # it has two
        RayLearners(plan, recruits, num_runners=2, of_runner=runner, share=0.8)
    cluster.add_node(num_cpus=3, num_gpus=2, object_store_memory=STORE)
    group = RayLearners(plan, recruits, num_runners=2, of_runner=runner, share=0.8)
    setup = PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=8))
    runners = RayRunnerGroup(2, setup, runner, group.seats)

    def seen(actors):
        return sorted(group._ray.get([actor.__ray_call__.remote(visible) for actor in actors]))

    (shard,) = group._shards
    learners = seen(shard.processes)
    assert len(set(learners)) == 2
    assert set(seen(runners._actors)) <= set(learners)
    runners.close()
    group.close()


def visible(actor):
    return node_of(actor), os.environ["CUDA_VISIBLE_DEVICES"]


def test_a_node_that_starts_in_time_is_waited_for_and_one_that_never_comes_is_not(cluster):
    bundles = [{"CPU": 3.0, "GPU": 3.0}]
    with pytest.raises(Mistake, match="shard 0 needs 3 GPUs and 3 CPUs on one node"):
        reserve(bundles, 0)
    began = time.monotonic()
    with pytest.raises(Mistake, match="shard 0 needs 3 GPUs and 3 CPUs on one node"):
        reserve(bundles, 0, wait_seconds=2.0)
    assert time.monotonic() - began > 2.0
    with ThreadPoolExecutor() as pool:  # nodes are added by the main thread only
        reserved = pool.submit(reserve, bundles, 0, wait_seconds=60.0)
        time.sleep(2.0)
        assert not reserved.done()
        cluster.add_node(num_cpus=3, num_gpus=3, object_store_memory=STORE)
        release(reserved.result())
