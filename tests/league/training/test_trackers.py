"""Sinks hold the run's own figures, in one series however often it was resumed."""

import json
import sqlite3
import sys
import time

import pytest

from league.config.loading import load
from league.section import leaves
from storage import query
from storage.errors import Mistake


@pytest.fixture
def train(league_here, tiny_config, tmp_path):
    """Trains the tiny league with sinks for so many env_steps; the second time it resumes."""

    def trained(sinks, env_steps):
        arguments = ["train", tiny_config, "--run", tmp_path / "run", "--set", "log.seconds=0.1"]
        arguments += ["--set", f"log.sinks={json.dumps(sinks)}", "--set", f"stop.env_steps={env_steps}"]
        if (tmp_path / "run").exists():
            arguments.append("--resume")
        done = league_here(*arguments)
        assert done.returncode == 0, done.stderr
        assert (
            "no longer logged to" not in done.stdout + done.stderr
        )  # each was closed as its library wants it
        if "tensorboard" in sinks:
            assert f"to watch it: tensorboard --logdir {tmp_path}/run/sinks/tensorboard\n" in done.stdout
        return tmp_path / "run"

    return trained


def env_steps_of(run):
    return query(run, "SELECT sum(env_steps) AS n FROM matches").to_pylist()[0]["n"]


@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # MLflow warns of what its own libraries do
def test_tensorboard_and_mlflow_hold_the_same_figures_and_a_resumed_run_goes_on(train):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    sinks = ["tensorboard", {"kind": "mlflow", "experiment": "tiny"}]
    train(sinks, 2_000)
    run = train(sinks, 4_000)

    events = EventAccumulator(str(run / "sinks/tensorboard")).Reload()
    matches = events.Scalars("league/matches")
    steps = [point.step for point in matches]
    assert steps == sorted(steps)
    assert steps[-1] == env_steps_of(run)
    assert matches[-1].value == query(run, "SELECT count(*) AS n FROM matches").to_pylist()[0]["n"]
    assert {
        "rating/main-0/mu",
        "learning/main-0/entropy",
        "learning/main-0/seconds_learning",
        "learning/main-0/seconds_playing",
        "speed/env_steps_per_second",
        "mix/self_play",
        "score/main-0",
        "length/main-0",
        "end/finished",
        "seat/0",
        "win_rate/main-0/snapshots_of_main-0",
    } <= set(events.Tags()["scalars"])
    with sqlite3.connect(run / "sinks/mlflow.db") as database:
        assert database.execute("SELECT count(*), max(status) FROM runs").fetchone() == (1, "FINISHED")
        kept = database.execute("SELECT step, value FROM metrics WHERE key = 'league/matches' ORDER BY step")
        assert kept.fetchall() == [(point.step, point.value) for point in matches]
        stored = dict(database.execute("SELECT key, value FROM params").fetchall())
        assert stored["learner.lr"] == "0.001"
    database.close()


@pytest.mark.long
@pytest.mark.alone
def test_weights_and_biases_works_offline_and_a_resumed_run_keeps_its_id(train):
    import wandb

    sink = [{"kind": "wandb", "mode": "offline"}]
    train(sink, 2_000)
    wandb.teardown()  # else it takes both sessions for one; and its folders are named by the second
    time.sleep(1.0)
    run = train(sink, 4_000)
    files = sorted((run / "sinks/wandb").glob("offline-run-*/run-*.wandb"))
    assert len(files) == 2
    (name,) = {file.stem.removeprefix("run-") for file in files}
    assert json.loads((run / "sinks/wandb.json").read_text()) == {"id": name}
    held = b"".join(file.read_bytes() for file in files)
    assert b"rating/main-0/mu" in held


def test_a_sink_whose_library_is_missing_is_refused_before_anything_is_written(
    league_here, tiny_config, tmp_path, monkeypatch
):
    import importlib.util

    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "wandb" else found(name))
    done = league_here("train", tiny_config, "--run", tmp_path / "run", "--set", 'log.sinks=["wandb"]')
    assert done.returncode == 2
    assert "pip install '.[wandb]'" in done.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_sink_that_fails_is_let_go_of_and_training_goes_on(league_here, tiny_config, tmp_path, monkeypatch):
    import league.training.reporting

    def full(self, env_steps, values):
        raise OSError("no space left")

    monkeypatch.setattr(league.training.reporting.TensorBoard, "log", full)
    sink = ["--set", 'log.sinks=["tensorboard"]', "--set", "log.seconds=0.01", "--set", "stop.env_steps=2000"]
    done = league_here("train", tiny_config, "--run", tmp_path / "run", *sink)
    assert done.returncode == 0
    assert done.stderr == "log.sinks: tensorboard failed and is no longer logged to: no space left\n"
    assert env_steps_of(tmp_path / "run") >= 2_000


@pytest.mark.slow
def test_a_sink_that_cannot_be_opened_ends_the_run_with_what_to_do(league_here, tiny_config, tmp_path):
    (tmp_path / "file").write_text("")
    sink = f'log.sinks=[{{"kind": "tensorboard", "folder": "{tmp_path}/file/below"}}]'
    done = league_here("train", tiny_config, "--run", tmp_path / "run", "--set", sink)
    assert done.returncode == 1
    assert "tensorboard cannot be opened" in done.stderr
    assert "--resume" in done.stderr
    going_on = ["--set", "log.sinks=[]", "--set", "stop.env_steps=1000", "--resume"]
    assert league_here("train", tiny_config, "--run", tmp_path / "run", *going_on).returncode == 0


@pytest.mark.parametrize(
    ("sinks", "said"),
    [
        ("[papyrus]", "papyrus"),
        ("[wandb, wandb]", "found wandb 2 times"),
        ("[{kind: mlflow, url: x}]", "url"),
    ],
)
def test_a_sink_that_is_none_is_one_message(tiny_config, sinks, said):
    with pytest.raises(Mistake, match=said):
        load(tiny_config, [f"log.sinks={sinks}"])


@pytest.mark.slow
def test_a_run_without_sinks_needs_none_of_their_libraries(train, monkeypatch):
    for name in ("mlflow", "wandb", "tensorboard", "torch.utils.tensorboard"):
        monkeypatch.setitem(sys.modules, name, None)
    assert not (train([], 500) / "sinks").exists()


def test_a_single_sink_needs_no_list(tiny_config):
    (sink,) = load(tiny_config, ["log.sinks=tensorboard"]).log.sinks
    assert sink.kind == "tensorboard"


def test_settings_become_lines():
    given = {"learner": {"lr": 0.1, "own": {}}, "stop": {"minutes": None}}
    assert leaves(given) == {"learner.lr": 0.1, "learner.own": {}, "stop.minutes": None}
