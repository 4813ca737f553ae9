"""Policies on a GPU decide as on the CPU, runners get the card that Ray gives them, a run uses one."""

import contextlib

import numpy as np
import pytest
import torch

import league
from league.cluster.cards import computing
from league.cluster.runtime import ResourceSettings, ray_session
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.policy_group import PolicyGroup
from league.models.policies.resident import ResidentPolicies
from league.models.sending import sent
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.requests import PlaySetup
from league.rollout.runner_group import RayRunnerGroup
from league.rollout.settings import RolloutSettings
from tests.gpu.cards import CARD, needs_cards
from tests.gpu.kinds import NETWORKS, SEEN
from tests.made_up import memory_of

pytestmark = [pytest.mark.alone, needs_cards()]

ROWS = 512


def spec_of(memory="none"):
    policy = PolicySettings(hidden=(48, 48), memory=memory_of(memory, 16))
    return PolicySpec(policy, ObservationSpec((2, 3, 3), "int8"), ActionSpec("discrete", (9,)))


def mapped(spec, seed):
    weights = {name: tensor + 0.01 * seed for name, tensor in initial_weights(spec, seed).items()}
    return Policy(spec, weights, f"main-0@{seed}")


@pytest.mark.parametrize("memory", ["none", "gru", "lstm", "transformer"])
def test_snapshots_that_are_resident_on_a_card_decide_as_on_the_cpu(memory):
    @contextlib.contextmanager
    def lend(key):
        yield mapped(*key)

    spec = spec_of(memory)
    resident = ResidentPolicies(2, torch.device(CARD), lend)
    rng = np.random.default_rng(0)
    observation = rng.integers(0, 2, (ROWS, 2, 3, 3)).astype(np.int8)
    mask, size = np.ones((ROWS, 9), bool), mapped(spec, 0).memory_size
    for seed in (0, 1, 2, 0, 3, 1):  # more than there is room for: rows are used again
        looks = [Look(observation, mask, np.zeros((ROWS, size), np.float32)) for _ in range(2)]
        with resident.lease((spec, seed)) as policy:
            assert all(tensor.is_cuda for tensor in policy.tensors.values())
            found = policy.decide(looks[0], np.random.default_rng(1))
        wanted = mapped(spec, seed).decide(looks[1], np.random.default_rng(1))
        same = found.action == wanted.action
        assert same.mean() > 0.98  # rounding may turn a draw that was close to the edge of an action's share
        for a, b in ((found.log_prob[same], wanted.log_prob[same]), [look.memory for look in looks]):
            np.testing.assert_allclose(np.asarray(a), np.asarray(b), atol=1e-4)


def test_a_run_without_ray_learns_and_plays_on_the_first_card_and_touches_no_other(tmp_path):
    config = {
        "env": {"id": "tic_tac_toe"},
        "league": {"players": {"main": 2}},
        "rollout": {"device": "cuda", "matches_per_request": 64},
        "learner": {"batch_steps": 128},
        "resources": {"gpus": 1},
        "stop": {"env_steps": 5000},
    }
    torch.cuda.init()  # its counters are there from then on
    cards = range(torch.cuda.device_count())
    before = [torch.cuda.memory_allocated(card) for card in cards]  # of other tests in this process
    for card in cards:
        torch.cuda.reset_peak_memory_stats(card)
    run = league.train(config, tmp_path / "run")
    assert league.load_policy(run, "main-0") is not None
    used = [torch.cuda.max_memory_allocated(card) - before[card] for card in cards]
    assert used[0] > 0
    assert not any(used[1:])


def test_two_runners_share_a_card_that_ray_gave_them():
    ray = pytest.importorskip("ray")
    settings = ResourceSettings(gpus_per_runner=0.5)
    with ray_session(settings, 0, 2):
        assert ray.cluster_resources()["GPU"] == 1
        setup = PlaySetup("tic_tac_toe", {}, RolloutSettings(slots=32, device="cuda"))
        group = RayRunnerGroup(2, setup, settings.of_runner)  # each has looked for its card
        seen = ray.get([actor.__ray_call__.remote(_visible) for actor in group._actors])
        assert len(set(seen)) == 1
        parts = [actor.__ray_call__.remote(_part) for actor in group._actors]
        assert ray.get(parts) == [0.5, 0.5]  # of its memory
        # what asked for no card sees none
        assert ray.get(ray.remote(_visible).options(num_cpus=0).remote(None)) == ("", 0)
        group.close()


def _part(runner):
    return torch.cuda.get_per_process_memory_fraction()


def _visible(runner):
    import os

    return os.environ["CUDA_VISIBLE_DEVICES"], torch.cuda.device_count()


@pytest.mark.parametrize("network", NETWORKS)
def test_snapshots_side_by_side_on_a_card_decide_as_one_by_one_on_the_cpu(network):
    spec = PolicySpec(PolicySettings(**NETWORKS[network]), SEEN, ActionSpec("discrete", (7,)))
    here = [Policy(spec, initial_weights(spec, seed)) for seed in range(12)]
    there = [Policy(spec, sent(policy.tensors, torch.device(CARD))) for policy in here]
    counts, rng = np.full(12, 5), np.random.default_rng(0)
    counts[[2, 5]] = 0, 600
    n, size = int(counts.sum()), here[0].memory_size
    mask, memory = np.ones((n, 7), bool), np.zeros((n, size), np.float32)
    found = []
    for step in range(3):
        observation = rng.integers(0, 2, (n, *SEEN.shape)).astype(SEEN.dtype)
        looks = [Look(observation, mask, memory.copy()) for _ in range(2)]
        for policies, look in zip((here, there), looks, strict=True):
            with computing("float32"):
                found.append(PolicyGroup(policies).decide(counts, look, np.random.default_rng(step)))
        np.testing.assert_allclose(looks[0].memory, looks[1].memory, atol=1e-4)
        memory = looks[0].memory
        same = found[-2].action == found[-1].action
        assert same.mean() > 0.98  # rounding may turn a draw that was close to the edge of an action's share
        np.testing.assert_allclose(found[-2].log_prob[same], found[-1].log_prob[same], atol=1e-4)
