"""Runners that follow the nodes, with a Ray that is a fake: who begins, who ends, and no request is lost."""

from types import SimpleNamespace

import pytest

from league.cluster.nodes import Node, NodeWatch, Seen
from league.rollout.runner_group import RayRunnerGroup
from tests.league.fake_ray import SETUP, asked, come, fake_runners

CPUS = {"CPU": 4.0}


class Playing:
    """Runner that is on the node `at`."""

    at = "a"

    def __init__(self, setup):
        self.mine = Playing.at

    def where(self):
        return f"host-{self.mine}/{self.mine}"

    def play_remotely(self, request, players, *weights):
        return request.name, SimpleNamespace(process=f"host-{self.mine}:12")


@pytest.fixture
def fake(monkeypatch):
    fake = fake_runners(monkeypatch, Playing)
    monkeypatch.setattr(Playing, "at", "a")
    return fake


def seen(*names, leaving=()):
    return Seen({name: Node(f"host-{name}", CPUS) for name in names}, frozenset(leaving))


def test_a_node_is_named_by_its_address_where_hosts_have_one_name():
    nodes = {
        "aaaaaaaaaaaa": Node("worker", CPUS, "10.0.0.1"),
        "bbbbbbbbbbbb": Node("worker", CPUS, "10.0.0.2"),
        "cccccccccccc": Node("head", CPUS, "10.0.0.3"),
    }
    named = Seen(nodes)
    assert [named.name(node_id) for node_id in nodes] == [
        "worker (10.0.0.1, aaaaaaaa)",
        "worker (10.0.0.2, bbbbbbbb)",
        "head",
    ]
    assert named.full_name("cccccccccccc") == "head (10.0.0.3, cccccccc)"
    assert named.name("dddddddddddd") == "dddddddd"


def test_runners_that_wait_for_a_node_get_no_request_until_it_is_there(fake):
    group = RayRunnerGroup(3, SETUP, as_room=True)
    for actor in group._actors:
        fake.hold(actor)  # there is no place for them yet
    assert come(group) == []
    assert group.room() == 0
    fake.go_on(group._actors[1])
    come(group)
    assert (group.room(), group.next_runner()) == (2, 1)
    assert group.follow(seen("a"), {}, hold=False) == ["1 runner began on node host-a; 1 of 3 play"]
    fake.go_on(group._actors[0])
    fake.go_on(group._actors[2])
    come(group)
    assert group.room() == 6
    assert group.follow(seen("a"), {}, hold=False) == ["2 runners began on node host-a; 3 of 3 play"]
    assert group.follow(seen("a"), {}, hold=False) == []


def test_runners_of_a_node_that_leaves_play_what_they_have_and_begin_again_elsewhere(fake):
    group = RayRunnerGroup(2, SETUP)
    Playing.at = "a"
    fake.hold(group._actors[1])
    come(group)
    Playing.at = "b"
    fake.go_on(group._actors[1])
    come(group)
    assert group._at == ["a", "b"]
    for i in range(4):
        group.submit(i, asked(), {})
    leaving, other = group._actors
    fake.hold(leaving)
    lines = group.follow(seen("a", "b", leaving=["a"]), {}, hold=False)
    assert lines == ["node host-a is about to leave: 1 runner there finish what they play and end"]
    assert group.parting() == []  # it has two requests
    assert come(group) == [1, 3]
    assert (group.room(), group.next_runner()) == (2, 1)
    fake.go_on(leaving)
    assert come(group) == [0, 2]
    assert group.parting() == [0]
    group.part(0)
    assert leaving.dead
    assert not other.dead
    assert group.parting() == []
    come(group)
    assert group._at == ["b", "b"]
    assert group.losses() == []
    assert group.room() == 4


def test_runners_make_room_for_learners_and_none_begins_until_those_have_their_place(fake):
    group = RayRunnerGroup(3, SETUP)
    fake.hold(group._actors[2])  # not begun
    come(group)
    group._starting.add(2)
    room = {"a": {"CPU": 1.0}}
    lines = group.follow(seen("a"), room, hold=True)
    assert lines == ["1 runner of node host-a end to make room for learners"]
    assert room == {"a": {"CPU": 0.0}}
    assert group._actors[2].dead
    assert group.follow(seen("a"), {"a": {"CPU": 1.0}}, hold=True) == []  # the one that is to end is enough
    assert group.parting() == [1]
    group.part(1)
    assert len(fake.living()) == 1
    assert group.room() == 2
    assert group.follow(seen("a"), {}, hold=False) == []
    come(group)
    assert len(fake.living()) == 3
    assert group.room() == 6
    assert group.losses() == []


def test_the_nodes_are_looked_at_by_a_thread_and_an_error_leaves_what_was_seen_last():
    looks = iter([seen("a"), ConnectionError("no head"), seen("b")])

    def look():
        found = next(looks)
        if isinstance(found, Exception):
            raise found
        return found

    watch = NodeWatch(look, seconds=0.01)
    for _ in range(500):
        newest = watch.newest()
        if newest is not None and set(newest.nodes) == {"b"}:
            break
        watch._ended.wait(0.01)
    watch.close()
    assert set(watch.newest().nodes) == {"b"}
