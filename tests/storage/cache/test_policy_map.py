import contextlib
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from storage.cache.policy_map import PolicyMap


@pytest.fixture
def loads():
    return []


@pytest.fixture
def make(loads):
    def load(key):
        loads.append(key)
        return f"policy {key}"

    return lambda capacity, **budget: PolicyMap(capacity, load, **budget)


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


# ---------------------------------------------------------------- leases


@pytest.fixture
def released():
    return []


@pytest.fixture
def leasing(released):
    return lambda capacity, **budget: PolicyMap(
        capacity, lambda key: f"policy {key}", release=released.append, **budget
    )


def test_what_is_leased_stays_beyond_the_capacity_and_leaves_when_its_lease_ends(leasing, released):
    policies = leasing(2)
    with contextlib.ExitStack() as leases:
        for key in "abcd":
            assert leases.enter_context(policies.lease(key)) == f"policy {key}"
        assert list(policies) == ["a", "b", "c", "d"]
        assert released == []
    assert list(policies) == ["a", "d"], "leases ended from d to a; d, used last, stays in any case"
    assert released == ["policy c", "policy b"]
    assert policies.info().evictions["count"] == 2


def test_among_leased_ones_the_least_recently_used_that_is_free_makes_way(leasing, released):
    policies = leasing(3)
    with policies.lease("a"):
        for key in "bcd":
            policies[key]
        assert list(policies) == ["a", "c", "d"]
    assert released == ["policy b"]
    policies["e"]
    assert released == ["policy b", "policy a"]


def test_a_key_may_be_leased_several_times_and_stays_until_the_last_lease_ends(leasing, released):
    policies = leasing(1)
    with policies.lease("a"):
        with policies.lease("a"):
            pass
        policies["b"]
        assert "a" in policies
        assert not policies.drop("a")
    assert released == ["policy a"]
    assert policies.drop("b")
    assert released == ["policy a", "policy b"]


def test_a_lease_ends_with_its_block_also_by_an_error(leasing):
    policies = leasing(1)
    with pytest.raises(RuntimeError), policies.lease("a"):
        raise RuntimeError
    policies["b"]
    assert list(policies) == ["b"]


def test_bytes_that_are_leased_are_counted_but_not_evicted(leasing):
    policies = leasing(9, max_bytes=10, size=lambda policy: 6)
    with policies.lease("a"), policies.lease("b"):
        assert policies.info().bytes == 12
        policies["c"]
        policies["d"]
        assert list(policies) == ["a", "b", "d"]
    assert (len(policies), policies.info().bytes) == (1, 6)


# ---------------------------------------------------------------- threads


def in_threads(*calls):
    threads = [threading.Thread(target=call) for call in calls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
        assert not thread.is_alive()


def test_threads_that_want_one_key_load_it_once_and_others_side_by_side():
    loads, together, found = [], threading.Barrier(2, timeout=60), []

    def load(key):
        loads.append(key)
        together.wait()  # both keys are being loaded at this moment, or this raises
        return key * 2

    policies = PolicyMap(4, load)
    in_threads(*[lambda key=key: found.append(policies[key]) for key in "aaaab"])
    assert sorted(loads) == ["a", "b"]
    assert sorted(found) == ["aa"] * 4 + ["bb"]
    assert (policies.info().hits, policies.info().misses) == (3, 2)


def test_who_waited_for_a_load_that_failed_tries_it_itself():
    tried, waiting = [], threading.Event()

    def load(key):
        tried.append(key)
        if len(tried) == 1:
            assert waiting.wait(10)
            raise OSError("no such blob")
        return key

    policies, found = PolicyMap(1, load), []

    def first():
        with pytest.raises(OSError, match="no such blob"):
            policies["a"]

    def second():
        while not tried:
            pass
        waiting.set()
        found.append(policies["a"])

    in_threads(first, second)
    assert (tried, found) == (["a", "a"], ["a"])


def test_threads_that_lease_at_random_never_see_what_was_released():
    alive, lock, seen = set(), threading.Lock(), []

    class Policy:
        pass

    def load(key):
        policy = Policy()
        with lock:
            alive.add(policy)
        return policy

    policies = PolicyMap(3, load, release=alive.remove)

    def play(offset):
        for step in range(400):
            with policies.lease((step * offset) % 11) as policy:
                seen.append(policy in alive)

    in_threads(*[lambda offset=offset: play(offset) for offset in (1, 3, 4, 7)])
    assert seen == [True] * 1600
    assert len(alive) == len(policies) == 3


@given(st.lists(st.integers(0, 9), max_size=60), st.integers(1, 5))
def test_the_counters_always_add_up(keys, capacity):
    policies = PolicyMap(capacity, lambda key: key, size=lambda key: key)
    for key in keys:
        assert policies[key] == key
    info = policies.info()
    assert info.hits + info.misses == len(keys)
    assert info.misses - info.evictions["count"] == info.resident == len(policies) <= capacity
    assert info.bytes == sum(policies)
