"""Hangs of what learns, with a Ray and a clock that are fakes: what is ended when, and who waits for it."""

import dataclasses

import pytest
import torch

from league.cluster.answers import FIRST_UPDATE_SECONDS, LATE_SECONDS, LEAST_SECONDS, Patience, Silence
from league.learning.groups import relocation
from league.learning.groups.replacement import LearnersLost
from league.learning.groups.shard_actors import RemoteShardLearners
from league.learning.groups.shard_learners import Learned, LearnReport, Spent
from league.learning.groups.shards import plan_shards
from league.models.policies.policy import initial_weights
from tests.league.learning.groups.recruiting import (
    ONE,
    PLAYERS,
    SPEC,
    fake_ray,
    learner_of,
    on_fake_ray,
    submit,
)

pytestmark = pytest.mark.slow  # the first update loads the optimizers

torch.set_num_threads(1)


class Timed(RemoteShardLearners):
    """Process of learners whose updates take `seconds`, by what it reports."""

    seconds = 0.01

    def build(self, shard, recruits, rank, address):
        super().build(shard, recruits, rank, None)  # peers that make the whole update each

    def learn(self, player, episodes, progress=0.0):
        learned, weights = super().learn(player, episodes, progress)
        report = learned.outcome
        if isinstance(report, LearnReport):
            report = dataclasses.replace(report, spent=Spent(Timed.seconds))
        return Learned(report, learned.published), weights


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(Timed, "seconds", 0.01)
    return fake_ray(monkeypatch, Timed)


def learned(fake, group, seconds):
    """All that comes within so many seconds, in turns of half a second."""
    found, end = [], fake.seconds + seconds
    while fake.seconds < end:
        began = fake.seconds
        found += group.ready(0.0)
        fake.seconds = began + 0.5
    return found


def begun(fake, make_episodes, **settings):
    """Learners that have learned, each from one block, and whose states were copied."""
    group = on_fake_ray(fake, **settings)
    for player in PLAYERS:
        submit(fake, group, player, make_episodes)
    assert len(learned(fake, group, 2)) == 2
    for player in PLAYERS:
        group.state(player)
    return group


def test_a_learner_that_hangs_is_made_again_with_one_incident_while_the_other_learns_on(fake, make_episodes):
    """Nothing noticed it: its player learned nothing for as long as it hung, and the others waited."""
    group = begun(fake, make_episodes)
    hung, saved = learner_of(group, "main-0"), group.state("main-0")
    fake.hold(hung)
    submit(fake, group, "main-0", make_episodes)
    submit(fake, group, "main-1", make_episodes)
    reports = learned(fake, group, LEAST_SECONDS - 2)
    assert [report.player for report in reports] == ["main-1"]
    assert group.losses() == []
    learned(fake, group, 4)
    (loss,) = group.losses()
    incident = loss.incident
    assert (incident.kind, incident.players, incident.env_steps) == ("learner", ("main-0",), 64)
    assert incident.cause == "did not answer for 31 s"
    assert hung.dead
    back = group.state("main-0")
    assert loss.back == {"main-0": (back.updates, 64)}
    assert back.updates > saved.updates
    assert torch.equal(*[next(iter(state.weights.values())) for state in (back, saved)])
    submit(fake, group, "main-0", make_episodes)
    assert [report.player for report in learned(fake, group, 2)] == ["main-0"]
    assert group.queues()["main-0"].dropped_steps == 64


def test_a_silent_learner_is_away_after_seconds_and_is_here_again_when_it_answers(fake, make_episodes):
    group = begun(fake, make_episodes)
    fake.hold(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    learned(fake, group, LATE_SECONDS)
    assert group.away() == ()
    learned(fake, group, 2)
    assert group.away() == ("main-0",)
    fake.go_on(learner_of(group, "main-0"))
    assert [report.player for report in learned(fake, group, 2)] == ["main-0"]
    assert group.away() == ()
    assert group.losses() == []


def test_a_learner_with_nothing_to_do_is_never_silent(fake, make_episodes):
    group = begun(fake, make_episodes)
    fake.hold(learner_of(group, "main-0"))
    learned(fake, group, 10 * LEAST_SECONDS)
    assert (group.losses(), group.away()) == ([], ())


def test_one_that_hangs_with_nothing_to_do_but_a_copy_is_found_too(fake, make_episodes):
    group = begun(fake, make_episodes, copy_seconds=5.0)
    fake.hold(learner_of(group, "main-0"))
    group._copies._seconds = 1e-9  # copies follow the clock of the machine
    learned(fake, group, LEAST_SECONDS + 3)
    assert [loss.incident.players for loss in group.losses()] == [("main-0",)]


@pytest.mark.parametrize("held", [0, 1])
def test_all_processes_of_a_shard_are_made_again_when_one_of_its_peers_hangs(fake, make_episodes, held):
    group = begun(fake, make_episodes, shards=plan_shards(0, PLAYERS, processes=2))
    before = group._shards[0].processes
    fake.hold(before[0])  # it waits for the sum, or hangs itself
    fake.hold(before[held])
    submit(fake, group, "main-1", make_episodes)
    learned(fake, group, LEAST_SECONDS + 3)
    (loss,) = group.losses()
    assert loss.incident.who == "learners of shard 0 (main-0, main-1)"
    assert all(process.dead for process in before)
    submit(fake, group, "main-1", make_episodes)
    assert [report.player for report in learned(fake, group, 2)] == ["main-1"]


def block(fake, group, make_episodes):
    for seed in range(4):
        group.submit("main-0", fake.put(make_episodes([16], seed=seed)), 0.0, 16)


def test_an_aggregator_that_hangs_costs_its_block_and_no_learner(fake, make_episodes):
    group = on_fake_ray(fake, ONE, runners=1, aggregators=1)
    block(fake, group, make_episodes)
    assert len(learned(fake, group, 2)) == 1
    (aggregator,), learner = group._shards[0].aggregators, learner_of(group, "main-0")
    fake.hold(aggregator)
    block(fake, group, make_episodes)
    assert learned(fake, group, LEAST_SECONDS + 10) == []
    (loss,) = group.losses()
    incident = loss.incident
    assert (incident.kind, incident.env_steps, loss.back) == ("aggregator", 64, {})
    assert incident.cause == "did not answer for 31 s"
    assert aggregator.dead
    assert learner_of(group, "main-0") is learner
    block(fake, group, make_episodes)
    assert [report.updates for report in learned(fake, group, 2)] == [2]


def test_a_learner_is_not_blamed_for_an_aggregator_that_takes_long_to_start(fake, make_episodes):
    group = on_fake_ray(fake, ONE, runners=1, aggregators=1)
    block(fake, group, make_episodes)
    assert len(learned(fake, group, 2)) == 1
    shard, learner = group._shards[0], learner_of(group, "main-0")
    assert shard.replace_aggregator(shard.aggregators[0]._actor_id.hex())
    fake.hold(shard.aggregators[0])
    block(fake, group, make_episodes)
    assert learned(fake, group, 2 * LEAST_SECONDS) == []
    fake.go_on(shard.aggregators[0])
    assert [report.updates for report in learned(fake, group, 2)] == [2]
    assert group.losses() == []
    assert learner_of(group, "main-0") is learner


def test_where_an_aggregator_and_its_learner_are_cut_off_both_are_made_again(fake, make_episodes):
    group = on_fake_ray(fake, ONE, runners=1, aggregators=1)
    group.submit("main-0", fake.put(make_episodes([16] * 4)), 0.0, 64)
    assert len(learned(fake, group, 2)) == 1
    gone = [*group._shards[0].aggregators, learner_of(group, "main-0")]
    for actor in gone:
        fake.hold(actor)
    fake.kill = lambda actor: None  # what is ended is not heard of
    group.submit("main-0", fake.put(make_episodes([16] * 4)), 0.0, 64)
    learned(fake, group, LEAST_SECONDS + 10)
    assert [loss.incident.kind for loss in group.losses()] == ["learner"]
    assert not {id(actor) for actor in gone} & {id(each) for each in group._shards[0].aggregators}
    group.submit("main-0", fake.put(make_episodes([16] * 4)), 0.0, 64)
    assert [report.player for report in learned(fake, group, 2)] == ["main-0"]


def test_a_learner_whose_updates_take_long_is_not_ended(fake, make_episodes):
    Timed.seconds = 40.0
    group = begun(fake, make_episodes)
    fake.hold(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    learned(fake, group, 40.0)
    assert (group.losses(), group.away()) == ([], ())
    fake.go_on(learner_of(group, "main-0"))
    assert [report.player for report in learned(fake, group, 2)] == ["main-0"]


def test_the_first_update_of_a_process_may_take_long(fake, make_episodes):
    group = on_fake_ray(fake)
    for player in PLAYERS:
        group.state(player)
    fake.hold(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    learned(fake, group, FIRST_UPDATE_SECONDS - 2)
    assert group.losses() == []
    learned(fake, group, 6)
    assert [loss.incident.players for loss in group.losses()] == [("main-0",)]


def test_learners_that_wait_for_a_node_do_not_hang_however_long_it_takes(fake, make_episodes):
    group = begun(fake, make_episodes)
    fake.kill(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    group._lose(0, fake.exceptions.ActorDiedError("ray.kill", ""))
    waiting = learner_of(group, "main-0")
    fake.hold(waiting)
    fake.waiting.add(waiting)
    learned(fake, group, 3 * FIRST_UPDATE_SECONDS)
    assert learner_of(group, "main-0") is waiting
    assert group.away() == ("main-0",)
    fake.waiting.clear()  # it has a process, which hangs
    learned(fake, group, FIRST_UPDATE_SECONDS + 3)
    assert learner_of(group, "main-0") is not waiting


def test_what_the_driver_itself_was_stopped_for_is_no_silence(fake, make_episodes):
    group = begun(fake, make_episodes)
    fake.hold(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    group.ready(0.0)
    fake.seconds += 600.0
    group.ready(0.0)
    assert (group.losses(), group.away()) == ([], ())


def test_weights_of_a_learner_that_is_silent_on_another_node_come_from_its_copy(
    fake, make_episodes, monkeypatch
):
    """Runners waited for those of a node that was cut off, in matches of other players."""
    monkeypatch.setattr(relocation, "own_node_id", lambda: "here")
    group = begun(fake, make_episodes)
    group._homes = [["there"], ["here"]]
    copied = group._copies.newest["main-0"].state
    for player in PLAYERS:
        submit(fake, group, player, make_episodes)
    learned(fake, group, 1)
    newest = {player: group.live(player) for player in PLAYERS}
    assert newest["main-0"].version > copied.updates
    for player in PLAYERS:
        fake.hold(learner_of(group, player))
        submit(fake, group, player, make_episodes)
    learned(fake, group, LATE_SECONDS + 2)
    offered = group.live("main-0")
    assert offered is group.live("main-0")
    assert offered.version == copied.updates
    found = fake.get(offered.handle)
    assert all(torch.equal(torch.tensor(found[name]), each) for name, each in copied.weights.items())
    assert group.live("main-1") is newest["main-1"]  # its node is the driver's
    fake.go_on(learner_of(group, "main-0"))
    learned(fake, group, 2)
    assert group.live("main-0").version > newest["main-0"].version


def test_a_state_that_is_waited_for_comes_from_the_copy_when_the_learner_hangs(fake, make_episodes):
    """A run that was to end waited for as long as one learner hung."""
    group = begun(fake, make_episodes)
    fake.hold(learner_of(group, "main-0"))
    began = fake.seconds
    state = group.state("main-0")
    assert LEAST_SECONDS <= fake.seconds - began <= LEAST_SECONDS + 3
    assert state.env_steps == 64
    assert len(group.losses()) == 1


def test_a_state_that_comes_soon_is_never_waited_for(fake, make_episodes):
    group = begun(fake, make_episodes)
    assert group.state_soon("main-1").env_steps == 64
    fake.hold(learner_of(group, "main-0"))
    began = fake.seconds
    assert group.state_soon("main-0") is None
    assert fake.seconds == began
    learned(fake, group, LEAST_SECONDS + 3)
    assert group.state_soon("main-0").env_steps == 64  # of the copy that it goes on from


def test_a_reset_is_bounded_and_holds_on_the_successor_of_a_learner_that_hangs(fake, make_episodes):
    group = begun(fake, make_episodes)
    weights = initial_weights(SPEC, 77)
    fake.hold(learner_of(group, "main-0"))
    group.reset("main-0", weights)
    fake.kill(learner_of(group, "main-0"))
    again = group.state("main-0").weights
    assert all(torch.equal(weights[name], tensor) for name, tensor in again.items())


def test_a_player_is_removed_and_added_again_without_a_wait_for_one_that_hangs(fake, make_episodes):
    group = begun(fake, make_episodes)
    version = group.live("main-0").version
    fake.hold(learner_of(group, "main-0"))
    began, recruit = fake.seconds, group._recruits["main-0"]
    group.remove("main-0")
    group.add(recruit)
    assert fake.seconds == began
    assert group.live("main-0").version > version


def test_without_async_update_a_learner_that_hangs_is_waited_for_no_longer_than_the_patience(
    fake, make_episodes
):
    group = begun(fake, make_episodes, async_update=False)
    fake.hold(learner_of(group, "main-0"))
    for player in PLAYERS:
        submit(fake, group, player, make_episodes)
    assert [report.player for report in group.ready(0.0)] == ["main-1"]
    assert len(group.losses()) == 1


def test_learners_that_hang_whenever_they_are_made_end_in_one_sentence(fake, monkeypatch):
    group = on_fake_ray(fake)
    monkeypatch.setattr(fake, "_one_call", lambda actor: False)  # every process hangs
    with pytest.raises(LearnersLost, match="did not answer for 301 s"):
        group.state("main-0")


def test_a_setting_below_what_updates_take_is_said_and_ends_no_learner(fake, make_episodes):
    Timed.seconds = 5.0
    group = begun(fake, make_episodes, patience=2.0)
    line = group.news()[0]
    assert line == (
        "resources.patience_seconds is 2, and an update of main-0 took 5.0 s: its learner may be silent for "
        "10 s; raise it"
    )
    assert group.news() == []
    fake.hold(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    learned(fake, group, 9.0)
    assert group.losses() == []
    learned(fake, group, 3.0)
    assert len(group.losses()) == 1


def test_patience_follows_the_longest_update_and_forgets_it_slowly():
    patience = Patience("auto")
    patience.learned("main-0", 20.0)
    assert patience.seconds(["main-0", "main-1"]) == 200.0
    assert patience.seconds(["main-1"]) == LEAST_SECONDS
    assert patience.late(["main-0"]) == 60.0
    for _ in range(200):
        patience.learned("main-0", 0.1)
    assert patience.seconds(["main-0"]) == LEAST_SECONDS
    assert patience.late(["main-0"]) == LATE_SECONDS
    assert Patience(60.0).seconds(["main-0"]) == 60.0
    assert Patience(600.0).first() == 600.0


@pytest.mark.parametrize("count", [10, 1000])
def test_a_look_asks_ray_once_however_many_calls_wait(count):
    class Counting:
        asked = 0

        def wait(self, references, num_returns, timeout, fetch_local):
            Counting.asked += 1
            return [], references

    silence = Silence(Counting())
    for number in range(count):
        silence.asked(number)
    assert silence.look(1.0) == 1.0
    assert Counting.asked == 1
