"""Runners as Ray actors play what a runner in this process plays; what they lose, they lose whole."""

import dataclasses
import socket
import time

import numpy as np
import pytest
import torch

from league.cluster.runtime import ResourceSettings, ray_session
from league.episode import Episodes
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import Fragment, PlaySetup
from league.rollout.runner_group import LocalRunnerGroup, RayRunnerGroup, RemoteRunner, check_play
from league.rollout.settings import RolloutSettings
from storage.errors import Mistake

pytestmark = pytest.mark.alone

SETTINGS = RolloutSettings(slots=32, requests_in_flight=2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_whether_there_is_a_gpu_is_found_out_where_the_runner_runs():
    runner = RemoteRunner(PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=8, device="cuda")))
    with pytest.raises(Mistake, match=r"torch sees no GPU on node .*, expected cpu"):
        runner.where()
    cluster = ResourceSettings(address="head:6379", gpus_per_runner=0.5)
    check_play("cuda", cluster, runners=2)  # this machine needs none
    with pytest.raises(Mistake, match="torch sees no GPU here"):
        check_play("cuda", cluster, runners=0)
    with pytest.raises(Mistake, match=r"resources\.gpus_per_runner is 0"):
        check_play("cuda", ResourceSettings(), runners=2)


@pytest.mark.long
def test_each_runner_gets_its_part_of_a_card_and_none_plays_where_there_is_no_gpu():
    """Two counted GPUs: three runners of 0.4 take two cards; a runner whose card is not there is refused."""
    settings = ResourceSettings(gpus_per_runner=0.4, cpus_per_runner=0.5)
    import ray

    with ray_session(settings, 0, 3):
        assert ray.cluster_resources()["GPU"] == 2
        made = RayRunnerGroup(3, PlaySetup("tic_tac_toe", {}, SETTINGS), settings.of_runner)
        seen = [actor.__ray_call__.remote(_visible) for actor in made._actors]
        assert sorted(ray.get(seen)) in (["0", "0", "1"], ["0", "1", "1"])
        assert ray.available_resources()["CPU"] == ray.cluster_resources()["CPU"] - 1.5
        made.close()
        if not torch.cuda.is_available():
            with pytest.raises(Mistake, match="torch sees no GPU on node"):
                RayRunnerGroup(
                    1,
                    PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=8, device="cuda")),
                    settings.of_runner,
                )


def _visible(runner):
    import os

    return os.environ["CUDA_VISIBLE_DEVICES"]


@pytest.fixture(scope="module")
def ray():
    import ray

    with ray_session(ResourceSettings(), num_actors=2):
        yield ray
    assert not ray.is_initialized()


@pytest.fixture
def group(ray):
    made = []

    def make(num_runners=1, env="tic_tac_toe", settings=SETTINGS):
        made.append(RayRunnerGroup(num_runners, PlaySetup(env, {}, settings)))
        return made[-1]

    yield make
    for each in made:
        each.close()


def collect(group, count, seconds=60.0):
    """`count` rollouts, by request id."""
    rollouts = {}
    give_up = time.monotonic() + seconds
    while len(rollouts) < count:
        assert time.monotonic() < give_up, f"{len(rollouts)} of {count} rollouts came"
        rollouts.update({rollout.request_id: rollout for rollout in group.ready(0.1)})
    return rollouts


def same_results(a, b):
    for name in ("outcome", "score", "rank", "env_steps", "reason"):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)
    np.testing.assert_array_equal(a.matches.match_id, b.matches.match_id)


def same_episodes(a: Episodes, b: Episodes):
    for name in Episodes.__slots__:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name), err_msg=name)


# ---------------------------------------------------------------- in this process


def test_a_local_group_plays_one_request_at_a_time_in_order(make_request):
    group = LocalRunnerGroup(PlaySetup("tic_tac_toe", {}, SETTINGS))
    request, weights = make_request("tic_tac_toe", 8)
    assert (group.room(), group.in_flight(), group.ready(0.0)) == (1, 0, [])
    group.submit(5, request, weights)
    assert (group.room(), group.in_flight()) == (0, 1)
    (rollout,) = group.ready(0.0)
    assert rollout.request_id == 5
    assert len(rollout.results) == 8
    assert (group.room(), group.in_flight(), group.losses()) == (1, 0, [])


def test_a_closed_local_group_has_forgotten_its_requests(make_request):
    group = LocalRunnerGroup(PlaySetup("tic_tac_toe", {}, SETTINGS))
    group.submit(1, *make_request("tic_tac_toe", 8))
    group.close()
    assert group.ready(0.0) == []


# ---------------------------------------------------------------- as Ray actors


@pytest.mark.slow
def test_a_remote_runner_plays_bit_for_bit_what_a_local_one_plays(ray, group, make_request):
    remote, requests = group(2), {i: make_request("tic_tac_toe", 40, self_play=6, seed=i) for i in range(4)}
    for i, (request, weights) in requests.items():
        remote.submit(i, request, {name: ray.put(arrays) for name, arrays in weights.items()})
    for i, rollout in collect(remote, 4).items():
        results, info, episodes = EnvRunner(PlaySetup("tic_tac_toe", {}, SETTINGS)).play(*requests[i])
        same_results(rollout.results, results)
        reference = rollout.episodes["main-0"]
        assert isinstance(reference, ray.ObjectRef)  # what is learned from never passes through the driver
        same_episodes(ray.get(reference), episodes["main-0"])
        assert (rollout.info.env_steps, rollout.info.trained_steps) == (info.env_steps, info.trained_steps)


@pytest.mark.slow
def test_requests_in_flight_are_bounded_and_spread_over_the_runners(group, make_request):
    remote = group(2)
    assert (remote.room(), remote.room(1), remote.in_flight()) == (4, 2, 0)
    submitted = 0
    while remote.room() > 0:
        remote.submit(submitted, *make_request("tic_tac_toe", 20, seed=submitted))
        submitted += 1
    assert (submitted, remote.in_flight()) == (4, 4)
    assert remote._load == [2, 2]
    assert sorted(collect(remote, 4)) == [0, 1, 2, 3]
    assert (remote.room(), remote.in_flight(), remote._load) == (4, 0, [0, 0])


@pytest.mark.slow
def test_a_killed_runner_loses_its_requests_whole_and_plays_again(ray, group, make_request):
    remote = group()
    first, again = make_request("tic_tac_toe", 20, seed=1), make_request("tic_tac_toe", 20, seed=2)
    remote.submit(0, *first)
    collect(remote, 1)
    for i in (1, 2):  # long enough to be under way when their runner dies
        remote.submit(i, *make_request("tic_tac_toe", 20_000, seed=i))
    ray.kill(remote._actors[0])
    lost, came, give_up = [], [], time.monotonic() + 60
    while len(lost) + len(came) < 2:
        assert time.monotonic() < give_up
        came += [rollout.request_id for rollout in remote.ready(0.1)]
        for loss in remote.losses():
            lost += loss.requests
            assert (loss.suspect, loss.incident.who) == (1, "runner 0")  # it was being played
            assert loss.incident.node == socket.gethostname()
    assert 1 in lost
    assert sorted(lost + came) == [1, 2]
    assert (remote.in_flight(), remote.room()) == (0, 0)  # its successor has not begun
    while not remote.room():
        assert time.monotonic() < give_up
        assert remote.ready(0.1) == []
    remote.submit(3, *again)
    (rollout,) = collect(remote, 1).values()
    assert remote.losses() == []
    assert rollout.request_id == 3
    same_results(rollout.results, EnvRunner(PlaySetup("tic_tac_toe", {}, SETTINGS)).play(*again)[0])


@pytest.mark.slow
def test_a_mistake_inside_a_runner_is_raised_as_what_it_is(group, make_request):
    """Not every failure is a death: a broken request must not be taken for a lost one."""
    remote = group()
    request, _ = make_request("tic_tac_toe", 4)
    remote.submit(0, request, {})
    with pytest.raises(KeyError, match="main-0"):
        collect(remote, 1)
    assert remote.losses() == []


# ---------------------------------------------------------------- fragments


def fragment_of(request, steps, goes_on, new):
    """The request, of whose matches so many steps are played; or, not `new`, only those that go on."""
    fragment = Fragment(steps, np.array(goes_on, dtype=np.int64), request.sources[:1])
    if not new:
        none = dataclasses.replace(request.matches.take(np.zeros(0, np.int64)), competitors=())
        return dataclasses.replace(request, matches=none, sources=(), fragment=fragment)
    return dataclasses.replace(request, fragment=dataclasses.replace(fragment, players=()))


@pytest.mark.long
def test_matches_go_on_in_their_remote_runner_until_it_dies_and_then_are_lost_whole(ray, group, make_request):
    remote = group(env="connect_four")
    request, weights = make_request("connect_four", 20)
    played, unfinished = [], []
    for number in range(3):
        assert remote.next_runner() == 0
        remote.submit(number, fragment_of(request, 4, unfinished, new=not number), weights)
        (rollout,) = collect(remote, 1).values()
        unfinished = list(rollout.info.unfinished)
        played += rollout.results.matches.match_id.tolist()
        assert ray.get(rollout.episodes["main-0"]).num_steps == rollout.info.trained_steps["main-0"] > 0
    assert sorted(played + unfinished) == list(range(1000, 1020))
    assert len(unfinished) > 3
    ray.kill(remote._actors[0])
    again, give_up = [], time.monotonic() + 60
    while not again:
        assert time.monotonic() < give_up
        if not remote.in_flight():
            remote.submit(9, fragment_of(request, 50, unfinished, new=False), weights)
        again = remote.ready(0.1)
    assert (len(again[0].results), again[0].info.unfinished) == (0, ())
