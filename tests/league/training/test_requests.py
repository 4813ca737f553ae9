"""Each rollout goes to the owner that its ticket names, and so does the news that a request was lost."""

from types import SimpleNamespace

from league.rollout.runner_group import LostRequests
from league.training.requests import Requests, Ticket
from storage.incidents import Incident

DIED = Incident(kind="runner", who="runner 0", cause="killed", happened_at=1.7e9)


class Runners:
    """Runners of which those of the requests `dies` die, and all others are ready at once."""

    def __init__(self, dies=(), stops=False):
        self.waited, self._queue, self._dies, self._stops = [], [], dies, stops

    def submit(self, request_id, request, live_weights, runner=None):
        self._queue.append(request_id)

    def ready(self, timeout_seconds):
        self.waited.append(timeout_seconds)
        done = [] if self._stops else [n for n in self._queue if n not in self._dies]
        self._lost = [LostRequests((n,), n, DIED) for n in self._queue if n in self._dies]
        self._queue = []
        return [SimpleNamespace(request_id=number) for number in done]

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
