"""Learners in this process and as Ray actors come to the same weights, bit for bit."""

import time

import numpy as np
import pytest
import torch

from league.learning.learner import LearnerSettings, NonFiniteLoss
from league.learning.learner_group import LearnersLost, LocalLearnerGroup, RayLearnerGroup
from league.learning.shards import plan_shards
from league.models.policy import PolicySpec, initial_weights
from league.runtime import ResourceSettings, ray_session

SPEC = PolicySpec("mlp", (16,), "relu", (4,), "float32", 3)
PLAYERS = ["main-0", "main-1"]
LEARNING = (
    plan_shards(0, PLAYERS),
    SPEC,
    dict.fromkeys(PLAYERS, LearnerSettings(batch_steps=64)),
    {"main-0": 1, "main-1": 2},
)


@pytest.fixture(scope="module")
def ray():
    import ray

    with ray_session(ResourceSettings(), num_actors=2):
        yield ray
    assert not ray.is_initialized()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.slow)])
def group(request):
    """Each behaviour holds for both groups."""
    if request.param == "local":
        made = LocalLearnerGroup(*LEARNING)
    else:
        request.getfixturevalue("ray")
        made = RayLearnerGroup(*LEARNING)
    yield made
    made.close()


def collect(group, count, seconds=60.0):
    """`count` reports, in order of arrival."""
    reports, give_up = [], time.monotonic() + seconds
    while len(reports) < count:
        assert time.monotonic() < give_up, f"{len(reports)} of {count} reports came"
        reports += group.ready(0.1)
    return reports


def arrays(handle):
    """Weights behind a handle, wherever they are."""
    if isinstance(handle, dict):
        return handle
    import ray

    return ray.get(handle)


def assert_same(a, b):
    assert set(a) == set(b)
    for name in a:
        np.testing.assert_array_equal(np.asarray(a[name]), np.asarray(b[name]), err_msg=name)


@pytest.mark.slow
def test_both_groups_come_to_the_same_weights_bit_for_bit(ray, make_episodes):
    local, remote = LocalLearnerGroup(*LEARNING), RayLearnerGroup(*LEARNING)
    for i, player in enumerate(["main-0", "main-1", "main-0", "main-0", "main-1"]):
        episodes = make_episodes([10] * 8, seed=i)
        local.submit(player, episodes, 0.0)
        remote.submit(player, ray.put(episodes), 0.0)
    here, there = collect(local, 5), collect(remote, 5)
    for player in PLAYERS:
        mine = [report for report in here if report.player == player]
        assert mine == [report for report in there if report.player == player]
        assert local.live(player).version == remote.live(player).version == mine[-1].updates > 0
        assert_same(local.live(player).handle, arrays(remote.live(player).handle))
        assert_same(local.state(player).optimizer, remote.state(player).optimizer)
    remote.close()


def test_the_first_live_weights_are_those_of_the_seeds(group):
    for player, seed in LEARNING[3].items():
        assert group.live(player).version == 0
        assert_same(arrays(group.live(player).handle), initial_weights(SPEC, seed))


def test_live_weights_carry_the_version_that_was_reported(group, make_episodes):
    before = arrays(group.live("main-0").handle)
    group.submit("main-0", make_episodes([10] * 8), 0.0)
    (report,) = collect(group, 1)
    assert (report.player, report.updates, report.env_steps) == ("main-0", 1, 80)
    assert report.metrics["value_loss"] > 0
    assert group.live("main-0").version == 1
    after = arrays(group.live("main-0").handle)
    assert any((after[name] != before[name]).any() for name in after)
    assert_same(after, group.state("main-0").weights)
    assert group.live("main-1").version == 0


def test_live_weights_stay_while_a_batch_fills(group, make_episodes):
    group.submit("main-0", make_episodes([10]), 0.0)
    (report,) = collect(group, 1)
    assert report.metrics is None
    assert (report.updates, group.live("main-0").version) == (0, 0)


def test_backlog_counts_what_was_submitted_and_not_reported(group, make_episodes):
    for _ in range(3):
        group.submit("main-0", make_episodes([10] * 8), 0.0)
    assert (group.backlog("main-0"), group.backlog("main-1")) == (3, 0)
    collect(group, 3)
    assert group.backlog("main-0") == 0
    assert group.ready(0.0) == []


def test_a_state_can_be_taken_up_by_another_player_and_goes_on_alike(group, make_episodes):
    group.submit("main-0", make_episodes([10] * 8, seed=1), 0.0)
    collect(group, 1)
    state = group.state("main-0")
    group.load_state("main-1", state)
    assert group.live("main-1").version == state.updates == 1
    for player in PLAYERS:
        group.submit(player, make_episodes([10] * 8, seed=2), 0.0)
    collect(group, 2)
    assert group.state("main-1").env_steps == group.state("main-0").env_steps == 160
    assert_same(group.state("main-0").weights, group.state("main-1").weights)


def test_a_state_is_a_copy(group, make_episodes):
    state = group.state("main-0")
    before = {name: tensor.clone() for name, tensor in state.weights.items()}
    group.submit("main-0", make_episodes([10] * 8), 0.0)
    collect(group, 1)
    assert all(torch.equal(tensor, before[name]) for name, tensor in state.weights.items())


def test_a_reset_discards_what_is_pending_and_keeps_the_counters(group, make_episodes):
    fresh = initial_weights(SPEC, 77)
    for seed in range(3):
        group.submit("main-0", make_episodes([10] * 8, seed=seed), 0.0)
    group.submit("main-1", make_episodes([10] * 8), 0.0)
    group.reset("main-0", fresh)
    assert (group.backlog("main-0"), group.backlog("main-1")) == (0, 1)
    (report,) = collect(group, 1)
    assert report.player == "main-1"
    assert group.ready(0.0) == []
    state = group.state("main-0")
    assert state.optimizer == {}
    assert_same(state.weights, fresh)
    assert_same(arrays(group.live("main-0").handle), fresh)
    assert group.live("main-0").version == state.updates == 3  # learned first, then forgotten
    assert state.env_steps == 240


def test_after_a_reset_the_version_grows_on(group, make_episodes):
    for _ in range(2):
        group.submit("main-0", make_episodes([10] * 8), 0.0)
        collect(group, 1)
    group.reset("main-0", initial_weights(SPEC, 77))
    assert group.live("main-0").version == 2
    group.submit("main-0", make_episodes([10] * 8, version=2), 0.0)
    (report,) = collect(group, 1)
    assert (report.updates, group.live("main-0").version) == (3, 3)


def test_a_loss_that_is_no_number_is_an_arithmetic_error_that_names_the_player(group, make_episodes):
    bad = make_episodes([64])
    bad.reward[5] = np.nan
    group.submit("main-1", bad, 0.0)
    with pytest.raises(ArithmeticError, match="player main-1, update 1: the loss is") as caught:
        collect(group, 1)
    cause = getattr(caught.value, "cause", caught.value)  # what the command line prints
    assert isinstance(cause, NonFiniteLoss)
    assert "\n" not in str(cause)
    assert group.state("main-1").updates == 0
    assert all(torch.isfinite(tensor).all() for tensor in group.state("main-1").weights.values())


@pytest.mark.slow
def test_learners_whose_process_dies_fail_the_run_in_one_sentence(ray, make_episodes):
    group = RayLearnerGroup(*LEARNING)
    group.submit("main-0", make_episodes([10] * 8))
    collect(group, 1)
    ray.kill(group._actors[0])
    group.submit("main-0", make_episodes([10] * 8))
    with pytest.raises(LearnersLost, match="go on with --resume"):
        collect(group, 1)
    with pytest.raises(LearnersLost):
        group.state("main-1")
