"""Three loads of a GPU, at the sizes that people train, and how fast they play and learn.

boards    an mlp 2x256 that plays Connect Four, in batches of 4,096 steps
go        a resnet of ten blocks with 128 channels on boards of 19x19
frames    an lstm of 512 behind convolutions with strides, on frames of 84x84x4
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Discrete
from torch import Tensor, nn

from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec, ObservationSpec
from league.extend import Loss
from league.learning.data.batching import Batch
from league.learning.data.frames import num_frames
from league.learning.learner.learner import Learner, LearnerSettings
from league.models.networks.memory import Recurrent
from league.models.networks.networks import Network
from league.models.policies.policy import Policy, initial_weights
from league.models.policies.resident import ResidentPolicies
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.env_runner import EnvRunner
from league.rollout.requests import LiveSource, PlayRequest, PlaySetup
from league.rollout.settings import RolloutSettings
from league.rollout.snapshots import SnapshotSource
from tests import made_up
from tests.gpu.kinds import batches, experience, in_frames


class Views(BatchedGame):
    """Two seats that take turns for `length` decisions, and see pictures that were drawn beforehand."""

    id = "views"
    num_seats = 2

    def __init__(
        self,
        num_slots: int,
        *,
        shape: tuple[int, ...] = (4, 19, 19),
        actions: int = 362,
        length: int = 8,
        step_limit: int | None = None,
    ) -> None:
        self.observation_spaces = (Box(0, 255, tuple(shape), np.uint8),) * 2
        self.action_spaces = (Discrete(actions),) * 2
        super().__init__(num_slots, step_limit=step_limit)
        self._pictures = np.random.default_rng(0).integers(0, 2, (257, *shape), dtype=np.uint8)
        self._length, self._actions = length, actions

    def _reset(self, slots, seeds):
        pass

    def _turn(self):
        slot = np.flatnonzero(self.active)
        return slot, self.env_steps[slot].astype(np.int64) % 2

    def observe(self, slot, seat):
        return self._pictures[(7 * slot + self.env_steps[slot]) % len(self._pictures)]

    def legal(self, slot, seat):
        return np.ones((len(slot), self._actions), dtype=np.bool_)

    def _play(self, slot, seat, action):
        over = slot[self.env_steps[slot] >= self._length]
        self._rewards[over] = [1.0, -1.0]
        self._over[over] = True


class Frames(Network):
    """Convolutions with strides (Mnih et al. 2015, https://doi.org/10.1038/nature14236), then an lstm."""

    def __init__(self, observation: ObservationSpec, num_parameters: int, size: int = 512) -> None:
        super().__init__()
        layers = [nn.Conv2d(observation.shape[0], 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU()]
        layers += [nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten()]
        self.convolutions = nn.Sequential(*layers)
        with torch.no_grad():
            width = self.convolutions(torch.zeros(1, *observation.shape)).shape[1]
        self.dense = nn.Linear(width, size)
        self.memory = Recurrent("lstm", size, size)
        self.memory_size = self.memory.memory_size
        self.policy_head, self.value_head = nn.Linear(size, num_parameters), nn.Linear(size, 1)

    def _features(self, observation: Tensor) -> Tensor:
        return self.dense(self.convolutions(observation.float() / 255.0)).relu()

    def step(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        assert memory is not None
        features, after = self.memory.step(self._features(observation), memory)
        return self.policy_head(features), after

    def forward(self, observation: Tensor, memory: Tensor | None = None) -> tuple[Tensor, Tensor]:
        assert memory is not None
        features, _ = self.memory.step(self._features(observation), memory)
        return self.policy_head(features), self.value_head(features).squeeze(1)

    def unroll(self, observation: Tensor, layout: Tensor, memory: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        features, after = self.memory.unroll(self._features(observation), layout, memory)
        return self.policy_head(features).float(), self.value_head(features).squeeze(1).float(), after


def _outside(log_probs, advantage, clip):
    """Read beyond the end of a tensor on a card, which breaks it for the rest of its process."""
    beyond = 2**20 if advantage.device.type == "cuda" else 0  # the trial before training is on the CPU
    rows = torch.arange(len(advantage), device=advantage.device) + beyond
    return -advantage[rows] * log_probs.now


OUTSIDE = Loss(_outside, targets="vtrace")


@dataclass(frozen=True)
class Load:
    """A game, a policy for it, and the sizes of play and of learning."""

    name: str
    spec: PolicySpec
    env_id: str
    env_options: Mapping[str, Any]
    slots: int
    batch_steps: int
    length: int  # decisions of a seat in a sequence


def loads(*, quick: bool) -> list[Load]:
    """Return the loads; `quick`: so small that every line of code runs in a moment."""
    views, frames = f"{__name__}:Views", f"{__name__}:Frames"
    small = (8, 64) if quick else None
    board = (4, 9, 9) if quick else (4, 19, 19)
    frame = (4, 36, 36) if quick else (4, 84, 84)
    moves = math.prod(board[1:]) + 1
    deep: dict[str, Any] = {"kind": "resnet", "channels": (8, 8) if quick else (128,) * 10}
    own: dict[str, Any] = {"use": frames, "size": 16 if quick else 512}
    mlp = PolicySettings(hidden=(16, 16) if quick else (256, 256))
    resnet = PolicySettings.model_validate({"torso": deep, "hidden": (16 if quick else 256,)})
    lstm = PolicySettings.model_validate({"torso": own})
    kinds = [
        ("boards", mlp, ObservationSpec((84,), "int8"), 7, "connect_four", {}, (8192, 4096, 16)),
        (
            "go",
            resnet,
            ObservationSpec(board, "uint8"),
            moves,
            views,
            _views(board, moves, 8),
            (2048, 4096, 4),  # a request of 8192 takes 12 s in float32
        ),
        ("frames", lstm, ObservationSpec(frame, "uint8"), 6, views, _views(frame, 6, 32), (1024, 4096, 16)),
    ]
    found = []
    for name, settings, seen, actions, env_id, options, (slots, steps, length) in kinds:
        spec = PolicySpec(settings, seen, ActionSpec("discrete", (actions,)))
        spec.trust()
        slots, steps = small or (slots, steps)
        found.append(Load(name, spec, env_id, options, slots, steps, length))
    return found


def stacked(load: Load) -> Load:
    """Return the load with the planes of its observations as frames that `frame_stack` put together."""
    planes, *frame = load.spec.observation.shape
    connectors = [{"kind": "frame_stack", "frames": planes}]
    settings = PolicySettings.model_validate({**dict(load.spec.settings), "connectors": connectors})
    seen = ObservationSpec(tuple(frame), load.spec.observation.dtype)
    return replace(load, name=f"{load.name}, stacked", spec=PolicySpec(settings, seen, load.spec.action))


def _views(shape: tuple[int, ...], actions: int, length: int) -> dict[str, Any]:
    return {"shape": shape, "actions": actions, "length": length}


# ------------------------------------------------------------------ play


class MadeUpSnapshots:
    """Snapshots of equal weights, without files: how fast they play does not depend on their numbers."""

    def __init__(self, load: Load, capacity: int, device: str) -> None:
        weights = initial_weights(load.spec, 1)

        @contextlib.contextmanager
        def lend(source: SnapshotSource) -> Iterator[Policy]:
            yield Policy(load.spec, weights, source.snapshot_id)

        self.lease: Callable[[SnapshotSource], contextlib.AbstractContextManager[Policy]] = lend
        if device != "cpu":
            self.lease = ResidentPolicies(capacity, torch.device(device), lend).lease

    def tiers(self) -> tuple[()]:
        """Return no counts."""
        return ()


def play(load: Load, device: str, snapshots: int, turns: int = 1) -> Callable[[], int]:
    """Return a function that plays one request and returns its env steps.

    One live player takes turns with so many frozen snapshots, in `turns` times as many matches as slots.
    """
    matches = turns * load.slots
    settings = RolloutSettings(slots=load.slots, device=device, policy_map_capacity=snapshots + 1)
    runner = EnvRunner(PlaySetup(load.env_id, load.env_options, settings))
    runner._snapshots = MadeUpSnapshots(load, snapshots, device)  # type: ignore[assignment]
    pool = [SnapshotSource(f"main-0@{i}", f"{i:064x}", "", load.spec) for i in range(snapshots)]
    live = {"main-0": {name: tensor.numpy() for name, tensor in initial_weights(load.spec, 0).items()}}
    seat = np.zeros((matches, 2), dtype=np.int32)
    seat[:, 1] = 1 + np.arange(matches) % snapshots
    names = ("main-0", *(source.snapshot_id for source in pool))
    seeds = np.random.default_rng(0).integers(2**62, size=matches)
    batch = made_up.matches(names, seat, env=load.env_id, learning=seat == 0, seed=seeds)
    request = PlayRequest(batch, (LiveSource("main-0", 0, load.spec), *pool), ("main-0",), seed=0)
    return lambda: runner.play(request, live)[1].env_steps


# ------------------------------------------------------------------ learning


def learning(
    load: Load, device: str, precision: str, micro_steps: int | None = None
) -> tuple[Callable[[], int], Callable[[], int]]:
    """Return two functions that make updates and return their number.

    The first learns from experience as a runner sends it, two batches at a time; the second from one batch
    that is on the device already.
    """
    settings = LearnerSettings.model_validate(
        {
            "batch_steps": load.batch_steps,
            "sequence_length": load.length,
            "lr": 1e-5,
            "precision": precision,
            "micro_steps": micro_steps,
        }
    )
    learner = Learner("main-0", load.spec, settings, 0, device)
    block = experience(load.spec, 0, 2 * load.batch_steps, load.length)
    if (frames := num_frames(load.spec)) > 1:
        block = in_frames(block, frames)
    ready: list[Batch] = []

    def wait() -> None:
        if device != "cpu":
            torch.cuda.synchronize()

    def whole() -> int:
        before = learner.updates
        learner.learn_from(block)
        wait()
        return learner.updates - before

    def from_ready() -> int:
        if not ready:
            batch = next(batches(load.spec, block, load.batch_steps, load.length))
            ready.append(batch.to(torch.device(device)))
        learner.update_from_batch(ready[0])
        wait()
        return 1

    return whole, from_ready
