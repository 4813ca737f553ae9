import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.policy_map import PolicyMap


@pytest.fixture
def loads():
    return []


@pytest.fixture
def make(loads):
    def load(key):
        loads.append(key)
        return f"policy {key}"

    return lambda capacity, **budget: PolicyMap(capacity, load, **budget)


def test_a_policy_is_loaded_once_while_it_is_resident(make, loads):
    policies = make(2)
    assert policies["a"] is policies["a"]
    assert loads == ["a"]
    assert (policies.info().hits, policies.info().misses) == (1, 1)


def test_the_least_recently_used_is_dropped_first_and_reloaded_when_asked_for(make, loads):
    policies = make(2)
    for key in ("a", "b", "a", "c", "a", "b"):
        policies[key]
    assert loads == ["a", "b", "c", "b"]
    assert list(policies) == ["a", "b"]
    assert policies.info().evictions == {"count": 2, "bytes": 0, "dropped": 0}


def test_looking_never_loads_and_counts_as_no_use(make, loads):
    policies = make(2)
    policies["a"], policies["b"]
    assert "a" in policies
    assert "z" not in policies
    assert policies.get("z") is None
    assert policies.get("a") == "policy a"
    assert policies.values() == ("policy a", "policy b")
    assert len(policies) == 2
    policies["c"]
    assert list(policies) == ["b", "c"], "get and values must not have refreshed a"
    assert loads == ["a", "b", "c"]
    assert policies.info().hits == 0


def test_a_dropped_key_is_forgotten_everywhere(make, loads):
    policies = make(2)
    policies["a"]
    assert policies.drop("a")
    assert not policies.drop("a")
    for key in ("b", "c", "a"):
        policies[key]
    assert list(policies) == ["c", "a"]
    assert policies.info().evictions == {"count": 1, "bytes": 0, "dropped": 1}


def test_bytes_are_kept_within_budget_but_the_newest_always_stays(make):
    policies = make(10, max_bytes=10, size=lambda policy: {"a": 4, "b": 4, "c": 4, "huge": 99}[policy[7:]])
    policies["a"], policies["b"], policies["c"]
    assert list(policies) == ["b", "c"]
    policies["huge"]
    assert list(policies) == ["huge"]
    assert policies.info().bytes == 99
    policies["a"]
    assert (list(policies), policies.info().bytes) == (["a"], 4)
    assert policies.info().evictions["bytes"] == 4


def test_a_failed_load_changes_nothing(make):
    def load(key):
        if key == "bad":
            raise OSError("no such blob")
        return key

    policies = PolicyMap(1, load)
    policies["good"]
    with pytest.raises(OSError, match="no such blob"):
        policies["bad"]
    assert list(policies) == ["good"]


def test_a_value_that_is_none_is_a_hit_as_well(loads):
    policies = PolicyMap(1, loads.append)
    assert policies["a"] is None
    assert policies["a"] is None
    assert loads == ["a"]


def test_budgets_that_cannot_be_kept_are_refused(make):
    with pytest.raises(ValueError, match="capacity is 0"):
        make(0)
    with pytest.raises(ValueError, match="without size"):
        make(1, max_bytes=5)


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5))
def test_the_counters_always_add_up(keys, capacity):
    policies = PolicyMap(capacity, lambda key: key, size=lambda key: key)
    for key in keys:
        assert policies[key] == key
    info = policies.info()
    assert info.hits + info.misses == len(keys)
    assert info.misses - info.evictions["count"] == info.resident == len(policies) <= capacity
    assert info.bytes == sum(policies)
