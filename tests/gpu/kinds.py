"""Every kind of learner: networks, losses, actions, precisions, networks beside the one that learns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from league.envs.spaces import ActionSpec, ObservationSpec
from league.episode import Episodes
from league.learning.data.batching import Batch, cut, minibatches
from league.learning.learner.learner import Learner, LearnerSettings, LearnerState
from league.models.networks.networks import build_network
from league.models.policies.policy import initial_weights
from league.models.spec import PolicySettings, PolicySpec

SEEN = ObservationSpec((3, 5, 5), "int8")
ACTIONS = {
    "discrete": ActionSpec("discrete", (7,)),
    "multi_discrete": ActionSpec("multi_discrete", (3, 4, 4)),
    "continuous": ActionSpec("continuous", low=(-1.0, -2.0), high=(1.0, 2.0)),
}
NETWORKS: dict[str, dict[str, Any]] = {
    "mlp": {"hidden": (32, 32)},
    "cnn": {"torso": {"kind": "cnn", "channels": (8,)}, "hidden": (32,)},
    "resnet": {"torso": {"kind": "resnet", "channels": (8, 8)}, "hidden": (32,)},
    "gru": {"hidden": (32,), "memory": {"kind": "gru", "size": 16}},
    "lstm": {"hidden": (32,), "memory": {"kind": "lstm", "size": 16}},
    "transformer": {"hidden": (32,), "memory": {"kind": "transformer", "size": 16}},
}
# steps in proportion to gradients: adam's have the size of lr, whatever rounding makes of a small gradient
BASE: dict[str, Any] = {
    "batch_steps": 256,
    "sequence_length": 5,  # episodes are cut
    "optimizer": {"kind": "rmsprop", "epsilon": 1.0},
    "lr": 0.05,
}
STEPS, LENGTH = 512, 8
MAGNETS: list[dict[str, Any]] = [
    {"kind": "copy", "every": 2},
    {"kind": "ema"},
    {"kind": "initial"},
    {"kind": "snapshot", "folder": "none"},
]


@dataclass(frozen=True)
class Kind:
    """One kind of learner, and how closely two devices have to agree on its weights."""

    name: str
    policy: Mapping[str, Any]
    settings: Mapping[str, Any] = field(default_factory=dict)
    action: str = "discrete"
    others: tuple[ObservationSpec, ...] = ()
    replayed: float = 0.0
    by_batch: bool = False  # updates from batches that the caller made
    tolerance: float = 1e-4  # most difference of any number of its state

    @property
    def spec(self) -> PolicySpec:
        """Specification of its policy."""
        return PolicySpec(PolicySettings.model_validate(self.policy), SEEN, ACTIONS[self.action], self.others)


def experience(spec: PolicySpec, seed: int, steps: int = STEPS, length: int = LENGTH) -> Episodes:
    """Return random experience in episodes of `length` steps, a third of which are truncated."""
    rng = np.random.default_rng(seed)
    action, learned, count = spec.action, spec.learned, steps // length
    terminated = np.ones(count, bool)
    terminated[::3] = False
    taken = {
        "discrete": lambda: rng.integers(0, action.mask_width, steps),
        "multi_discrete": lambda: np.stack([rng.integers(0, size, steps) for size in action.sizes], 1),
        "continuous": lambda: rng.normal(size=(steps, len(action.low))).astype(np.float32),
    }[action.kind]()

    def boards(number: int) -> np.ndarray:
        return rng.integers(0, 2, (number, *learned.shape), dtype=np.int8).astype(learned.dtype)

    return Episodes(
        player="main-0",
        offset=np.arange(0, steps + 1, length),
        match_id=np.arange(count),
        seat=np.zeros(count, np.int8),
        version=np.zeros(count, np.int64),
        terminated=terminated,
        observation=boards(steps),
        mask=np.ones((steps, action.mask_width), bool),
        action=taken,
        log_prob=np.full(steps, -1.9, np.float32),
        reward=rng.normal(size=steps).astype(np.float32),
        bootstrap=boards(int((~terminated).sum())),
    )


def in_frames(episodes: Episodes, count: int) -> Episodes:
    """Return the episodes as if the newest frame of each observation had come through `frame_stack`."""
    observation, bootstrap = episodes.observation.copy(), episodes.bootstrap.copy()
    size, cut = observation.shape[1] // count, iter(bootstrap)
    for first, end, over in zip(episodes.offset, episodes.offset[1:], episodes.terminated, strict=False):
        rows = [*observation[first:end], *([] if over else [next(cut)])]  # views
        newest = [row[-size:].copy() for row in rows]
        for t, row in enumerate(rows):
            for age in range(count):
                frame = slice((count - 1 - age) * size, (count - age) * size)
                row[frame] = newest[t - age] if age <= t else 0
    unbroken = np.ones(len(episodes), np.bool_)
    return replace(episodes, observation=observation, bootstrap=bootstrap, unbroken=unbroken)


def batches(spec: PolicySpec, episodes: Episodes, steps: int, length: int) -> Iterator[Batch]:
    """Return minibatches whose sequences all begin with an empty memory."""
    size = build_network(spec).memory_size
    return minibatches(
        episodes, steps, length, memory=np.zeros((len(cut(episodes, length)), size), np.float32)
    )


def learned(kind: Kind, device: str) -> LearnerState:
    """Return the state of a learner of this kind after four updates on `device`, saved and loaded once."""
    spec = kind.spec
    replay = {"replay": {"proportion": kind.replayed}} if kind.replayed else {}
    settings = LearnerSettings.model_validate({**BASE, **kind.settings, **replay})
    magnet = settings.magnet
    teacher = initial_weights(spec, 9) if magnet is not None and magnet.kind == "snapshot" else None
    learner = Learner("main-0", spec, settings, 0, device, teacher=teacher)
    for seed in range(2):
        episodes = experience(spec, seed)
        if kind.by_batch:
            for batch in batches(spec, episodes, settings.batch_steps, settings.sequence_length):
                learner.update_from_batch(batch, 0.3)
        else:
            learner.update_from_episodes(episodes, 0.3)
        learner.load_state(learner.state())
    assert learner.updates >= 4
    state = learner.state()
    learner.reset(learner.weights())
    return state


def difference(here: LearnerState, there: LearnerState) -> float:
    """Return the greatest difference of two states in any number."""
    mine, theirs = here.to_tensors(), there.to_tensors()
    assert mine.keys() == theirs.keys()
    return max(
        float((mine[name].double() - theirs[name].double()).abs().max())
        for name in mine
        if mine[name].numel()
    )


def _of(name: str, policy: dict[str, Any]) -> list[Kind]:
    """Return all kinds of learners with this network."""
    beside = {**policy, "separate_value": True}
    all_see = {**beside, "value_sees": "all"}
    normal = {"connectors": [{"kind": "normalise"}]}
    terms: dict[str, Any] = {"upgo": {}, "self_imitation": {}, "diversity": {}}
    kinds = [Kind(f"{name} {loss}", policy, {"loss": loss}) for loss in ("appo", "impala", "ppo", "neurd")]
    for action in ("multi_discrete", "continuous"):
        kinds += [Kind(f"{name} {loss} {action}", policy, {"loss": loss}, action) for loss in ("appo", "ppo")]
    for magnet in MAGNETS:
        for through in ("loss", "reward"):
            held = {"magnet": {**magnet, "weight": 0.1, "through": through}}
            called = f"magnet {magnet['kind']} {through}"
            kinds.append(Kind(f"{name} {called}", policy, held))
            kinds.append(Kind(f"{name} ppo {called}", policy, {**held, "loss": "ppo"}))
    near = {"target_updates": 2, "ema": {"decay": 0.9}, "freeze": "ema"}
    again = {"epochs": 2, "optimizer": "adam", "lr": 1e-3, "shuffle": True, "gradient_norm": 0.1}
    pulled = {"optimizer": {"kind": "adamw", "weight_decay": 0.1}, "lr": 1e-3}
    # adam's steps have the size of lr whatever the size of a gradient: rounding may turn some of them
    return [
        *kinds,
        Kind(f"{name} bfloat16", policy, {"precision": "bfloat16"}, tolerance=2e-2),
        Kind(f"{name} auto", policy, {"precision": "auto"}, tolerance=2e-2),
        Kind(f"{name} normalise", {**policy, **normal}),
        Kind(f"{name} separate value", beside),
        Kind(f"{name} value sees all", all_see, others=(SEEN,)),
        Kind(f"{name} ppo value sees all normalise", {**all_see, **normal}, {"loss": "ppo"}, others=(SEEN,)),
        Kind(f"{name} target ema", policy, near),
        Kind(f"{name} replay", policy, replayed=0.5),
        Kind(f"{name} epochs adam", policy, again, tolerance=2e-2),
        Kind(f"{name} adamw", policy, pulled, tolerance=2e-2),
        Kind(f"{name} terms", policy, {"terms": terms}),
        Kind(f"{name} by batch", policy, by_batch=True),
    ]


MIRROR = {"hidden": (32, 32), "mirror": {"observation": [3, 5, 5], "axis": 2, "actions": [7]}}
KINDS = [kind for name, policy in NETWORKS.items() for kind in _of(name, policy)]
KINDS.append(Kind("mlp mirror", MIRROR))
