"""Self-imitation and diversity, by hand and in an update."""

import math
from types import SimpleNamespace

import pytest
import torch

from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.published import diversity, self_imitation
from league.models.networks.distributions import Categorical


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
