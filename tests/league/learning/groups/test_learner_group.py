"""A program learns without a config: one or many learners, here or on Ray, waiting or not."""

import subprocess
import sys
import threading

import numpy as np
import pytest
from gymnasium.spaces import Box, Discrete

import league
from league.cluster.runtime import ResourceSettings, ray_session
from league.learning.groups.learner_group import LearnerGroup, UnknownPlayer, _shards
from league.learning.learner.learner import NonFiniteLoss
from storage.errors import Mistake, WeightsMismatch
from tests.league.learning.conftest import same

MODULE = """
from league.extend import Loss


def value_error(batch):
    return (batch.network(batch["seen"]).value - batch["won"]).square()


VALUE = Loss(value_error, "none", sees="batch")
"""
SPACES = Box(-1.0, 1.0, (4,), np.float32), Discrete(3)
VALUE = {"loss": "my_value:VALUE", "lr": 1e-2}
CASES = {  # processes and GPUs, to players, GPUs and processes of each shard
    (0, 0): [(("a", "b"), 0, 1)],
    (0, 1): [(("a", "b"), 1, 1)],
    (0, 3): [(("a",), 1, 1), (("b",), 1, 1), ((), 1, 1)],
    (1, 0): [(("a", "b"), 0, 1)],
    (3, 0): [(("a",), 0, 2), (("b",), 0, 1)],
    (2, 3): [(("a",), 2, 2), (("b",), 1, 1)],
}


@pytest.fixture(autouse=True)
def module(own_module, tmp_path, monkeypatch):
    own_module("my_value", MODULE)
    monkeypatch.chdir(tmp_path)


def spec(**settings):
    return league.policy_spec(*SPACES, **{"hidden": [8], **settings})


def rows(n=16, seed=0, **changes):
    rng = np.random.default_rng(seed)
    found = {"seen": rng.normal(size=(n, 4)).astype(np.float32), "won": rng.normal(size=n).astype(np.float32)}
    return found | changes


@pytest.fixture
def make_group():
    """Groups of two players in this process."""
    groups = []

    def make(settings=VALUE, players=("a", "b"), **options):
        groups.append(league.LearnerGroup(dict.fromkeys(players, spec()), settings, **options))
        return groups[-1]

    yield make
    for group in groups:
        group.close()


def test_updates_of_several_players_are_waited_for_or_not(make_group):
    group = make_group()
    first = group.update_from_batch({"a": rows(), "b": rows(seed=1)})
    assert set(first) == {"a", "b"}
    assert set(first["a"]) == {"policy_loss", "lag", "gradient_norm"}
    for _ in range(10):
        group.update_from_batch({"a": rows()}, async_update=True)
    last = group.wait()
    assert set(last) == {"a"}
    assert last["a"]["policy_loss"] < first["a"]["policy_loss"]
    assert group.wait() == {}
    states = group.get_state()
    assert {player: state.updates for player, state in states.items()} == {"a": 11, "b": 1}


def test_an_asynchronous_update_returns_before_it_is_made():
    group, go = LearnerGroup({"a": spec()}, VALUE), threading.Event()
    learner = group._learners._shard._learners["a"]
    update = learner.update_from_batch
    learner.update_from_batch = lambda *arguments: go.wait(10) and update(*arguments)
    assert group.update_from_batch({"a": rows()}, async_update=True) == {}
    assert learner.updates == 0
    go.set()
    assert group.wait()["a"] is not None
    group.close()


def test_episodes_are_learned_from_as_a_learner_alone_does(make_group, make_episodes):
    group = make_group({"batch_steps": 16}, seed=3)
    alone = league.Learner("a", spec(), league.LearnerSettings(batch_steps=16), 3 * 1_000_003)
    episodes = make_episodes([4, 4], player="a")
    assert group.update_from_episodes({"a": episodes}) == {"a": None}  # too few for a batch
    found = group.update_from_episodes({"a": make_episodes([4, 4], seed=1, player="a")}, progress=0.5)
    alone.update_from_episodes(episodes)
    expected = alone.update_from_episodes(make_episodes([4, 4], seed=1, player="a"), 0.5)
    assert found["a"] == pytest.approx(expected)
    assert same(group.weights("a"), alone.weights())
    actions, _ = group.policy("a").act(
        np.zeros((5, 4), np.float32), np.ones((5, 3), bool), np.random.default_rng(0), greedy=True
    )
    assert actions.shape == (5,)


def test_states_are_taken_and_set_and_go_on_to_the_same_weights(make_group):
    group = make_group()
    group.update_from_batch({"a": rows()})
    states = group.get_state(["a"])
    group.update_from_batch({"a": rows(seed=1)})
    wanted = group.weights("a")
    group.set_state(states)
    group.update_from_batch({"a": rows(seed=1)})
    assert same(group.weights("a"), wanted)


def test_players_come_go_and_are_replaced(make_group):
    group = make_group()
    weights = group.weights("a")
    group.update_from_batch({"a": rows()})
    group.add("c", spec(), {**VALUE, "lr": 1e-3}, weights)
    assert same(group.weights("c"), weights)
    group.remove("b")
    assert group.players == ("a", "c")
    group.replace("a", spec(hidden=[16]))
    assert group.weights("a")["torso.0.weight"].shape == (16, 4)
    assert group.get_state(["a"])["a"].updates == 2  # no version of weights is used twice
    group.reset("c", {name: 0.0 * tensor for name, tensor in weights.items()})
    assert not group.weights("c")["value_head.weight"].any()
    assert set(group.update_from_batch({"a": rows(), "c": rows()})) == {"a", "c"}


def test_a_stopped_player_says_so_until_it_gets_other_weights(make_group):
    group = make_group()
    with pytest.raises(NonFiniteLoss, match="player a, update 1: the loss is nan"):
        group.update_from_batch({"a": rows(won=np.full(16, np.nan, np.float32)), "b": rows()})
    with pytest.raises(NonFiniteLoss, match="player a, update 1: the loss is nan"):
        group.update_from_batch({"a": rows()})
    group.reset("a", group.weights("a"))
    assert set(group.update_from_batch({"a": rows(), "b": rows()})) == {"a", "b"}


@pytest.mark.parametrize(
    "use",
    [
        lambda group: group.update_from_batch({"aa": rows()}),
        lambda group: group.update_from_episodes({"aa": None}),
        lambda group: group.get_state(["aa"]),
        lambda group: group.set_state({"aa": None}),
        lambda group: group.weights("aa"),
        lambda group: group.policy("aa"),
        lambda group: group.reset("aa", {}),
        lambda group: group.remove("aa"),
        lambda group: group.replace("aa"),
    ],
)
def test_an_unknown_player_is_named_with_the_nearest_known_one(use):
    with LearnerGroup({"a": spec(), "main-0": spec()}, VALUE) as group, pytest.raises(UnknownPlayer) as error:
        use(group)
    assert str(error.value) == "player 'aa': no learner of this name here; did you mean 'a'?"


def test_what_does_not_fit_is_refused_before_anything_learns(make_episodes):
    with pytest.raises(Mistake, match=r"learner: unknown key 'lrr'; did you mean 'lr'"):
        LearnerGroup({"a": spec()}, {"lrr": 1})
    with pytest.raises(Mistake, match="found no policies"):
        LearnerGroup({})
    with pytest.raises(
        Mistake, match=r"learner: found processes, which .*, or give it to a LearnerGroup of your own"
    ):
        LearnerGroup({"a": spec()}, {"processes": 2})
    with pytest.raises(Mistake, match="policy: unknown key 'hiden'; did you mean 'hidden'"):
        league.policy_spec(*SPACES, hiden=[8])
    with pytest.raises(Mistake, match=r"policy: action space .*, expected Discrete"):
        league.policy_spec(SPACES[0], Box(-1.0, 1.0, (2, 2)))
    theirs = league.models.spec.PolicySettings(torso="their_networks:Net")
    foreign = league.models.spec.PolicySpec(theirs, spec().observation, spec().action)
    with pytest.raises(WeightsMismatch, match="'their_networks:Net' is code"):
        LearnerGroup({"a": foreign})
    with LearnerGroup({"a": spec()}, VALUE) as group:
        with pytest.raises(Mistake, match="found max_backlog, which all players share"):
            group.replace("a", settings={"max_backlog": 7})
        assert group.players == ("a",)  # as it was
        with pytest.raises(Mistake, match="player 'a' learns here already"):
            group.add("a", spec())
        with pytest.raises(Mistake, match=r"found a dict for player 'a', expected league\.extend\.Episodes"):
            group.update_from_episodes({"a": rows()})


@pytest.mark.long
@pytest.mark.alone
def test_a_group_on_ray_does_all_that_one_here_does():
    with ray_session(ResourceSettings(), num_actors=2):
        here = LearnerGroup(dict.fromkeys("ab", spec()), VALUE, seed=5)
        there = LearnerGroup(dict.fromkeys("ab", spec()), VALUE, seed=5, processes=2)
        groups = here, there
        for group in groups:
            told = set()  # whoever learned sooner is told of sooner
            for seed in range(4):
                batch = {"a": rows(seed=seed), "b": rows(seed=9)}
                told |= set(group.update_from_batch(batch, async_update=True))
            assert told | set(group.wait()) == {"a", "b"}
            state = group.get_state(["a"])
            group.update_from_batch({"a": rows()})
            group.set_state(state)
            with pytest.raises(Mistake, match="batch: found no tensor 'won'"):
                group.update_from_batch({"a": {"seen": rows()["seen"]}})
            with pytest.raises(NonFiniteLoss, match="player b, update 5: the loss is nan"):
                group.update_from_batch({"b": rows(won=np.full(16, np.nan, np.float32))})
            group.replace("b")
            group.add("c", spec(hidden=[4]))
            group.update_from_batch({"c": rows(), "b": rows(), "a": rows()})
            group.remove("a")
            assert group.players == ("b", "c")
            with pytest.raises(UnknownPlayer, match="player 'a'"):
                group.get_state(["a"])
        for player in ("b", "c"):
            assert same(here.weights(player), there.weights(player))
        for group in groups:
            group.close()


@pytest.mark.long
def test_a_local_group_imports_no_ray_and_importing_league_imports_no_torch():
    code = """
import sys; sys.modules["ray"] = None
import league; assert "torch" not in sys.modules
from gymnasium.spaces import Box, Discrete
spec = league.policy_spec(Box(-1, 1, (4,)), Discrete(3))
league.LearnerGroup({"a": spec}).close()
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_players_are_spread_over_cards_and_processes():
    spread = {
        case: [(s.players, s.num_gpus, s.processes) for s in _shards(*case, ("a", "b"))] for case in CASES
    }
    assert spread == CASES
