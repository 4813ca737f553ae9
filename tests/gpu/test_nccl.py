"""Peers on GPUs meet by nccl: alone on one card, and on two cards to the weights of one process."""

import subprocess
import sys
import time
from unittest import mock

import pytest
import torch

from league.cluster.cards import CardFull
from league.cluster.runtime import ResourceSettings, ray_session
from league.learning.data.peers import free_address
from league.learning.groups.local_learners import LocalLearners
from league.learning.groups.ray_learners import RayLearners
from league.learning.groups.shard_learners import Recruit, Recruits
from league.learning.groups.shards import plan_shards
from league.learning.learner.learner import Learner, LearnerSettings
from tests.bench.learners import SPEC, experience
from tests.gpu.cards import needs_cards

pytestmark = pytest.mark.alone

ONE = """
import sys
import torch
from league.learning.data.peers import DistributedPeers
peers = DistributedPeers.join(sys.argv[1], 0, 1, "cuda")
numbers = torch.arange(5.0, device="cuda")
peers.sum(numbers)
assert numbers.tolist() == [0.0, 1.0, 2.0, 3.0, 4.0]
assert torch.distributed.get_backend() == "nccl"
torch.distributed.destroy_process_group()
"""


@needs_cards(1)
def test_a_process_that_is_alone_in_its_nccl_group_sums_its_own_numbers():
    subprocess.run([sys.executable, "-c", ONE, free_address()], check=True, timeout=120)


def updated(group, seeds):
    """The group's weights of main-0 after a block of each seed."""
    updates, give_up = 0, time.monotonic() + 120
    for seed in seeds:
        group.submit("main-0", experience("main-0", seed), 0.0)
    while updates < len(seeds):
        assert time.monotonic() < give_up
        updates += len(group.ready(0.1))
    return group.state("main-0").weights


@needs_cards(2)
def test_a_player_with_two_cards_comes_to_the_weights_of_one_process():
    pytest.importorskip("ray")
    settings = LearnerSettings(batch_steps=4096, optimizer={"kind": "rmsprop", "epsilon": 1.0}, lr=0.05)
    recruits = Recruits((Recruit("main-0", SPEC, settings, 0),), "cuda")
    with ray_session(ResourceSettings(gpus=2), num_actors=2):
        group = RayLearners(plan_shards(2, ["main-0"]), recruits)
        found = updated(group, (0, 1, 2))
        group.close()
    alone = LocalLearners(plan_shards(0, ["main-0"]), Recruits(recruits.each))
    for name, tensor in updated(alone, (0, 1, 2)).items():
        torch.testing.assert_close(found[name], tensor, atol=1e-4, rtol=1e-3, msg=name)


@needs_cards(2)
def test_two_players_without_ray_learn_on_a_card_each(monkeypatch):
    recruits = Recruits(
        tuple(Recruit(f"main-{i}", SPEC, LearnerSettings(batch_steps=1024), i) for i in range(2)), "cuda"
    )
    group = LocalLearners(plan_shards(2, ["main-0", "main-1"]), recruits)
    devices = [str(group._shard._learners[f"main-{i}"].device) for i in range(2)]
    assert devices == ["cuda:0", "cuda:1"]
    full = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    monkeypatch.setattr(Learner, "state", mock.Mock(side_effect=full))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    for i in range(2):  # each is named by its own card
        with pytest.raises(CardFull, match=rf"^player main-{i}: GPU {i} of \S+ has no memory left"):
            group.state(f"main-{i}")
