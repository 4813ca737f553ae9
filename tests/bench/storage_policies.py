"""Snapshots of about 5 MB for the benchmarks of what holds and loads them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Look
from league.models.policies.policy import Policy, initial_weights
from league.models.spec import PolicySettings, PolicySpec
from league.rollout.snapshots import SnapshotSource
from storage.layout import blob_path
from storage.snapshots.blobs import publish

INPUTS, ACTIONS = 84, 7
SPEC = PolicySpec(
    PolicySettings(hidden=(1024, 1024, 128)),
    ObservationSpec((INPUTS,), "float32"),
    ActionSpec("discrete", (ACTIONS,)),
)


def make_snapshots(objects: Path, count: int) -> list[SnapshotSource]:
    """Published under `objects`, all different."""
    sources = []
    for seed in range(count):
        blob_hash, _ = publish(objects, initial_weights(SPEC, seed))
        path = blob_path(objects, blob_hash)
        sources.append(SnapshotSource(f"main-0@{seed}", blob_hash, str(path), SPEC))
    return sources


def act(policy: Policy) -> np.ndarray:
    """One forward pass, which reads every weight; returns the actions [1]."""
    observation, mask = np.ones((1, INPUTS), np.float32), np.ones((1, ACTIONS), bool)
    return policy.decide(Look(observation, mask), np.random.default_rng(0)).action
