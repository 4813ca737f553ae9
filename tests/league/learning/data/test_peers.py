"""Several processes come to the weights of one. Run as a program, this file is one of them."""

import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from league.envs.spaces import ActionSpec, ObservationSpec
from league.learning.data.peers import ALONE, DistributedPeers, PeersLost, free_address, shard_episodes
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.spec import PolicySettings, PolicySpec
from tests.league.learning.conftest import random_episodes

ROOT = Path(__file__).parents[4]

CASES = {
    "appo": ({}, {}),
    "impala with a separate value": ({"loss": "impala"}, {"separate_value": True}),
    "ppo in two epochs": ({"loss": "ppo", "epochs": 2}, {}),
    "gru, cut": ({"sequence_length": 4}, {"memory": {"kind": "gru", "size": 8}}),
    "gru, ppo": ({"loss": "ppo", "epochs": 2, "sequence_length": 4}, {"memory": {"kind": "gru", "size": 8}}),
    "target network": ({"target_updates": 2}, {}),
    "magnet through rewards": (
        {
            "loss": "ppo",
            "magnet": {"kind": "copy", "every": 2, "weight": 0.5, "through": "reward"},
            "ema": {},
        },
        {"memory": {"kind": "gru", "size": 8}},
    ),
    "magnet in the loss": ({"magnet": {"kind": "ema", "decay": 0.5, "weight": 0.5}}, {}),
    "replay, statistics": (
        {"replay": {"kind": "prioritised", "proportion": 0.3}},
        {"connectors": [{"kind": "normalise"}]},
    ),
}


def experience(seed):
    """Few and unequal episodes, so that shares differ and some minibatches leave a process without any."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(1, 12, 9)
    lengths[4] = 40  # a minibatch of its own
    episodes = random_episodes(lengths.tolist(), rng.random(9) < 0.5, seed=seed)
    return replace(episodes, log_prob=np.log(rng.uniform(0.2, 0.6, episodes.num_steps)).astype(np.float32))


def learned(peers):
    """Weights and metrics after several updates of every case."""
    tensors = {}
    for case, (changes, policy) in CASES.items():
        settings = dict(changes)
        spec = PolicySpec(
            PolicySettings(hidden=(8,), **policy),
            ObservationSpec((4,), "float32"),
            ActionSpec("discrete", (3,)),
        )
        # adam's first steps have the size of lr whatever the gradient's: rmsprop shows more of it
        settings = LearnerSettings(batch_steps=20, lr=1e-3, optimizer="rmsprop", **settings)
        learner = Learner("main-0", spec, settings, seed=1, peers=peers)
        for seed in range(3):
            metrics = learner.update_from_episodes(experience(seed))
        for name, tensor in learner.weights().items():
            tensors[f"{case}/{name}"] = tensor
        for name, value in metrics.items():
            tensors[f"{case}/{name}"] = torch.tensor(value)
        tensors[f"{case}/updates"] = torch.tensor(float(learner.updates))
    return tensors


@pytest.mark.alone
@pytest.mark.parametrize("size", [2, pytest.param(3, marks=[pytest.mark.long, pytest.mark.variant])])
def test_several_processes_come_to_the_weights_of_one(tmp_path, size):
    address = free_address()
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", __name__, address, str(rank), str(size), str(tmp_path / str(rank))],
            cwd=ROOT,
        )
        for rank in range(size)
    ]
    try:
        expected = learned(ALONE)
        assert [process.wait(timeout=100) for process in processes] == [0] * size
    finally:
        for process in processes:
            process.kill()
    for rank in range(size):
        found = load_file(tmp_path / str(rank))
        assert set(found) == set(expected)
        for name, tensor in expected.items():
            torch.testing.assert_close(
                found[name], tensor, atol=1e-5, rtol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
            )
    assert all(float(expected[f"{case}/updates"]) >= 9 for case in CASES)


@given(st.lists(st.integers(1, 200), max_size=60), st.integers(1, 9))
def test_shares_are_a_partition_as_even_as_the_longest_sequence_allows(lengths, k):
    shares = shard_episodes(lengths, k)
    assert len(shares) == k
    assert sorted(index for share in shares for index in share.tolist()) == list(range(len(lengths)))
    assert all((np.diff(share) > 0).all() for share in shares)
    steps = [sum(lengths[index] for index in share) for share in shares]
    assert max(steps) - min(steps) <= max(lengths, default=0)


def test_equal_sequences_are_shared_equally():
    assert [share.tolist() for share in shard_episodes([5, 5, 5, 5], 2)] == [[0, 2], [1, 3]]
    assert [share.tolist() for share in shard_episodes([9, 1, 1, 1, 6], 2)] == [[0], [1, 2, 3, 4]]


def test_alone_the_sum_is_the_tensor_itself():
    tensor = torch.arange(3.0)
    ALONE.sum(tensor)
    assert tensor.tolist() == [0.0, 1.0, 2.0]
    assert (ALONE.rank, ALONE.size) == (0, 1)


def test_a_sum_that_a_peer_does_not_take_part_in_is_given_up_in_one_sentence():
    class Silent:
        def all_reduce(self, tensor):
            raise RuntimeError("[../gloo/unbound_buffer.cc:78] Timed out waiting 60000ms for recv operation")

    with pytest.raises(PeersLost, match=r"process 1 of 2 .* did not answer for 60 s: .*Timed out waiting"):
        DistributedPeers(Silent(), 1, 2).sum(torch.zeros(3))


if __name__ == "__main__":
    torch.set_num_threads(1)
    meeting, own_rank, of, path = sys.argv[1:]
    together = DistributedPeers.join(meeting, int(own_rank), int(of))
    save_file(learned(together), Path(path))
    torch.distributed.destroy_process_group()
