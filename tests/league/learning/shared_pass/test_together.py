"""Players learn together in the fastest way that comes to the same; each is refused by itself."""

import logging
from pathlib import Path

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.learning.groups.local_learners import LocalLearnerGroup
from league.learning.groups.ray_learners import RayLearnerGroup
from league.learning.groups.shards import Shard
from league.learning.learner import Learner, LearnerSettings, NonFiniteLoss
from league.learning.shared_pass.together import Choice, Together, choose
from league.models.networks.networks import trust_network
from league.models.spec import PolicySettings, PolicySpec
from league.runtime import ResourceSettings, ray_session
from tests.league.learning.recruiting import recruits_of

PLAYERS = ("main-0", "main-1", "main-2")
SEEDS = {player: i for i, player in enumerate(PLAYERS)}

NETWORKS = """
import torch
from torch import nn

class Plain(nn.Module):
    def __init__(self, observation, num_parameters):
        super().__init__()
        self.layer = nn.Linear(observation.size, 8)
        self.policy, self.value = nn.Linear(8, num_parameters), nn.Linear(8, 1)

    def forward(self, observation):
        features = self.layer(observation).tanh()
        return self.policy(features), self.value(features).squeeze(-1)

class Counting(Plain):
    def __init__(self, observation, num_parameters):
        super().__init__(observation, num_parameters)
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, observation):
        if torch.is_grad_enabled():
            self.calls += 1
        return super().forward(observation)

class Branching(Plain):
    def forward(self, observation):
        return super().forward(observation if observation.sum() > 1e9 else 0.5 * observation)
"""


@pytest.fixture
def force(monkeypatch):
    """Make the choice, whatever is faster."""

    def force(way):
        monkeypatch.setattr("league.learning.shared_pass.together.choose", lambda seconds: Choice(way, 1.5))

    return force


@pytest.fixture
def networks(tmp_path, monkeypatch):
    """The spec of one of `NETWORKS`."""

    def spec_of(name):
        (tmp_path / "stackable.py").write_text(NETWORKS)
        monkeypatch.syspath_prepend(tmp_path)
        trust_network(f"stackable:{name}")
        settings = PolicySettings(architecture=f"stackable:{name}")
        return PolicySpec(settings, ObservationSpec((4,), "float32"), ActionSpec("discrete", (3,)))

    return spec_of


def settings_of(**changes):
    return LearnerSettings(**{"batch_steps": 64, **changes})


def learners_of(spec, settings):
    return [Learner(player, spec, settings, SEEDS[player]) for player in PLAYERS]


def blocks_of(learners, make_episodes, seed=0):
    episodes = [make_episodes([10] * (7 + i), seed=seed + i) for i in range(len(learners))]
    return [(learner, e, 0.0) for learner, e in zip(learners, episodes, strict=True)]


def same(a, b, atol=0.0):
    return set(a) == set(b) and all(torch.allclose(a[n], b[n], atol=atol, rtol=0) for n in a)


def assert_learned_as_alone(spec, settings, make_episodes, together, atol=0.0):
    """Two rounds of `together` come to the weights of learners that are alone."""
    alone, others = learners_of(spec, settings), learners_of(spec, settings)
    for seed in (10, 20):
        together.update_from_episodes(blocks_of(others, make_episodes, seed))
        for learner, episodes, progress in blocks_of(alone, make_episodes, seed):
            learner.update_from_episodes(episodes, progress)
    for a, b in zip(alone, others, strict=True):
        assert same(a.state().to_tensors(), b.state().to_tensors(), atol)


# ---------------------------------------------------------------------- the choice


def test_the_way_with_the_shortest_time_is_taken():
    times = {"separate": [4.0, 3.0], "joined": [2.0, 9.0], "stacked": [1.5, 1.6]}
    assert choose(times) == ("stacked", 2.0)
    assert choose({**times, "joined": [1.0]}) == ("joined", 3.0)


def test_separate_updates_are_kept_unless_the_lead_is_clear():
    assert choose({"separate": [1.0], "joined": [0.98], "stacked": [1.2]}) == ("separate", 1.0 / 0.98)
    assert choose({"separate": [1.0], "joined": [2.0]}) == ("separate", 0.5)


def test_trying_changes_no_learner(make_spec, make_episodes, force, caplog):
    force("separate")
    together = Together(make_spec(), settings_of())
    with caplog.at_level(logging.INFO):
        assert_learned_as_alone(make_spec(), settings_of(), make_episodes, together)
    (record,) = [r for r in caplog.records if "3 players" in r.getMessage()]
    assert "1.50 times as fast; going on separate" in record.getMessage()


def test_waiting_for_others_is_no_use_once_separate_updates_won(make_spec, make_episodes, force):
    force("separate")
    together = Together(make_spec(), settings_of())
    assert together.promising
    together.update_from_episodes(blocks_of(learners_of(make_spec(), settings_of()), make_episodes))
    assert not together.promising


def test_every_number_of_players_is_tried_once(make_spec, make_episodes, monkeypatch):
    tried = []

    def choose(seconds):
        tried.append({way: len(times) for way, times in seconds.items()})
        return Choice("joined", 1.5)

    monkeypatch.setattr("league.learning.shared_pass.together.choose", choose)
    together = Together(make_spec(), settings_of())
    learners = learners_of(make_spec(), settings_of())
    speedups = []
    for count in (1, 3, 3, 2, 1, 2):
        found = together.update_from_episodes(blocks_of(learners[:count], make_episodes))
        speedups.append({metrics["stacked_speedup"] for metrics in found})
    assert speedups == [{0.0}] + [{1.5}] * 5  # in every report, tried or not: they are averaged
    assert tried == [dict.fromkeys(("separate", "joined", "stacked"), 4)] * 2


def test_who_still_waits_for_a_batch_to_fill_is_left_out(make_spec, make_episodes, force):
    force("stacked")
    learners = learners_of(make_spec(), settings_of())
    blocks = blocks_of(learners, make_episodes)
    blocks[1] = (learners[1], make_episodes([10]), 0.0)
    found = Together(make_spec(), settings_of()).update_from_episodes(blocks)
    assert [outcome is None for outcome in found] == [False, True, False]
    assert [learner.updates for learner in learners] == [1, 0, 1]


# ---------------------------------------------------------------------- refusals


@pytest.mark.parametrize("way", ["separate", "joined", "stacked"])
@pytest.mark.parametrize("loss", ["appo", "ppo"])
def test_what_is_no_number_stops_its_player_only(make_spec, make_episodes, force, way, loss):
    force(way)
    settings = settings_of(loss=loss)
    spec = make_spec(connectors=[{"kind": "normalise"}])
    alone, others = learners_of(spec, settings), learners_of(spec, settings)
    together = Together(spec, settings)
    together.update_from_episodes(blocks_of(others, make_episodes))
    before = others[1].state().to_tensors()
    blocks = blocks_of(others, make_episodes, seed=5)
    blocks[1][1].reward[3] = np.nan
    found = together.update_from_episodes(blocks)
    assert isinstance(found[1], NonFiniteLoss)
    assert found[1].update == 2
    assert np.isnan(found[1].tensors["advantage" if loss == "ppo" else "reward"]).any()
    assert same(others[1].state().to_tensors(), before)
    for seed in (0, 5):
        for i in (0, 2):
            learner, episodes, progress = blocks_of(alone, make_episodes, seed)[i]
            wanted = learner.update_from_episodes(episodes, progress)
    assert {k: v for k, v in found[2].items() if k != "stacked_speedup"} == pytest.approx(wanted, rel=1e-4)
    for i in (0, 2):
        assert others[i].updates == 2
        assert same(others[i].state().to_tensors(), alone[i].state().to_tensors(), atol=1e-5)


# ---------------------------------------------------------------------- what does not stack


def test_a_network_of_your_own_is_stacked_if_it_can_be(networks, make_episodes, force, caplog):
    force("stacked")
    spec = networks("Plain")
    assert_learned_as_alone(spec, settings_of(), make_episodes, Together(spec, settings_of()), atol=1e-5)
    assert not caplog.records


@pytest.mark.parametrize(
    ("name", "reason"), [("Counting", "buffers change"), ("Branching", "vmap raised RuntimeError")]
)
def test_a_network_that_does_not_stack_runs_for_each_and_this_is_said_once(
    networks, make_episodes, monkeypatch, caplog, name, reason
):
    ways = []

    def choose(seconds):
        ways.append(list(seconds))
        return Choice("joined", 1.5)

    monkeypatch.setattr("league.learning.shared_pass.together.choose", choose)
    spec = networks(name)
    together = Together(spec, settings_of())
    assert_learned_as_alone(spec, settings_of(), make_episodes, together, atol=1e-5)
    together.update_from_episodes(blocks_of(learners_of(spec, settings_of())[:2], make_episodes))
    assert ways == [["separate", "joined"]] * 2
    (record,) = caplog.records
    assert reason in record.getMessage()


def test_gradients_that_would_differ_are_not_taken(make_spec, make_episodes, monkeypatch, caplog):
    monkeypatch.setattr("league.learning.shared_pass.together.TOLERANCE", {"float32": 0.0})
    monkeypatch.setattr(
        "league.learning.shared_pass.together.choose",
        lambda seconds: Choice("separate", float("stacked" in seconds)),
    )
    together = Together(make_spec(), settings_of())
    found = together.update_from_episodes(blocks_of(learners_of(make_spec(), settings_of()), make_episodes))
    assert found[0]["stacked_speedup"] == 0.0
    (record,) = caplog.records
    assert "off by" in record.getMessage()


class TwoPeers:
    rank, size = 0, 2

    def sum(self, tensor):
        tensor *= 2


def test_compiled_networks_and_shared_updates_stay_separate(make_spec, caplog):
    assert not Together(make_spec(), settings_of(compile=True)).promising
    assert not Together(make_spec(), settings_of(), TwoPeers()).promising
    first, second = (record.getMessage() for record in caplog.records)
    assert "learner.compile" in first
    assert "among 2 processes" in second


# ---------------------------------------------------------------------- in a group


@pytest.fixture
def make_local(make_spec):
    def make(**settings):
        return LocalLearnerGroup(
            [Shard(PLAYERS, 0)], recruits_of(make_spec(), settings_of(**settings), SEEDS)
        )

    return make


def submit_rounds(group, make_episodes, store=lambda episodes: episodes, players=PLAYERS, rounds=(0, 1)):
    for turn in rounds:
        for i, player in enumerate(players):
            episodes = make_episodes([10] * (7 + i), seed=10 * turn + i, player=player)
            group.submit(player, store(episodes), 0.2 * turn, episodes.num_steps)


@pytest.mark.parametrize("way", ["joined", "stacked"])
def test_a_group_comes_to_the_weights_of_separate_updates(make_local, make_episodes, force, way):
    force(way)
    reports = {}
    groups = {stacked: make_local(stacked=stacked) for stacked in ("off", "auto")}
    for stacked, group in groups.items():
        submit_rounds(group, make_episodes)
        reports[stacked] = group.ready(0.0)
    order = [(report.player, report.updates, report.env_steps) for report in reports["off"]]
    assert order == [(report.player, report.updates, report.env_steps) for report in reports["auto"]]
    for off, auto in zip(reports["off"], reports["auto"], strict=True):
        metrics = dict(auto.metrics)
        assert metrics.pop("stacked_speedup") == 1.5
        assert metrics == pytest.approx(dict(off.metrics), rel=1e-4, abs=1e-5)
    for player in PLAYERS:
        assert groups["auto"].live(player).version == 2
        states = [group.state(player).to_tensors() for group in groups.values()]
        assert same(*states, atol=1e-5)


def test_a_stopped_player_leaves_the_others_of_its_group_alone(make_local, make_episodes, force):
    force("stacked")
    group = make_local(stacked="auto")
    bad = make_episodes([64], player="main-1")
    bad.reward[5] = np.nan
    group.submit("main-1", bad)
    submit_rounds(group, make_episodes, players=("main-0", "main-2"), rounds=(0,))
    submit_rounds(group, make_episodes, rounds=(1,))
    found = group.ready(0.0)
    assert [(o.player, getattr(o, "updates", None)) for o in found] == [
        ("main-1", None),
        ("main-0", 1),
        ("main-2", 1),
        ("main-0", 2),
        ("main-2", 2),
    ]
    assert group.queues()["main-1"].stopped
    assert group.queues()["main-1"].dropped_rollouts == 2
    submit_rounds(
        group, make_episodes, players=("main-0", "main-2"), rounds=(2,)
    )  # without main-1, which is stopped
    assert len(group.ready(0.0)) == 2


def test_what_comes_alone_waits_for_company_or_until_its_queue_is_full(make_local, make_episodes, force):
    force("joined")
    group = make_local(stacked="auto", max_backlog=2)
    submit_rounds(group, make_episodes, players=PLAYERS[:2], rounds=(0,))
    assert group.ready(0.0) == []
    submit_rounds(group, make_episodes, players=PLAYERS[2:], rounds=(0,))
    assert len(group.ready(0.0)) == 3
    submit_rounds(group, make_episodes, players=PLAYERS[:1], rounds=(1,))
    assert group.ready(0.0) == []
    submit_rounds(group, make_episodes, players=PLAYERS[:1], rounds=(2,))
    assert group.full("main-0")
    assert [report.updates for report in group.ready(0.0)] == [2, 3]


def test_a_state_holds_what_was_submitted_before_and_it_is_reported_later(make_local, make_episodes, force):
    force("joined")
    group = make_local(stacked="auto")
    submit_rounds(group, make_episodes, players=PLAYERS[:2], rounds=(0,))
    assert group.ready(0.0) == []
    assert group.state("main-2").updates == 0
    assert group.state("main-0").updates == 1
    assert [report.player for report in group.ready(0.0)] == ["main-0", "main-1"]


def test_nothing_waits_for_company_where_nothing_is_stacked(make_local, make_episodes):
    for group in (make_local(), make_local(stacked="auto", async_update=False)):
        submit_rounds(group, make_episodes, players=PLAYERS[:1], rounds=(0,))
        assert len(group.ready(0.0)) == 1


@pytest.mark.long
@pytest.mark.alone
def test_ray_actors_get_what_waits_of_several_players_in_one_call(make_spec, make_local, make_episodes):
    local = make_local()
    submit_rounds(local, make_episodes)
    local.ready(0.0)
    with ray_session(ResourceSettings(), num_actors=1):
        import ray

        group = RayLearnerGroup(
            [Shard(PLAYERS, 0)], recruits_of(make_spec(), settings_of(stacked="auto"), SEEDS)
        )
        submit_rounds(group, make_episodes, ray.put)
        reports = []
        while len(reports) < 6:
            reports += group.ready(1.0)
        assert [r.player for r in sorted(reports, key=lambda r: (r.updates, r.player))] == [*PLAYERS] * 2
        assert all(report.metrics["stacked_speedup"] > 0 for report in reports)
        for player in PLAYERS:
            assert group.queues()[player].depth == 0
            assert group.live(player).version == 2
            assert same(group.state(player).to_tensors(), local.state(player).to_tensors(), atol=1e-5)
        submit_rounds(group, make_episodes, ray.put, rounds=(2,))
        assert group.state("main-1").updates == 3  # sent at once, as the state is to hold it
        group.reset("main-0", group.state("main-2").weights)
        others = []
        while len(others) < 2:
            others += group.ready(1.0)
        assert {report.player for report in others} == {"main-1", "main-2"}
        assert group.ready(0.1) == []
        group.close()


def test_only_the_learners_of_a_shard_import_the_shared_pass():
    root = Path(__file__).parents[4] / "league"
    outside = [path for path in root.rglob("*.py") if path.parent.name != "shared_pass"]
    users = [path.name for path in outside if "learning.shared_pass" in path.read_text()]
    assert users == ["shard_learners.py"]
