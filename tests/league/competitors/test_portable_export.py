"""An exported agent plays as the competitor does, or is not kept; the page's script plays with it."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import league
from league.arena.comparison import compare
from league.competitors import portable_export
from league.competitors.portable_export import export_to
from league.envs import registry
from storage.archive import open_reader
from storage.errors import Failure, Mistake

ROOT = Path(__file__).parents[3]
SCRIPT = re.search(r"```python\n(# play\.py\n.*?)```", (ROOT / "league/GAMES.md").read_text(), re.DOTALL)


@pytest.fixture(scope="module")
def run(make_run, tmp_path_factory):
    return make_run(tmp_path_factory.mktemp("portable_export") / "run", snapshots=3)


@pytest.fixture(scope="module")
def agent(run, tmp_path_factory):
    path = tmp_path_factory.mktemp("agent") / "agent.onnx"
    done = export_to(open_reader(run), "main-0@1", "onnx", path, decisions=300, license="mit")
    assert (done.name, done.decisions, done.note) == ("main-0@1", 300, "")
    assert done.difference < 1e-5
    return path


@pytest.mark.slow
def test_the_script_in_the_readme_plays_with_numpy_and_onnxruntime_alone(run, agent):
    assert SCRIPT is not None
    own_lines = [line for line in SCRIPT[1].splitlines() if not re.match("$|#|import", line)]
    assert len(own_lines) < 12
    game, policy = registry.make("tic_tac_toe", 1), league.load_policy(run, "main-0@1")
    game.reset(np.zeros(1, int), np.zeros(1, int))
    (block,) = game.due()
    ours = policy.act(block.observation, block.mask, np.random.default_rng(0), greedy=True)[0][0]
    guard = "import sys\nfor name in ('torch', 'league', 'storage', 'gymnasium'): sys.modules[name] = None\n"
    calls = (
        f"seen, legal = np.array({block.observation[0].tolist()}), np.array({block.mask[0].tolist()})\n"
        "drawn = [int(act({}, observation=seen, mask=legal)) for _ in range(200)]\n"
        "print(json.dumps([int(act({}, greedy=True, observation=seen, mask=legal)), drawn]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", guard + SCRIPT[1] + calls],
        cwd=agent.parent,
        capture_output=True,
        text=True,
        check=True,
    )
    greedy, drawn = json.loads(done.stdout)
    assert greedy == ours
    expected = policy.evaluate(block.observation, block.mask)[0][0]
    assert np.bincount(drawn, minlength=9) / 200 == pytest.approx(expected, abs=0.15)


@pytest.mark.slow
@pytest.mark.parametrize("prefix", ["onnx", "export"])
def test_it_is_a_competitor_wherever_one_is_named(prefix, run, agent, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(agent, "agent.onnx")
    export_to(open_reader(run), "main-0@1", "folder", Path("kept"), decisions=50)
    name = {"onnx": "onnx:agent.onnx", "export": "export:kept"}[prefix]
    greedy = compare(run, "main-0@1:greedy", f"{name}:greedy", pairs=8)
    assert greedy.b == f"{name}:greedy"
    assert greedy.repeated_pairs == 7  # nothing is drawn: each pair is the same two games
    assert greedy.pair_scores.tolist() == [0.5]
    other = compare(run, "main-0@2", name, pairs=400)
    own = compare(run, "main-0@2", "main-0@1", pairs=400)
    assert abs(other.pair_scores.mean() - own.pair_scores.mean()) < 0.08


@pytest.mark.slow
def test_a_folder_holds_weights_a_card_and_the_file_also_of_a_mixture(run, tmp_path):
    done = export_to(open_reader(run), "main-0:average", "folder", tmp_path / "mixture", decisions=100)
    assert (done.difference < 1e-5, done.note) == (True, "")
    assert sorted(path.name for path in (tmp_path / "mixture").iterdir()) == [
        "README.md",
        "agent.onnx",
        "members",
        "mixture.json",
    ]
    scores = compare(run, "main-0:average", f"onnx:{tmp_path}/mixture/agent.onnx", pairs=300).pair_scores
    assert scores.mean() == pytest.approx(0.5, abs=0.1)
    greedy = export_to(open_reader(run), "main-0:greedy", "folder", tmp_path / "greedy", decisions=100)
    assert greedy.name == "main-0@2:greedy"
    assert compare(run, f"onnx:{tmp_path}/greedy/agent.onnx", "main-0:greedy", pairs=5).repeated_pairs == 4


@pytest.mark.slow
def test_a_copy_that_plays_otherwise_is_a_failure_and_leaves_nothing(run, tmp_path, monkeypatch):
    def wrong(module, path, card):
        module.parts[0].network.policy_head.bias.add_(1e-3)
        write(module, path, card)

    write = portable_export.write
    monkeypatch.setattr(portable_export, "write", wrong)
    for to in ("onnx", "folder"):
        with pytest.raises(Failure, match=r"main-0@2: the written file differs by 0\.001 on 40 decisions"):
            export_to(open_reader(run), "main-0", to, tmp_path / "agent", decisions=40)
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_what_cannot_be_exported_is_one_sentence_and_leaves_nothing(run, tmp_path):
    reader = open_reader(run)
    (tmp_path / "there").touch()
    for name, path, message in (
        ("random", "new", "'random' is a bot, expected a snapshot, a player, best or a mixture"),
        ("main-0@9", "new", "'main-0@9' is no snapshot, player or bot of this run"),
        ("main-0", "there", "there exists, expected a new place to export to; choose another"),
        ("main-0", "/proc/new", "/proc/new: cannot be written: .*; choose another folder"),
        ("main-0", "no/such/folder", "found no folder .*no/such, expected one that exists"),
    ):
        with pytest.raises(Mistake, match=message):
            export_to(reader, name, "onnx", tmp_path / path)
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
