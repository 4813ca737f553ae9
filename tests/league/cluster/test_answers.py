"""Patience with runners: from what their requests took, never below what their sizes ask for."""

import pytest

from league.cluster.answers import (
    FIRST_SECONDS,
    LEAST_SECONDS,
    LEAST_TIMES,
    START_SECONDS,
    TIMES,
    Times,
    Watch,
)


@pytest.mark.parametrize(
    ("setting", "noted", "expected"),
    [
        ("auto", [], {256: FIRST_SECONDS}),
        ("auto", [(256, 0.01)], {256: LEAST_SECONDS}),
        ("auto", [(256, 10.0)], {4096: TIMES * 160.0}),
        ("auto", [(256, 10.0), (4096, 20.0)], {4096: TIMES * 20.0, 8192: TIMES * 40.0}),
        ("auto", [(4096, 4.0), (1, 1.0)], {4096: TIMES * 4.0, 2: LEAST_SECONDS, 1: LEAST_SECONDS}),
        ("auto", [(4096, 40.0)], {1: TIMES * 40.0}),
        ("auto", [(256, 100.0), *[(256, 1.0)] * 200], {256: LEAST_SECONDS}),
        (5.0, [], {256: 5.0}),
        (5.0, [(256, 1.0)], {256: 5.0}),
        (5.0, [(256, 1.0), (256, 4.0)], {256: LEAST_TIMES * 4.0}),
    ],
    ids=[
        "before the first answer",
        "after quick ones",
        "as much longer as the request is larger than any before",
        "as known of requests of its size",
        "one slow match is no measure for thousands that are known",
        "a smaller one than any before gets the time of a larger one",
        "the longest fades",
        "a number is obeyed",
        "a number is obeyed after quick ones",
        "but not for requests that are known to take longer",
    ],
)
def test_patience_follows_what_requests_of_a_kind_took_by_their_sizes(setting, noted, expected):
    times = Times(setting)
    for size, seconds in noted:
        times.note("usual", size, seconds)
    assert {size: times.patience("usual", size) for size in expected} == expected
    assert times.patience("another", 256) == times.first


class Runners:
    """A watch over runners, and a clock with a look in each second."""

    def __init__(self, setting="auto"):
        self.now, self.placed = 0.0, set()
        self.watch = Watch(setting, self.placed.__contains__, lambda: self.now)

    def begin(self, runner, seconds=0):
        self.watch.starts(runner)
        self.wait(seconds)
        self.watch.begun(runner)

    def wait(self, seconds):
        """Wait so many seconds; return the runners that became overdue, with the second of each."""
        found = []
        for _ in range(int(seconds)):
            self.now += 1.0
            for runner, _ in self.watch.overdue():
                found.append((runner, self.now))
                self.watch.forget(runner)
        return found

    def play(self, runner, seconds, size=256):
        self.watch.asked(runner, 0, "usual", size)
        late = self.wait(seconds)
        self.watch.answered(runner, 0)
        return late


def test_each_runner_is_measured_by_its_own_times():
    runners = Runners()
    for runner, seconds in ((0, 1), (1, 60)):
        runners.begin(runner)
        assert runners.play(runner, seconds) == []
    began = runners.now
    for runner in (0, 1):
        runners.watch.asked(runner, 7, "usual", 256)
    assert runners.wait(1000) == [(0, began + LEAST_SECONDS + 1), (1, began + 600 + 1)]


def test_a_new_runner_gets_the_time_of_a_first_request_or_that_of_the_slowest_other():
    runners = Runners()
    runners.begin(0)
    runners.play(0, 30)
    runners.begin(1)
    began = runners.now
    runners.watch.asked(1, 7, "usual", 256)
    assert runners.wait(1000) == [(1, began + TIMES * 30 + 1)]


@pytest.mark.parametrize("others", [0, 3])
def test_requests_behind_the_first_wait_from_its_answer_on(others):
    runners = Runners()
    runners.begin(0)
    runners.play(0, 10)
    for number in range(1 + others):
        runners.watch.asked(0, number, "usual", 256)
    for number in range(1 + others):
        assert runners.wait(90) == []
        runners.watch.answered(0, number)
    assert runners.wait(10_000) == []


def test_requests_wait_for_a_runner_to_begin_without_being_counted():
    runners = Runners()
    runners.watch.starts(0)
    runners.watch.asked(0, 0, "usual", 256)
    assert runners.wait(10 * START_SECONDS) == []
    runners.watch.begun(0)
    began = runners.now
    assert runners.wait(FIRST_SECONDS + 1) == [(0, began + FIRST_SECONDS + 1)]


def test_starts_are_measured_by_those_of_other_runners():
    runners = Runners()
    runners.begin(0, seconds=100)
    began = runners.now
    runners.watch.starts(1)
    runners.placed.add(1)
    ((_, at),) = runners.wait(10 * START_SECONDS)
    assert at - began == pytest.approx(2 * 200, abs=3)  # once until it has a process, and once more
