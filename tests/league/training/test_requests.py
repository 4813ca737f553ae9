"""Each rollout goes to the owner that its ticket names, and so does the news that a request was lost."""

from types import SimpleNamespace

import numpy as np
import pytest

from league.rollout.runner_group import LostRequests
from league.training.requests import MOST_SUBMITTED, TURN_SECONDS, Requests, Ticket, matches_of_a_turn
from storage.incidents import Incident
from tests import made_up

DIED = Incident(kind="runner", who="runner 0", cause="killed", happened_at=1.7e9)


class Runners:
    """Runners of which those of the requests `dies` die, and all others are ready at once."""

    def __init__(self, dies=(), stops=False, matches=1, seats=2, limit=1000):
        self.waited, self._queue, self._dies, self._stops, self._limit = [], [], dies, stops, limit
        seated = np.tile(np.arange(seats), (matches, 1))
        self._results = made_up.results(made_up.matches([f"s{k}" for k in range(seats)], seated), seated > 0)

    def room(self, each=None):
        return self._limit - len(self._queue)

    def submit(self, request_id, request, live_weights, runner=None):
        self._queue.append(request_id)

    def ready(self, timeout_seconds):
        self.waited.append(timeout_seconds)
        done = [] if self._stops else [n for n in self._queue if n not in self._dies]
        self._lost = [LostRequests((n,), n, DIED) for n in self._queue if n in self._dies]
        self._queue = []
        return [SimpleNamespace(request_id=number, results=self._results) for number in done]

    def losses(self):
        return self._lost

    def in_flight(self):
        return len(self._queue)


def made(**runners):
    requests = Requests()
    requests.runners |= runners
    return requests


def test_owners_that_share_runners_each_get_their_own():
    shared, own = Runners(), Runners()
    requests = made(training=shared, yardsticks=shared, round_robin=own)
    owners = ["training", "yardsticks", "training", "round_robin"]
    numbers = [requests.submit(Ticket(owner), None, {}) for owner in owners]
    assert requests.under_way("round_robin")
    played = requests.ready(0.5)
    found = {owner: [rollout.request_id for _, rollout in own] for owner, own in played.items()}
    assert found == {
        "training": [numbers[0], numbers[2]],
        "yardsticks": [numbers[1]],
        "round_robin": [numbers[3]],
    }
    assert (shared.waited, own.waited) == ([0.5], [0.0])  # the first alone is waited for
    assert not any(map(requests.under_way, owners))


def test_a_lost_request_is_reported_once_with_its_ticket():
    requests = made(training=Runners(dies=(1,)), round_robin=Runners())
    for version in range(2):
        requests.submit(Ticket("training", versions={"main-0": version}), None, {})
    assert len(requests.ready(0.0)["training"]) == 1
    ((lost, tickets),) = requests.losses()
    assert (lost.suspect, tickets[1].versions) == (1, {"main-0": 1})
    assert requests.losses() == []


def test_what_a_process_that_ends_has_left_is_under_way_no_more():
    requests = made(training=Runners(stops=True))
    requests.submit(Ticket("training"), None, {})
    assert not requests.ready(0.0)["training"]
    assert not requests.under_way("training")


def test_an_owner_without_runners_has_no_room():
    assert made(training=Runners()).room("evaluation") == 0


def taken(requests, runners, submitted):
    """Submit requests; return the numbers of those that each turn takes, and assert that room is kept."""
    numbers = [requests.submit(Ticket("training"), None, {}) for _ in range(submitted)]
    turns = []
    while sum(map(len, turns)) < submitted:
        played = requests.ready(0.5)["training"]
        turns.append([rollout.request_id for _, rollout in played])
        left = submitted - sum(map(len, turns))
        assert (requests.waiting, requests.under_way("training")) == (left > 0, left > 0)
        assert requests.room("training") == min(MOST_SUBMITTED, runners.room() - left)
    assert [number for turn in turns for number in turn] == numbers
    return turns


@pytest.mark.parametrize(("seats", "matches"), [(2, 1024), (8, 1024), (16, 1024), (2, 8)])
def test_a_turn_takes_no_more_than_it_has_time_for_and_the_rest_in_order_in_the_next_ones(seats, matches):
    runners = Runners(matches=matches, seats=seats, limit=500)
    turns = taken(made(training=runners), runners, 400)
    assert max(map(len, turns)) * matches <= matches_of_a_turn(seats)
    assert max(map(len, turns)) <= 115  # their messages alone are 0.15 s
    assert len(turns) >= 4
    assert runners.waited == [0.5] + [0.0] * (len(turns) - 1)  # what waits is not waited for


def test_a_request_of_any_size_is_taken_whole_and_alone():
    runners = Runners(matches=3 * matches_of_a_turn(16), seats=16)
    assert taken(made(training=runners), runners, 3) == [[0], [1], [2]]


def test_a_turn_submits_a_limited_number_of_requests_of_all_owners():
    shared, own = Runners(), Runners()
    requests = made(training=shared, evaluation=own)
    for _ in range(MOST_SUBMITTED - 1):
        requests.submit(Ticket("training"), None, {})
    assert (requests.room("training"), requests.room("evaluation")) == (1, 1)
    requests.submit(Ticket("evaluation"), None, {})
    assert (requests.room("training"), requests.room("evaluation")) == (0, 0)
    requests.ready(0.0)
    assert requests.room("training") == MOST_SUBMITTED


def test_more_seats_leave_time_for_fewer_matches():
    numbers = [matches_of_a_turn(seats) for seats in (1, 2, 4, 8, 16)]
    assert numbers == sorted(numbers, reverse=True)
    assert numbers[0] * 5e-6 < TURN_SECONDS
