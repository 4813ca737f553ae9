"""Observations of several frames go to a GPU as frames, each once, and are put together there to the bit."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from league.envs.spaces import ActionSpec, ObservationSpec, SpacePart
from league.learning.data.batching import cut, minibatches, observed
from league.learning.data.frames import Frames, num_frames, stacked
from league.learning.data.joining import Joiner
from league.models.spec import PolicySettings, PolicySpec
from tests.gpu.kinds import in_frames
from tests.league.learning.fragments import in_fragments

LENGTHS = [3, 40, 1, 17, 25, 9]
CUT = [False, True, True, False, True, False]
SHAPES = {"planes": (8, 3, 2), "one plane": (4, 5, 3), "rows": (12,)}
STACK = {"kind": "frame_stack", "frames": 4}


class Share:
    """One of several peers that never talk."""

    def __init__(self, rank, size):
        self.rank, self.size = rank, size


def put_together(batch):
    """The observations of a batch of frames, as they are on a GPU."""
    return stacked(batch.observation, batch.places)


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("known", [[True] * 6, [True, False, True, True, False, False], None])
def test_any_observations_are_put_together_as_they_were(make_episodes, shape, known):
    whole = make_episodes(LENGTHS, CUT, shape=shape)
    episodes = in_frames(whole, 4)
    if known is None:  # random observations show nothing twice
        episodes = whole
    elif not all(known):
        other = np.repeat(~np.array(known), LENGTHS)
        mixed = np.where(other.reshape(-1, *[1] * len(shape)), whole.observation, episodes.observation)
        bootstrap = np.where(np.array(known)[CUT].reshape(-1, *[1] * len(shape)), episodes.bootstrap, 7)
        episodes = replace(
            episodes, observation=mixed, bootstrap=bootstrap.astype(mixed.dtype), unbroken=np.array(known)
        )
    frames = Frames(episodes, 4)
    n, k = episodes.num_steps, len(episodes.bootstrap)
    rng = np.random.default_rng(0)
    for rows in (np.arange(n + k), rng.permutation(n + k)[:30], np.array([n]), np.zeros(0, np.int64)):
        found = frames.gathered(rows)
        together = stacked(found["observation"], found["places"])
        assert torch.equal(together, torch.from_numpy(observed(episodes, rows)))
    if known is not None and all(known):  # one of each observation, and those before the first of an episode
        assert len(frames.gathered(np.arange(n + k))["observation"]) == n + k + 3 * len(LENGTHS)


@pytest.mark.parametrize("way", ["whole", "shuffled", "peers", "parts", "fragments"])
def test_minibatches_of_frames_are_those_of_observations(make_episodes, way):
    episodes = in_frames(make_episodes(LENGTHS, CUT, shape=SHAPES["planes"]), 4)
    if way == "fragments":
        joiner = Joiner(8, 5)
        parts = [part for each in in_fragments(episodes, 3) if (part := joiner.join(each)) is not None]
        episodes = type(episodes).concatenate(parts)
        assert episodes.unbroken.all()
        assert episodes.goes_on.any()
    how = {"peers": {"peers": Share(1, 2)}, "parts": {"part_steps": 10}}.get(way, {})

    def made(**more):
        rng = np.random.default_rng(1) if way == "shuffled" else None
        return list(minibatches(episodes, 30, 7, rng, **how, **more))

    assert len(cut(episodes, 7)) > len(LENGTHS)
    for found, wanted in zip(made(num_frames=4), made(), strict=True):
        assert torch.equal(put_together(found), wanted.observation)
        assert len(found.observation) < 0.6 * 4 * len(wanted.observation)
        for name, tensor in wanted.tensors().items():
            assert name == "observation" or torch.equal(found.tensors()[name], tensor), name


def test_a_fragment_in_which_a_decision_is_missing_marks_what_it_is_joined_to(make_episodes):
    episodes = in_frames(make_episodes([9, 9], shape=SHAPES["rows"]), 4)
    fragments = in_fragments(episodes, 3)
    fragments[1] = replace(fragments[1], unbroken=np.array([True, False]))
    fragments[2] = replace(fragments[2], unbroken=None)
    joiner = Joiner(5)
    found = [part for each in fragments if (part := joiner.join(each)) is not None]
    known = [bool(part.unbroken[e]) for part in found for e in range(len(part))]
    assert known == [True, False, False, False]


@pytest.mark.parametrize(
    ("connectors", "wanted"),
    [
        ([], 1),
        ([STACK], 4),
        ([{"kind": "scale"}, STACK, {"kind": "normalise"}], 4),
        ([STACK, {"kind": "flatten"}], 1),
        ([{"kind": "previous"}, STACK], 1),  # of parts
        ([STACK, {"kind": "previous"}], 1),
        ([STACK, {"kind": "frame_stack", "frames": 2}], 2),
    ],
)
def test_only_stacks_that_nothing_changes_are_made_of_frames(connectors, wanted):
    policy, action = PolicySettings(connectors=connectors), ActionSpec("discrete", (3,))
    assert num_frames(PolicySpec(policy, ObservationSpec((40, 40), "uint8"), action)) == wanted


def test_small_frames_parts_and_what_others_see_are_sent_as_they_are():
    policy, action = PolicySettings(connectors=[STACK]), ActionSpec("discrete", (3,))
    row = ObservationSpec((2000,), "uint8")
    assert num_frames(PolicySpec(policy, row, action)) == 4
    assert num_frames(PolicySpec(policy, ObservationSpec((20, 20), "uint8"), action)) == 1
    parts = (SpacePart("a", (1999,)), SpacePart("b", (1,)))
    assert num_frames(PolicySpec(policy, ObservationSpec((2000,), "uint8", parts), action)) == 1
    sees_all = PolicySettings(connectors=[STACK], separate_value=True, value_sees="all")
    assert num_frames(PolicySpec(sees_all, row, action, (row,))) == 1
