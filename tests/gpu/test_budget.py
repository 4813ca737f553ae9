"""What an update and a decision ask of a card may not grow: launches, waits of the host, pageable copies.

Lower a number here with the code that lowers it. `report()` of what was counted names the lines of code.
"""

from math import ceil

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.actor import Look
from league.models.policies import stacked
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.policy_group import PolicyGroup
from league.models.sending import sent
from league.models.spec import PolicySettings, PolicySpec
from tests.bench import gpu_loads
from tests.bench.learners import SPEC, experience
from tests.gpu.cards import CARD, needs_double
from tests.gpu.double import counts as asking
from tests.gpu.kinds import NETWORKS, SEEN
from tests.made_up import memory_of

pytestmark = [pytest.mark.alone, needs_double]

LSTM = {"memory": memory_of("lstm", 32)}
NORMAL = {"connectors": [{"kind": "normalise"}]}


def asked(work):
    """Return what `work` returns, and the counts of what it asks of a card."""
    with asking.counted(lines=True) as found:
        done = work()
    print(found.report())
    return done, found


@pytest.mark.parametrize(
    ("policy", "settings", "most"),
    [
        ({}, {"loss": "appo"}, (164, 1, 4)),
        ({}, {"loss": "ppo"}, (123, 2, 9)),
        (NORMAL, {"loss": "ppo", "precision": "bfloat16"}, (162, 2, 10)),
        (LSTM, {"loss": "appo"}, (414, 1, 4)),
        (LSTM, {"loss": "ppo", "magnet": {"kind": "copy", "weight": 0.1}}, (530, 2, 9)),
        ({"memory": memory_of("transformer", 32)}, {"loss": "appo"}, (256, 1, 4)),
    ],
    ids=["mlp", "mlp ppo", "mlp ppo normalise bfloat16", "lstm", "lstm ppo magnet", "transformer"],
)
def test_an_update_waits_for_no_card_and_asks_no_more_of_it_than_it_did(policy, settings, most):
    """`most`: launches of an update; waits and copies to the card of a block of four updates.

    The host waits once, for the metrics of all four, and once where a survey of the block gives advantages.
    """
    spec = PolicySpec(PolicySettings(hidden=(64, 64), **policy), SPEC.observation, SPEC.action)
    learner = Learner("main-0", spec, LearnerSettings(batch_steps=1024, **settings), 0, CARD)
    block = experience("main-0", 0)
    learner.update_from_episodes(block)
    _, found = asked(lambda: learner.update_from_episodes(block))
    assert learner.updates == 8
    each = ceil(found.launches.total() / 4), found.waits.total(), found.sent()
    assert all(a <= b for a, b in zip(each, most, strict=True)), each
    assert found.pageable() == 0


@pytest.mark.parametrize(
    ("load", "snapshots", "most"),
    [
        ("boards", 1, (204, 34, 34)),
        ("boards", 32, (477, 34, 34)),
        ("go", 4, (341, 10, 10)),
        ("frames", 4, (1317, 34, 34)),
    ],
)
def test_a_request_asks_no_more_of_a_card_than_it_did(load, snapshots, most):
    (chosen,) = [each for each in gpu_loads.loads(quick=True) if each.name == load]
    request = gpu_loads.play(chosen, CARD, snapshots)
    request()
    _, found = asked(request)
    each = found.launches.total(), found.waits.total(), found.sent()
    assert all(a <= b for a, b in zip(each, most, strict=True)), each
    assert found.pageable() == 0


@pytest.mark.parametrize(
    ("network", "most", "blocks"),
    [
        ("mlp", 17, 1),
        ("normalise", 24, 1),
        ("cnn", 17, 1),
        ("ten blocks", 92, 1),
        ("ten blocks", 566, 4),  # one by one 14,880; its weights are copied each time
        ("gru", 29, 1),
        ("lstm", 33, 1),
        ("transformer", 76, 1),
    ],
)
def test_256_snapshots_of_any_network_decide_in_a_hundred_launches(network, most, blocks, monkeypatch):
    """`blocks`: there is room for the copies of one, so that each call copies, too."""
    settings = {
        **NETWORKS,
        "normalise": NORMAL,
        "ten blocks": {"torso": {"kind": "resnet", "channels": (8,) * 10}},
    }[network]
    policy = PolicySettings.model_validate({"hidden": (16, 16), **settings})
    spec = PolicySpec(policy, SEEN, ActionSpec("discrete", (7,)))
    weights = [sent(initial_weights(spec, seed), torch.device(CARD)) for seed in range(4)]
    policies = [Policy(spec, weights[i % 4], f"main-0@{i}") for i in range(256)]
    counts = np.random.default_rng(0).integers(1, 5, 256)
    n = int(counts.sum())
    look = Look(
        np.random.default_rng(1).integers(0, 2, (n, *SEEN.shape)).astype(SEEN.dtype),
        np.ones((n, 7), np.bool_),
        np.zeros((n, policies[0].memory_size), np.float32),
    )
    size = sum(tensor.nbytes for tensor in policies[0].tensors.values())
    monkeypatch.setattr(stacked, "STACKED_BYTES", 256 // blocks * size)
    group = PolicyGroup(policies)
    group.decide(counts, look, np.random.default_rng(0))  # stacks the weights
    _, found = asked(lambda: group.decide(counts, look, np.random.default_rng(0)))
    assert found.launches.total() <= most
    assert (found.waits.total(), found.sent(), found.pageable()) == (1, 1, 0)
