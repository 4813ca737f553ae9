"""Deaths of runners, with a Ray that is a fake: who is replaced, what is lost, who is to blame."""

from types import SimpleNamespace

import pytest

from league.cluster.calls import Inside, opened
from league.cluster.cards import CardBroken
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import MOST_STARTS, RECORDED_STARTS, RayRunnerGroup
from league.rollout.settings import RolloutSettings
from storage.errors import Failure
from tests.league.fake_ray import Dies, fake_runners

SETUP = PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=8, requests_in_flight=2))


class Playing:
    """Runner whose requests are names; some end its process."""

    stillborn = False

    def __init__(self, setup):
        assert setup is SETUP  # a new runner gets all that the first one got

    def where(self):
        if Playing.stillborn:
            raise Dies
        return "host-7"

    def play_remotely(self, request, players, *weights):
        opened(weights)
        if request.name == "deadly":
            raise Dies
        if request.name == "broken card":
            raise CardBroken("play: GPU 0 of host-7 failed: CUDA error: x")
        if request.name == "faulty":
            raise KeyError(request.name)
        return request.name, SimpleNamespace(process="host-7:12")


@pytest.fixture
def fake(monkeypatch):
    fake = fake_runners(monkeypatch, Playing)
    monkeypatch.setattr(Playing, "stillborn", False)
    return fake


def asked(name="plain"):
    return SimpleNamespace(name=name, learners=())


def come(group, turns=5):
    return [rollout.request_id for _ in range(turns) for rollout in group.ready(0.0)]


def test_a_runner_that_dies_is_replaced_and_only_what_it_had_in_flight_is_lost(fake):
    group = RayRunnerGroup(2, SETUP)
    assert come(group) == []  # both have begun
    for i in range(4):
        group.submit(i, asked(), {})  # 0 and 2 go to runner 0
    fake.hold(group._actors[0])
    assert sorted(come(group, 1)) == [1, 3]
    dead = group._actors[0]
    fake.kill(dead)
    assert come(group, 1) == []
    (loss,) = group.losses()
    assert (loss.requests, loss.suspect) == ((0, 2), 0)
    assert (loss.incident.kind, loss.incident.who, loss.incident.cause) == (
        "runner", "runner 0", "killed, or crashed")  # fmt: skip
    assert group.losses() == []
    assert group.in_flight() == 0
    assert dead not in group._actors
    assert len(fake.living()) == 2


def test_a_runner_whose_card_fails_is_ended_and_replaced_with_the_cause(fake):
    group = RayRunnerGroup(2, SETUP)
    come(group)
    broken = group._actors[0]
    group.submit(0, asked("broken card"), {})
    group.submit(1, asked(), {})
    assert come(group) == [1]
    (loss,) = group.losses()
    assert loss.requests == (0,)
    assert loss.incident.cause == "play: GPU 0 of host-7 failed: CUDA error: x"
    assert broken.dead
    assert len(fake.living()) == 2


def test_a_successor_gets_requests_only_once_it_has_begun_and_others_meanwhile(fake):
    group = RayRunnerGroup(2, SETUP)
    come(group)
    fake.kill(group._actors[0])
    group.submit(0, asked(), {})
    assert group.next_runner() == 1
    group._ray.wait(list(group._pending), timeout=0)
    (reference,) = group._pending
    group._finished(reference)
    assert [loss.requests for loss in group.losses()] == [(0,)]
    assert (group.room(), group.next_runner()) == (2, 1)  # the other one's
    group.submit(1, asked(), {})
    group.submit(2, asked(), {})
    assert group.room() == 0
    assert sorted(come(group)) == [1, 2]
    assert group.room() == 4


def test_the_request_that_was_played_is_the_suspect_and_what_was_finished_is_kept(fake):
    group = RayRunnerGroup(1, SETUP)
    for i, name in enumerate(["plain", "deadly", "plain"]):
        group.submit(i, asked(name), {})
    assert come(group, 1) == [0]
    (loss,) = group.losses()
    assert (loss.requests, loss.suspect) == ((1, 2), 1)
    assert loss.incident.node == "host-7"


def test_weights_that_were_lost_with_a_node_cost_a_request_and_no_runner(fake):
    group = RayRunnerGroup(1, SETUP)
    weights = fake.put({})
    fake.lose(weights)
    group.submit(0, asked(), {"main-0": weights})
    assert come(group) == []
    (loss,) = group.losses()
    assert (loss.requests, loss.suspect, loss.incident.kind) == ((0,), None, "results")
    assert len(fake.actors) == 1


def test_weights_that_ray_might_copy_into_a_call_travel_inside_an_argument(fake):
    """A driver was ended by Ray when a runner died just after a call with a small object as its argument."""
    group = RayRunnerGroup(1, SETUP)
    weights = fake.put({})
    group.submit(0, asked(), {"main-0": weights})
    _, arguments, _ = group._actors[0].calls[-1]
    assert [argument for argument in arguments if isinstance(argument, fake.ObjectRef)] == []
    assert arguments[-1] == Inside(weights)
    assert come(group) == [0]


def test_results_that_were_lost_with_a_node_are_a_loss_and_no_error(fake):
    group = RayRunnerGroup(1, SETUP)
    group.submit(0, asked(), {})
    fake.lose(next(iter(group._pending)))
    assert come(group) == []
    assert [loss.requests for loss in group.losses()] == [(0,)]
    assert group.room() == 2


def test_a_mistake_inside_a_runner_is_raised_as_what_it_is_and_is_no_death(fake):
    group = RayRunnerGroup(1, SETUP)
    group.submit(0, asked("faulty"), {})
    with pytest.raises(KeyError, match="faulty"):
        come(group)
    assert (group.losses(), group.in_flight(), len(fake.actors)) == ([], 0, 1)


def test_runners_that_die_before_they_begin_blame_no_match_and_end_the_run_with_why(fake):
    Playing.stillborn = True
    group = RayRunnerGroup(2, SETUP, kind="evaluation_runner")
    group.submit(0, asked(), {})
    losses = []

    def turns():
        for _ in range(99):
            group.ready(0.0)
            losses.extend(group.losses())

    expected = rf"no evaluation runner can start: each died {MOST_STARTS} times.*killed"
    with pytest.raises(Failure, match=expected):
        turns()
    assert {loss.suspect for loss in losses} == {None}
    assert len(losses) <= 2 * (RECORDED_STARTS + 1)
    assert losses[0].incident.cause.startswith("before it had begun: ")


def test_a_runner_that_cannot_be_reached_is_ended_and_replaced(fake):
    group = RayRunnerGroup(1, SETUP)
    group.submit(0, asked(), {})
    come(group)
    group.submit(1, asked(), {})
    (reference,) = group._pending
    reference.done, reference.error = True, fake.exceptions.ActorUnavailableError("The actor is unavailable")
    unreachable = group._actors[0]
    assert come(group) == []
    assert unreachable.dead
    assert [loss.incident.cause for loss in group.losses()] == ["it cannot be reached"]
