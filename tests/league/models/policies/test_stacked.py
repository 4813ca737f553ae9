"""Policies that decide side by side on a GPU do what each would do alone; vmap does the same on a CPU."""

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.policies import stacked
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.stacked import StackedGroup
from league.models.spec import PolicySettings, PolicySpec

torch.set_num_threads(1)
pytestmark = pytest.mark.slow  # what vmap imports takes seconds

BOARD = ObservationSpec((2, 6, 6), "uint8")
CHOICE = ActionSpec("discrete", (4,))
NUMBERS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
POLICIES = 12
NETWORKS = {
    "mlp": {},
    "normalise": {"connectors": [{"kind": "normalise"}], "activation": "tanh"},
    "cnn": {"torso": {"kind": "cnn", "channels": (4,)}},
    "resnet": {"torso": {"kind": "resnet", "channels": (4, 8)}, "separate_value": True},
    "impala": {"torso": {"kind": "impala", "channels": (4,)}},
    "gru": {"memory": {"kind": "gru", "size": 8}},
    "lstm cnn": {"memory": {"kind": "lstm", "size": 8}, "torso": {"kind": "cnn", "channels": (4,)}},
    "transformer": {"memory": {"kind": "transformer", "size": 8, "heads": 2, "context": 4}},
}


def policies_of(settings, action=CHOICE, count=POLICIES):
    spec = PolicySpec(PolicySettings(**{"hidden": (16, 8), **settings}), BOARD, action)
    made = []
    for seed in range(count):
        weights = initial_weights(spec, seed)
        if "normaliser.mean" in weights:
            weights["normaliser.mean"] += seed
        made.append(Policy(spec, weights))
    return made


def check_against_each_alone(policies, counts):
    rng, n, size = np.random.default_rng(0), int(counts.sum()), policies[0].recurrent_size
    seen = torch.from_numpy(rng.integers(0, 3, (n, *BOARD.shape)).astype(np.uint8))
    memory = torch.from_numpy(rng.standard_normal((n, size), dtype=np.float32)) if size else None
    if size == 3 * 8 + 1:  # of a transformer: how many steps it knows
        memory[:, -1] = torch.from_numpy(rng.integers(0, 4, n))
    with torch.no_grad():
        found, after = StackedGroup(policies)(counts, seen, memory)
        start = 0
        for policy, count in zip(policies, counts.tolist(), strict=True):
            own, start = slice(start, start + count), start + count
            if count:
                wanted, its = policy.step(seen[own], None if memory is None else memory[own])
                torch.testing.assert_close(found[own], wanted, atol=1e-5, rtol=1e-4)
                if size:
                    torch.testing.assert_close(after[own], its, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_network_decides_side_by_side_as_alone(network):
    policies = policies_of(NETWORKS[network])
    counts = np.random.default_rng(3).integers(1, 5, POLICIES)
    counts[[0, 7]] = 600, 0  # the first goes alone
    check_against_each_alone(policies, counts)


def test_real_numbers_have_each_policy_s_own_deviations():
    check_against_each_alone(policies_of({}, NUMBERS), np.full(POLICIES, 3))


def test_few_policies_and_those_without_room_decide_one_by_one(monkeypatch):
    policies, counts = policies_of({}), np.full(POLICIES, 3)
    size = sum(tensor.nbytes for tensor in policies[0].tensors.values())
    monkeypatch.setattr(stacked, "STACKED_BYTES", 10 * size)
    check_against_each_alone(policies, counts)  # ten side by side, two alone
    monkeypatch.setattr(stacked, "STACKED_BYTES", 4 * size)
    check_against_each_alone(policies, counts)
    monkeypatch.setattr(StackedGroup, "_side_by_side", None)  # would fail
    check_against_each_alone(policies, counts)


@pytest.mark.parametrize("network", ["mlp", "gru"])
def test_policies_without_room_for_all_copies_go_side_by_side_block_by_block(network, monkeypatch):
    policies, counts = policies_of(NETWORKS[network], count=30), np.arange(30) % 4
    counts[[5, 29]] = 600, 9
    monkeypatch.setattr(stacked, "STACKED_BYTES", 12 * sum(t.nbytes for t in policies[0].tensors.values()))
    blocks, beside = [], StackedGroup._side_by_side
    noted = lambda self, block, *shown: (blocks.append(block.start), beside(self, block, *shown))[1]  # noqa: E731
    monkeypatch.setattr(StackedGroup, "_side_by_side", noted)
    check_against_each_alone(policies, counts)
    assert blocks == [0, 12]  # the other six go alone
