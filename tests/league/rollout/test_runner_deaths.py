"""Deaths and hangs of runners, with a Ray that is a fake: who is replaced, what is lost, who is to blame."""

import functools
from dataclasses import replace
from types import SimpleNamespace

import pytest

from league.cluster.answers import FIRST_SECONDS, LEAST_SECONDS, START_SECONDS, Watch
from league.cluster.calls import Death, Inside, opened
from league.cluster.cards import CardBroken
from league.rollout.cage import PlayKilled
from league.rollout.runner_group import CALM, MOST_STARTS, RECORDED_STARTS, SAFE_SECONDS, RayRunnerGroup
from storage.errors import Failure
from tests.league.fake_ray import SETUP, Dies, asked, come, fake_runners


class Playing:
    """Runner whose requests are names; some end its process."""

    stillborn = False

    def __init__(self, setup):
        assert replace(setup, caged=False, patience="auto") == SETUP  # a new one gets what the first one got
        self.caged, self.left = setup.caged, False

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
        if request.name == "killing":
            raise PlayKilled("killed by SIGSEGV", request.others_go_on)
        return request.name, SimpleNamespace(process="host-7:12")

    def leave_cage(self):
        self.left = True


class Clock:
    """Seconds that pass when a test lets them, a second in each turn of the driver."""

    now = 0.0

    def __call__(self):
        return self.now

    def pass_by(self, group, seconds):
        """Let `seconds` pass, with a turn of the group in each; return the requests that came."""
        found = []
        for _ in range(int(seconds)):
            self.now += 1.0
            found += come(group, 1)
        return found


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def fake(monkeypatch, clock):
    fake = fake_runners(monkeypatch, Playing)
    monkeypatch.setattr(Playing, "stillborn", False)
    monkeypatch.setattr("league.rollout.runner_group.Watch", functools.partial(Watch, clock=clock))
    return fake


def test_a_runner_that_dies_is_replaced_and_only_what_it_had_in_flight_is_lost(fake):
    group = RayRunnerGroup(2, SETUP)
    assert come(group) == []  # both have begun
    for i in range(4):
        group.submit(i, asked(), {})  # 0 and 2 go to runner 0
    fake.hold(group._actors[0])
    assert come(group, 1) == [1, 3]
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
    assert come(group) == [1, 2]
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


# ---------------------------------------------------------------- hangs


def test_a_runner_that_does_not_answer_is_ended_and_replaced_and_others_play_on(fake, clock):
    group = RayRunnerGroup(2, SETUP)
    for i in range(2):
        group.submit(i, asked(), {})
    assert come(group) == [0, 1]
    for i in range(2, 6):
        group.submit(i, asked(), {})
    stopped = group._actors[0]
    fake.hold(stopped)
    assert sorted(clock.pass_by(group, LEAST_SECONDS)) == [3, 5]  # nothing waits for it
    assert group.losses() == []
    clock.pass_by(group, 1)
    (loss,) = group.losses()
    assert (loss.requests, loss.suspect) == ((2, 4), 2)
    assert loss.incident.sentence() == (
        "runner 0 on node host-7 was ended (did not answer for 31 s): cost nothing; another one takes its "
        "place"
    )
    assert stopped.dead
    assert group.in_flight() == 0
    come(group)
    assert (len(fake.living()), group.room()) == (2, 4)


def test_an_answer_in_time_is_no_hang_however_often_requests_take_long(fake, clock):
    group = RayRunnerGroup(1, SETUP)
    come(group)
    for i in range(5):
        group.submit(i, asked(), {})
        fake.hold(group._actors[0])
        assert clock.pass_by(group, LEAST_SECONDS - 5) == []
        fake.go_on(group._actors[0])
        assert clock.pass_by(group, 1) == [i]
    assert group.losses() == []


def test_a_number_of_seconds_is_obeyed(fake, clock):
    group = RayRunnerGroup(1, replace(SETUP, patience=5.0))
    come(group)
    group.submit(0, asked(), {})
    fake.hold(group._actors[0])
    clock.pass_by(group, 5)
    assert group.losses() == []
    clock.pass_by(group, 1)
    assert [loss.suspect for loss in group.losses()] == [0]


def test_a_driver_that_was_stopped_itself_gives_up_no_runner(fake, clock):
    group = RayRunnerGroup(1, SETUP)
    come(group)
    group.submit(0, asked(), {})
    fake.hold(group._actors[0])
    for _ in range(10):
        clock.now += 1000.0
        assert come(group, 1) == []
    assert group.losses() == []


def test_the_time_in_which_a_runner_has_nothing_to_do_is_not_counted(fake, clock):
    group = RayRunnerGroup(1, SETUP)
    clock.pass_by(group, 10 * FIRST_SECONDS)
    group.submit(0, asked(), {})
    assert clock.pass_by(group, 1) == [0]
    assert group.losses() == []


def test_a_start_that_waits_for_a_node_is_waited_for_and_one_with_a_process_is_not(fake, clock, monkeypatch):
    placed = set()
    monkeypatch.setattr("league.rollout.runner_group.has_process", lambda ray, actor: actor in placed)
    group = RayRunnerGroup(1, SETUP)
    first = group._actors[0]
    fake.hold(first)
    clock.pass_by(group, 5 * START_SECONDS)
    assert (group.losses(), first.dead) == ([], "")
    placed.add(first)
    clock.pass_by(group, 2 * START_SECONDS + 2)
    (loss,) = group.losses()
    assert loss.suspect is None
    assert loss.incident.cause == "before it had begun: did not answer for 601 s"
    come(group)
    assert group.room() == 2


# ---------------------------------------------------------------- cages


def caged(group):
    return [actor.instance.caged for actor in group._actors]


def test_the_successor_of_a_runner_that_died_while_it_played_is_caged_and_plays_what_is_suspected(fake):
    group = RayRunnerGroup(2, SETUP)
    group.submit(0, asked(), {}, runner=0)
    group.submit(1, asked("deadly"), {}, runner=1)
    come(group)
    assert caged(group) == [False, True]
    assert group.safest_runner() == 1
    group.submit(2, asked("killing"), {}, runner=1)
    group.submit(3, asked(), {}, runner=1)
    assert group.safest_runner() is None  # it has no room
    assert come(group) == [3]
    first, killed = group.losses()
    assert (first.requests, killed.requests, killed.suspect) == ((1,), (2,), 2)
    assert killed.incident.sentence() == (
        "the process in which runner 1 played on node host-7 died (killed by SIGSEGV): cost nothing; its "
        "matches are played again, in parts"
    )
    assert len(fake.actors) == 3  # the caged one lives


def test_what_is_suspected_waits_for_the_runner_that_is_to_be_caged_but_not_for_ever(fake, clock):
    group = RayRunnerGroup(2, SETUP)
    come(group)
    assert group.safest_runner() == 0  # the next one: none is caged
    group.submit(0, asked("deadly"), {}, runner=0)
    come(group, 1)
    fake.hold(group._actors[0])
    assert group.safest_runner() is None
    clock.pass_by(group, SAFE_SECONDS + 1)
    assert group.safest_runner() == 1


def test_a_runner_that_died_while_it_was_idle_gets_no_caged_successor(fake):
    group = RayRunnerGroup(1, SETUP)
    come(group)
    fake.kill(group._actors[0])
    group.submit(0, asked(), {})
    group._pending.clear()
    group._load[0] = 0
    group._note_death(0, Death("process", "killed"), began=True)
    come(group)
    assert caged(group) == [False]


def test_a_cage_is_left_after_enough_requests_that_killed_nothing(fake):
    group = RayRunnerGroup(1, SETUP)
    group.submit(0, asked("deadly"), {})
    come(group)
    for i in range(CALM - 1):
        group.submit(i, asked(), {})
        come(group, 1)
    group.submit(CALM, asked("killing", others_go_on=True), {})
    come(group, 1)
    assert [loss.others_go_on for loss in group.losses()] == [False, True]
    for i in range(CALM):
        assert 0 in group._caged  # counted from the last one that killed
        group.submit(i, asked(), {})
        come(group, 1)
    assert group._caged == {}
    group.submit(CALM, asked(), {})
    assert come(group, 1) == [CALM]
    assert group._actors[0].instance.left
