"""Policy losses on fixed arrays, against plain float64 arithmetic."""

import numpy as np
import pytest
import torch

from league.learning.maths.losses import LOSSES, LogProbs, Loss, appo, find_loss, impala, ppo
from league.learning.settings import LearnerSettings, OnGae, VTraced

NOW = np.array([-0.5, -1.0, -2.0, -0.1, -0.9])
THEN = np.array([-0.7, -0.8, -2.0, -1.5, -0.3])
ANCHOR = np.array([-0.6, -0.6, -2.2, -0.2, -0.8])
ADVANTAGE = np.array([1.0, -2.0, 0.5, 3.0, -1.0])

mine = Loss(lambda log_probs, advantage, clip: -log_probs.now * advantage, "vtrace")  # as a user's would be


def as_tensors(anchor=THEN):
    now = torch.tensor(NOW, requires_grad=True)
    return LogProbs(now, torch.tensor(THEN), torch.tensor(anchor)), torch.tensor(ADVANTAGE)


def test_impala_weighs_the_policy_gradient_by_the_clipped_ratio():
    log_probs, advantage = as_tensors()
    loss = impala(log_probs, advantage, 0.2)
    rho = np.minimum(1.0, np.exp(NOW - THEN))
    np.testing.assert_allclose(loss.detach().numpy(), -rho * ADVANTAGE * NOW, atol=1e-12)
    loss.sum().backward()
    np.testing.assert_allclose(log_probs.now.grad.numpy(), -rho * ADVANTAGE, atol=1e-12)  # none through rho


@pytest.mark.parametrize("loss", [appo, ppo])
def test_without_a_target_network_the_worse_of_plain_and_clipped_surrogate_counts(loss):
    ratio = np.exp(NOW - THEN)
    worse = np.minimum(ratio * ADVANTAGE, np.clip(ratio, 0.8, 1.2) * ADVANTAGE)
    np.testing.assert_allclose(loss(*as_tensors(), 0.2).detach().numpy(), -worse, atol=1e-12)


@pytest.mark.parametrize("loss", [appo, ppo])
def test_there_is_no_gradient_where_the_ratio_has_gone_far_enough(loss):
    log_probs, advantage = as_tensors()
    loss(log_probs, advantage, 0.2).sum().backward()
    gradient = log_probs.now.grad
    assert gradient[0] == 0.0  # ratio 1.22 with a positive advantage
    assert gradient[3] == 0.0  # ratio 4 with a positive advantage
    assert gradient[4] == 0.0  # ratio 0.55 with a negative one
    assert gradient[1] != 0.0  # ratio 0.82: inside


def test_with_a_target_network_appo_clips_around_it_and_weighs_by_its_probabilities():
    ratio = np.exp(NOW - ANCHOR)
    worse = np.minimum(ratio * ADVANTAGE, np.clip(ratio, 0.8, 1.2) * ADVANTAGE)
    expected = -np.minimum(1.0, np.exp(ANCHOR - THEN)) * worse
    np.testing.assert_allclose(appo(*as_tensors(ANCHOR), 0.2).detach().numpy(), expected, atol=1e-12)


def test_golden_numbers_of_the_clipped_surrogate():
    # ratios 2 and 1/2, clip 0.2: min(2 x 1, 1.2 x 1) = 1.2, min(1/2 x -1, 0.8 x -1) = -0.8
    now, then = torch.tensor([2.0, 0.5]).log(), torch.zeros(2)
    found = ppo(LogProbs(now, then, then), torch.tensor([1.0, -1.0]), 0.2)
    np.testing.assert_allclose(found.numpy(), [-1.2, 0.8], atol=1e-6)


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_has_settings_with_its_options_and_those_of_its_advantages(name):
    loss, settings = LOSSES[name], LearnerSettings(loss=name).loss
    assert settings.kind == name
    assert set(loss.options) <= set(type(settings).model_fields)
    assert (isinstance(settings, VTraced), isinstance(settings, OnGae)) == (
        loss.targets == "vtrace",
        loss.targets == "gae",
    )


def test_losses_are_found_by_name_and_by_import_path(own_module):
    assert find_loss("ppo") is LOSSES["ppo"]
    own_module("losses_of_mine", mine=mine, number=3)
    assert find_loss("losses_of_mine:mine") is mine
    with pytest.raises(ValueError, match="has no 'other'"):
        find_loss("losses_of_mine:other")
    with pytest.raises(ValueError, match=r"is 3, expected a league.learning.maths.losses.Loss"):
        find_loss("losses_of_mine:number")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("ipala", "found 'ipala'; did you mean 'impala'"),
        ("reinforce", "expected appo, impala, ppo"),
        ("nowhere:loss", "'nowhere:loss': module 'nowhere' cannot be imported: No module named 'nowhere'"),
        (":loss", "':loss': expected 'module:Name'"),
    ],
)
def test_a_loss_that_is_not_there_is_named(name, message):
    with pytest.raises(ValueError, match=message):
        find_loss(name)
