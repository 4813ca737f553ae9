"""Policies that decide in one call do what each would do alone."""

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies import dense, products
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.policy_group import PolicyGroup
from league.models.spec import PolicySettings, PolicySpec

torch.set_num_threads(1)

OBSERVATION = ObservationSpec((2, 3, 3), "int8")
CHOICE = ActionSpec("discrete", (4,))
CHOICES = ActionSpec("multi_discrete", (2, 3))
NUMBERS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
REMEMBERS = {"memory": {"kind": "gru", "size": 8}, "connectors": [{"kind": "previous"}]}


def group_of(num_policies, action=CHOICE, **settings):
    spec = PolicySpec(PolicySettings(**{"hidden": (16, 8), **settings}), OBSERVATION, action)
    weights = [initial_weights(spec, seed) for seed in range(num_policies)]
    # far from a fresh policy's indifference
    sharp = [{**w, "policy_head.weight": 100 * w["policy_head.weight"]} for w in weights]
    return PolicyGroup([Policy(spec, tensors) for tensors in sharp])


def rows(group, counts, seed=0):
    """Observations, masks, memory and reward of so many rows for each policy."""
    rng, n, spec = np.random.default_rng(seed), int(counts.sum()), group.policies[0].spec
    mask = rng.random((n, spec.action.mask_width)) < 0.6
    mask[:, np.cumsum((0, *spec.action.sizes[:-1]))[: spec.action.mask_width]] = True
    observation = rng.integers(0, 3, (n, *spec.observation.shape)).astype(np.int8)
    memory = rng.standard_normal((n, group.memory_size)).astype(np.float32)
    return observation, mask, memory, rng.standard_normal(n).astype(np.float32)


def check_against_each_alone(group, counts):
    observation, mask, memory, reward = rows(group, counts)
    together, rng = memory.copy(), np.random.default_rng(1)
    chosen = group.decide(counts, Look(observation, mask, together, reward), rng, 0.0)
    start = 0
    for policy, count in zip(group.policies, counts.tolist(), strict=True):
        own, start = slice(start, start + count), start + count
        if not count:
            continue
        alone = policy.decide(Look(observation[own], mask[own], memory[own], reward[own]), rng, 0.0)
        np.testing.assert_allclose(chosen.raw[own], alone.raw, atol=1e-4)
        np.testing.assert_allclose(chosen.action[own], alone.action, atol=1e-4)
        np.testing.assert_allclose(chosen.log_prob[own], alone.log_prob, atol=1e-4)
        np.testing.assert_array_equal(chosen.seen[own], alone.seen)
    np.testing.assert_allclose(together, memory, atol=1e-5)  # `alone` has written there


@pytest.mark.parametrize(
    ("action", "settings"),
    [
        (CHOICE, {}),
        (CHOICE, {"activation": "tanh", "separate_value": True}),
        (CHOICES, {}),
        (CHOICE, {"connectors": [{"kind": "previous"}, {"kind": "frame_stack", "frames": 2}]}),
        (CHOICE, {"connectors": [{"kind": "normalise"}]}),
        (CHOICE, {"torso": {"kind": "cnn", "channels": (4,)}}),
        (CHOICE, REMEMBERS),
        (NUMBERS, {}),
        (NUMBERS, REMEMBERS),
    ],
)
def test_a_group_decides_as_each_of_its_policies_alone(action, settings):
    group = group_of(40, action, **settings)
    counts = np.random.default_rng(3).integers(0, 5, 40)
    counts[[0, 7, 39]] = 100, 0, 40
    check_against_each_alone(group, counts)
    check_against_each_alone(group, np.full(40, 3))


@pytest.mark.parametrize(
    ("action", "settings"),
    [(CHOICE, {}), (CHOICES, {}), (NUMBERS, {}), (CHOICE, {"torso": {"kind": "cnn", "channels": (4,)}})],
)
@pytest.mark.parametrize("share", [0.5, 1.0])
def test_rows_that_are_settled_are_not_computed_and_change_no_other_draw(
    action, settings, share, monkeypatch
):
    """One policy has all its rows settled, and one has none at all."""
    group, counts = group_of(20, action, **settings), np.full(20, 6)
    counts[:2] = 0, 100
    observation, mask, _, _ = rows(group, counts)
    settled = np.random.default_rng(4).random(len(mask)) < share
    settled[-6:] = True
    plain = group.decide(counts, Look(observation, mask), np.random.default_rng(1))
    asked, step = [], group._step
    monkeypatch.setattr(
        group, "_step", lambda own, seen, memory: asked.append(own) or step(own, seen, memory)
    )
    chosen = group.decide(counts, Look(observation, mask, settled=settled), np.random.default_rng(1))
    assert sum(own.sum() for own in asked) == np.count_nonzero(~settled)
    assert all(own[0] == own[-1] == 0 for own in asked)
    np.testing.assert_allclose(chosen.action[~settled], plain.action[~settled], atol=1e-4)
    np.testing.assert_allclose(chosen.log_prob[~settled], plain.log_prob[~settled], atol=1e-4)


def test_policies_with_a_memory_see_settled_rows_too():
    group, counts = group_of(2, **REMEMBERS), np.array([3, 2])
    observation, mask, memory, reward = rows(group, counts)
    both = [memory.copy(), memory.copy()]
    for own, settled in zip(both, (None, np.ones(5, dtype=np.bool_)), strict=True):
        group.decide(counts, Look(observation, mask, own, reward, settled=settled), np.random.default_rng(1))
    assert not np.array_equal(both[0], memory)
    np.testing.assert_array_equal(both[0], both[1])


@pytest.mark.parametrize("activation", ["relu", "tanh"])
def test_large_batches_go_through_the_fused_product_and_come_out_the_same(activation, monkeypatch):
    assert products.MUCH_WORK <= 512 * 256 * 256
    group, counts = group_of(3, activation=activation), np.array([5, 70, 1])
    product, calls = torch.ops.mkldnn._linear_pointwise, []
    monkeypatch.setattr(products, "MUCH_WORK", 70 * 16 * 8)
    monkeypatch.setattr(
        torch.ops.mkldnn,
        "_linear_pointwise",
        lambda *given: (calls.append(len(given[0])), product(*given))[1],
    )
    check_against_each_alone(group, counts)
    assert calls == [72, 72] * torch.backends.mkldnn.is_available()


def test_a_torch_without_the_fused_product_takes_the_plain_way(monkeypatch):
    monkeypatch.setattr(products, "FUSED_PRODUCT", "_removed_by_an_upgrade")
    monkeypatch.setattr(products, "MUCH_WORK", 1)
    check_against_each_alone(group_of(3), np.array([5, 70, 1]))


def test_networks_run_side_by_side_where_many_have_few_rows_and_alone_elsewhere():
    group = group_of(70)
    counts = np.full(70, 50)
    check_against_each_alone(group, counts)
    assert not group._dense._stacks
    counts[33:60] = 2
    check_against_each_alone(group, counts)
    assert set(group._dense._stacks) == {(32, False)}
    counts[33:60] = 0
    counts[3] = 1
    check_against_each_alone(group, counts)
    assert set(group._dense._stacks) == {(32, False)}


def test_weights_beyond_the_room_for_copies_are_used_where_they_lie(monkeypatch):
    group = group_of(70)
    size = sum(tensor.nbytes for layer in group._dense._layers[0] for tensor in layer)
    monkeypatch.setattr(dense, "STACKED_BYTES", 40 * size)
    group = PolicyGroup(group.policies)
    check_against_each_alone(group, np.full(70, 2))
    copied = [tensor for stack in group._dense._stacks.values() for layer in stack for tensor in layer]
    assert 0 < sum(tensor.nbytes for tensor in copied) <= 40 * size


def test_each_policy_draws_with_its_own_probabilities():
    group, calls = group_of(20), 300
    counts = np.full(20, 8)
    one, mask, _, _ = rows(group, np.array([1]))
    many, masks = np.repeat(one, 160, axis=0), np.repeat(mask, 160, axis=0)
    rng, seen = np.random.default_rng(0), np.zeros((20, 4))
    for _ in range(calls):
        chosen = group.decide(counts, Look(many, masks), rng)
        np.add.at(seen, (np.arange(160) // 8, chosen.action), 1)
    expected = np.concatenate([policy.evaluate(one, mask)[0] for policy in group.policies])
    assert np.ptp(expected, axis=0).max() > 0.3  # they differ
    np.testing.assert_allclose(seen / (8 * calls), expected, atol=5 * np.sqrt(0.25 / (8 * calls)))
    np.testing.assert_allclose(
        np.exp(chosen.log_prob), expected[np.arange(160) // 8, chosen.action], rtol=1e-4
    )
