import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from league.cli import main

torch.set_num_threads(1)

TINY = """
name: tiny
seed: 3
env: {id: tic_tac_toe}
policy: {hidden: [16]}
league:
  freeze_every: 600
  players: {main: 2, main_exploiter: 1}
rollout: {slots: 64, matches_per_request: 64}
learner: {batch_steps: 256, lr: 1e-3}
runners: 0
stop: {env_steps: 8_000}
"""


@pytest.fixture(scope="session")
def tiny_config(tmp_path_factory):
    """A league that trains in a second and freezes several snapshots."""
    path = tmp_path_factory.mktemp("configs") / "tiny.yaml"
    path.write_text(TINY)
    return path


@pytest.fixture(scope="session")
def league_command():
    """Runs the installed command `league` and returns what it said; a copied tree runs its own."""
    script = Path(sys.executable).with_name("league")
    command = [str(script)] if script.exists() else [sys.executable, "-m", "league.cli"]

    def run(*arguments, cwd=None, text=True, timeout=120):
        return subprocess.run(
            [*command, *map(str, arguments)],
            cwd=cwd,
            text=text,
            capture_output=True,
            timeout=timeout,
            check=False,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONWARNINGS": "error::UserWarning", "COLUMNS": "200"},
        )

    run.command = command
    return run


@pytest.fixture
def league_here(monkeypatch, capsys):
    """The same command in this process: for what is refused before it begins, without seconds of imports."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["league", *map(str, arguments)])
        monkeypatch.setattr(sys, "path", list(sys.path))
        with pytest.raises(SystemExit) as ended:
            main()
        said = capsys.readouterr()
        return subprocess.CompletedProcess(arguments, ended.value.code, said.out, said.err)

    return run


@pytest.fixture(scope="session")
def trained(tmp_path_factory, tiny_config, league_command):
    """A finished run. Only read it; `cp -r` it to change it."""
    run = tmp_path_factory.mktemp("runs") / "tiny"
    done = league_command("train", tiny_config, "--run", run)
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(scope="session")
def tiny():
    """Makes settings of a league that freezes every few thousand steps, played and learned in one process."""

    def settings(env="rock_paper_scissors", **changes):
        made = {
            "name": "tiny",
            "env": {"id": env},
            "policy": {"hidden": [16]},
            "league": {
                "freeze_every": 1000,
                "players": {"main": 1, "main_exploiter": 1, "league_exploiter": 1},
            },
            "rollout": {"slots": 64, "matches_per_request": 128},
            "learner": {"batch_steps": 256, "lr": 3e-3},
            "stop": {"env_steps": 100_000},
        }
        for key, value in changes.items():
            made[key] = {**made.get(key, {}), **value} if isinstance(value, dict) else value
        return made

    return settings
