"""Learners in this process and as Ray actors come to the same weights, bit for bit."""

import dataclasses
import gc
import time
import weakref
from dataclasses import replace

import numpy as np
import pytest
import torch

from league.cluster.runtime import ResourceSettings, ray_session
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shard_actors import RemoteShardLearners
from league.learning.groups.shard_learners import LearnerStopped, Recruit, Recruits, Spent
from league.learning.groups.shards import Shard, plan_shards
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake
from tests.league.learning.groups.recruiting import SPEC, collect, recruits_of, shared_of

pytestmark = pytest.mark.alone

PLAYERS = ["main-0", "main-1"]
SEEDS = {"main-0": 1, "main-1": 2}
SETTINGS = LearnerSettings(batch_steps=64)
SHARDS, RECRUITS = plan_shards(0, PLAYERS), recruits_of(SPEC, SETTINGS, SEEDS)


def recruit(player, seed):
    return Recruit(player, SPEC, SETTINGS, seed)


def start_again(group, player, seed):
    """A new learner in the place of the old one."""
    group.remove(player)
    group.add(recruit(player, seed))


def depth(group, player):
    return group.queues()[player].depth


@pytest.fixture(scope="module")
def ray():
    import ray

    with ray_session(ResourceSettings(), num_actors=4):
        yield ray
    assert not ray.is_initialized()


@pytest.fixture(params=["local", pytest.param("ray", marks=pytest.mark.long)])
def make_group(request):
    """Each behaviour holds for both groups; settings of the learner may be given."""
    made = []

    def make(**settings):
        kind = LocalLearners
        if request.param == "ray":
            request.getfixturevalue("ray")
            kind = RayLearners
        shared = shared_of(settings)
        own = LearnerSettings(**{"batch_steps": 64, **settings})
        made.append(kind(SHARDS, recruits_of(SPEC, own, SEEDS, **shared)))
        return made[-1]

    yield make
    for group in made:
        group.close()


@pytest.fixture
def group(make_group):
    return make_group()


on_ray_too = pytest.mark.parametrize(  # as weights of both are the same: see the first test
    "make_group", ["local", pytest.param("ray", marks=[pytest.mark.long, pytest.mark.variant])], indirect=True
)


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
    local, remote = LocalLearners(SHARDS, RECRUITS), RayLearners(SHARDS, RECRUITS)
    for i, player in enumerate(["main-0", "main-1", "main-0", "main-0", "main-1"]):
        episodes = make_episodes([10] * 8, seed=i)
        local.submit(player, episodes, 0.0)
        remote.submit(player, ray.put(episodes), 0.0)
    here, there = collect(local, 5), collect(remote, 5)
    for player in PLAYERS:
        mine, theirs = (
            [replace(report, spent=Spent()) for report in reports if report.player == player]
            for reports in (here, there)
        )
        assert mine == theirs  # but for the seconds that it took
        assert local.live(player).version == remote.live(player).version == mine[-1].updates > 0
        assert_same(local.live(player).handle, arrays(remote.live(player).handle))
        assert_same(local.state(player).optimizer, remote.state(player).optimizer)
    remote.close()


@on_ray_too
def test_the_first_live_weights_are_those_of_the_seeds(group):
    for player, seed in SEEDS.items():
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


@on_ray_too
def test_live_weights_stay_while_a_batch_fills(group, make_episodes):
    group.submit("main-0", make_episodes([10]), 0.0)
    (report,) = collect(group, 1)
    assert report.metrics is None
    assert (report.updates, group.live("main-0").version) == (0, 0)


@on_ray_too
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


def test_a_reset_discards_what_is_pending_and_keeps_the_counters(group, make_episodes):
    fresh = initial_weights(SPEC, 77)
    for seed in range(3):
        group.submit("main-0", make_episodes([10] * 8, seed=seed), 0.0)
    group.submit("main-1", make_episodes([10] * 8), 0.0)
    group.reset("main-0", fresh)
    assert (depth(group, "main-0"), depth(group, "main-1")) == (0, 1)
    (report,) = collect(group, 1)
    assert report.player == "main-1"
    assert group.ready(0.0) == []
    state = group.state("main-0")
    assert state.optimizer == {}
    assert_same(state.weights, fresh)
    assert_same(arrays(group.live("main-0").handle), fresh)
    assert group.live("main-0").version == state.updates == 3  # learned first, then forgotten
    assert state.env_steps == 240


def spoilt(make_episodes):
    """Experience that no learner can take."""
    bad = make_episodes([64])
    bad.reward[5] = np.nan
    return bad


def test_a_player_whose_loss_is_no_number_stops_and_the_others_go_on(group, make_episodes):
    before = group.state("main-1").weights
    group.submit("main-1", spoilt(make_episodes), 0.0, steps=64)
    for _ in range(2):
        group.submit("main-1", make_episodes([10] * 8), 0.0, steps=80)
    group.submit("main-0", make_episodes([10] * 8), 0.0, steps=80)
    outcomes = collect(group, 2)
    (stopped,) = [outcome for outcome in outcomes if isinstance(outcome, LearnerStopped)]
    (report,) = [outcome for outcome in outcomes if not isinstance(outcome, LearnerStopped)]
    assert (stopped.player, stopped.update) == ("main-1", 1)
    assert "player main-1, update 1" in stopped.message
    assert "\n" not in stopped.message
    assert np.isnan(np.asarray(stopped.tensors["reward"])).sum() == 1
    assert (report.player, report.updates) == ("main-0", 1)
    group.ready(0.5)
    assert_same(group.state("main-1").weights, before)
    assert group.state("main-1").updates == 0
    group.submit("main-1", make_episodes([10] * 8), 0.0, steps=80)
    info = group.queues()["main-1"]
    assert (info.depth, info.stopped) == (0, True)
    assert (info.dropped_rollouts, info.dropped_steps) == (4, 64 + 3 * 80)
    assert not group.queues()["main-0"].stopped
    assert not group.full("main-1")


@pytest.mark.parametrize("remedy", ["reset", "load_state"])
def test_a_stopped_player_goes_on_from_other_weights(group, make_episodes, remedy):
    state = group.state("main-1")
    group.submit("main-1", spoilt(make_episodes), 0.0)
    collect(group, 1)
    if remedy == "reset":
        group.reset("main-1", initial_weights(SPEC, 5))
    else:
        group.load_state("main-1", state)
    version = group.live("main-1").version
    group.submit("main-1", make_episodes([10] * 8), 0.0)
    (report,) = collect(group, 1)
    assert report.metrics is not None
    assert group.live("main-1").version == report.updates == version + 1
    assert group.queues()["main-1"].dropped_rollouts == 1


def test_weights_are_published_every_so_many_updates_and_whenever_they_are_given(make_group, make_episodes):
    group = make_group(broadcast_updates=3)
    first = arrays(group.live("main-0").handle)
    versions = []
    for i in range(7):
        group.submit("main-0", make_episodes([10] * 8, seed=i), 0.0)
        (report,) = collect(group, 1)
        assert report.updates == i + 1
        versions.append(group.live("main-0").version)
        if versions[-1] == 0:
            assert_same(arrays(group.live("main-0").handle), first)
    assert versions == [0, 0, 3, 3, 3, 6, 6]
    group.load_state("main-1", group.state("main-0"))
    assert group.live("main-1").version == 7
    group.reset("main-0", initial_weights(SPEC, 9))
    assert group.live("main-0").version == 7
    assert_same(arrays(group.live("main-0").handle), initial_weights(SPEC, 9))


def test_without_async_update_everything_submitted_is_learned_when_reports_are_taken(
    make_group, make_episodes
):
    group = make_group(async_update=False)
    for player in ("main-0", "main-1", "main-0"):
        group.submit(player, make_episodes([10] * 8), 0.0)
    assert sorted(report.player for report in group.ready(0.0)) == ["main-0", "main-0", "main-1"]
    assert group.ready(0.0) == []


def test_players_come_and_go_while_others_train(group, make_episodes):
    assert group.players() == ("main-0", "main-1")
    group.submit("main-0", make_episodes([10] * 8), 0.0)
    group.add(recruit("late-0", 3))
    group.add(recruit("late-1", 4), initial_weights(SPEC, 44))
    assert group.players() == ("main-0", "main-1", "late-0", "late-1")
    assert group.plan()[0].players == group.players()
    assert group.live("late-0").version == group.live("late-1").version == 0
    assert_same(arrays(group.live("late-0").handle), initial_weights(SPEC, 3))
    assert_same(arrays(group.live("late-1").handle), initial_weights(SPEC, 44))
    group.submit("late-0", make_episodes([10] * 8), 0.0)
    assert {report.player for report in collect(group, 2)} == {"main-0", "late-0"}
    group.remove("main-1")
    assert group.players() == ("main-0", "late-0", "late-1")
    assert set(group.queues()) == set(group.players())
    with pytest.raises(KeyError, match="main-1"):
        group.submit("main-1", make_episodes([10] * 8), 0.0)
    with pytest.raises(ValueError, match="'late-0' trains already"):
        group.add(recruit("late-0", 3))
    assert group.state("main-0").updates == 1


@on_ray_too
def test_a_shard_that_everybody_left_takes_the_next_player(group, make_episodes):
    for player in PLAYERS:
        group.remove(player)
    assert [shard.players for shard in group.plan()] == [()]
    group.add(recruit("next-0", 6))
    group.submit("next-0", make_episodes([10] * 8), 0.0)
    (report,) = collect(group, 1)
    assert (report.player, report.updates) == ("next-0", 1)


def test_a_new_learner_in_an_old_place_counts_on_and_uses_no_version_again(group, make_episodes):
    for seed in range(2):
        group.submit("main-0", make_episodes([10] * 8, seed=seed), 0.0)
        collect(group, 1)
    group.submit("main-0", make_episodes([10] * 8), 0.0)  # learned, but never heard of
    used = group.live("main-0").version
    start_again(group, "main-0", 8)
    assert group.ready(0.0) == []
    assert used < 3 < group.live("main-0").version
    assert_same(arrays(group.live("main-0").handle), initial_weights(SPEC, 8))
    state = group.state("main-0")
    assert (state.updates, state.env_steps) == (group.live("main-0").version, 240)
    assert state.optimizer == {}
    group.submit("main-0", make_episodes([10] * 8), 0.0)
    (report,) = collect(group, 1)
    assert group.live("main-0").version == report.updates == state.updates + 1
    group.remove("main-0")
    group.add(recruit("main-0", 8))
    assert group.live("main-0").version > report.updates
    assert group.state("main-0").env_steps == 320


@on_ray_too
def test_what_is_learned_from_has_an_age_and_a_lag(group, make_episodes):
    for _ in range(2):
        group.submit("main-0", make_episodes([10] * 8), 0.0)
        collect(group, 1)
    info = group.queues()["main-0"]
    assert info.age_seconds > 0
    assert info.lag == 1.0
    assert (info.depth, info.waits, info.dropped_rollouts) == (0, 0, 0)


def test_play_is_held_back_when_a_learner_is_behind(make_group, make_episodes):
    group = make_group(max_backlog=2)
    group.submit("main-0", make_episodes([10] * 8), 0.0)
    assert not group.full("main-0")
    group.submit("main-0", make_episodes([10] * 8), 0.0)
    assert group.full("main-0")
    assert group.full("main-0")
    assert not group.full("main-1")
    assert (depth(group, "main-0"), depth(group, "main-1")) == (2, 0)
    collect(group, 2)
    assert not group.full("main-0")
    assert (depth(group, "main-0"), group.ready(0.0)) == (0, [])
    info = group.queues()["main-0"]
    assert (info.waits, info.bound) == (1, 2)
    assert info.wait_seconds > 0


def test_once_the_run_is_over_updates_that_wait_behind_the_first_are_dropped(make_episodes):
    """They were made after the last snapshots had been frozen, which then lacked them."""
    group = LocalLearners(SHARDS, RECRUITS)
    names = list(group.players())
    for name in names:
        group.submit(name, make_episodes([10] * 8), steps=80)
    group.until(lambda: True)
    assert [report.player for report in group.ready(0.0)] == names[:1]
    assert group.ready(0.0) == []
    assert [group.under_way(name) for name in names] == [0] * len(names)
    assert group.queues()[names[1]].dropped_steps == 80


def test_a_learner_that_is_removed_or_replaced_is_freed(make_episodes):
    group = LocalLearners(SHARDS, RECRUITS)
    freed = []
    for deed in (lambda: start_again(group, "main-0", 5), lambda: group.remove("main-0")):
        group.submit("main-0", make_episodes([10] * 8), 0.0)
        group.ready(0.0)
        learner = group._shard._learners["main-0"]
        weakref.finalize(learner, freed.append, deed)
        del learner
        deed()
        gc.collect()
        assert freed[-1:] == [deed]


@pytest.mark.long
def test_the_process_of_learners_that_come_and_go_stays_small(ray, make_episodes):
    """40 learners of 12 MB and more each, one after another: what they leave behind is bounded."""
    spec = PolicySpec(PolicySettings(hidden=(1000, 1000)), SPEC.observation, SPEC.action)
    group = RayLearners(SHARDS, recruits_of(spec, SETTINGS, SEEDS))
    actor = group._shards[0].processes[0]

    def megabytes(shard):
        import psutil

        memory = psutil.Process().memory_info()
        return (memory.rss - memory.shared) / 2**20  # what the object store lends is not its own

    def one_more(i):
        group.add(Recruit(f"late-{i}", spec, SETTINGS, i))
        group.submit(f"late-{i}", make_episodes([10] * 8), 0.0)
        (report,) = collect(group, 1)
        assert report.metrics is not None
        group.remove(f"late-{i}")

    for i in range(5):
        one_more(i)
    before = ray.get(actor.__ray_call__.remote(megabytes))
    for i in range(5, 45):
        one_more(i)
    after = ray.get(actor.__ray_call__.remote(megabytes))
    assert after - before < 100, f"{before:.0f} MiB, then {after:.0f}"
    group.close()


@pytest.mark.long
def test_two_processes_of_a_shard_come_to_the_weights_of_one(ray, make_episodes):
    one = LocalLearners(SHARDS, RECRUITS)
    two = RayLearners(plan_shards(0, PLAYERS, processes=2), RECRUITS)
    assert [len(shard.processes) for shard in two._shards] == [2]
    for i, player in enumerate(["main-0", "main-1", "main-0", "main-0"]):
        episodes = make_episodes([10, 3, 20, 40], [True, False, True, False], seed=i)
        one.submit(player, episodes, 0.0)
        two.submit(player, ray.put(episodes), 0.0)
    here, there = collect(one, 4), collect(two, 4)
    for player in PLAYERS:
        mine, theirs = one.state(player), two.state(player)
        assert (mine.updates, mine.env_steps) == (theirs.updates, theirs.env_steps)
        for name, tensor in mine.weights.items():
            np.testing.assert_allclose(tensor.numpy(), theirs.weights[name].numpy(), atol=1e-5, err_msg=name)
        assert_same(arrays(two.live(player).handle), theirs.weights)
        (a, b) = [[r for r in reports if r.player == player][-1] for reports in (here, there)]
        assert b.metrics["value_loss"] == pytest.approx(a.metrics["value_loss"], rel=1e-4)
    two.submit("main-0", ray.put(spoilt(make_episodes)), 0.0)
    (stopped,) = collect(two, 1)
    assert isinstance(stopped, LearnerStopped)
    start_again(two, "main-0", 3)
    two.submit("main-0", ray.put(make_episodes([10] * 8)), 0.0)
    (report,) = collect(two, 1)
    assert report.metrics is not None
    ray.kill(two._shards[0].processes[1])
    two.submit("main-0", ray.put(make_episodes([10] * 8)), 0.0)
    (loss,) = losses_of(two, 1)
    assert (loss.incident.kind, set(loss.back)) == ("peer", set(PLAYERS))
    two.submit("main-0", ray.put(make_episodes([10] * 8)), 0.0)
    (report,) = collect(two, 1)
    assert report.player == "main-0"
    two.close()


def losses_of(group, count, seconds=60.0):
    """`count` losses; reports that come meanwhile are ignored."""
    losses, give_up = [], time.monotonic() + seconds
    while len(losses) < count:
        assert time.monotonic() < give_up
        group.ready(0.1)
        losses += group.losses()
    return losses


@pytest.mark.long
def test_players_of_two_shards_train_in_two_processes(ray, make_episodes):
    shards = [Shard(("main-0",), 0), Shard(("main-1",), 0)]
    group = RayLearners(shards, RECRUITS)
    group.add(recruit("late-0", 7))
    assert [shard.players for shard in group.plan()] == [("main-0", "late-0"), ("main-1",)]
    for player in group.players():
        group.submit(player, make_episodes([10] * 8), 0.0)
    collect(group, 3)
    held = [
        ray.get(shard.processes[0].__ray_call__.remote(lambda here: list(here._learners)))
        for shard in group._shards
    ]
    assert held == [["main-0", "late-0"], ["main-1"]]
    learned = group.state("late-0")
    group.submit("late-0", make_episodes([10] * 8), 0.0)
    group.remove("main-1")  # its shard would be idle: the newest of the other one moves there, as it is
    assert [shard.players for shard in group.plan()] == [("main-0",), ("late-0",)]
    assert group.live("late-0").version == learned.updates + 1
    (report,) = collect(group, 1)
    assert (report.player, report.updates) == ("late-0", learned.updates + 1)
    assert_same(arrays(group.live("late-0").handle), group.state("late-0").weights)
    assert group.state("late-0").optimizer.keys() == learned.optimizer.keys()
    group.submit("late-0", make_episodes([10] * 8), 0.0)
    (report,) = collect(group, 1)
    assert (report.updates, group.live("late-0").version) == (learned.updates + 2, learned.updates + 2)
    group.add(recruit("late-1", 8))
    assert group.plan()[0].players == ("main-0", "late-1")
    group.close()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU here")
def test_a_learner_that_finds_no_gpu_where_ray_put_it_names_the_node():
    recruits = dataclasses.replace(RECRUITS, device="cuda")
    with pytest.raises(Mistake, match=r"Ray gave a learner a GPU on node .*, but torch sees none"):
        RemoteShardLearners().build(plan_shards(1, PLAYERS)[0], recruits, 0, None)


def test_without_ray_each_gpu_is_a_shard_and_a_player_moves_to_one_that_is_left_idle(monkeypatch):
    """Two of eight pretended cards: their tensors are on the meta device, only the plan is followed."""
    monkeypatch.setattr(
        "league.learning.groups.shard_learners.cards_of", lambda cards: [f"meta:{i}" for i in range(cards)]
    )
    used = {}

    class Pretended(Learner):
        def __init__(self, player, spec, settings, seed, device="cpu", *rest, **named):
            used[player] = device
            super().__init__(player, spec, settings, seed, "cpu", *rest, **named)

    monkeypatch.setattr("league.learning.groups.shard_learners.Learner", Pretended)
    players = [f"main-{i}" for i in range(5)]
    recruits = dataclasses.replace(
        recruits_of(SPEC, SETTINGS, {p: i for i, p in enumerate(players)}), device="cuda"
    )
    group = LocalLearners(plan_shards(2, players), recruits)
    assert [shard.players for shard in group.plan()] == [("main-0", "main-2", "main-4"), ("main-1", "main-3")]

    def as_planned():
        return {p: f"meta:{i}" for i, shard in enumerate(group.plan()) for p in shard.players}

    assert used == as_planned()
    before = group.state("main-4")
    for player in ("main-1", "main-3"):
        group.remove(player)
        del used[player]
    assert [shard.players for shard in group.plan()] == [("main-0", "main-2"), ("main-4",)]
    assert used == as_planned()
    assert_same(group.state("main-4").weights, before.weights)
    group.add(recruit("late", 9))
    assert used == as_planned()
    with pytest.raises(ValueError, match="8 GPUs in 1 shards, expected one in each"):
        LocalLearners(plan_shards(8, players[:1]), recruits)


@pytest.mark.long
def test_players_may_learn_by_settings_of_their_own(request, make_episodes):
    """The one with half the batch makes twice the updates, whether it is there at first or comes later."""
    settings = SETTINGS.model_copy(update={"batch_steps": 32})
    own = Recruit("main-1", SPEC, settings, 2)
    for kind in (LocalLearners, RayLearners):
        if kind is RayLearners:
            request.getfixturevalue("ray")
        made = kind(SHARDS, Recruits((recruit("main-0", 1), own)))
        made.state("main-0")  # a process that is being made answers late for who was removed
        made.add(dataclasses.replace(own, player="late", seed=3))
        made.remove("main-1")
        made.add(dataclasses.replace(own, seed=4))
        for player in ("main-0", "main-1", "late"):
            made.submit(player, dataclasses.replace(make_episodes([8] * 8), player=player), 0.0, 64)
        updates = {report.player: report.updates for report in collect(made, 3)}
        assert updates["late"] == 2 * updates["main-0"] == 2
        assert updates["main-1"] == 1 + 2  # a new learner of the name counts on, from the next number
        made.close()
