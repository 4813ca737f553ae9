"""Runs and exports of the time when games showed something else go on: flat boards, masks as observations."""

import contextlib
import shutil

import gymnasium
import numpy as np
import pytest
from torch import nn

import league
from league.arena.comparison import compare
from league.competitors.portable_export import export_to
from league.config.settings import Settings
from league.envs import registry
from league.envs.games.tic_tac_toe import TicTacToe
from league.exploit.measure import exploit
from storage import open_reader

pytestmark = pytest.mark.slow
SETTINGS = {
    "env": {"id": "tic_tac_toe"},
    "league": {"preset": "self_play"},
    "learner": {"batch_steps": 256},
    "rollout": {"slots": 32, "matches_per_request": 32},
    "stop": {"env_steps": 1500},
}
BOARD, NORMAL = {"kind": "reshape", "shape": [2, 3, 3]}, {"kind": "normalise"}
POLICIES = {
    "mlp": {"hidden": [16], "connectors": [{"kind": "frame_stack", "frames": 2}, NORMAL]},
    "gru": {"hidden": [16], "memory": "gru", "connectors": [NORMAL]},
    "cnn": {"hidden": [16], "torso": {"kind": "cnn", "channels": [4]}, "connectors": [BOARD]},
}


@contextlib.contextmanager
def flat_rows():
    """The time when the board was a flat row."""
    planes = TicTacToe.observe
    with pytest.MonkeyPatch.context() as before:
        before.setattr(TicTacToe, "observation_spaces", (gymnasium.spaces.Box(0, 1, (18,), np.int8),) * 2)
        before.setattr(TicTacToe, "observe", lambda *asked: planes(*asked).reshape(-1, 18))
        yield


class FlatOnly(nn.Module):
    """A user's network of that time: it takes no planes."""

    def __init__(self, observation, num_parameters):
        super().__init__()
        (size,) = observation.shape
        self.heads = nn.Linear(size, num_parameters + 1)

    def forward(self, observation):
        out = self.heads(observation.float())
        return out[:, :-1], out[:, -1]


@pytest.fixture(scope="module", params=POLICIES)
def flat(request, tmp_path_factory):
    """A run in a game of flat rows, its exports, and the very same run that never stopped."""
    tmp_path = tmp_path_factory.mktemp("flat")
    with flat_rows():
        settings = SETTINGS | {"policy": POLICIES[request.param]}
        run = league.train(settings, tmp_path / "flat")
        whole = league.train(settings, tmp_path / "whole")
        league.train(settings, whole, overrides=["stop.env_steps=3000"], resume=True)
        for to in ("onnx", "folder"):
            export_to(open_reader(run), "main-0", to, tmp_path / to)
    return run, whole, tmp_path


def test_a_run_of_flat_boards_goes_on_to_the_bit(flat):
    run, whole, folder = flat
    league.branch(run, folder / "branch")
    shutil.copytree(run, folder / "resumed")
    for resumed in (folder / "resumed", folder / "branch"):
        league.train(resumed / "config.yaml", resumed, overrides=["stop.env_steps=3000"], resume=True)
    kept, stayed = open_reader(folder / "resumed"), open_reader(whole)
    assert [each.blob_hash for each in kept.snapshots()] == [each.blob_hash for each in stayed.snapshots()]
    for snapshot in kept.snapshots():
        assert kept.manifest(snapshot.snapshot_id)["spec"]["observation"]["shape"] == [18]
    assert len(open_reader(folder / "branch").snapshots()) == len(kept.snapshots())


def test_its_snapshots_and_files_play_in_the_game_of_planes(flat):
    run, _, folder = flat
    game = registry.make("tic_tac_toe", 1)
    game.reset(np.array([0]), np.array([0]))
    (block,) = game.due()
    policy, rng = league.load_policy(run, "main-0"), np.random.default_rng(0)
    assert block.observation.shape == (1, 2, 3, 3)
    asked = (block.observation, block.observation.reshape(1, 18))
    found = [policy.evaluate(seen, block.mask)[0].tolist() for seen in asked]
    assert found[0] == found[1]
    for other in (f"onnx:{folder / 'onnx'}:greedy", f"export:{folder / 'folder'}:greedy"):
        won, _, lost = compare(run, "main-0:greedy", other, pairs=4).wins_draws_losses
        assert won == lost  # one against itself
    assert policy.act(*asked[:1], block.mask, rng)[0].shape == (1,)
    if policy.memory_size == 0:
        (measured,) = exploit(run, ["main-0"])
        assert measured.measurement.kind == "exact"


def test_a_new_run_may_begin_with_its_weights(flat):
    run, _, folder = flat
    begun = SETTINGS | {
        "policy": open_reader(run).config()["policy"],
        "init_from": [{"player": "main-0", "run": str(run), "snapshot": "main-0"}],
    }
    new = open_reader(league.train(begun, folder / "new", overrides=["stop.env_steps=100"]))
    first = new.snapshots()[0].snapshot_id
    assert new.manifest(first)["spec"]["observation"]["shape"] == [2, 3, 3]
    weights = [league.load_policy(*each).tensors for each in ((run, "main-0"), (folder / "new", first))]
    assert all(np.array_equal(weights[0][name].ravel(), weights[1][name].ravel()) for name in weights[0])


def test_a_network_of_ones_own_that_takes_flat_rows_goes_on_and_plays(tmp_path):
    settings = SETTINGS | {"policy": {"torso": {"use": f"{__name__}:FlatOnly"}}}
    with flat_rows():
        run = league.train(settings, tmp_path / "flat", overrides=["stop.env_steps=300"])
    league.branch(run, branched := tmp_path / "branch")
    league.train(branched / "config.yaml", branched, overrides=["stop.env_steps=600"], resume=True)
    newest = open_reader(branched).snapshots()[-1]
    assert open_reader(branched).manifest(newest.snapshot_id)["spec"]["observation"]["shape"] == [18]
    assert sum(compare(branched, newest.snapshot_id, "random", pairs=4).wins_draws_losses) == 8


class Masked(gymnasium.Env):
    """An env with a mask of legal actions among its observations."""

    def __init__(self):
        shown = {"board": gymnasium.spaces.Box(0, 1, (6,), np.float32)}
        mask = {"action_mask": gymnasium.spaces.Box(0, 1, (4,), np.int8)}
        self.observation_space = gymnasium.spaces.Dict(shown | mask)
        self.action_space = gymnasium.spaces.Discrete(4)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return self.see(), {}

    def see(self):
        return {"board": np.zeros(6, np.float32), "action_mask": np.array([1, 1, 0, 1], np.int8)}

    def step(self, action):
        self.steps += 1
        return self.see(), float(action == 1), self.steps == 8, False, {}


def test_a_run_whose_policies_saw_the_mask_goes_on_and_plays(tmp_path, monkeypatch):
    gymnasium.register("Masked-v0", entry_point=Masked)
    env = {"id": "gymnasium:Masked-v0", "options": {"seats": 2}}
    before, after = (
        SETTINGS | {"env": env | {"options": {"seats": 2} | own}} for own in ({"mask": "none"}, {})
    )
    written = Settings.to_yaml
    with monkeypatch.context() as older:  # a version without the option
        older.setattr(Settings, "to_yaml", lambda own: written(own).replace("    mask: none\n", ""))
        run = league.train(before, tmp_path / "run", overrides=["stop.env_steps=300"])
    league.branch(run, tmp_path / "branch")
    for config, resumed in ((after, run), (tmp_path / "branch" / "config.yaml", tmp_path / "branch")):
        league.train(config, resumed, overrides=["stop.env_steps=600"], resume=True)
    assert sum(compare(run, "main-0", "random", pairs=4).wins_draws_losses) == 8
