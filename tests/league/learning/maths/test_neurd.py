"""NeuRD pushes logits by advantages, however rarely an action is played, and within its limits."""

import numpy as np
import pytest
import torch

from league.config.file import ConfigError
from league.config.loading import load
from league.learning.data.batching import minibatches
from league.learning.learner.learner import Learner, LearnerSettings
from league.learning.maths.published import neurd
from league.learning.maths.terms import LogProbs, Steps
from storage.errors import Mistake


def force_of(logits, action, advantage, acted, *, mask=None, **options):
    """Minus the gradient of each logit [A], of one step."""
    logits = torch.tensor([logits], requires_grad=True)
    mask = torch.ones_like(logits, dtype=torch.bool) if mask is None else torch.tensor([mask])
    log_acted = torch.tensor([np.log(acted)], dtype=torch.float32)
    known = object.__new__(Steps)
    fields = {
        "parameters": logits,
        "mask": mask,
        "action": torch.tensor([action]),
        "advantage": torch.tensor([advantage]),
        "log_probs": LogProbs(log_acted, log_acted, log_acted),
        "options": {"logit_limit": 2.0, "force_limit": 1e4, **options},
    }
    for name, value in fields.items():
        object.__setattr__(known, name, value)
    neurd(known).sum().backward()
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
        settings = LearnerSettings(loss="neurd", loss_options={"logit_limit": limit}, gradient_norm=None)
        learner = Learner("main-0", make_spec(), settings, seed=1)
        learner._progress = 1.0
        losses.append(learner.update_from_batch(batch))
    assert losses[0]["policy_loss"] != losses[1]["policy_loss"]


def test_actions_that_are_no_choice_are_refused(make_spec, make_episodes):
    with pytest.raises(ConfigError, match="found 'neurd', which is for actions that are discrete, but those"):
        load({"env": {"id": "gymnasium:Pendulum-v1"}, "learner": {"loss": "neurd"}})
    with pytest.raises(Mistake, match="is for actions that are discrete"):
        Learner("main-0", make_spec("continuous"), LearnerSettings(loss="neurd"), seed=1)
