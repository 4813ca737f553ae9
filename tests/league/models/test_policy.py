"""Policies act by their weights, share one network, and refuse weights that do not fit."""

import numpy as np
import pytest
import torch

from league.models.policy import Policy, PolicySettings, PolicySpec, initial_weights
from storage.errors import WeightsMismatch

SPEC = PolicySpec("mlp", (16, 16), "tanh", (2, 3), "int8", 4)


@pytest.fixture
def observation():
    return np.random.default_rng(0).integers(0, 2, (500, 2, 3)).astype(np.int8)


def masks(n, legal):
    mask = np.zeros((n, 4), bool)
    mask[:, legal] = True
    return mask


def test_an_illegal_action_is_never_taken(observation):
    policy = Policy(SPEC, initial_weights(SPEC, 0))
    action, log_prob = policy.act(observation, masks(500, [1, 3]), np.random.default_rng(1))
    assert set(action) == {1, 3}
    assert np.isfinite(log_prob).all()


def test_actions_are_drawn_with_the_probabilities_that_evaluate_gives(observation):
    policy = Policy(SPEC, {k: 20 * t for k, t in initial_weights(SPEC, 0).items()})
    one = np.repeat(observation[:1], 20_000, axis=0)
    mask = masks(20_000, [0, 1, 3])
    action, log_prob = policy.act(one, mask, np.random.default_rng(2))
    probability, value = policy.evaluate(one[:1], mask[:1])
    seen = np.bincount(action, minlength=4) / 20_000
    np.testing.assert_allclose(seen, probability[0], atol=4 * np.sqrt(0.25 / 20_000))
    np.testing.assert_allclose(np.exp(log_prob), probability[0][action], rtol=1e-5)
    assert value.shape == (1,)


def test_greedy_takes_the_likeliest_legal_action(observation):
    policy = Policy(SPEC, initial_weights(SPEC, 0))
    mask = masks(500, [0, 2, 3])
    action, _ = policy.act(observation, mask, np.random.default_rng(0), greedy=True)
    np.testing.assert_array_equal(action, policy.evaluate(observation, mask)[0].argmax(1))


def test_two_policies_of_one_architecture_do_not_mix_their_weights(observation):
    a, b = Policy(SPEC, initial_weights(SPEC, 1)), Policy(SPEC, initial_weights(SPEC, 2))
    mask = masks(500, [0, 1, 2, 3])
    before = a.evaluate(observation, mask)[0]
    assert not np.allclose(before, b.evaluate(observation, mask)[0])
    np.testing.assert_array_equal(before, a.evaluate(observation, mask)[0])
    assert a._network is b._network


def test_the_same_seed_gives_the_same_weights():
    first, again, other = (initial_weights(SPEC, seed) for seed in (5, 5, 6))
    assert all(torch.equal(first[k], again[k]) for k in first)
    assert not torch.equal(first["torso.0.weight"], other["torso.0.weight"])


def test_a_spec_survives_json():
    assert PolicySpec.from_json({**SPEC.to_json(), "hidden": [16, 16], "observation_shape": [2, 3]}) == SPEC


@pytest.mark.parametrize("change", [{"architecture": "evil:Module"}, {"extra": 1}, {"num_actions": "many"}])
def test_a_spec_that_describes_no_network_is_refused(change):
    with pytest.raises(WeightsMismatch, match="policy spec"):
        PolicySpec.from_json({**SPEC.to_json(), **change})


def test_tensors_that_do_not_fit_are_named():
    weights = initial_weights(SPEC, 0)
    with pytest.raises(WeightsMismatch, match=r"main-0@5: 'policy_head.bias' is \(5,\), policy wants \(4,\)"):
        Policy(SPEC, {**weights, "policy_head.bias": torch.zeros(5)}, "main-0@5")
    with pytest.raises(WeightsMismatch, match="'spy' is not part of the policy"):
        Policy(SPEC, {**weights, "spy": torch.zeros(1)})
    del weights["value_head.bias"]
    with pytest.raises(WeightsMismatch, match=r"'value_head.bias' is missing"):
        Policy(SPEC, weights)


def test_settings_name_the_widths():
    assert PolicySettings(hidden=(8,)).hidden == (8,)
