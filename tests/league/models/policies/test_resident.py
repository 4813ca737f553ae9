"""Policies resident on a device do what those on the CPU do, and keep their weights while leased."""

import contextlib

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.resident import ResidentPolicies, check_device
from league.models.spec import PolicySettings, PolicySpec
from storage.errors import Mistake

torch.set_num_threads(1)

CPU = torch.device("cpu")
OBSERVATION = ObservationSpec((2, 3, 3), "int8")
DISCRETE, MULTI = ActionSpec("discrete", (4,)), ActionSpec("multi_discrete", (2, 3))
CONTINUOUS = ActionSpec("continuous", low=(-1.0, 0.0), high=(1.0, 5.0))
NORMALISE = ({"kind": "normalise"},)


def spec(action=DISCRETE, **settings):
    return PolicySpec(PolicySettings(**{"hidden": (48, 48), **settings}), OBSERVATION, action)


def mapped(its_spec, seed):
    weights = initial_weights(its_spec, seed)
    return Policy(its_spec, {name: t + 0.01 * seed for name, t in weights.items()}, f"main-0@{seed}")


@pytest.fixture
def make():
    """Resident policies whose keys are (spec, seed), and the keys that were copied."""

    def of(capacity, device=CPU, max_bytes=None):
        copied = []

        @contextlib.contextmanager
        def lend(key):
            copied.append(key[1])
            yield mapped(*key)

        return ResidentPolicies(capacity, device, lend, max_bytes), copied

    return of


def same(a, b, rows=64):
    rng = np.random.default_rng(0)
    observation = rng.integers(0, 2, (rows, 2, 3, 3)).astype(np.int8)
    mask = np.ones((rows, a.spec.action.mask_width), bool)
    chosen = [policy.decide(Look(observation, mask), np.random.default_rng(1)) for policy in (a, b)]
    return all(np.array_equal(x, y) for x, y in zip(*chosen, strict=True))


@pytest.mark.parametrize(
    "its_spec",
    [
        spec(),
        spec(MULTI, torso={"kind": "cnn", "channels": (8, 8)}),
        spec(CONTINUOUS, connectors=NORMALISE),
        spec(memory={"kind": "gru", "size": 16}),
        spec(memory={"kind": "lstm", "size": 16}),
        spec(memory={"kind": "transformer", "size": 16, "context": 4, "heads": 2}),
    ],
    ids=["mlp", "cnn", "normalised", "gru", "lstm", "transformer"],
)
def test_a_resident_policy_acts_bit_for_bit_as_the_mapped_one(its_spec, make):
    policies, _ = make(3)
    for seed in range(5):  # more than there is room for
        with policies.lease((its_spec, seed)) as resident:
            assert same(resident, mapped(its_spec, seed))
            assert not same(resident, mapped(its_spec, seed + 1))


def test_a_snapshot_is_copied_to_the_device_once_while_it_is_resident(make):
    policies, copied = make(2)
    for seed in (0, 1, 0, 2, 0, 1):
        with policies.lease((spec(), seed)):
            pass
    assert copied == [0, 1, 2, 1]
    info = policies.info()
    one = sum(t.nbytes for t in initial_weights(spec(), 0).values())
    assert (info.tier, info.hits, info.misses, info.resident, info.bytes) == ("device", 2, 4, 2, 2 * one)
    assert info.evictions["count"] == 2


def test_a_device_holds_what_is_resident_and_no_more_within_its_bytes(make):
    """Room for the whole capacity was once taken at the first snapshot, whatever the limit of bytes."""
    one = sum(t.nbytes for t in initial_weights(spec(), 0).values())
    policies, _ = make(64, max_bytes=3 * one)
    for seed in range(6):
        with policies.lease((spec(), seed)) as policy:
            own = [tensor.untyped_storage().nbytes() for tensor in policy.tensors.values()]
            assert sum(own) == one
    info = policies.info()
    assert (info.resident, info.bytes) == (3, 3 * one)


def test_a_snapshot_larger_than_all_bytes_of_its_device_is_refused_in_one_sentence(make):
    policies, _ = make(64, max_bytes=1000)
    found = r"^rollout\.policy_map_bytes: found 1,000, but main-0@7 alone has [\d,]+ bytes on the cpu"
    with pytest.raises(Mistake, match=found), policies.lease((spec(), 7)):
        pass
    assert policies.info().resident == 0


def test_weights_that_are_leased_are_never_overwritten(make):
    policies, _ = make(1)
    with contextlib.ExitStack() as leases:
        held = [leases.enter_context(policies.lease((spec(), seed))) for seed in range(6)]
        for seed, policy in enumerate(held):
            assert same(policy, mapped(spec(), seed))
    for seed in range(6, 12):
        with policies.lease((spec(), seed)) as policy:
            assert same(policy, mapped(spec(), seed))
    assert policies.info().resident == 1


def test_a_device_that_is_not_there_is_refused_in_one_sentence(monkeypatch):
    check_device("cpu", "auto")
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    with pytest.raises(
        Mistake, match=r"rollout\.device: found cuda, but torch sees no GPU here, expected cpu"
    ):
        check_device("cuda", "float32")
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    check_device("cuda", "float32")


@pytest.mark.slow  # the first use of the device `meta` imports for a second
@pytest.mark.parametrize("its_spec", [spec(), spec(MULTI), spec(CONTINUOUS, connectors=NORMALISE)])
def test_a_policy_computes_where_its_weights_lie_and_draws_on_the_cpu(its_spec, monkeypatch):
    """On the meta device, a stand-in for a GPU here, an operation that mixes devices raises as well."""
    policy = Policy(its_spec, {name: t.to("meta") for name, t in initial_weights(its_spec, 0).items()})
    came_back = []

    def comes_back(tensor, *_, **__):
        came_back.append(tensor.device.type)
        return torch.zeros(tensor.shape)

    monkeypatch.setattr(
        "league.models.policies.policy.fetched",
        lambda tensors: {name: comes_back(tensor) for name, tensor in tensors.items()},
    )
    monkeypatch.setattr(torch.Tensor, "cpu", comes_back)
    mask = np.ones((5, its_spec.action.mask_width), bool)
    observation = np.zeros((5, 2, 3, 3), np.int8)
    chosen = policy.decide(Look(observation, mask), np.random.default_rng(0))
    assert (len(chosen.action), came_back) == (5, ["meta"])
    policy.evaluate(observation, mask)
    assert came_back == ["meta"] * 3  # and the values
