"""Shards on a cluster of several nodes: each of them whole on one node, and refused if there is no room."""

import pytest

from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shards import plan_shards
from league.learning.learner.learner import LearnerSettings
from storage.errors import Mistake
from tests.league.learning.groups.recruiting import SPEC, raylets, recruits_of

pytestmark = pytest.mark.alone

PLAYERS = [f"main-{i}" for i in range(5)]
SEEDS = {player: i for i, player in enumerate(PLAYERS)}
SETTINGS = LearnerSettings(batch_steps=32, replay={"proportion": 0.25, "capacity_steps": 1000})
RECRUITS = recruits_of(SPEC, SETTINGS, SEEDS)


@pytest.fixture(scope="module")
def cluster():
    """Two nodes with two GPUs each, which are only counted."""
    with raylets({"num_cpus": 5, "num_gpus": 2}, {"num_cpus": 3, "num_gpus": 2}) as made:
        yield made


def placement_groups():
    """States of the placement groups that are not gone."""
    from ray.util.placement_group import placement_group_table

    return [group["state"] for group in placement_group_table().values() if group["state"] != "REMOVED"]


@pytest.mark.long
def test_a_plan_that_is_too_large_is_refused_with_what_is_missing(cluster):
    with pytest.raises(Mistake, match="shard 0 needs 3 GPUs and 3 CPUs on one node; the largest free node"):
        RayLearners(plan_shards(3, ["main-0"]), RECRUITS)
    with pytest.raises(Mistake, match=r"shard 4 needs 1 GPU and 1 CPU on one node; .* of 2 has 3 CPUs once"):
        RayLearners(plan_shards(5, PLAYERS), RECRUITS)
    with pytest.raises(Mistake, match="5 runners need 1 CPU each; the cluster has room for 4 beside"):
        RayLearners(plan_shards(4, PLAYERS), RECRUITS, num_runners=5)
    assert placement_groups() == []
