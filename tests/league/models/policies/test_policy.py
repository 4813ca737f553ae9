"""Policies act by their weights, share one network, and refuse weights that do not fit."""

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import WeightsMismatch
from tests.made_up import memory_of

torch.set_num_threads(1)

OBSERVATION, DISCRETE = ObservationSpec((2, 3), "int8"), ActionSpec("discrete", (4,))
MULTI = ActionSpec("multi_discrete", (2, 3))
CONTINUOUS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
SPEC = PolicySpec(PolicySettings(hidden=(16, 16), activation="tanh"), OBSERVATION, DISCRETE)
CONNECTORS = [{"kind": "previous"}, {"kind": "frame_stack", "frames": 2}, {"kind": "normalise"}]


def spec(action=DISCRETE, **settings):
    return PolicySpec(PolicySettings(hidden=(16,), **settings), OBSERVATION, action)


def remembering(action=DISCRETE, memory="gru", connectors=CONNECTORS):
    """A policy that remembers, with weights far from its initial indifference."""
    its_spec = spec(action, memory=memory_of(memory, 8), connectors=connectors)
    weights = initial_weights(its_spec, 3)
    return Policy(its_spec, {**weights, "policy_head.weight": 50 * weights["policy_head.weight"]})


@pytest.fixture
def observation():
    return np.random.default_rng(0).integers(0, 2, (500, 2, 3)).astype(np.int8)


def masks(n, legal):
    mask = np.zeros((n, 4), bool)
    mask[:, legal] = True
    return mask


def test_a_plain_policy_records_what_it_was_given_and_what_it_gave(observation):
    policy = Policy(SPEC, initial_weights(SPEC, 0))
    assert (policy.memory_size, policy.wants_reward) == (0, False)
    chosen = policy.decide(Look(observation, masks(500, [0, 1, 2, 3])), np.random.default_rng(0))
    assert chosen.seen is observation
    assert chosen.raw is chosen.action
    assert policy.see(observation) is observation


def test_several_choices_are_evaluated_side_by_side(observation):
    policy = Policy(spec(MULTI), initial_weights(spec(MULTI), 0))
    mask = np.ones((500, 5), bool)
    chosen = policy.decide(Look(observation, mask), np.random.default_rng(0))
    probability, _ = policy.evaluate(observation, mask)
    assert chosen.action.shape == (500, 2)
    np.testing.assert_allclose(probability[:, :2].sum(1), 1.0, rtol=1e-5)
    np.testing.assert_allclose(probability[:, 2:].sum(1), 1.0, rtol=1e-5)
    n = np.arange(500)
    expected = probability[n, chosen.raw[:, 0]] * probability[n, 2 + chosen.raw[:, 1]]
    np.testing.assert_allclose(np.exp(chosen.log_prob), expected, rtol=1e-5)


@pytest.mark.parametrize("squash", [True, False])
def test_real_numbers_reach_the_game_within_bounds_and_the_record_as_they_were_drawn(observation, squash):
    its_spec = spec(CONTINUOUS, squash=squash)
    policy = Policy(its_spec, initial_weights(its_spec, 0))
    mask = np.ones((500, 0), bool)
    chosen = policy.decide(Look(observation, mask), np.random.default_rng(0))
    assert chosen.action.dtype == chosen.raw.dtype == np.float32
    assert (chosen.action >= [-1, 0]).all()
    assert (chosen.action <= [1, 5]).all()
    expected = (
        [0, 2.5] + np.array([1, 2.5]) * np.tanh(chosen.raw) if squash else chosen.raw.clip([-1, 0], [1, 5])
    )
    np.testing.assert_allclose(chosen.action, expected, atol=1e-6)
    parameters, value = policy.evaluate(observation, mask)
    assert value.shape == (500,)
    mean, log_std = np.split(parameters.astype(np.float64), 2, axis=1)
    z = (chosen.raw - mean) / np.exp(log_std)
    log_prob = (-0.5 * z**2 - log_std - 0.5 * np.log(2 * np.pi)).sum(1)
    np.testing.assert_allclose(chosen.log_prob, log_prob, rtol=1e-5, atol=1e-5)
    greedy = policy.decide(Look(observation, mask), np.random.default_rng(0), temperature=0.0)
    np.testing.assert_allclose(greedy.raw, mean, rtol=1e-5, atol=1e-6)


# ---------------------------------------------------------------------- memory


@pytest.mark.parametrize("memory", ["none", "gru", "lstm", "transformer"])
@pytest.mark.parametrize("action", [DISCRETE, MULTI, CONTINUOUS])
def test_a_seat_in_mixed_batches_sees_and_does_what_it_would_alone(memory, action):
    policy, num_seats, rng = remembering(action, memory), 6, np.random.default_rng(4)
    together = np.zeros((num_seats, policy.memory_size), np.float32)
    alone = np.zeros_like(together)
    differ = 0
    for _ in range(10):
        due = rng.permutation(num_seats)[: rng.integers(1, num_seats + 1)]
        observation = rng.integers(0, 3, (len(due), 2, 3)).astype(np.int8)
        mask = np.ones((len(due), action.mask_width), bool)
        reward = rng.standard_normal(len(due)).astype(np.float32)
        rows = together[due]
        chosen = policy.decide(Look(observation, mask, rows, reward), rng, 0.0)
        together[due] = rows
        fresh = policy.evaluate(observation, mask)[0]
        for row, seat in enumerate(due):
            one = slice(row, row + 1)
            before = alone[seat : seat + 1].copy()
            single = policy.decide(
                Look(observation[one], mask[one], alone[seat : seat + 1], reward[one]), rng, 0.0
            )
            np.testing.assert_allclose(single.seen[0], chosen.seen[row], atol=1e-5)
            np.testing.assert_allclose(single.raw[0], chosen.raw[row], atol=1e-5)
            np.testing.assert_allclose(single.log_prob[0], chosen.log_prob[row], atol=1e-5)
            with_memory = policy.evaluate(observation[one], mask[one], before, reward[one])[0]
            differ += not np.allclose(with_memory[0], fresh[row], atol=1e-3)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert differ > 10  # what it remembers makes a difference


def test_no_memory_is_that_of_a_match_that_begins(observation):
    policy, mask = remembering(), masks(500, [0, 1, 2, 3])
    assert policy.wants_reward
    memory = np.zeros((500, policy.memory_size), np.float32)
    without = policy.decide(Look(observation, mask), np.random.default_rng(0))
    given = policy.decide(Look(observation, mask, memory, np.zeros(500)), np.random.default_rng(0))
    np.testing.assert_array_equal(without.raw, given.raw)
    np.testing.assert_array_equal(without.log_prob, given.log_prob)
    assert memory.any(axis=1).all()


def test_looking_and_evaluating_leave_the_memory_as_it_is(observation):
    policy, mask = remembering(), masks(500, [0, 1, 2, 3])
    memory = np.zeros((500, policy.memory_size), np.float32)
    policy.decide(Look(observation, mask, memory), np.random.default_rng(0))
    before, reward = memory.copy(), np.ones(500, np.float32)
    probability, _ = policy.evaluate(observation, mask, memory, reward)
    seen = policy.see(observation, memory, reward)
    np.testing.assert_array_equal(memory, before)
    chosen = policy.decide(Look(observation, mask, memory, reward), np.random.default_rng(0))
    np.testing.assert_array_equal(chosen.seen, seen)
    np.testing.assert_allclose(np.exp(chosen.log_prob), probability[np.arange(500), chosen.raw], rtol=1e-4)
    assert (memory != before).any()


# ---------------------------------------------------------------------- weights


def test_tensors_are_used_where_they_lie(observation):
    weights = initial_weights(SPEC, 1)
    policy, mask = Policy(SPEC, weights), masks(500, [0, 1, 2, 3])
    before = policy.evaluate(observation, mask)[1]
    weights["value_head.bias"].add_(1.0)
    np.testing.assert_allclose(policy.evaluate(observation, mask)[1], before + 1.0, atol=1e-6)


def test_tensors_that_do_not_fit_are_named():
    weights = initial_weights(SPEC, 0)
    with pytest.raises(WeightsMismatch, match=r"main-0@5: 'policy_head.bias' is \(5,\), policy wants \(4,\)"):
        Policy(SPEC, {**weights, "policy_head.bias": torch.zeros(5)}, "main-0@5")
    with pytest.raises(WeightsMismatch, match="'spy' is not part of the policy"):
        Policy(SPEC, {**weights, "spy": torch.zeros(1)})
    del weights["value_head.bias"]
    with pytest.raises(WeightsMismatch, match=r"'value_head.bias' is missing"):
        Policy(SPEC, weights)


def test_a_buffer_that_does_not_fit_is_named_too():
    its_spec = spec(connectors=[{"kind": "normalise"}])
    weights = initial_weights(its_spec, 0)
    del weights["normaliser.mean"]
    with pytest.raises(WeightsMismatch, match=r"'normaliser.mean' is missing"):
        Policy(its_spec, weights)


@pytest.mark.parametrize(
    "settings",
    [
        {"torso": {"kind": "cnn", "kernel": 4}},
        {"memory": {"kind": "transformer", "size": 9, "heads": 4}},
        {"hidden": (2**16,) * 3, "torso": {"kind": "cnn", "channels": (2**16,) * 3}},
    ],
)
def test_a_snapshot_whose_network_cannot_be_is_refused_by_name(settings):
    with pytest.raises(WeightsMismatch, match="snapshot main-0@5: "):
        Policy(
            PolicySpec(PolicySettings(**settings), ObservationSpec((2, 3, 3), "int8"), DISCRETE),
            {},
            "snapshot main-0@5",
        )
