"""Snapshots reach whoever plays them through every tier, once, and stay while they are played."""

import contextlib
import dataclasses
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.policies.dense import DenseGroup
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from storage.cache.node_cache import NodeCache
from storage.errors import WeightsMismatch
from storage.layout import blob_path
from storage.snapshots.blobs import encode, hash_of, publish

SPEC = PolicySpec(
    PolicySettings(hidden=(16,)), ObservationSpec((6,), "float32"), ActionSpec("discrete", (3,))
)
BYTES = len(encode(initial_weights(SPEC, 0)))


@pytest.fixture
def sources(tmp_path):
    def make(count):
        made = []
        for seed in range(count):
            blob_hash, _ = publish(tmp_path / "objects", initial_weights(SPEC, seed))
            path = str(blob_path(tmp_path / "objects", blob_hash))
            made.append(SnapshotSource(f"main-0@{seed}", blob_hash, path, SPEC))
        return made

    return make


@pytest.fixture
def node(tmp_path):
    return NodeCache(tmp_path / "cache")


@pytest.fixture
def policies(node):
    return lambda capacity=4, max_bytes=None, device="cpu": SnapshotPolicies(
        capacity, max_bytes, node, device
    )


def holds(policy, seed):
    wanted = initial_weights(SPEC, seed)
    return all(torch.equal(policy.tensors[name], wanted[name]) for name in wanted)


def mapped_file(tensor):
    """The file in whose mapping the tensor lies, if it lies in one."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        span, _, _, _, _, path = [*line.split(maxsplit=5), ""][:6]
        first, last = (int(end, 16) for end in span.split("-"))
        if first <= tensor.data_ptr() < last:
            return {path} - {""}
    return set()


def tier(policies, name):
    return next(found for found in policies.tiers() if found.tier == name)


@pytest.fixture
def remote(monkeypatch):
    """A stand-in for `storage.remote.remote`: a store of the blobs of 8 snapshots, and what was fetched."""
    blobs = {hash_of(data): data for data in (encode(initial_weights(SPEC, seed)) for seed in range(8))}
    fetched = []

    def fetch_blob(url, blob_hash, write):
        fetched.append(url)
        write(blobs[blob_hash])

    module = types.ModuleType("storage.remote.remote")
    module.fetch_blob = fetch_blob
    monkeypatch.setitem(sys.modules, "storage.remote.remote", module)
    names = list(blobs)
    return fetched, lambda seed: SnapshotSource(
        f"main-0@{seed}", names[seed], "/not/here", SPEC, False, "mem://x"
    )


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])  # the second: through the tier of the device
def test_snapshots_are_loaded_once_and_the_least_used_leave(policies, sources, device):
    at_hand = policies(2, device=device)
    a, b, c = sources(3)
    for source in (a, b, a, c, a):
        with at_hand.lease(source) as policy:
            assert holds(policy, int(source.snapshot_id[7:]))
    nearest = at_hand.tiers()[0]
    assert nearest.tier == ("mapped" if device == "cpu" else "device")
    assert (nearest.hits, nearest.misses, nearest.resident) == (2, 3, 2)
    assert nearest.evictions["count"] == 1
    assert tier(at_hand, "mapped").misses == tier(at_hand, "disk").hits == 3


def test_more_snapshots_than_have_room_are_played_at_once_and_leave_afterwards(policies, sources):
    at_hand = policies(1, max_bytes=BYTES)
    with contextlib.ExitStack() as leases:
        held = [leases.enter_context(at_hand.lease(source)) for source in sources(5)]
        assert all(holds(policy, seed) for seed, policy in enumerate(held))
        assert tier(at_hand, "mapped").bytes == 5 * BYTES
    assert (tier(at_hand, "mapped").resident, tier(at_hand, "mapped").bytes) == (1, BYTES)


def test_the_same_snapshot_in_several_modes_is_one_mapping(policies, sources):
    at_hand, (source,) = policies(), sources(1)
    cold = dataclasses.replace(source, temperature=0.0)
    assert cold == source
    with at_hand.lease(source) as sampled, at_hand.lease(cold) as greedy:
        assert sampled is greedy
    assert tier(at_hand, "mapped").misses == 1


def test_the_same_weights_in_another_network_are_another_policy(policies, sources):
    """Equal seeds give equal first weights, whatever is between the layers."""
    at_hand, (source,) = policies(), sources(1)
    settings = PolicySettings(hidden=(16,), activation="tanh")
    other = dataclasses.replace(source, spec=dataclasses.replace(SPEC, settings=settings))
    rows, mask = np.ones((4, 6), np.float32), np.ones((4, 3), bool)
    with at_hand.lease(source) as relu, at_hand.lease(other) as tanh:
        assert not np.allclose(relu.evaluate(rows, mask)[1], tanh.evaluate(rows, mask)[1])


def test_a_snapshot_that_is_not_on_this_node_is_fetched_from_the_remote_once(policies, remote, tmp_path):
    fetched, source = remote
    neighbour = SnapshotPolicies(4, None, NodeCache(tmp_path / "cache"))  # as of another process
    for at_hand in (policies(), neighbour):
        with at_hand.lease(source(1)) as policy:
            assert holds(policy, 1)
    assert fetched == ["mem://x"]
    assert (tier(neighbour, "disk").hits, tier(neighbour, "remote").hits) == (1, 0)


@pytest.mark.parametrize("device", ["cpu", "cpu:0"])
def test_fetched_snapshots_let_go_of_their_files_when_they_leave(policies, remote, node, device):
    _, source = remote
    at_hand = policies(1, device=device)
    for seed in range(3):
        with at_hand.lease(source(seed)):
            assert not node.drop(source(seed).blob_hash)
    assert not node.drop(source(2).blob_hash)  # still at hand
    assert node.drop(source(0).blob_hash)
    assert node.drop(source(1).blob_hash)


def test_weights_that_do_not_fit_are_refused_and_let_go_of_their_file(policies, remote, node):
    _, source = remote
    wide = dataclasses.replace(SPEC, settings=PolicySettings(hidden=(17,)))
    refused = pytest.raises(WeightsMismatch, match=r"snapshot main-0@0: .* policy wants")
    with refused, policies().lease(dataclasses.replace(source(0), spec=wide)):
        pass
    assert node.drop(source(0).blob_hash)


# ------------------------------------------------------------------ in bfloat16

NAMES = ("torso.0.weight", "torso.0.bias")


def test_processes_of_a_node_map_one_file_of_weights_in_bfloat16(policies, sources, node):
    (source,) = sources(1)
    files = set()
    for user in (policies(), policies()):
        with user.lease(source) as policy:
            low, shared = policy.in_bfloat16(NAMES)
            assert shared
            assert policy.shares
            assert low.keys() == set(NAMES)
            assert all(torch.equal(low[name], policy.tensors[name].bfloat16()) for name in NAMES)
            assert policy.in_bfloat16(NAMES)[0] is low
            files |= mapped_file(low["torso.0.weight"])
    assert len(files) == 1
    assert node.info()[0].resident == 1


def test_specs_that_compute_other_layers_of_a_blob_in_bfloat16_have_their_own_files(policies, sources):
    (source,) = sources(1)
    for names in (NAMES, NAMES[:1]):
        with policies().lease(source) as policy:
            assert policy.in_bfloat16(names)[0].keys() == set(names)


def test_a_file_of_weights_in_bfloat16_stays_while_its_policy_does(policies, sources, node):
    one, other = sources(2)
    small = policies(capacity=1)
    with small.lease(one) as policy:
        policy.in_bfloat16(NAMES)
        (file,) = (node.room.folder / "objects").glob("*/*")
        assert not node.room.drop(file.stem)  # it is leased
    with small.lease(other):
        assert node.room.drop(file.stem)


def test_without_room_weights_in_bfloat16_are_private(sources, tmp_path):
    (source,) = sources(1)
    with SnapshotPolicies(1, None, NodeCache(tmp_path / "full", 10)).lease(source) as policy:
        assert policy.shares
        low, shared = policy.in_bfloat16(NAMES)
        assert not shared
        assert not policy.shares  # so that whether it pays is measured with the conversion
        assert torch.equal(low[NAMES[0]], policy.tensors[NAMES[0]].bfloat16())
    assert not Policy(SPEC, initial_weights(SPEC, 0)).in_bfloat16(NAMES)[1]


def test_a_group_gives_equal_logits_with_shared_weights_and_with_its_own(policies, sources):
    made = sources(20)
    seen = torch.rand((20 * 16, 6), generator=torch.Generator().manual_seed(0))
    with contextlib.ExitStack() as leases:
        user = policies(capacity=20)
        shared = [leases.enter_context(user.lease(source)) for source in made]
        own = [Policy(SPEC, policy.tensors) for policy in shared]
        for counts in (np.full(20, 16), np.r_[np.full(10, 32), np.zeros(10)]):  # side by side, one by one
            a, b = (DenseGroup(each, "bfloat16")(counts.astype(int), seen) for each in (shared, own))
            assert torch.equal(a, b)


def test_a_policy_of_which_no_layer_is_in_bfloat16_leaves_no_file(policies, sources, node):
    (source,) = sources(1)  # one hidden layer, which sees float32
    with policies().lease(source) as policy:
        seen = torch.rand((32, 6))
        low, exact = (DenseGroup([policy], each)(np.array([32]), seen) for each in ("bfloat16", "float32"))
        assert torch.equal(low, exact)
    assert node.info()[0].resident == 0
