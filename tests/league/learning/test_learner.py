"""A learner learns, can be stopped and taken up again, and hands out copies only."""

import numpy as np
import pytest
import torch

from league.episode import Episodes
from league.learning.batching import minibatches
from league.learning.learner import Learner, LearnerSettings, NonFiniteLoss
from league.models.policy import Policy, PolicySpec
from storage.errors import WeightsMismatch

SPEC = PolicySpec("mlp", (32,), "relu", (4,), "float32", 3)


def learner(**settings):
    return Learner("main-0", SPEC, LearnerSettings(batch_steps=64, **settings), seed=1)


def bandit(player: Learner, rng: np.random.Generator) -> Episodes:
    """One-step matches in which the action that the observation shows is worth 1, others -1."""
    n = 256
    wanted = rng.integers(0, 3, n)
    observation = np.eye(4, dtype=np.float32)[wanted]
    mask = np.ones((n, 3), bool)
    action, log_prob = Policy(SPEC, player.weights()).act(observation, mask, rng)
    return Episodes(
        player="main-0",
        offset=np.arange(n + 1),
        match_id=np.arange(n),
        seat=np.zeros(n, np.int8),
        version=np.full(n, player.updates),
        terminated=np.ones(n, bool),
        observation=observation,
        mask=mask,
        action=action,
        log_prob=log_prob,
        reward=np.where(action == wanted, 1.0, -1.0).astype(np.float32),
        bootstrap=np.zeros((0, 4), np.float32),
    )


@pytest.mark.parametrize("loss", ["impala", "appo"])
def test_each_loss_learns_what_the_observation_shows(loss):
    player, rng = learner(loss=loss, lr=3e-3, entropy=0.0), np.random.default_rng(0)
    for _ in range(80):
        player.update_from_episodes(bandit(player, rng))
    observation = np.eye(4, dtype=np.float32)[:3]
    probability, _ = Policy(SPEC, player.weights()).evaluate(observation, np.ones((3, 3), bool))
    assert (probability.diagonal() > 0.95).all()


def test_targets_equal_a_float64_reference_with_truncation_and_padding(make_episodes):
    player = learner(discount=0.9, vtrace_lambda=0.8)
    episodes = make_episodes([3, 1, 4], truncated=[True, False, True])
    (batch,) = minibatches(episodes, 99, 99)
    rng = np.random.default_rng(5)
    value = rng.normal(size=len(batch.observation))
    log_prob = -rng.random(batch.num_steps)
    vs, error = player._targets(batch, torch.tensor(log_prob), torch.tensor(value))
    cuts = iter(range(batch.num_steps, len(value)))
    for e in range(3):
        start, end = int(episodes.offset[e]), int(episodes.offset[e + 1])
        bootstrap = 0.0 if episodes.terminated[e] else value[next(cuts)]
        rho = np.minimum(1.0, np.exp(log_prob[start:end] - episodes.log_prob[start:end]))
        later, correction = 0.0, 0.0
        for t in range(end - 1, start - 1, -1):
            last = t == end - 1
            v_next = bootstrap if last else value[t + 1]
            discount = 0.0 if last and episodes.terminated[e] else 0.9
            expected_error = episodes.reward[t] + discount * (v_next + 0.8 * correction) - value[t]
            later = rho[t - start] * (episodes.reward[t] + discount * v_next - value[t]) + (
                discount * 0.8 * rho[t - start] * correction
            )
            correction = later
            np.testing.assert_allclose(vs[t].item(), value[t] + later, atol=1e-6)
            np.testing.assert_allclose(error[t].item(), expected_error, atol=1e-6)


def test_weights_handed_out_never_follow_the_live_ones(make_episodes):
    player = learner()
    frozen = player.weights()
    before = {name: tensor.clone() for name, tensor in frozen.items()}
    player.update_from_episodes(make_episodes([10] * 10))
    assert all(torch.equal(frozen[name], before[name]) for name in frozen)
    assert any(not torch.equal(frozen[name], now) for name, now in player.weights().items())


def test_a_restored_learner_goes_on_exactly_as_the_old_one(make_episodes):
    old = learner()
    old.update_from_episodes(make_episodes([10] * 10, seed=1))
    new = Learner("main-0", SPEC, old.settings, seed=99)
    new.load_state(old.state())
    for each in (old, new):
        each.update_from_episodes(make_episodes([10] * 10, seed=2))
    assert (new.updates, new.env_steps) == (old.updates, old.env_steps) == (4, 200)
    assert all(torch.equal(new.weights()[name], tensor) for name, tensor in old.weights().items())


def test_a_reset_forgets_the_optimizer_and_waiting_experience_but_keeps_counting(make_episodes):
    player = learner()
    fresh = player.weights()
    player.update_from_episodes(make_episodes([10] * 10))
    player.update_from_episodes(make_episodes([3]))  # too little for a batch: waits
    player.reset(fresh)
    assert player.updates == 2
    assert player.state().optimizer == {}
    assert all(torch.equal(fresh[name], tensor) for name, tensor in player.weights().items())
    assert player.update_from_episodes(make_episodes([60])) is None


def test_lag_is_counted_in_updates(make_episodes):
    player = learner()
    for _ in range(3):
        player.update_from_episodes(make_episodes([64], version=0))
    metrics = player.update_from_episodes(make_episodes([64], version=1))
    assert metrics["lag"] == 2.0


def test_a_loss_that_is_no_number_leaves_the_weights_as_they_were(make_episodes):
    player = learner()
    before = player.weights()
    bad = make_episodes([64])
    bad.reward[5] = np.nan
    with pytest.raises(NonFiniteLoss, match="player main-0, update 1"):
        player.update_from_episodes(bad)
    assert all(torch.equal(before[name], tensor) for name, tensor in player.weights().items())


def test_weights_of_another_network_are_refused():
    other = Learner("x", PolicySpec("mlp", (16,), "relu", (4,), "float32", 3), LearnerSettings(), seed=0)
    with pytest.raises(WeightsMismatch, match=r"'torso.0.weight' is \(16, 4\), policy wants \(32, 4\)"):
        learner().load_state(other.state())
