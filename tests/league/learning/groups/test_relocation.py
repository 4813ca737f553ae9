"""Shards that follow the nodes, with a Ray that is a fake: moves lose nothing, GPUs are planned again."""

import pytest
import torch

from league.cluster.nodes import Node, Seen
from league.cluster.reservation import Reserved
from league.learning.groups import ray_learners, relocation
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.relocation import find_room
from league.learning.groups.shards import plan_shards
from tests.league.learning.groups.recruiting import PLAYERS, SPEC, fake_ray, recruits_of
from tests.league.learning.groups.test_learner_deaths import SETTINGS, Mortal

pytestmark = pytest.mark.slow  # the first update loads the optimizers

torch.set_num_threads(1)


class Groups:
    """Placement groups by hand: where each one is, or None while it waits."""

    def __init__(self):
        self.nodes, self.released, self.count, self.next = {}, [], 0, {}

    def ask(self, bundles, owners, placement, labels=None):
        places, groups = [], []
        for owner in dict.fromkeys(owners):
            groups.append(self.ask_group([b for b, o in zip(bundles, owners, strict=True) if o == owner]))
            places += [(groups[-1], i) for i in range(owners.count(owner))]
        return Reserved(groups, places)

    def ask_group(self, bundles, placement="pack", labels=None):
        self.count += 1
        name = f"group-{self.count}"
        self.nodes[name] = None
        return name

    def reserve(self, bundles, *others, shards=None, **more):
        reserved = self.ask(bundles, shards, "pack")
        for group, node in zip(reserved.groups, "ab", strict=False):
            self.nodes[group] = [node]
        return reserved

    def release(self, reserved):
        self.released += reserved.groups


@pytest.fixture
def groups(monkeypatch):
    made = Groups()
    made.ray = fake_ray(monkeypatch, Mortal)
    monkeypatch.setattr(ray_learners, "reserve", made.reserve)
    monkeypatch.setattr(ray_learners, "inside", lambda reserved, i: reserved.places[i])
    monkeypatch.setattr(ray_learners, "release", made.release)
    monkeypatch.setattr(relocation, "ask", made.ask)
    monkeypatch.setattr(relocation, "ask_group", made.ask_group)
    monkeypatch.setattr(relocation, "nodes_of_group", made.nodes.get)
    monkeypatch.setattr(relocation, "release", made.release)
    monkeypatch.setattr(relocation, "release_group", made.released.append)
    monkeypatch.setattr(relocation, "PATIENCE_SECONDS", 0.0)
    return made


def seen(leaving=(), free=(), **gpus):
    nodes = {name: Node(f"host-{name}", {"CPU": 4.0, "GPU": float(n)}) for name, n in gpus.items()}
    return Seen(nodes, frozenset(leaving), {name: nodes[name].resources for name in free})


def make(num_gpus=2):
    return RayLearners(
        plan_shards(num_gpus, PLAYERS), recruits_of(SPEC, SETTINGS, {"main-0": 1, "main-1": 2})
    )


def learn(group, make_episodes, player, rounds=1):
    for _ in range(rounds):
        group.submit(player, make_episodes([20, 50], [True, False]), 0.0, 70)
        while not (found := group.ready(0.0)):
            pass
    return found[-1].updates


def test_a_shard_whose_node_leaves_moves_and_loses_neither_updates_nor_experience(groups, make_episodes):
    group = make()
    updates = learn(group, make_episodes, "main-0", 2)
    other = group._of("main-1").processes[0]
    assert group.follow(seen(a=1, b=1, c=1)) == ({}, False, [])
    group.submit("main-0", make_episodes([20, 50], [True, False]), 0.0, 70)
    first = group.follow(seen(leaving="a", free="c", a=1, b=1, c=1))
    assert first == ({}, True, ["learners of shard 0 (main-0) are to move: node host-a is about to leave"])
    groups.nodes["group-3"] = ["c"]
    room, waiting, lines = group.follow(seen(leaving="a", free="c", a=1, b=1, c=1))
    assert (room, waiting, lines) == ({}, False, ["learners of shard 0 (main-0) are on node host-c"])
    assert [report.player for report in group.ready(0.0)] == ["main-0"]
    assert group.losses() == []
    assert "group-1" in groups.released
    assert group._of("main-0").processes[0].options_given["scheduling_strategy"] == ("group-3", 0)
    assert group._of("main-1").processes[0] is other
    assert learn(group, make_episodes, "main-0") > updates + 1
    assert group.queues()["main-0"].dropped_rollouts == 0
    assert group.follow(seen(b=1, c=1)) == ({}, False, [])


def test_a_shard_without_a_place_says_which_runners_are_in_its_way(groups, make_episodes):
    group = make()
    learn(group, make_episodes, "main-0")
    group.follow(seen(a=1, b=1, c=1))
    groups.nodes["group-1"] = None  # Ray looks for another node
    room, waiting, _ = group.follow(seen(b=1, c=1))
    assert waiting
    assert room == {"c": {"GPU": 1.0, "CPU": 1.0}}
    groups.nodes["group-1"] = ["c"]
    assert group.follow(seen(b=1, c=1)) == (
        {}, False, ["learners of shard 0 (main-0) are on node host-c"])  # fmt: skip


def test_gpus_that_are_lost_are_planned_again_and_again_when_they_are_back(groups, make_episodes):
    group = make()
    updates = {player: learn(group, make_episodes, player, 2) for player in PLAYERS}
    group.follow(seen(a=1, b=1))
    groups.ray.kill(group._of("main-1").processes[0])
    group.submit("main-1", make_episodes([20], [True]), 0.0, 20)
    group.ready(0.0)
    assert len(group.losses()) == 1
    groups.nodes["group-2"] = None
    _, waiting, lines = group.follow(seen(free="a", a=1))
    assert waiting
    assert len(lines) == 1
    assert lines[0].startswith("shards were planned again for 1 GPU: shard 0: main-0, main-1 share 1 GPU")
    assert {"group-1", "group-2"} <= set(groups.released)
    groups.nodes["group-3"] = ["a"]
    assert group.follow(seen(free="a", a=1)) == (
        {}, False, ["learners of shard 0 (main-0, main-1) are on node host-a"])  # fmt: skip
    for player in PLAYERS:
        assert learn(group, make_episodes, player) > updates[player]
    assert group.follow(seen(a=1, c=1))[1:] == (False, [])
    _, waiting, lines = group.follow(seen(a=1, c=1))
    assert waiting
    assert lines[0].startswith("shards were planned again for 2 GPUs")
    groups.nodes |= {"group-4": ["a"], "group-5": ["c"]}
    group.follow(seen(a=1, c=1))
    assert [shard.players for shard in group.plan()] == [("main-0",), ("main-1",)]
    for player in PLAYERS:
        assert learn(group, make_episodes, player) > updates[player] + 1
    assert group.losses() == []


# ---------------------------------------------------------------- room for a shard

BUNDLE = {"CPU": 2.0, "GPU": 1.0}


def nodes_with(free, leaving=(), **has):
    return Seen({name: Node(name, amounts) for name, amounts in has.items()}, frozenset(leaving), free)


def test_a_shard_goes_where_nothing_is_lacking():
    nodes = nodes_with(
        {"a": {}, "b": {"CPU": 4.0, "GPU": 1.0}}, a={"CPU": 8.0, "GPU": 2.0}, b={"CPU": 4.0, "GPU": 1.0}
    )
    assert find_room([BUNDLE], nodes, {}) == {}


def test_what_runners_have_counts_as_room_and_what_other_shards_have_does_not():
    nodes = nodes_with({"a": {"CPU": 1.0, "GPU": 1.0}}, a={"CPU": 4.0, "GPU": 2.0})
    assert find_room([BUNDLE], nodes, {}) == {"a": {"CPU": 1.0}}
    assert find_room([BUNDLE], nodes, {"a": {"CPU": 2.0, "GPU": 1.0}}) == {"a": {"CPU": 1.0}}
    assert find_room([BUNDLE], nodes, {"a": {"CPU": 3.0}}) is None


def test_a_node_that_is_to_leave_is_no_room():
    nodes = nodes_with({"a": BUNDLE}, leaving=["a"], a=BUNDLE)
    assert find_room([BUNDLE], nodes, {}) is None
