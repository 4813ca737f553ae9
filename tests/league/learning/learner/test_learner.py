"""A learner learns, can be stopped and taken up again, and hands out copies only."""

import pickle
from dataclasses import replace

import numpy as np
import pytest
import torch

from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings, LearnerState, NonFiniteLoss
from league.models.actor import Look
from league.models.policies.policy import Policy
from storage.errors import WeightsMismatch
from tests.league.learning.conftest import random_episodes, same
from tests.league.learning.fragments import in_fragments
from tests.made_up import memory_of
from tests.parameters import mostly_long

PRIORITISED = {"kind": "prioritised", "proportion": 0.4, "capacity_steps": 1000}


def test_a_policy_with_a_mirror_keeps_it_while_it_learns(learner):
    mirror = {"observation": [4], "axis": 0, "actions": [3]}
    player, rng = learner({"mirror": mirror}, lr=3e-3), np.random.default_rng(0)
    fresh = player.weights()
    for _ in range(5):
        player.update_from_episodes(bandit(player, rng))
    learned = player.weights()
    for name in ("torso.0.weight", "policy_head.weight"):
        assert torch.allclose(learned[name], learned[name].flip(0, 1), atol=1e-6)
        assert not torch.allclose(learned[name], fresh[name], atol=1e-3)
    player.reset(learner(seed=2).weights())  # of a policy without the mirror
    weights = player.weights()["torso.0.weight"]
    assert torch.equal(weights, weights.flip(0, 1))


def one_step_matches(player, observation, mask, reward_of, rng):
    """Episodes of one step each; `reward_of` gives [n] rewards of what was chosen."""
    chosen = Policy(player.spec, player.weights()).decide(Look(observation, mask), rng)
    return replace(
        random_episodes([1] * len(observation), version=player.updates),
        observation=chosen.seen,
        mask=mask,
        action=chosen.raw,
        log_prob=chosen.log_prob,
        reward=reward_of(chosen.action).astype(np.float32),
    )


def bandit(player, rng):
    """Matches in which the action that the observation shows is worth 1, others -1."""
    wanted = rng.integers(0, 3, 256)
    observation = np.eye(4, dtype=np.float32)[wanted]
    rewards = lambda action: np.where(action == wanted, 1.0, -1.0)  # noqa: E731
    return one_step_matches(player, observation, np.ones((256, 3), bool), rewards, rng)


@pytest.mark.parametrize(
    "settings",
    [
        {"target_updates": 2},
        {"loss": "ppo", "epochs": 2, "policy": {"memory": memory_of("lstm", 8)}},
        {"policy": {"mirror": {"observation": [4], "axis": 0, "actions": [3]}}},
    ],
    ids=["appo", "ppo lstm", "mirror"],
)
def test_gradients_of_parts_of_a_batch_add_up_to_those_of_the_whole(learner, settings):
    block = random_episodes([7, 3, 12, 9, 1, 8, 20, 4] * 4, [True, False] * 16)
    proportional = {"kind": "rmsprop", "epsilon": 1.0}  # steps as large as gradients
    players = [learner(optimizer=proportional, lr=0.5, micro_steps=most, **settings) for most in (None, 16)]
    reports = [player.update_from_episodes(block) for player in players]
    whole, parts = (player.state().to_tensors() for player in players)
    assert players[0].updates == players[1].updates >= 4
    for name, tensor in whole.items():
        torch.testing.assert_close(parts[name], tensor, atol=1e-5, rtol=1e-5, msg=name)
    assert reports[1] == pytest.approx(reports[0], abs=1e-5)


def test_a_refusal_shows_the_part_of_the_batch_that_it_is_about(learner):
    player, block = learner(micro_steps=16), random_episodes([8] * 16)
    block.reward[75] = float("nan")  # in the second minibatch, its first part
    with pytest.raises(NonFiniteLoss, match="player main-0, update 2: the loss is nan") as caught:
        player.learn_from(block)
    assert player.updates == 1
    assert len(caught.value.tensors["reward"]) == 16
    assert np.isnan(caught.value.tensors["reward"]).sum() == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    mostly_long(
        [
            {"loss": "impala"},
            {"loss": "appo"},
            {"loss": "ppo", "epochs": 2},
            {"loss": "appo", "target_updates": 4},
            {"loss": "impala", "optimizer": "rmsprop"},
            {"loss": "appo", "replay": PRIORITISED},
            {"loss": "appo", "precision": "bfloat16"},
            {"loss": "appo", "shuffle": True},
        ],
        short=3,
    ),
    ids=str,
)
def test_each_way_of_learning_learns_what_the_observation_shows(learner, settings):
    player, rng = learner({"hidden": (32,)}, lr=3e-3, entropy=0.0, **settings), np.random.default_rng(0)
    for _ in range(80):
        player.update_from_episodes(bandit(player, rng))
    observation = np.eye(4, dtype=np.float32)[:3]
    probability, _ = Policy(player.spec, player.weights()).evaluate(observation, np.ones((3, 3), bool))
    assert (probability.diagonal() > 0.95).all()


@pytest.mark.long
def test_several_choices_at_once_are_learned(make_spec):
    spec = make_spec("multi_discrete", hidden=(32,))
    player = Learner("main-0", spec, LearnerSettings(batch_steps=64, lr=3e-3, entropy=0.0), seed=1)
    rng = np.random.default_rng(0)
    for _ in range(80):
        wanted = np.stack([rng.integers(0, 3, 256), rng.integers(0, 2, 256)], 1)
        observation = np.concatenate([np.eye(3)[wanted[:, 0]], wanted[:, 1:]], 1).astype(np.float32)
        rewards = lambda action, wanted=wanted: (action == wanted).sum(1) - 1.0  # noqa: E731
        player.update_from_episodes(
            one_step_matches(player, observation, np.ones((256, 5), bool), rewards, rng)
        )
    observation = np.array([[1, 0, 0, 1], [0, 0, 1, 0]], np.float32)
    probability, _ = Policy(spec, player.weights()).evaluate(observation, np.ones((2, 5), bool))
    assert probability[0, 0] > 0.95
    assert probability[0, 4] > 0.95
    assert probability[1, 2] > 0.95
    assert probability[1, 3] > 0.95


@pytest.mark.parametrize("squash", mostly_long([True, False]))
@pytest.mark.long
def test_real_numbers_are_learned(make_spec, squash):
    spec = make_spec("continuous", hidden=(32,), squash=squash)
    player = Learner("main-0", spec, LearnerSettings(loss="ppo", epochs=4, batch_steps=256, lr=3e-3), seed=1)
    rng = np.random.default_rng(0)
    for _ in range(60):
        wanted = rng.uniform([-0.8, 0.2], [0.8, 1.8], (512, 2)).astype(np.float32)
        observation = np.concatenate([wanted, np.ones_like(wanted)], 1)
        rewards = lambda action, wanted=wanted: -np.abs(action - wanted).sum(1)  # noqa: E731
        player.update_from_episodes(
            one_step_matches(player, observation, np.ones((512, 0), bool), rewards, rng)
        )
    wanted = np.array([[-0.6, 1.5], [0.5, 0.5]], np.float32)
    observation = np.concatenate([wanted, np.ones_like(wanted)], 1)
    action, _ = Policy(spec, player.weights()).act(observation, np.ones((2, 0), bool), rng, greedy=True)
    np.testing.assert_allclose(action, wanted, atol=0.25)


def cues(player, rng, length=5):
    """Matches whose first observation shows a cue, which must be named at the end, after blanks."""
    n, size = 128, player._network.memory_size  # the whole row: there are no connectors
    cue = rng.integers(0, 3, n)
    policy, memory = Policy(player.spec, player.weights()), np.zeros((n, size), np.float32)
    columns = {"observation": [], "action": [], "log_prob": [], "reward": []}
    for t in range(length):
        observation = np.zeros((n, 4), np.float32)
        observation[np.arange(n), cue] = t == 0
        observation[:, 3] = t == length - 1
        chosen = policy.decide(Look(observation, np.ones((n, 3), bool), memory), rng)
        right = np.where(chosen.action == cue, 1.0, -1.0) if t == length - 1 else np.zeros(n)
        for name, value in zip(columns, (observation, chosen.raw, chosen.log_prob, right), strict=True):
            columns[name].append(value)
    flat = {
        name: np.stack(column, 1).reshape(n * length, *column[0].shape[1:])
        for name, column in columns.items()
    }
    flat["reward"] = flat["reward"].astype(np.float32)
    episodes = replace(random_episodes([length] * n, version=player.updates), **flat)
    return episodes, float(flat["reward"].sum() / n)


@pytest.mark.slow
@pytest.mark.parametrize(
    "loss", mostly_long([{"kind": "appo", "vtrace_lambda": 1.0}, {"kind": "ppo"}]), ids=["appo", "ppo"]
)
def test_a_memory_bridges_what_the_observation_does_not_show(learner, loss):
    memory = {"memory": {"kind": "gru", "size": 16}, "hidden": (32,)}
    player = learner(memory, loss=loss, lr=1e-2, entropy=0.0, batch_steps=320)
    rng = np.random.default_rng(0)
    for _ in range(100):
        episodes, mean_reward = cues(player, rng)
        player.update_from_episodes(episodes)
    assert mean_reward > 0.9


@pytest.mark.parametrize("memory", ["none", "gru", "lstm", "transformer"])
@pytest.mark.parametrize("sequence_length", [128, 2])
def test_the_learner_finds_the_log_probabilities_that_were_recorded(learner, memory, sequence_length):
    player = learner({"memory": memory_of(memory, 8)}, batch_steps=200, sequence_length=sequence_length)
    episodes, _ = cues(player, np.random.default_rng(0))
    batches = list(player._batches(episodes, np.random.default_rng(1)))
    assert len(batches) == 3
    for batch in batches:
        parameters, _ = player._forward(batch)
        logs = parameters[: batch.num_steps].log_softmax(1)
        found = logs.gather(1, batch.action[:, None]).squeeze(1)
        torch.testing.assert_close(found, batch.log_prob, atol=1e-5, rtol=0)


def test_weights_handed_out_never_follow_the_live_ones(learner, make_episodes):
    player = learner()
    frozen = player.weights()
    before = {name: tensor.clone() for name, tensor in frozen.items()}
    player.update_from_episodes(make_episodes([10] * 10))
    assert same(frozen, before)
    assert not same(frozen, player.weights())


def test_the_target_network_is_copied_every_so_many_updates(learner, make_episodes):
    player = learner(target_updates=2)
    first = player.state().target
    assert same(first, player.weights())
    player.update_from_episodes(make_episodes([64], seed=1))
    assert same(player.state().target, first)
    player.update_from_episodes(make_episodes([64], seed=2))
    assert same(player.state().target, player.weights())


LOOKING_AHEAD = {
    "ppo": {"loss": "ppo"},
    "ppo with upgo": {"loss": {"kind": "ppo", "gae_lambda": 1.0}, "terms": {"upgo": {"weight": 1.0}}},
    "appo": {"loss": {"kind": "appo", "vtrace_lambda": 1.0}},
    "impala with upgo": {"loss": "impala", "terms": {"upgo": {"weight": 1.0}}},
    "ppo held by a magnet": {
        "loss": "ppo",
        "magnet": {"kind": "initial", "weight": 0.5, "through": "reward"},
    },
}


@pytest.mark.parametrize("settings", LOOKING_AHEAD.values(), ids=LOOKING_AHEAD)
@pytest.mark.parametrize("memory", ["none", "lstm"])
def test_fragments_of_matches_are_learned_from_as_whole_matches_are(learner, make_episodes, settings, memory):
    lengths = [5, 40, 1, 33, 64, 12]
    settings = {"batch_steps": sum(lengths), "gradient_norm": None, **settings}
    here, there = (learner({"memory": memory_of(memory, 8)}, **settings) for _ in range(2))
    whole = make_episodes(lengths, [False, True, False, False, True, False])
    kept = None
    if memory != "none":
        kept = lambda e, start: remembered(there, whole[e].observation[:start])  # noqa: E731
    blocks = in_fragments(whole, 7, kept)
    wanted = here.update_from_episodes(whole)
    found = [there.update_from_episodes(block) for block in blocks]
    assert found[:-1] == [None] * (len(blocks) - 1)
    assert there.env_steps == here.env_steps == whole.num_steps
    names = ["policy_loss", "value_loss", "gradient_norm", *settings.get("terms", ())]
    for name in names:
        assert found[-1][name] == pytest.approx(wanted[name], rel=1e-4), name


def remembered(player, observation):
    """The memory [S] of the network behind these observations."""
    memory = torch.zeros(1, player._network.memory_size)
    if len(observation):
        layout = torch.arange(len(observation))[:, None]
        with torch.no_grad():
            _, memory = player._forward.unroll(torch.from_numpy(observation), layout, memory)
    return memory[0].numpy()


@pytest.mark.parametrize("loss", ["ppo", "appo"])
def test_long_matches_are_learned_from_before_they_end_and_nothing_twice(learner, make_episodes, loss):
    player = learner(loss=loss, batch_steps=30)
    blocks = in_fragments(make_episodes([300, 300]), 16)
    reports = [player.update_from_episodes(block) for block in blocks]
    first = next(n for n, report in enumerate(reports) if report is not None)
    # GAE looks 135 steps ahead, V-trace as far as its sequence of 128 goes
    assert (first + 1) * 16 == {"ppo": 160, "appo": 128}[loss]
    assert player.env_steps + sum(part.num_steps for part in player._waiting) == 600


@pytest.mark.parametrize(
    "settings",
    [{"loss": "ppo"}, {"loss": "appo", "replay": 0.4}, {"loss": "appo", "replay": PRIORITISED}],
    ids=str,
)
def test_a_state_has_the_experience_too_so_a_learner_goes_on_to_the_bit(learner, make_episodes, settings):
    old, new = (learner(batch_steps=100, **settings) for _ in range(2))
    blocks = [
        block for seed in range(6) for block in in_fragments(make_episodes([5, 200, 33, 90], seed=seed), 16)
    ]
    for block in blocks[:40]:
        old.update_from_episodes(block)
    state = old.get_state()
    assert {name.split(".")[0] for name in state.experience} >= {"waiting", "joining"}
    stored = {name: tensor.clone() for name, tensor in state.to_tensors().items()}
    new.set_state(LearnerState.from_tensors(stored, state.updates, state.env_steps))
    reports = [[each.update_from_episodes(block) for block in blocks[40:]] for each in (old, new)]
    assert reports[0] == reports[1]
    assert sum(report is not None for report in reports[0]) > 5
    assert same(old.state().to_tensors(), new.state().to_tensors())


def test_experience_that_is_too_large_for_a_state_is_named_once(learner, make_episodes, monkeypatch):
    player = learner(loss="appo", replay=0.4)
    player.update_from_episodes(make_episodes([64, 30]))
    assert player.get_state().left_out == ""
    monkeypatch.setattr("league.learning.learner.learner.MOST_BYTES", 1000)
    with pytest.warns(
        UserWarning, match=r"^player main-0: its state is without replay of 0 MiB: a state has"
    ):
        state = player.get_state()
    assert not any(name.startswith("replay") for name in state.experience)


def test_a_reset_forgets_the_optimizer_and_all_experience_but_keeps_counting(learner, make_episodes):
    player = learner(replay=0.5, target_updates=100)
    fresh = player.weights()
    player.update_from_episodes(make_episodes([10] * 10))
    player.update_from_episodes(make_episodes([3]))  # too little for a batch: waits
    updates = player.updates
    player.reset(fresh)
    assert (player.updates, player.env_steps) == (updates, 100)
    state = player.state()
    assert state.optimizer == {}
    assert same(state.weights, fresh)
    assert same(state.target, fresh)
    assert player._replay.steps == 0
    assert player.update_from_episodes(make_episodes([30])) is None
    player.update_from_episodes(make_episodes([5]))
    assert player.updates == updates + 1


def test_env_steps_count_what_is_fresh_once_however_often_it_is_used(learner, make_episodes):
    player = learner(replay=0.5, epochs=2)
    reports = [player.update_from_episodes(make_episodes([8] * 8, seed=seed)) for seed in range(3)]
    assert [report["replayed"] for report in reports] == [0.0, 0.5, 0.5]
    assert [report["replay_steps"] for report in reports] == [64, 128, 192]
    assert reports[-1]["replay_evicted_steps"] == 0
    assert player.env_steps == 3 * 64
    assert player.updates == 2 + 4 + 4


def test_episodes_that_are_drawn_too_often_weigh_less(learner, make_episodes, monkeypatch):
    player, seen = learner(replay={**PRIORITISED, "beta": 1.0}), []
    loss_of = player._objective._loss_of
    monkeypatch.setattr(
        player._objective, "_loss_of", lambda batch, trainee: seen.append(batch) or loss_of(batch, trainee)
    )
    for seed in range(2):
        player.update_from_episodes(make_episodes([8] * 8, seed=seed))
    assert "replay_weight" not in seen[0].own
    weight = np.concatenate([batch.own["replay_weight"].numpy() for batch in seen[1:]])
    assert np.count_nonzero(weight == 1) == 64 + 8  # the fresh steps, and those of the rarest episode
    assert 0 < weight.min() < 0.9
    ((_, drawn),) = player._replay._drawn
    errors = player._errors(make_episodes([8] * 8).take(drawn))
    np.testing.assert_allclose(player._replay.blocks[0].error[drawn], errors, rtol=1e-5)


def test_a_shuffled_first_pass_mixes_whole_sequences(learner, make_episodes, monkeypatch):
    orders = {}
    for shuffle in (False, True):
        player, seen = learner(shuffle=shuffle), []
        backward = player._objective.backward
        monkeypatch.setattr(
            player._objective,
            "backward",
            lambda batch, *a, s=seen, b=backward, **how: s.append(batch) or b(batch, *a, **how),
        )
        player.update_from_episodes(make_episodes([8] * 16))
        orders[shuffle] = np.concatenate([batch.reward.numpy() for batch in seen])
    assert (orders[False] == make_episodes([8] * 16).reward).all()
    assert (orders[True] != orders[False]).any()
    assert sorted(orders[True]) == sorted(orders[False])


def test_gradients_are_clipped_by_their_norm(learner, make_episodes):
    (batch,) = minibatches(make_episodes([64]), 64, 64)
    found = {}
    for limit in (None, 1e-3):
        player = learner(gradient_norm=limit)
        metrics = player.update_from_batch(batch)
        found[limit] = torch.cat([p.grad.flatten() for p in player._parameters.values()])
        assert metrics["gradient_norm"] == pytest.approx(float(found[None].norm()), rel=1e-5)
    expected = found[None] * (1e-3 / found[None].norm())
    torch.testing.assert_close(found[1e-3], expected, rtol=1e-3, atol=1e-9)


@pytest.mark.parametrize("loss", ["appo", "ppo"])
def test_a_loss_that_is_no_number_leaves_everything_as_it_was(learner, make_episodes, loss):
    target = {"target_updates": 1} if loss == "appo" else {}
    player = learner({"connectors": [{"kind": "normalise"}]}, loss=loss, **target)
    player.update_from_episodes(make_episodes([64], seed=1))
    before = player.state()
    bad = make_episodes([64])
    bad.reward[5] = np.nan
    with pytest.raises(NonFiniteLoss, match="player main-0, update 2: the loss is nan") as caught:
        player.learn_from(bad)
    after = player.state()
    for part in ("weights", "optimizer", "target"):
        assert same(getattr(before, part), getattr(after, part)), part
    assert (after.updates, after.env_steps) == (1, 64)
    assert caught.value.update == 2
    np.testing.assert_array_equal(caught.value.tensors["reward"], bad.reward)
    assert caught.value.tensors["observation"].shape == (64, 4)
    assert player.update_from_episodes(make_episodes([64], seed=2)) is not None


def test_an_update_is_left_between_minibatches_once_the_run_is_over(learner, make_episodes):
    player = learner(batch_steps=64, epochs=2)
    ends = iter([False, False, True])
    assert player.learn_from(make_episodes([64] * 4), over=lambda: next(ends)) is not None
    assert (player.updates, player.env_steps) == (3, 96)  # of 8 updates
    player.learn_from(make_episodes([64] * 4))
    assert (player.updates, player.env_steps) == (11, 96 + 256)


def test_a_refusal_survives_being_sent_to_another_process():
    error = pickle.loads(pickle.dumps(NonFiniteLoss("sentence", 7, {"reward": np.ones(2)})))
    assert (str(error), error.update, error.tensors["reward"].tolist()) == ("sentence", 7, [1.0, 1.0])


def test_observations_that_are_no_numbers_do_not_spoil_the_statistics(learner, make_episodes):
    player = learner({"connectors": [{"kind": "normalise"}]})
    bad = make_episodes([64])
    bad.observation[3] = np.inf
    with pytest.raises(NonFiniteLoss):
        player.learn_from(bad)
    assert float(player.weights()["normaliser.count"]) == 0
    player.update_from_episodes(make_episodes([64]))
    assert all(torch.isfinite(tensor).all() for tensor in player.weights().values())


def test_statistics_follow_the_fresh_observations(learner, make_episodes):
    player = learner({"connectors": [{"kind": "normalise"}]}, epochs=3)
    parts = [make_episodes([64], seed=seed) for seed in range(2)]
    for part in parts:
        player.update_from_episodes(part)
    seen = np.concatenate([part.observation for part in parts]).astype(np.float64)
    weights = player.weights()
    np.testing.assert_allclose(weights["normaliser.mean"].numpy(), seen.mean(0), atol=1e-9)
    np.testing.assert_allclose(weights["normaliser.variance"].numpy(), seen.var(0), atol=1e-9)


def test_weights_of_another_network_are_refused(learner):
    other = learner({"hidden": (8,)})
    with pytest.raises(WeightsMismatch, match=r"'torso.0.weight' is \(8, 4\), policy wants \(16, 4\)"):
        learner().load_state(other.state())
