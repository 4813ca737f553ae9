"""Deaths of what learns, with a Ray that is a fake: what comes back, from where, at which cost to whom."""

import re
from typing import ClassVar

import numpy as np
import pytest
import torch

from league.cluster.calls import COPIED_BYTES, Inside
from league.learning.data.peers import PeersLost
from league.learning.groups.queues import Aggregator
from league.learning.groups.replacement import DEATHS, MOST_DEATHS, LearnersLost
from league.learning.groups.shard_actors import RemoteShardLearners
from league.learning.groups.shard_learners import LearnerStopped, Recruit
from league.learning.groups.shards import plan_shards
from league.learning.learner.learner import Learner
from league.learning.settings import LearnerSettings
from league.models.policies.policy import initial_weights
from tests.league.fake_ray import Dies
from tests.league.learning.groups.recruiting import (
    ONE,
    PLAYERS,
    SPEC,
    TWO,
    fake_ray,
    learner_of,
    on_fake_ray,
    submit,
)

pytestmark = pytest.mark.slow  # the first update loads the optimizers

torch.set_num_threads(1)

SETTINGS = LearnerSettings(batch_steps=64)
PEERS = plan_shards(0, PLAYERS, shards=2, processes=2)


class Mortal(RemoteShardLearners):
    """Process of learners that dies when it learns for one of `deadly`, or when it is built."""

    deadly: ClassVar[set[str]] = set()
    stillborn = False

    def build(self, shard, recruits, rank, address):
        if Mortal.stillborn:
            raise Dies
        super().build(shard, recruits, rank, None)  # peers that make the whole update each

    def learn(self, player, episodes, progress=0.0):
        if player in Mortal.deadly:
            raise Dies
        return super().learn(player, episodes, progress)


@pytest.fixture
def fake(monkeypatch):
    monkeypatch.setattr(Mortal, "deadly", set())
    monkeypatch.setattr(Mortal, "stillborn", False)
    return fake_ray(monkeypatch, Mortal)


def learned(group, turns=6):
    return [report for _ in range(turns) for report in group.ready(0.0)]


def same(state, other):
    return all(torch.equal(tensor, other.to_tensors()[name]) for name, tensor in state.to_tensors().items())


def test_a_learner_that_dies_goes_on_from_its_last_state_and_others_lose_no_update(fake, make_episodes):
    group = on_fake_ray(fake)
    for player in PLAYERS:
        submit(fake, group, player, make_episodes)
    assert len(learned(group)) == 2
    saved = group.state("main-0")
    submit(fake, group, "main-0", make_episodes, seed=1)
    assert [report.updates for report in learned(group)] == [2]  # lost by and by
    fake.hold(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes, seed=2)
    submit(fake, group, "main-1", make_episodes, seed=2)
    fake.kill(learner_of(group, "main-0"))
    (report,) = learned(group)
    assert (report.player, report.updates) == ("main-1", 2)  # nothing of this one is lost
    (loss,) = group.losses()
    incident = loss.incident
    assert (incident.kind, incident.players, incident.updates, incident.env_steps) == (
        "learner", ("main-0",), 1, 64)  # fmt: skip
    assert incident.cause == "killed, or crashed"
    assert incident.node
    assert group.losses() == []
    back = group.state("main-0")
    assert same(back, saved)
    assert back.env_steps == saved.env_steps == 64
    assert loss.back == {"main-0": (back.updates, 64)}
    assert group.queues()["main-0"].dropped_steps == 64
    assert group.queues()["main-0"].depth == 0


def test_what_comes_back_has_a_version_of_weights_that_was_never_used(fake, make_episodes):
    """Runners know weights by their version: old ones of that number would be taken for the new ones."""
    group = on_fake_ray(fake)
    group.state("main-0")
    submit(fake, group, "main-0", make_episodes)
    learned(group)
    before = group.live("main-0")
    fake.kill(learner_of(group, "main-0"))
    submit(fake, group, "main-0", make_episodes)
    learned(group)
    after = group.live("main-0")
    assert after.version > before.version == 1
    assert after.handle is not before.handle
    published = {name: torch.tensor(array) for name, array in fake.get(after.handle).items()}
    assert all(torch.equal(published[name], tensor) for name, tensor in group.state("main-0").weights.items())
    submit(fake, group, "main-0", make_episodes)
    assert [report.updates for report in learned(group)] == [after.version + 1]


def test_a_learner_that_dies_before_there_is_a_copy_begins_with_its_first_weights(fake, make_episodes):
    group = on_fake_ray(fake)
    first = group.weights("main-0")
    submit(fake, group, "main-0", make_episodes)
    learned(group)
    fake.kill(learner_of(group, "main-0"))
    again = group.state("main-0").weights
    assert all(np.array_equal(first[name], tensor.numpy()) for name, tensor in again.items())
    assert [loss.incident.updates for loss in group.losses()] == [1]


def test_copies_between_saves_make_a_death_cheaper(fake, make_episodes):
    group = on_fake_ray(fake, copy_seconds=1e-9)
    for seed in range(3):
        submit(fake, group, "main-0", make_episodes, seed=seed)
        learned(group)
    newest = group._copies.newest["main-0"].state
    assert newest.updates == 3
    fake.kill(learner_of(group, "main-0"))
    assert same(group.state("main-0"), newest)
    assert [loss.incident.updates for loss in group.losses()] == [0]


def test_a_save_never_waits_for_a_shard_that_comes_back_and_has_what_it_goes_on_from(fake):
    group = on_fake_ray(fake)
    saved = group.state("main-0")
    fake.kill(learner_of(group, "main-0"))
    group._copies._seconds = 1e-9
    group.ready(0.0)  # asks for a copy
    group._lose(0, fake.exceptions.ActorDiedError("ray.kill", ""))
    fake.hold(learner_of(group, "main-0"))  # its node is not there yet
    assert group.away() == ("main-0",)
    assert same(group.state("main-0"), saved)
    assert group.live("main-0").handle.done  # so that runners wait for nothing either
    fake.go_on(learner_of(group, "main-0"))
    assert group.away() == ()


def test_a_learner_that_hangs_holds_up_no_save_and_its_state_is_saved_when_it_comes(fake, make_episodes):
    """The driver waited for it, and with it every other player and all runners."""
    group = on_fake_ray(fake)
    fake.hold(learner_of(group, "main-0"))  # stopped, or on a node that cannot be reached for a while
    group.ask_states()
    assert set(group.arrived()) == {"main-1"}
    submit(fake, group, "main-1", make_episodes)
    assert [report.player for report in learned(group)] == ["main-1"]
    group.ask_states()
    assert set(group.arrived()) == {"main-1"}
    fake.go_on(learner_of(group, "main-0"))
    assert set(group.arrived()) == {"main-0"}
    assert group.arrived() == {}


def test_a_state_that_was_asked_for_never_replaces_a_newer_one(fake, make_episodes):
    group = on_fake_ray(fake)
    group.ask_states()
    submit(fake, group, "main-0", make_episodes)
    assert len(learned(group)) == 1
    assert group.state("main-0").updates == 1  # of a snapshot that is frozen, say
    assert set(group.arrived()) == {"main-1"}
    before = group.state("main-0").weights
    group.ask_states()
    group.ready(0.0)  # which takes in what has come
    group.reset("main-0", before)
    assert set(group.arrived()) == {"main-1"}
    group.ask_states()
    fake.kill(learner_of(group, "main-0"))
    group.ready(0.0)
    assert set(group.arrived()) == {"main-1"}


def test_an_aggregator_that_dies_costs_its_block_and_no_learner(fake, make_episodes):
    """It seemed to be the learner's death, and ended the run."""
    group = on_fake_ray(fake, ONE, runners=1, aggregators=1)
    (aggregator,) = group._shards[0].aggregators
    learner = learner_of(group, "main-0")
    assert aggregator._made is Aggregator
    fake.kill(aggregator)
    for seed in range(4):  # a block is of several rollouts
        group.submit("main-0", fake.put(make_episodes([16], seed=seed)), 0.0, 16)
    assert learned(group) == []
    (loss,) = group.losses()
    assert (loss.incident.kind, loss.incident.env_steps, loss.back) == ("aggregator", 64, {})
    assert learner_of(group, "main-0") is learner
    for seed in range(4):
        group.submit("main-0", fake.put(make_episodes([16], seed=seed)), 0.0, 16)
    assert [report.updates for report in learned(group)] == [1]


def test_experience_that_went_with_its_node_is_dropped_and_counted(fake, make_episodes):
    group = on_fake_ray(fake)
    episodes = fake.put(make_episodes([16] * 4))
    fake.lose(episodes)
    group.submit("main-0", episodes, 0.0, 64)
    assert learned(group) == []
    (loss,) = group.losses()
    assert (loss.incident.kind, loss.incident.players, loss.incident.env_steps) == (
        "experience", ("main-0",), 64)  # fmt: skip
    assert group.queues()["main-0"].dropped_steps == 64
    submit(fake, group, "main-0", make_episodes)
    assert [report.updates for report in learned(group)] == [1]


@pytest.mark.parametrize("aggregators", [0, 1])
def test_small_experience_travels_inside_an_argument_and_large_ahead_of_its_call(
    fake, make_episodes, aggregators
):
    """Ray copies small objects into calls: a driver was ended by that when an actor had just died."""
    group = on_fake_ray(fake, aggregators=aggregators)
    small, large = (fake.put(make_episodes([16] * 4, player="main-0")) for _ in range(2))
    group.submit("main-0", small, 0.0, COPIED_BYTES // SPEC.learned.size // 4 - 1)
    group.submit("main-0", large, 0.0, COPIED_BYTES // SPEC.learned.size // 4)
    actors = group._of("main-0").processes
    given = [argument for actor in actors for call in actor.calls for argument in call[1]]
    assert Inside(small) in given
    assert large in given
    assert small not in given
    assert len(learned(group)) == 2


def test_what_aggregators_have_concatenated_is_opened_by_the_learner(fake, make_episodes):
    group = on_fake_ray(fake, aggregators=1, batch_steps=128)
    for seed in range(2):
        submit(fake, group, "main-0", make_episodes, seed=seed)
    shard = group._of("main-0")
    calls = [call for actor in (*shard.processes, *shard.aggregators) for call in actor.calls]
    given = [argument for _, arguments, _ in calls for argument in arguments]
    assert not any(isinstance(argument, fake.ObjectRef) for argument in given)
    assert sum(isinstance(argument, Inside) for argument in given) == 3  # two rollouts, and both as one
    (report,) = learned(group)
    assert report.env_steps == 128


def test_a_player_whose_blocks_keep_killing_its_learner_is_stopped_others_learn_on(fake, make_episodes):
    group = on_fake_ray(fake, ONE)
    Mortal.deadly = {"main-0"}
    outcomes = []
    for seed in range(DEATHS):
        submit(fake, group, "main-0", make_episodes, seed=seed)
        outcomes += learned(group)
    (stopped,) = outcomes
    assert isinstance(stopped, LearnerStopped)
    assert f"its learner died {DEATHS} times in a row while it learned" in stopped.message
    assert stopped.tensors["action"].tolist() == make_episodes([16] * 4, seed=DEATHS - 1).action.tolist()
    assert len(group.losses()) == DEATHS
    submit(fake, group, "main-0", make_episodes)
    submit(fake, group, "main-1", make_episodes)
    assert [report.player for report in learned(group)] == ["main-1"]


def test_a_peer_that_dies_is_named_and_all_processes_of_its_shard_are_made_again(fake, make_episodes):
    group = on_fake_ray(fake, plan_shards(0, PLAYERS, processes=2))
    saved = group.state("main-1")
    before = group._shards[0].processes
    fake.hold(before[0])  # it would wait for the sum
    submit(fake, group, "main-1", make_episodes)
    fake.kill(before[1])
    learned(group)
    (loss,) = group.losses()
    assert (loss.incident.kind, loss.incident.env_steps) == ("peer", 64)
    assert loss.incident.who == "process 1 of the learners of shard 0 (main-0, main-1)"
    assert before[0].dead
    assert same(group.state("main-1"), saved)
    submit(fake, group, "main-1", make_episodes)
    assert [report.player for report in learned(group)] == ["main-1"]


def test_a_shard_that_dies_whenever_it_is_built_is_given_up_and_the_others_learn_on(fake, make_episodes):
    group = on_fake_ray(fake)
    saved = group.state("main-0")
    Mortal.stillborn = True
    fake.kill(learner_of(group, "main-0"))
    assert same(group.state("main-0"), saved)  # so that a run can end with everything saved
    submit(fake, group, "main-1", make_episodes)
    stopped, report = learned(group)
    assert isinstance(stopped, LearnerStopped)
    assert rf"shard 0 (main-0) died {MOST_DEATHS + 1} times before" in stopped.message
    assert (stopped.player, report.player) == ("main-0", "main-1")
    Mortal.stillborn = False
    group.reset("main-0", initial_weights(SPEC, 5))  # another chance
    submit(fake, group, "main-0", make_episodes)
    assert [report.player for report in learned(group)] == ["main-0"]


def test_learners_that_die_before_the_run_has_begun_end_it_in_one_sentence(fake):
    group = on_fake_ray(fake, ONE)
    Mortal.stillborn = True
    with pytest.raises(LearnersLost, match=rf"shard 0 \(main-0, main-1\) died {MOST_DEATHS + 1} times"):
        group.state("main-0")


def test_a_reset_survives_the_death_of_its_learner(fake, make_episodes):
    group = on_fake_ray(fake)
    submit(fake, group, "main-0", make_episodes)
    learned(group)
    group.state("main-0")
    weights = initial_weights(SPEC, 77)
    group.reset("main-0", weights)
    fake.kill(learner_of(group, "main-0"))
    again = group.state("main-0").weights
    assert all(torch.equal(weights[name], tensor) for name, tensor in again.items())


def test_players_come_and_go_after_a_death_as_before(fake, make_episodes):
    group = on_fake_ray(fake, ONE)
    submit(fake, group, "main-1", make_episodes)
    learned(group)
    version = group.live("main-1").version
    fake.kill(learner_of(group, "main-1"))
    group.remove("main-1")
    fake.kill(learner_of(group, "main-0"))
    group.add(Recruit("main-1", SPEC, SETTINGS, 5))
    group.state("main-0")
    assert group.state("main-1").updates > version
    assert group.players() == PLAYERS


def fails_once(monkeypatch, error, times=1):
    """The next updates fail with this error of torch's."""
    update, left = Learner.learn_from, [error] * times

    def fails(self, *given):
        if left:
            raise left.pop()
        return update(self, *given)

    monkeypatch.setattr(Learner, "learn_from", fails)


BROKEN = torch.AcceleratorError("CUDA error: an illegal memory access was encountered\nCompile with X")
FULL = torch.OutOfMemoryError(
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.10 GiB of which "
    "1.50 GiB is free."
)


def test_a_learner_whose_card_fails_is_replaced_with_one_incident_that_names_card_and_cause(
    fake, make_episodes, monkeypatch
):
    group = on_fake_ray(fake)
    group.state("main-0")
    dead = learner_of(group, "main-0")
    fails_once(monkeypatch, BROKEN)
    submit(fake, group, "main-0", make_episodes)
    assert learned(group) == []
    (loss,) = group.losses()
    assert loss.incident.kind == "learner"
    assert re.fullmatch(
        r"player main-0: GPU 0 of \S+ failed: CUDA error: an illegal memory access was encountered",
        loss.incident.cause,
    )
    assert dead.dead
    submit(fake, group, "main-0", make_episodes)
    assert len(learned(group)) == 1
    assert group.losses() == []


def test_a_peer_that_hangs_in_a_sum_is_one_incident_and_all_processes_of_its_shard_are_made_again(
    fake, make_episodes, monkeypatch
):
    group = on_fake_ray(fake, PEERS)
    group.state("main-0")
    before = group._shards[0].processes
    fails_once(monkeypatch, PeersLost("process 0 of 2 waits for another, which did not answer for 60 s"))
    submit(fake, group, "main-0", make_episodes)
    assert learned(group) == []
    (loss,) = group.losses()
    assert loss.incident.cause == "process 0 of 2 waits for another, which did not answer for 60 s"
    assert all(process.dead for process in before)
    submit(fake, group, "main-0", make_episodes)
    assert len(learned(group)) == 1


@pytest.mark.parametrize("shards", [TWO, PEERS], ids=["alone", "peers"])
def test_a_player_whose_card_has_no_memory_left_stops_with_bytes_and_settings(
    shards, fake, make_episodes, monkeypatch
):
    group = on_fake_ray(fake, shards)
    before = group.state("main-0")
    fails_once(monkeypatch, FULL, 99)
    for _ in range(DEATHS):  # peers, which wait for one another, are replaced first
        submit(fake, group, "main-0", make_episodes)
        outcomes = learned(group)
        if outcomes:
            break
    (stop,) = outcomes
    assert isinstance(stop, LearnerStopped)
    assert stop.player == "main-0"
    assert "has no memory left: 2.00 GiB were asked for, 1.50 GiB of 79.10 GiB were free" in stop.message
    assert "set learner.micro_steps to fewer than learner.batch_steps, or learner.precision" in stop.message
    assert same(group.state("main-0"), before)
