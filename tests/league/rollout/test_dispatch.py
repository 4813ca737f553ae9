"""What remote calls have returned, in the order in which it came; the least loaded of many runners."""

import threading
from concurrent.futures import Future

from hypothesis import given
from hypothesis import strategies as st

from league.rollout.dispatch import Arrivals, LeastLoaded


class Call:
    """Stands for a reference of Ray."""

    def __init__(self):
        self._future = Future()

    def future(self):
        return self._future


class NoLook:
    def wait(self, *_, **__):
        raise AssertionError("all calls are looked at")


def test_results_are_taken_once_in_the_order_in_which_they_come():
    arrivals, calls = Arrivals(NoLook()), [Call() for _ in range(5)]
    for call in calls:
        arrivals.expect(call)
    assert arrivals.take(0.0, list) == []
    for i in (3, 0):
        calls[i].future().set_result(None)
    assert arrivals.take(0.0, list) == [calls[3], calls[0]]
    calls[1].future().set_exception(KeyError())  # an error is an answer too
    assert arrivals.take(0.0, list) == [calls[1]]
    assert arrivals.take(0.0, list) == []


def test_a_wait_ends_when_something_comes():
    arrivals, call = Arrivals(NoLook()), Call()
    arrivals.expect(call)
    threading.Timer(0.02, call.future().set_result, [None]).start()
    assert arrivals.take(30.0, list) == [call]


def test_what_does_not_announce_itself_is_found_by_a_look_at_all(monkeypatch):
    class Looking:
        def wait(self, waiting, num_returns, timeout):
            assert (num_returns, timeout) == (2, 0)
            return waiting[1:], waiting[:1]

    silent = [Call(), Call()]
    arrivals = Arrivals(Looking())
    monkeypatch.setattr("league.rollout.dispatch.LOOK_SECONDS", 0.0)
    assert arrivals.take(0.0, lambda: silent) == [silent[1]]


@given(st.lists(st.tuples(st.integers(0, 4), st.sampled_from([1, -1, 0])), max_size=200))
def test_the_least_loaded_runner_that_is_here_is_the_first_by_number(events):
    load, away = [0] * 5, set()
    least_loaded = LeastLoaded(load, lambda runner: runner not in away)
    for runner in range(5):
        least_loaded.note(runner)
    for runner, step in events:
        if step:
            load[runner] = max(0, load[runner] + step)
        elif runner in away:
            away.remove(runner)
        else:
            away.add(runner)
        least_loaded.note(runner)
        here = [runner for runner in range(5) if runner not in away]
        assert least_loaded.first() == (min(here, key=load.__getitem__) if here else None)
