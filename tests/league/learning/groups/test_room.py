"""Room for a shard: where runners would have to end, and where nothing helps."""

from league.cluster.nodes import Node, Seen
from league.learning.groups.relocation import find_room

BUNDLE = {"CPU": 2.0, "GPU": 1.0}


def seen(free, leaving=(), **has):
    return Seen({name: Node(name, amounts) for name, amounts in has.items()}, frozenset(leaving), free)


def test_a_shard_goes_where_nothing_is_lacking():
    nodes = seen(
        {"a": {}, "b": {"CPU": 4.0, "GPU": 1.0}}, a={"CPU": 8.0, "GPU": 2.0}, b={"CPU": 4.0, "GPU": 1.0}
    )
    assert find_room([BUNDLE], nodes, {}) == {}


def test_what_runners_have_counts_as_room_and_what_other_shards_have_does_not():
    nodes = seen({"a": {"CPU": 1.0, "GPU": 1.0}}, a={"CPU": 4.0, "GPU": 2.0})
    assert find_room([BUNDLE], nodes, {}) == {"a": {"CPU": 1.0}}
    assert find_room([BUNDLE], nodes, {"a": {"CPU": 2.0, "GPU": 1.0}}) == {"a": {"CPU": 1.0}}
    assert find_room([BUNDLE], nodes, {"a": {"CPU": 3.0}}) is None


def test_a_node_that_is_to_leave_is_no_room():
    nodes = seen({"a": BUNDLE}, leaving=["a"], a=BUNDLE)
    assert find_room([BUNDLE], nodes, {}) is None
