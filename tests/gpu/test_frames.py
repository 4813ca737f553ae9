"""Observations of several frames go to a card as frames, each once, and learning is the same to the bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec
from league.extend import Replay
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.spec import PolicySettings, PolicySpec
from tests.gpu.cards import CARD, needs_double
from tests.gpu.double import counts as asking
from tests.gpu.kinds import experience, in_frames
from tests.league.learning.fragments import in_fragments
from tests.made_up import memory_of

pytestmark = [pytest.mark.alone, needs_double]

STEPS, LENGTH = 512, 32
STACK = {"kind": "frame_stack", "frames": 4}
NATURE = {"torso": {"kind": "nature", "channels": (4, 4, 4)}, "hidden": (16,)}
CASES = {
    "planes appo": (NATURE, {}),
    "planes lstm appo": ({**NATURE, "memory": memory_of("lstm", 8)}, {}),
    "planes ppo epochs": (NATURE, {"loss": "ppo", "epochs": 2, "shuffle": True}),
    "rows appo": ({"hidden": (16,)}, {}),
    "rows ppo normalised": ({"hidden": (16,)}, {"loss": "ppo"}),
    "planes lstm ppo in parts": (
        {**NATURE, "memory": memory_of("lstm", 8)},
        {"loss": "ppo", "micro_steps": 100},
    ),
    "planes replay": (NATURE, {"replay": {"proportion": 0.5}}),
    "planes prioritised": (NATURE, {"replay": {"kind": "prioritised", "proportion": 0.5}}),
    "planes magnet": (
        NATURE,
        {"loss": "ppo", "magnet": {"kind": "copy", "weight": 0.1, "through": "reward"}},
    ),
    "planes lstm fragments": ({**NATURE, "memory": memory_of("lstm", 8)}, {}),
    "planes ppo fragments": (NATURE, {"loss": "ppo"}),
}


def learner_of(case, monkeypatch, frames):
    """A learner on a card, and blocks of its experience; without `frames` observations go there whole."""
    policy, settings = CASES[case]
    normal = [{"kind": "normalise"}] if "normalised" in case else []
    shape = (36, 36) if "planes" in case else (1200,)
    spec = PolicySpec(
        PolicySettings.model_validate({**policy, "connectors": [STACK, *normal]}),
        ObservationSpec(shape, "uint8"),
        ActionSpec("discrete", (7,)),
    )
    made = LearnerSettings.model_validate({"batch_steps": 256, "sequence_length": 16, **settings})
    with monkeypatch.context() as patch:
        if not frames:
            patch.setattr("league.learning.learner.learner.num_frames", lambda spec: 1)
        learner = Learner("main-0", spec, made, 0, CARD)
    blocks = [in_frames(experience(spec, seed, STEPS, LENGTH), 4) for seed in range(3)]
    if "fragments" in case:
        blocks = [part for block in blocks for part in in_fragments(block, 12, memory_at(learner))]
    return learner, blocks


def memory_at(learner):
    """The memory before a step of an episode, for `in_fragments`; None without memories."""
    size = learner._network.memory_size
    return (lambda e, start: np.full(size, np.float32(0.01 * e + 0.1 * bool(start)))) if size else None


def learned(case, monkeypatch, frames):
    """The state after learning, and what that asked of the card."""
    learner, blocks = learner_of(case, monkeypatch, frames)
    with asking.counted(lines=True) as found:
        for block in blocks:
            learner.learn_from(block)
    assert learner.updates >= 4
    print(found.report())
    return learner.state().to_tensors(), found


def sent_bytes(found):
    """Bytes to the card."""
    return sum(size for (_, kind), size in found.copied_bytes.items() if "h2d" in kind)


@pytest.mark.parametrize("case", CASES)
def test_frames_that_are_sent_once_give_the_same_weights_to_the_bit(case, monkeypatch):
    """And they ask for no wait and no copy more, one launch more for each batch, and a third of the bytes."""
    (wanted, whole), (found, once) = (learned(case, monkeypatch, frames) for frames in (False, True))
    assert found.keys() == wanted.keys()
    for name, tensor in wanted.items():
        assert torch.equal(found[name], tensor), name
    assert once.waits.total() == whole.waits.total()
    assert once.pageable() == whole.pageable() == 0
    stacks = sum(count for (line, _), count in once.launches.items() if "frames.py" in line)
    assert once.launches.total() - whole.launches.total() == stacks
    print(f"\n{case}: bytes to the card {sent_bytes(whole):,}, frames once {sent_bytes(once):,}")
    # a normaliser is shown whole observations once a block
    assert sent_bytes(once) < (0.55 if "normalised" in case else 0.36) * sent_bytes(whole)


def test_episodes_of_a_program_are_learned_from_as_they_are(monkeypatch):
    """It may have changed the observations of what a runner recorded."""
    block = learner_of("planes ppo epochs", monkeypatch, True)[1][0]
    other = np.random.default_rng(0).integers(0, 256, block.observation.shape, dtype=np.uint8)
    block = replace(block, observation=other)
    states = []
    for frames in (False, True):
        learner, _ = learner_of("planes ppo epochs", monkeypatch, frames)
        learner.update_from_episodes(block)
        states.append((learner.state().to_tensors(), learner.outputs(block)))
    (wanted, outputs), (found, others) = states
    assert all(torch.equal(found[name], tensor) for name, tensor in wanted.items())
    assert torch.equal(others.parameters, outputs.parameters)


@pytest.mark.parametrize(
    "own",
    [
        ({"learner_connectors": [{"use": f"{__name__}:darker"}]}, {}),
        ({}, {"replay": {"use": f"{__name__}:Own", "proportion": 0.5}}),
    ],
    ids=["connector", "replay"],
)
def test_code_of_ones_own_may_change_frames_so_they_are_sent_whole(own):
    policy, settings = own
    spec = PolicySpec(
        PolicySettings(connectors=[STACK], **policy),
        ObservationSpec((1200,), "uint8"),
        ActionSpec("discrete", (7,)),
    )
    spec.trust()
    assert Learner("main-0", spec, LearnerSettings(**settings), 0, CARD)._num_frames == 1


def darker(columns, rng):
    """A learner connector."""
    return {"observation": columns["observation"] // 2}


class Own(Replay):
    """A replay that may give other observations than it got."""
