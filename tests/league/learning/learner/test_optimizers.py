"""The optimizer: steps at the rate of the schedule, states by name."""

import pytest
import torch
from torch import nn

from league.learning.learner.optimizers import Optimizer
from league.learning.settings import LearnerSettings
from storage.errors import WeightsMismatch

NAMES = ("torso.weight", "policy_head.weight", "value_torso.weight", "value_head.bias")


def parameters():
    return {name: nn.Parameter(torch.ones(3)) for name in NAMES}


def with_gradients(made):
    for parameter in made.values():
        parameter.grad = torch.tensor([1.0, -2.0, 0.5])
    return made


def test_steps_have_the_rate_of_the_schedule():
    made = with_gradients(parameters())
    Optimizer(made, LearnerSettings(lr={"start": 1e-1, "end": 0})).step(0.5)
    assert all(float((1.0 - p.detach()).abs().max()) == pytest.approx(5e-2, rel=1e-3) for p in made.values())


@pytest.mark.parametrize("optimizer", ["adam", "adamw", "rmsprop"])
def test_a_loaded_state_goes_on_as_the_old_one_would(optimizer):
    settings = LearnerSettings(optimizer=optimizer, lr=1e-2)
    made = with_gradients(parameters())
    old = Optimizer(made, settings)
    old.step(0.0)
    copies = {name: nn.Parameter(p.detach().clone()) for name, p in made.items()}
    new = Optimizer(copies, settings)
    new.load("main-0", old.live())
    assert all(key.split(".", 1)[1] in NAMES for key in old.live())
    for each, of in ((old, made), (new, copies)):
        with_gradients(of)
        each.step(0.0)
    assert all(torch.equal(made[name], copies[name]) for name in NAMES)
    assert {k: v.tolist() for k, v in old.live().items()} == {k: v.tolist() for k, v in new.live().items()}


def test_the_state_of_another_optimizer_is_refused():
    made = with_gradients(parameters())
    adam = Optimizer(made, LearnerSettings())
    adam.step(0.0)
    with pytest.raises(
        WeightsMismatch, match=r"player main-0: the saved optimizer has 'exp_avg.torso.weight'"
    ):
        Optimizer(parameters(), LearnerSettings(optimizer="rmsprop")).load("main-0", adam.live())


def test_weight_decay_pulls_towards_zero():
    made = parameters()
    for parameter in made.values():
        parameter.grad = torch.zeros(3)
    Optimizer(made, LearnerSettings(optimizer={"kind": "adamw", "weight_decay": 0.5}, lr=0.1)).step(0.0)
    for parameter in made.values():
        torch.testing.assert_close(parameter.detach(), torch.full((3,), 0.95))


def test_golden_numbers_of_one_rmsprop_step():
    # square_avg = 0.01 g^2, so the step is lr g / (0.1 |g| + 1e-5)
    made = with_gradients(parameters())
    Optimizer(made, LearnerSettings(optimizer="rmsprop", lr=1e-3)).step(0.0)
    expected = torch.tensor([1 - 1e-3 / 0.10001, 1 + 2e-3 / 0.20001, 1 - 5e-4 / 0.05001])
    torch.testing.assert_close(made["torso.weight"].detach(), expected, atol=1e-6, rtol=0)


def test_golden_numbers_of_two_rmsprop_steps_with_momentum_and_constants_of_ones_own():
    made = parameters()
    settings = LearnerSettings(
        optimizer={"kind": "rmsprop", "rms_decay": 0.5, "momentum": 0.9, "epsilon": 0.1}, lr=1e-2
    )
    optimizers, moved, buffer, square = Optimizer(made, settings), 0.0, 0.0, 0.0
    for _ in range(2):
        with_gradients(made)
        optimizers.step(0.0)
        square = 0.5 * square + 0.5 * 1.0
        buffer = 0.9 * buffer + 1.0 / (square**0.5 + 0.1)
        moved += 1e-2 * buffer
    assert float(made["torso.weight"][0].detach()) == pytest.approx(1.0 - moved, abs=1e-6)


def test_the_decays_of_adam_are_those_of_the_settings():
    made = with_gradients(parameters())
    optimizers = Optimizer(made, LearnerSettings(lr=1e-2, optimizer={"betas": [0.0, 0.5], "epsilon": 1.0}))
    optimizers.step(0.0)
    # m = g, v = g^2 / 2, corrected to g^2: the step is lr g / (|g| + 1)
    expected = torch.tensor([1 - 1e-2 / 2, 1 + 2e-2 / 3, 1 - 5e-3 / 1.5])
    torch.testing.assert_close(made["torso.weight"].detach(), expected, atol=1e-6, rtol=0)
