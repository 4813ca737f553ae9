"""The numbers of a learner's queue: depth, waits, drops, age."""

import pytest

from league.learning.groups.queues import Queue
from league.learning.groups.shard_learners import Learned, LearnerStopped, LearnReport

REPORT = Learned(LearnReport("main-0", 1, 100, {"lag": 2.5}), True)
NO_BATCH = Learned(LearnReport("main-0", 1, 100, None), False)
STOPPED = Learned(LearnerStopped("main-0", "no number", 2, {}), False)


class Clock:
    now = 0.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def queue(clock):
    return Queue("main-0", 2, clock)


def test_a_wait_lasts_from_the_first_refusal_until_there_is_room(queue, clock):
    blocks = [queue.block(1, 10), queue.block(1, 10)]
    for clock.now in (1.0, 2.0, 4.0):  # one wait, however often it is asked
        assert queue.full()
    assert (queue.info().waits, queue.info().wait_seconds) == (1, 3.0)
    clock.now = 6.0
    queue.settle(blocks[0], REPORT)
    assert not queue.full()
    clock.now = 100.0
    assert (queue.info().waits, queue.info().wait_seconds) == (1, 5.0)
    queue.block(1, 10)
    assert queue.full()
    assert queue.info().waits == 2


def test_what_is_learned_is_no_longer_waited_for_and_its_age_is_known(queue, clock):
    clock.now = 10.0
    block = queue.block(1, 64)
    clock.now = 13.0
    assert queue.settle(block, REPORT) is REPORT.outcome
    info = queue.info()
    assert (info.depth, info.bound, info.age_seconds, info.lag) == (0, 2, 3.0, 2.5)
    queue.settle(queue.block(1, 64, submitted=1.0), NO_BATCH)
    assert (queue.info().age_seconds, queue.info().lag) == (12.0, 2.5)  # no update: the lag stays
    assert (queue.info().dropped_rollouts, queue.info().dropped_steps) == (0, 0)


def test_whatever_a_stopped_learner_gets_is_counted_as_dropped(queue):
    first, second, third = (queue.block(1, 64), queue.block(3, 100), queue.block(1, 7))
    assert queue.settle(first, STOPPED) is STOPPED.outcome
    assert queue.info().stopped
    queue.settle(second, Learned(None, False))
    queue.drop(third)
    queue.lost(1, 5)
    info = queue.info()
    assert (info.depth, info.dropped_rollouts, info.dropped_steps) == (0, 6, 176)


def test_a_cleared_queue_waits_for_nothing(queue, clock):
    queue.block(1, 1)
    queue.block(1, 1)
    queue.full()
    clock.now = 2.0
    queue.clear()
    assert (queue.state.depth, queue.full(), queue.info().wait_seconds) == (0, False, 2.0)
    assert queue.info().dropped_rollouts == 0
