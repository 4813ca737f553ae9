"""UPGO, NeuRD, self-imitation and diversity: by hand and in updates."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from league.config.file import ConfigError
from league.config.loading import load
from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.published import diversity, neurd, self_imitation, upgoing_returns
from league.models.networks.distributions import Categorical
from storage.errors import Mistake


def laid_out(*columns):
    return [torch.tensor(column, dtype=torch.float32)[:, None] for column in columns]


def test_golden_returns():
    reward, before, after, discount = laid_out(
        [1.0, 0.0, -1.0, 2.0], [0.5, 0.0, 3.0, 1.0], [0.0, 3.0, 1.0, 9.0], [1.0, 1.0, 1.0, 0.0]
    )
    valid = torch.ones(4, 1, dtype=torch.bool)
    found = upgoing_returns(reward, before, after, discount, valid)[:, 0].tolist()
    # step 3 did better than its value 1: the return before it includes its reward 2. Step 2 did worse than
    # its value 3: the return before it is cut there. Step 1 did as well as expected.
    assert found == [1.0 + 3.0, 0.0 + 3.0, -1.0 + 2.0, 2.0]


def test_padding_and_truncation_bootstrap():
    reward, before, after, discount = (
        torch.tensor(x)
        for x in (
            [[1.0, 5.0], [0.0, 0.0]],
            [[0.0, 0.0], [0.0, 0.0]],
            [[0.0, 7.0], [2.0, 0.0]],
            [[0.5, 0.5], [0.5, 0.0]],
        )
    )
    valid = torch.tensor([[True, True], [True, False]])
    found = upgoing_returns(reward, before, after, discount, valid)
    assert found[:, 0].tolist() == [1.0 + 0.5 * (0.5 * 2.0), 0.5 * 2.0]
    assert float(found[0, 1]) == 5.0 + 0.5 * 7.0


def test_other_shapes_are_refused():
    with pytest.raises(ValueError, match="upgo: shapes are"):
        upgoing_returns(*laid_out([0.0], [0.0], [0.0], [0.0]), torch.ones(2, 1, dtype=torch.bool))


def test_a_config_adds_it_to_a_loss(make_spec, make_episodes):
    """Its mean is -rho (G - v) log pi over the steps, by hand."""
    (batch,) = minibatches(make_episodes([2, 5, 1], [False, True, False]), 99, 99)
    settings = LearnerSettings(terms={"upgo": {"weight": 0.5}}, discount=0.9, sequence_length=99)
    learner = Learner("main-0", make_spec(), settings, seed=1)
    with torch.no_grad():
        parameters, value = learner.trainee.forward(batch)
    log_prob = parameters[:8].log_softmax(1).gather(1, batch.action[:, None])[:, 0].numpy()
    value, total = value.numpy(), 0.0
    for start, end, bootstrap in ((0, 2, 0.0), (2, 7, value[8]), (7, 8, 0.0)):
        later, went_well = bootstrap, True
        for t in range(end - 1, start - 1, -1):
            own = later if went_well else value[t + 1]
            following = bootstrap if t == end - 1 else value[t + 1]
            later = float(batch.reward[t]) + 0.9 * own
            went_well = float(batch.reward[t]) + 0.9 * following >= value[t]
            rho = min(1.0, float(np.exp(log_prob[t] - float(batch.log_prob[t]))))
            total += -rho * (later - value[t]) * log_prob[t]
    assert learner.update_from_batch(batch)["upgo"] == pytest.approx(total / 8, abs=1e-5)


def force_of(logits, action, advantage, acted, *, mask=None, **options):
    """Minus the gradient of each logit [A], of one step."""
    logits = torch.tensor([logits], requires_grad=True)
    log_acted = torch.tensor([np.log(acted)], dtype=torch.float32)
    steps = SimpleNamespace(
        parameters=logits,
        mask=torch.ones_like(logits, dtype=torch.bool) if mask is None else torch.tensor([mask]),
        action=torch.tensor([action]),
        advantage=torch.tensor([advantage]),
        log_probs=SimpleNamespace(acted=log_acted),
        options={"logit_limit": 2.0, "force_limit": 1e4, **options},
    )
    neurd(steps).sum().backward()
    return -logits.grad[0]


def centred(force):
    return np.array(force) - np.mean(force)


def test_the_force_on_each_logit_is_its_advantage():
    logits, pi, mu, d = [0.5, 0.0, -1.0], None, 0.2, 1.5
    pi = torch.tensor(logits).softmax(0).numpy()
    expected = d / mu * (np.array([0.0, 0.0, 1.0]) - pi[2])
    np.testing.assert_allclose(force_of(logits, 2, d, mu), centred(expected), rtol=1e-5)


def test_the_mean_force_is_the_advantage_of_every_action_however_rare():
    """A policy gradient would push each action by pi(a) A(a): hardly at all where it is hardly played."""
    logits = [1.9, 0.0, -1.9]
    pi = torch.tensor(logits).softmax(0).double().numpy()
    worth = np.array([-1.0, 0.0, 1.0])
    value = pi @ worth
    mean = sum(pi[a] * force_of(logits, a, float(worth[a] - value), pi[a]).double().numpy() for a in range(3))
    np.testing.assert_allclose(mean, centred(worth - value), atol=1e-5)


def test_a_logit_beyond_its_limit_is_pushed_back_but_not_out():
    out = force_of([3.0, 0.0, -3.0], 0, 1.0, 0.5)
    back = force_of([3.0, 0.0, -3.0], 0, -1.0, 0.5)
    pi = float(torch.tensor([3.0, 0.0, -3.0]).softmax(0)[0])
    # only the middle one is free when the first is to go up; all when it is to go down... but the last up
    np.testing.assert_allclose(out, centred([0.0, -2.0 * pi, 0.0]), rtol=1e-4)
    np.testing.assert_allclose(back, centred([-2.0 * (1 - pi), 2.0 * pi, 2.0 * pi]), rtol=1e-4)


def test_the_force_is_clipped_and_illegal_actions_feel_none():
    clipped = force_of([0.0, 0.0, 0.0], 1, 1.0, 1e-3, force_limit=10.0)
    np.testing.assert_allclose(clipped, centred([-10.0, 10.0, -10.0]), rtol=1e-5)
    legal = force_of([0.0, 5.0, 0.0], 0, 1.0, 0.5, mask=[True, False, True])
    np.testing.assert_allclose(legal, [1.0, 0.0, -1.0], rtol=1e-5)


def test_a_learner_takes_it_by_name_with_its_options(make_spec, make_episodes):
    (batch,) = minibatches(make_episodes([8] * 8), 99, 99)
    losses = []
    for limit in (2.0, {"start": 2.0, "end": 0.0}):
        settings = LearnerSettings(loss={"kind": "neurd", "logit_limit": limit}, gradient_norm=None)
        learner = Learner("main-0", make_spec(), settings, seed=1)
        learner._progress = 1.0
        losses.append(learner.update_from_batch(batch))
    assert losses[0]["policy_loss"] != losses[1]["policy_loss"]


def test_actions_that_are_no_choice_are_refused(make_spec, make_episodes):
    with pytest.raises(ConfigError, match="found 'neurd', which is for actions that are discrete, but those"):
        load({"env": {"id": "gymnasium:Pendulum-v1"}, "learner": {"loss": "neurd"}})
    with pytest.raises(Mistake, match="is for actions that are discrete"):
        Learner("main-0", make_spec("continuous"), LearnerSettings(loss="neurd"), seed=1)


def test_only_what_went_better_than_expected_is_imitated():
    value = torch.tensor([0.5, 0.5, -1.0], requires_grad=True)
    log_prob = torch.log(torch.tensor([0.5, 0.25, 0.125])).requires_grad_()
    target = torch.tensor([1.0, 0.0, 1.0])
    loss = self_imitation(
        SimpleNamespace(value=value, value_target=target, log_probs=SimpleNamespace(now=log_prob))
    )
    assert loss.tolist() == pytest.approx([0.5 * math.log(2), 0.0, 2.0 * math.log(8)])
    loss.sum().backward()
    assert log_prob.grad.tolist() == pytest.approx([-0.5, 0.0, -2.0])
    assert value.grad is None


def test_a_policy_is_pushed_from_its_reference_up_to_the_bound():
    far, near = torch.tensor([[5.0, 0.0]]), torch.tensor([[0.2, 0.0]])
    logits = torch.cat([far, near]).requires_grad_()
    categorical, mask = Categorical(2), torch.ones(2, 2, dtype=torch.bool)
    steps = SimpleNamespace(
        parameters=logits,
        reference=SimpleNamespace(parameters=torch.zeros(2, 2)),
        kl=lambda p, q: categorical.kl(p, q, mask),
        options={"bound": 1.0},
    )
    loss = diversity(steps)
    expected = -0.5 * sum(math.log(0.5 / p) for p in torch.softmax(near[0], 0).tolist())
    assert loss.tolist() == pytest.approx([-1.0, expected], rel=1e-4)
    loss.sum().backward()
    assert not logits.grad[0].any()  # different enough
    assert logits.grad[1, 0] < 0  # less loss further from the reference


def test_a_config_adds_them_to_any_loss(make_spec, make_episodes):
    (batch,) = minibatches(make_episodes([2, 5, 1], [False, True, False]), 99, 99)
    terms = {"self_imitation": {"weight": 0.1}, "diversity": {"weight": 0.1, "bound": 0.5}}
    learner = Learner("main-0", make_spec(), LearnerSettings(terms=terms, sequence_length=99), seed=1)
    first = learner.update_from_batch(batch)
    assert first["diversity"] == pytest.approx(0.0, abs=1e-6)  # it is what it began with
    assert first["self_imitation"] > 0.0
    assert learner.update_from_batch(batch)["diversity"] < 0.0
