"""Policy losses on fixed arrays; with their gradients and targets: learner/test_objective.py."""

import numpy as np
import pytest
import torch

from league.learning.maths.losses import LOSSES, LogProbs, Loss, appo, find_loss, ppo
from league.learning.settings import LearnerSettings, OnGae, VTraced

mine = Loss(lambda log_probs, advantage, clip: -log_probs.now * advantage, "vtrace")  # as a user's would be


@pytest.mark.parametrize("loss", [appo, ppo])
def test_there_is_no_gradient_where_the_ratio_has_gone_far_enough(loss):
    now, then = (
        torch.tensor([-0.5, -1.0, -0.1, -0.9], requires_grad=True),
        torch.tensor([-0.7, -0.8, -1.5, -0.3]),
    )
    loss(LogProbs(now, then, then), torch.tensor([1.0, -2.0, 3.0, -1.0]), 0.2).sum().backward()
    # ratios 1.22 and 4 with positive advantages, 0.55 with a negative one; 0.82 is inside
    assert (now.grad == 0.0).tolist() == [True, False, True, True]


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
