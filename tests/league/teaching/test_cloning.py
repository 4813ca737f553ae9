"""A policy learned from games plays as they were played, and is a snapshot like any other."""

import json

import pytest
import yaml

import league
from league.arena.comparison import compare
from league.config.loading import load
from league.teaching.cloning import CloneSettings, clone
from league.teaching.games import GamesFile, write_games
from league.teaching.played import played_games
from storage import query

QUIET = {"runners": 0, "evaluation": {"placing": 0}}


def games_of(make_run, folder, env, names, matches):
    """A file of games that competitors of an untrained run play."""
    make_run(folder / "bots", env, 1)
    spaces, chunks = played_games(folder / "bots", names, matches)
    write_games(folder / "games.parquet", spaces, chunks, "bots", matches)
    return folder / "games.parquet"


@pytest.mark.slow
def test_a_policy_with_memory_is_cloned_from_sequences(make_run, tmp_path):
    path = games_of(make_run, tmp_path, "recall", ["perfect"], 200)
    policy = {"hidden": [16], "memory": {"kind": "gru", "size": 16}}
    connectors = [{"kind": "previous"}]
    settings = load({"env": {"id": "recall"}, "policy": policy | {"connectors": connectors}, **QUIET})
    how = CloneSettings(epochs=15, validation=0.1, lr=1e-2, batch_steps=128)
    lines = []
    done = clone(GamesFile(path), settings, tmp_path / "clone", how, lines.append)
    assert done.best.accuracy > 0.99
    assert done.games > 150
    assert any("of actions its likeliest" in line for line in lines)


@pytest.mark.slow
def test_a_small_file_is_looked_at_four_times_in_a_pass_and_learned_from_no_longer_than_asked(
    make_run, tmp_path
):
    path = games_of(make_run, tmp_path, "tic_tac_toe", ["random"], 400)
    learner = {"loss": {"kind": "appo"}, "replay": {"proportion": 0.5}}  # of the league after it
    settings = load({"env": {"id": "tic_tac_toe"}, "learner": learner, **QUIET})
    half, two = (CloneSettings(epochs=epochs, patience=9, batch_steps=64) for epochs in (0.5, 2.0))
    done = clone(GamesFile(path), settings, tmp_path / "half", half, lambda line: None)
    assert done.best.env_steps < 0.6 * done.decisions
    lines = []
    clone(GamesFile(path), settings, tmp_path / "two", two, lines.append)
    assert len(lines) == 8


@pytest.mark.slow
def test_a_clone_is_found_played_trained_from_and_gone_on_with(make_run, tmp_path, league_here):
    path = games_of(make_run, tmp_path, "tic_tac_toe", ["perfect", "random"], 1200)
    config = {"env": {"id": "tic_tac_toe"}, "policy": {"hidden": [64]}, **QUIET}
    config |= {"learner": {"batch_steps": 256}, "rollout": {"slots": 64, "matches_per_request": 64}}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    run = tmp_path / "clone"
    asked = ["--epochs", 12, "--batch", 256, "--lr", 0.01, "--where", "player = 'perfect'", "--json"]
    done = league_here("clone", path, run, "--policy", tmp_path / "config.yaml", *asked)
    assert done.returncode == 0, done.stderr
    name = json.loads(done.stdout)["snapshot"]
    found = compare(run, "main-0:greedy", "random", pairs=60)
    assert found.estimate.low > 100
    updates = query(run, "SELECT policy_loss, metrics FROM updates ORDER BY seq")
    losses = updates["policy_loss"].to_pylist()
    assert losses[-1] < losses[0]
    assert json.loads(updates["metrics"][-1].as_py()).keys() >= {"validation_loss", "accuracy"}
    first = [{"player": "main-0", "run": str(run), "snapshot": "main-0"}]
    held = {"magnet": {"kind": "snapshot", "run": str(run), "snapshot": name, "weight": 0.1}}
    begun = config | {"init_from": first, "stop": {"env_steps": 500}}
    league.train(begun | {"learner": config["learner"] | held}, tmp_path / "league")
    hashes = query(tmp_path / "league", "SELECT blob_hash FROM snapshots WHERE env_steps = 0")
    assert query(run, "SELECT blob_hash FROM snapshots")["blob_hash"][0] in list(hashes["blob_hash"])
    gone = league_here("train", run, "--resume", "--set", "stop.env_steps=500")
    assert gone.returncode == 0, gone.stderr
    assert query(run, "SELECT count(*) AS n FROM snapshots WHERE player = 'main-0'")["n"][0].as_py() == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--env", "connect_four"], "games of 'tic_tac_toe', expected those of 'connect_four'"),
        (["--set", "policy.value_sees=all"], "policy.value_sees"),
        (["--where", "rating > 9000"], "is left to learn from"),
        (["--set", "storage.remote=s3://a/b"], "storage.remote"),
        (["--set", "resources.gpus=64"], "resources.gpus is 64"),
    ],
)
def test_games_that_do_not_fit_are_refused_before_anything_is_written(
    make_run, tmp_path, league_here, arguments, said, monkeypatch
):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    path = games_of(make_run, tmp_path, "tic_tac_toe", ["random"], 20)
    done = league_here("clone", path, tmp_path / "clone", *arguments)
    assert done.returncode == 2
    assert said in done.stderr
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / "clone").exists()
