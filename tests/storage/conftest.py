import numpy as np
import pytest

from storage.archive import Archive
from storage.layout import LEDGER
from storage.ledger.ledger import read_frames
from storage.records import MAIN, Bot, LivePlayer
from tests import made_up

SPEC = {"architecture": "mlp", "hidden": [4]}


def frames(run):
    """What identifies the frames of a run's ledger."""
    return [(frame.sequence, frame.batch_id) for frame in read_frames(run / LEDGER)]


@pytest.fixture
def make_results():
    """M two-seat results of `main-0` against `random` and `main-0@0`, won, drawn and lost in turn."""

    def make(num_matches, first_match_id=0, *, seed=0, competitors=("main-0", "random", "main-0@0")):
        rng = np.random.default_rng(seed)
        m = num_matches
        seat = np.stack([np.zeros(m), 1 + np.arange(m) % 2], axis=1).astype(np.int32)
        seat[1::3] = seat[1::3, ::-1]
        outcome = np.array([[0, 2], [1, 1], [2, 0], [3, 0]], dtype=np.int8)[rng.integers(4, size=m)]
        played = made_up.matches(
            competitors,
            seat,
            env="connect_four",
            match_types=("self_play", "pfsp", "never_drawn"),
            learning=seat == 0,
            match_id=first_match_id + np.arange(m),
            seed=rng.integers(2**63 - 1, size=m),
            match_type=rng.integers(2, size=m),
        )
        return made_up.results(
            played,
            outcome,
            score=rng.normal(size=(m, 2)),
            env_steps=rng.integers(7, 43, size=m),
            reason=(outcome == 3).any(axis=1),
            started_at=1.7e9 + rng.random(m),
            seconds=rng.random(m),
        )

    return make


@pytest.fixture
def weights():
    rng = np.random.default_rng(7)
    return {"torso.weight": rng.normal(size=(4, 3)).astype(np.float32), "bias": np.zeros(4, np.float32)}


@pytest.fixture
def run(tmp_path, weights):
    """A run with a player, a bot and the snapshot `main-0@0`, closed."""
    with Archive.create(
        tmp_path / "run", "env: {id: connect_four}\n", {"name": "test", "env": "connect_four", "seed": 3}
    ) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        archive.add_snapshot("main-0", MAIN, 0, 0, None, weights, SPEC, "mlp", "initial weights")
    return tmp_path / "run"
