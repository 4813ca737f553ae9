import numpy as np
import pytest
import torch

from league.envs import registry
from league.models.policy import PolicySettings, PolicySpec, initial_weights
from league.rollout.env_runner import BotSource, LiveSource, PlayRequest, SnapshotSource
from storage.blobs import publish
from storage.records import MatchBatch, Purpose

torch.set_num_threads(1)


@pytest.fixture
def make_request(tmp_path):
    """A request: `main-0` (learning, odd matches in seat 1) against snapshots and bots in turn."""

    def make(env, num_matches, *, snapshots=2, bots=(), self_play=0, seed=0):
        spec = PolicySpec.for_game(PolicySettings(hidden=(16,)), registry.make(env, 1))
        sources = [LiveSource("main-0", 7, spec)]
        for i in range(snapshots):
            blob_hash, _ = publish(tmp_path / "objects", initial_weights(spec, 100 + i))
            path = tmp_path / "objects" / blob_hash[:2] / f"{blob_hash}.safetensors"
            sources.append(SnapshotSource(f"main-0@{i}", blob_hash, str(path), spec))
        sources += [BotSource(name) for name in bots]
        games = np.arange(num_matches)
        opponent = 1 + games % max(len(sources) - 1, 1)
        opponent[games < self_play] = 0
        seat = np.where(
            games[:, None] % 2 == 0, np.stack([0 * games, opponent], 1), np.stack([opponent, 0 * games], 1)
        )
        names = tuple(
            s.player
            if isinstance(s, LiveSource)
            else s.snapshot_id
            if isinstance(s, SnapshotSource)
            else s.name
            for s in sources
        )
        batch = MatchBatch(
            env=env,
            purpose=Purpose.TRAINING,
            match_types=("pfsp",),
            competitors=names,
            match_id=1000 + games,
            seed=np.random.default_rng(seed).integers(2**62, size=num_matches),
            match_type=np.zeros(num_matches, np.int16),
            seat=seat.astype(np.int32),
            learning=seat == 0,
        )
        weights = {"main-0": {k: v.numpy() for k, v in initial_weights(spec, 1).items()}}
        return PlayRequest(batch, tuple(sources), "main-0", seed), weights

    return make
