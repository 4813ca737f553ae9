"""A magnet pulls: by its KL in the loss, or through the rewards, in every way that updates are made."""

import numpy as np
import pytest
import torch

from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.learner.objective import Objective
from league.learning.maths.published import held_reward, magnet_kl
from league.models.networks.distributions import distribution
from league.models.policies.policy import initial_weights
from tests.made_up import memory_of

MASK = torch.tensor([[True, True, True, False]] * 5)


@pytest.fixture
def policies():
    torch.manual_seed(0)
    return torch.randn(5, 4, requires_grad=True), torch.randn(5, 4)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_each_direction_is_the_kl_of_its_name_over_legal_actions(make_spec, policies, direction):
    policy, magnet = policies
    four = distribution(make_spec().action.__class__("discrete", (4,)))
    found = magnet_kl(four, policy, magnet, MASK, direction)
    p, q = (x.detach()[:, :3].softmax(1) for x in (policy, magnet))
    p, q = (q, p) if direction == "forward" else (p, q)
    torch.testing.assert_close(found.detach(), (p * (p / q).log()).sum(1))
    found.sum().backward()
    assert policy.grad.isfinite().all()
    assert (policy.grad[:, 3] == 0).all()


def test_a_reward_is_lowered_by_what_the_policy_plays_more_often_than_the_magnet():
    reward, policy, magnet = torch.tensor([1.0, 1.0]), torch.tensor([0.5, 0.2]), torch.tensor([0.25, 0.4])
    found = held_reward(reward, policy.log(), magnet.log(), 0.5)
    torch.testing.assert_close(found, 1.0 - 0.5 * torch.tensor([2.0, 0.5]).log())


# ---------------------------------------------------------------------- in updates


def settings_of(**changes):
    return LearnerSettings(**{"batch_steps": 64, "sequence_length": 8, **changes})


def held_by(make_spec, seed=1, policy=None, **settings):
    """A learner that its magnet holds to weights of another seed."""
    spec = make_spec(**(policy or {}))
    magnet = {"kind": "snapshot", "folder": "best", "weight": 1.0, **settings.pop("magnet", {})}
    teacher = initial_weights(spec, 9)
    teacher["policy_head.weight"] *= 100.0  # first policies are nearly uniform
    return Learner("main-0", spec, settings_of(magnet=magnet, **settings), seed, teacher=teacher)


def whole(make_episodes, **changes):
    return make_episodes([2, 5, 1], [False, True, False], **changes)


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_its_kl_is_reported_and_weighed_by_its_schedule(make_spec, make_episodes, direction):
    (batch,) = minibatches(whole(make_episodes), 99, 99)
    player = held_by(make_spec, magnet={"weight": [[0, 0], [1, 4]], "direction": direction})
    objective = Objective(player.spec, player.settings)
    assert objective.names == ("loss", "policy_loss", "value_loss", "entropy", "lag", "magnet_kl")
    means = [objective.backward(batch, player.trainee._replace(progress=p)) for p in (0.0, 0.5)]
    networks = (player.trainee.forward, player.trainee.magnet)
    policy, magnet = (f(batch)[0][:8].detach().softmax(1) for f in networks)
    p, q = (magnet, policy) if direction == "forward" else (policy, magnet)
    kl = float((p * (p / q).log()).sum(1).mean())
    for mean in means:
        assert float(mean[-1]) == pytest.approx(kl, rel=1e-4)
    assert float(means[1][0] - means[0][0]) == pytest.approx(2.0 * kl, rel=1e-3)


@pytest.mark.slow
@pytest.mark.parametrize("loss", ["appo", "ppo"])
@pytest.mark.parametrize("changes", [{}, {"direction": "forward"}, {"through": "reward"}], ids=str)
def test_a_player_that_gains_nothing_comes_to_its_magnet(make_spec, make_episodes, loss, changes):
    chosen = {"kind": loss, **({"normalise_advantage": False} if loss == "ppo" else {})}
    player = held_by(make_spec, loss=chosen, magnet=changes, lr=1e-2, entropy=0.0)
    rng, found = np.random.default_rng(0), []
    for seed in range(60):
        episodes = make_episodes([1] * 256, seed=seed)
        episodes.reward[:] = 0.0
        with torch.no_grad():
            logs = player._network(torch.from_numpy(episodes.observation))[0].log_softmax(1)
        episodes.action[:] = (logs.numpy() + rng.gumbel(size=logs.shape)).argmax(1)
        episodes.log_prob[:] = logs.gather(1, torch.from_numpy(episodes.action)[:, None])[:, 0].numpy()
        found.append(player.update_from_episodes(episodes)["magnet_kl"])
    assert found[-1] < 0.25 * found[0]


@pytest.mark.parametrize("loss", ["impala", "ppo"])
@pytest.mark.parametrize("memory", ["none", "gru"])
def test_rewards_held_back_are_the_same_as_lower_rewards(make_spec, make_episodes, loss, memory):
    """A learner with the hold, and one without that is given the lower rewards, come to the same weights."""
    policy = {"memory": memory_of(memory, 8)}
    changes = {
        "loss": {"kind": loss, **({"vtrace_lambda": 1.0} if loss == "impala" else {})},
        "sequence_length": 99,
    }
    player = held_by(make_spec, policy=policy, magnet={"through": "reward", "weight": 0.7}, **changes)
    plain = Learner("main-0", player.spec, settings_of(**changes), seed=1)
    episodes = whole(make_episodes)
    (batch,) = minibatches(episodes, 99, 99, memory=np.zeros((3, player._network.memory_size), np.float32))
    with torch.no_grad():
        now, magnet = (
            f(batch)[0][:8].log_softmax(1).gather(1, batch.action[:, None])[:, 0].numpy()
            for f in (player.trainee.forward, player.trainee.magnet)
        )
    if loss == "ppo":
        now = episodes.log_prob
    lower = whole(make_episodes)
    lower.reward[:] -= 0.7 * (now - magnet)
    for learner, given in ((player, episodes), (plain, lower)):
        for batch in learner._batches(given, np.random.default_rng(0)):
            learner.update_from_batch(batch)
    for name, tensor in player.weights().items():
        torch.testing.assert_close(tensor, plain.weights()[name], atol=1e-5, rtol=1e-4)
