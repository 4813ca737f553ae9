"""A game of choices and real numbers at once, with masks, is trained, compared, exported and exploited."""

import numpy as np
import onnxruntime
import pytest

import analysis
import league
from league.arena.comparison import compare
from league.competitors.portable_export import export_to
from league.exploit.measure import exploit
from league.exploit.settings import TrainingOptions
from storage import open_reader
from tests.league.throw import ID

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    settings = {
        "env": {"id": ID, "options": {"seats": 2, "loss_reward": -4.0}},
        "league": {"preset": "self_play"},
        "policy": {"hidden": [32]},
        "learner": {"batch_steps": 512, "lr": 1e-2},
        "rollout": {"slots": 64, "matches_per_request": 64},
        "stop": {"env_steps": 20_000},
    }
    return league.train(settings, tmp_path_factory.mktemp("joint") / "run")


def test_choices_and_real_numbers_are_learned_together(run):
    """A match is 2 throws, each worth 1 for the club that is shown, less the distance from its place."""
    scores = analysis.open_run(run).sql("SELECT score FROM seats WHERE competitor = 'main-0' ORDER BY seq")
    returns = scores["score"].to_numpy()
    part = len(returns) // 6
    assert returns[-part:].mean() > returns[:part].mean() + 0.8
    policy, shown = league.load_policy(run, "main-0"), np.eye(3, dtype=np.float32)
    mask = np.ones((3, 10), dtype=np.bool_)
    mask[:, 3] = False
    mask[[0, 1, 2], [2, 0, 1]] = False
    action, _ = policy.act(shown, mask, np.random.default_rng(0), greedy=True)
    assert action[:, 0].tolist() == [0.0, 1.0, 2.0]
    assert action[:, 1].tolist() == [1.0, 1.0, 1.0]  # the other one is illegal
    assert np.corrcoef(action[:, 4], [-1.0, 0.0, 1.0])[0, 1] > 0.8  # the aim


def test_an_exported_file_decides_as_the_snapshot_does_and_plays_as_a_bot(run, tmp_path):
    path = tmp_path / "agent.onnx"
    assert export_to(open_reader(run), "main-0", "onnx", path).difference < 1e-5
    outputs = {found.name for found in onnxruntime.InferenceSession(path).get_outputs()}
    assert outputs == {"logits", "mean", "log_std", "value", "action"}
    level = compare(run, "main-0:greedy", f"onnx:{path}:greedy", pairs=8)
    assert level.wins_draws_losses == (0, 16, 0)
    export_to(open_reader(run), "main-0", "folder", tmp_path / "folder")
    level = compare(run, "main-0:greedy", f"export:{tmp_path / 'folder'}:greedy", pairs=8)
    assert level.wins_draws_losses == (0, 16, 0)


def test_bots_take_such_actions_too(run):
    assert compare(run, "main-0", "random", pairs=40).pair_scores.mean() > 0.8
    assert compare(run, "main-0", "tests.league.throw:dull", pairs=40).pair_scores.mean() > 0.6


def test_a_best_response_is_trained_where_there_is_no_tree(run):
    few = ("rollout.matches_per_request=128", "learner.batch_steps=256")
    options = TrainingOptions(env_steps=4_000, pairs=64, overrides=few)
    (found,) = exploit(run, ["main-0"], training=options)
    assert np.isfinite(found.measurement.value)
