"""Policy losses on fixed arrays, against plain float64 arithmetic."""

import numpy as np
import torch

from league.learning.losses import appo, entropy, impala

NOW = np.array([-0.5, -1.0, -2.0, -0.1])
THEN = np.array([-0.7, -0.8, -2.0, -1.5])
ERROR = np.array([1.0, -2.0, 0.5, 3.0])


def as_tensors():
    return torch.tensor(NOW, requires_grad=True), torch.tensor(THEN), torch.tensor(ERROR)


def test_impala_weighs_the_policy_gradient_by_the_clipped_ratio():
    now, then, error = as_tensors()
    loss = impala(now, then, error, 0.2)
    rho = np.minimum(1.0, np.exp(NOW - THEN))
    np.testing.assert_allclose(loss.item(), -(rho * ERROR * NOW).mean(), atol=1e-12)
    loss.backward()
    np.testing.assert_allclose(now.grad.numpy(), -rho * ERROR / 4, atol=1e-12)  # no gradient through rho


def test_appo_takes_the_worse_of_the_plain_and_the_clipped_surrogate():
    now, then, error = as_tensors()
    loss = appo(now, then, error, 0.2)
    ratio = np.exp(NOW - THEN)
    worse = np.minimum(ratio * ERROR, np.clip(ratio, 0.8, 1.2) * ERROR)
    np.testing.assert_allclose(loss.item(), -worse.mean(), atol=1e-12)


def test_appo_gives_no_gradient_where_the_ratio_has_gone_far_enough():
    now, then, error = as_tensors()
    appo(now, then, error, 0.2).backward()
    assert now.grad[0] == 0.0  # ratio 1.22 with a positive error
    assert now.grad[3] == 0.0  # ratio 4 with a positive error
    assert now.grad[1] != 0.0  # ratio 0.82: inside


def test_entropy_ignores_illegal_actions():
    logits = torch.tensor([[0.0, 0.0, -torch.inf], [0.0, -torch.inf, -torch.inf]], dtype=torch.float64)
    logits.requires_grad_()
    value = entropy(logits.log_softmax(1))
    np.testing.assert_allclose(value.detach().numpy(), [np.log(2.0), 0.0], atol=1e-12)
    value.sum().backward()
    assert torch.isfinite(logits.grad).all()
