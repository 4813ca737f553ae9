"""Aggregators: many small rollouts come as one block, in order, and the learner ends up the same."""

import numpy as np
import pytest

from league.cluster.runtime import ResourceSettings, ray_session
from league.episode import Episodes
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.queues import FAN_IN, Aggregator, Gathering, concatenate_as_tree
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shards import plan_shards
from league.learning.learner.learner import LearnerSettings
from tests.league.learning.groups.recruiting import SPEC, collect, recruits_of


def assert_same_episodes(a, b):
    for name in ("offset", "match_id", "version", "observation", "action", "reward", "bootstrap"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


@pytest.mark.parametrize(("count", "most"), [(1, 0), (2, 1), (8, 1), (9, 2), (16, 3), (64, 9), (65, 10)])
def test_a_tree_keeps_the_order_and_takes_at_most_its_fan_in_at_once(count, most):
    calls = []

    def concatenate(*parts):
        calls.append(len(parts))
        return [i for part in parts for i in part]

    assert concatenate_as_tree([[i] for i in range(count)], concatenate) == list(range(count))
    assert max(calls, default=0) <= FAN_IN == 8
    assert len(calls) == most


def test_blocks_of_blocks_are_the_episodes_themselves(make_episodes):
    parts = [make_episodes([3, 5], [True, False], seed=i, version=i) for i in range(20)]
    tree = concatenate_as_tree(parts, Aggregator().concatenate)
    assert_same_episodes(tree, Episodes.concatenate(parts))
    assert tree.num_steps == 160


def test_rollouts_gather_until_they_are_worth_an_update():
    gathering = Gathering(100)
    assert gathering.add("a", 60, now=1.0) is None
    assert len(gathering) == 1
    assert gathering.add("b", 40, now=2.0) == (["a", "b"], 100, 1.0)
    assert len(gathering) == 0
    assert gathering.add("c", 250, now=3.0) == (["c"], 250, 3.0)
    assert gathering.add("d", 1, now=4.0) is None
    assert gathering.take() == (["d"], 1, 4.0)
    assert gathering.take().parts == []


@pytest.fixture(scope="module")
def ray():
    import ray

    with ray_session(ResourceSettings(), num_actors=4):
        yield ray


@pytest.mark.long
@pytest.mark.alone
def test_aggregated_experience_teaches_the_same_to_the_bit(ray, make_episodes):
    players = ["main-0", "main-1"]
    seeds = {"main-0": 1, "main-1": 2}
    settings = LearnerSettings(batch_steps=200)
    local = LocalLearners(plan_shards(0, players), recruits_of(SPEC, settings, seeds))
    remote = RayLearners(plan_shards(0, players), recruits_of(SPEC, settings, seeds, aggregators=2))
    for i in range(45):  # 20 steps each: blocks of 10 rollouts, concatenated in two levels
        player = players[i % 2]
        episodes = make_episodes([10, 10], [True, False], seed=i)
        local.submit(player, episodes, 0.5, steps=20)
        remote.submit(player, ray.put(episodes), 0.5, steps=20)
    queues = remote.queues()
    assert [(queues[p].depth, queues[p].gathering) for p in players] == [(2, 3), (2, 2)]
    assert [remote.full(p) for p in players] == [True, True]
    local.ready(0.0)
    reports = collect(remote, 4)
    for player in players:
        last = [report for report in reports if report.player == player][-1]
        assert (last.updates, last.env_steps) == (2, 400)
        mine, theirs = local.state(player), remote.state(player)
        assert (mine.updates, mine.env_steps) == (2, 400)
        for name in mine.weights:
            np.testing.assert_array_equal(mine.weights[name].numpy(), theirs.weights[name].numpy())
        info = remote.queues()[player]
        assert (info.depth, info.dropped_rollouts) == (0, 0)
        assert info.age_seconds > 0
    remote.remove("main-0")  # what gathered for it is lost, and that is counted where it can be seen
    remote.reset("main-1", remote.state("main-1").weights)
    info = remote.queues()["main-1"]
    assert (info.gathering, info.dropped_rollouts, info.dropped_steps) == (0, 2, 40)
    remote.close()
