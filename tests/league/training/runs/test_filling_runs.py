"""Batches that fill over many requests, and what waits meanwhile when a run stops."""

import io

import numpy as np
import pytest
import torch
from rich.console import Console

import analysis
from league.config.loading import load
from league.extend import Replay
from league.training.loop import train
from league.training.view import PlainView
from storage.archive import Archive

pytestmark = pytest.mark.slow


def config(env_steps=3_000, **settings):
    made = {
        "env": {"id": "gymnasium:CartPole-v1"},
        "policy": {"hidden": [8]},
        "league": {"preset": "none"},
        "rollout": {"slots": 8, "matches_per_request": 8},
        "learner": {"batch_steps": 1024},
        "log": {"seconds": 1e6},
        "stop": {"env_steps": env_steps},
    }
    for key, value in settings.items():
        made[key] = {**made.get(key, {}), **value} if isinstance(value, dict) else value
    return made


def trained(tmp_path, made, resume=False):
    """The run of a config, and the lines that it printed."""
    out = io.StringIO()
    run = train(
        load(made),
        tmp_path / "run",
        resume=resume,
        make_view=lambda: PlainView(Console(file=out, width=300), every_seconds=1e-9),
    )
    return run, out.getvalue().splitlines()


def updates(run):
    with analysis.open_run(run) as history:
        return history.sql("SELECT max(updates) AS n FROM updates")["n"].item()


REPLAY = {"replay": {"proportion": 0.4, "capacity_steps": 1500}}
HERE = {
    "one batch of many requests": {},
    "with replay": {"learner": REPLAY},
    "play waits for updates": {"learners": {"async_update": False}},
    "fragments": {"rollout": {"fragment_steps": 3}},
    "ppo in fragments": {"rollout": {"fragment_steps": 3}, "learner": {"loss": "ppo"}},
}
ON_RAY = {
    "aggregators": {"learners": {"max_backlog": 1, "aggregators": 1}, "learner": REPLAY},
    "aggregators and waits": {"learners": {"max_backlog": 1, "aggregators": 1, "async_update": False}},
    "peers, ppo in fragments": {
        "learners": {"max_backlog": 1, "aggregators": 1, "processes": 2},
        "rollout": {"fragment_steps": 3},
        "learner": {"loss": "ppo"},
    },
}


@pytest.mark.parametrize("settings", HERE.values(), ids=HERE)
def test_a_batch_fills_over_as_many_requests_as_it_takes(tmp_path, settings):
    run, lines = trained(tmp_path, config(**settings))
    assert updates(run) >= 2
    (said,) = {line for line in lines if "fills over" in line}
    requests = int(said.split(" fills over ")[1].split()[0])
    assert requests >= 3
    fresh = "614 fresh" if settings.get("learner") == REPLAY else "1,024"
    assert said.startswith(f"main-0: a batch of {fresh} steps fills over ")


@pytest.mark.parametrize("settings", ON_RAY.values(), ids=ON_RAY)
@pytest.mark.alone
@pytest.mark.long
def test_a_batch_fills_where_requests_come_from_runners(tmp_path, settings):
    made = config(8_000, **settings, runners=2)
    run, lines = trained(tmp_path, made)
    assert updates(run) >= 3
    assert sum("fills over" in line for line in lines) == 1


def test_a_run_goes_on_with_its_replay_and_with_what_waited(tmp_path, monkeypatch):
    run, _ = trained(tmp_path, config(learner=REPLAY))
    with Archive.open(run) as archive:
        before, meta = archive.load_learner("main-0")
        before = {name: tensor.clone() for name, tensor in before.items()}
    kept = {name: tensor for name, tensor in before.items() if name.startswith("experience/")}
    assert {name.split("/")[1].split(".")[0] for name in kept} == {"waiting", "replay"}
    assert meta["left_out"] == ""
    monkeypatch.setattr("league.training.resume._check_stop", lambda *_: None)
    _, lines = trained(tmp_path, config(3_000, learner=REPLAY), resume=True)  # which has nothing left to do
    with Archive.open(run) as archive:
        after, _ = archive.load_learner("main-0")
    assert after.keys() == before.keys()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())
    assert not any("goes on from" in line for line in lines)


class Long(Replay):
    """Longer matches are drawn more often."""

    def chances(self, block):
        return np.diff(block.episodes.offset).astype(float)


def test_each_role_goes_on_with_a_replay_of_its_own(tmp_path, monkeypatch):
    kinds = {
        "main": {"kind": "prioritised", "proportion": 0.4, "capacity_steps": 1500},
        "main_exploiter": {"use": f"{__name__}:Long", "proportion": 0.3, "capacity_steps": 700},
        "league_exploiter": {"kind": "uniform", "proportion": 0.2, "capacity_steps": 400},
    }
    made = {
        "env": {"id": "kuhn_poker"},
        "league": {
            "preset": "alphastar_paper",
            "players": {"main": 1, "main_exploiter": 1, "league_exploiter": 1},
            "roles": {role: {"learner": {"replay": kind}} for role, kind in kinds.items()},
        },
        "rollout": {"slots": 64, "matches_per_request": 64},
        "learner": {"batch_steps": 256},
    }

    def states(run):
        with Archive.open(run) as archive:
            return {
                role: {
                    name: tensor.clone()
                    for name, tensor in archive.load_learner(f"{role}-0")[0].items()
                    if name.startswith("experience/replay")
                }
                for role in kinds
            }

    run, _ = trained(tmp_path, config(12_000, **made))
    before = states(run)
    assert all(before.values())
    with monkeypatch.context() as nothing_left:
        nothing_left.setattr("league.training.resume._check_stop", lambda *_: None)
        trained(tmp_path, config(12_000, **made), resume=True)
    after = states(run)
    for role, tensors in before.items():
        assert after[role].keys() == tensors.keys()
        assert all(torch.equal(after[role][name], tensor) for name, tensor in tensors.items())
    _, lines = trained(tmp_path, config(16_000, **made), resume=True)
    assert not any("goes on from" in line for line in lines)  # without a part of its state
    assert any(not torch.equal(new, before["main"][name]) for name, new in states(run)["main"].items())


def test_a_run_says_what_is_not_restored_in_one_line(tmp_path, monkeypatch):
    with monkeypatch.context() as less:
        less.setattr("league.learning.learner.learner.MOST_BYTES", 10_000)
        run, _ = trained(tmp_path, config(learner=REPLAY))
    _, lines = trained(tmp_path, config(3_500, learner=REPLAY), resume=True)
    (said,) = {line for line in lines if "goes on from" in line}
    assert said.startswith("main-0: goes on from its saved state without ")
    assert " replay of " in said
    for state in (run / "learners").iterdir():
        if state.is_file():
            state.unlink()
    _, lines = trained(tmp_path, config(4_000, learner=REPLAY), resume=True)
    (said,) = {line for line in lines if "goes on from" in line}
    assert said.startswith("main-0: goes on from the weights of main-0@")
    assert said.endswith("with a fresh optimizer and no experience, as no state of its learner is left")
