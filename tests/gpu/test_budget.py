"""What an update and a decision ask of a card may not grow: launches, waits of the host, pageable copies.

Lower a number here with the code that lowers it. `report()` of what was counted names the lines of code.
"""

from math import ceil

import pytest

from league.learning.learner.learner import Learner, LearnerSettings
from league.models.spec import PolicySettings, PolicySpec
from tests.bench import gpu_loads
from tests.bench.learners import SPEC, experience
from tests.gpu.cards import CARD, needs_double
from tests.gpu.double import counts
from tests.made_up import memory_of

pytestmark = [pytest.mark.alone, needs_double]

LSTM = {"memory": memory_of("lstm", 32)}
NORMAL = {"connectors": [{"kind": "normalise"}]}


def asked(work):
    """Return what `work` returns, and the counts of what it asks of a card."""
    with counts.counted(lines=True) as found:
        done = work()
    print(found.report())
    return done, found


@pytest.mark.parametrize(
    ("policy", "settings", "most"),
    [
        ({}, {"loss": "appo"}, (164, 1, 4)),
        ({}, {"loss": "ppo"}, (137, 2, 9)),
        (NORMAL, {"loss": "ppo", "precision": "bfloat16"}, (176, 2, 10)),
        (LSTM, {"loss": "appo"}, (414, 1, 4)),
        (LSTM, {"loss": "ppo", "magnet": {"kind": "copy", "weight": 0.1}}, (544, 2, 9)),
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
        ("boards", 1, (272, 34, 42)),
        ("boards", 32, (746, 34, 42)),
        ("go", 4, (346, 10, 26)),
        ("frames", 4, (1283, 68, 84)),
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
