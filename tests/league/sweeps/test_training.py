"""The training of a sweep's runs: what is finished is not trained again, what was cut goes on."""

import os
import signal
import subprocess
import sys
import time

import pytest

from league.sweeps.plan import read_plan
from league.sweeps.training import state_in


@pytest.mark.slow
def test_a_sweep_that_was_killed_goes_on_without_training_anything_twice(tiny_config, league_here, tmp_path):
    folder = tmp_path / "s"
    command = [sys.executable, "-m", "league.commands.app", "sweep", str(tiny_config), "--seeds", "2"]
    process = subprocess.Popen([*command, "--out", str(folder)], start_new_session=True)
    first, second = folder / "seed=3", folder / "seed=4"
    deadline = time.monotonic() + 400
    while not (second / "FORMAT").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    plan = read_plan(folder)
    assert [state_in(folder, run).kind for run in plan.runs] == ["trained", "killed"]
    before = {path: path.stat().st_mtime_ns for path in first.rglob("*") if path.is_file()}
    done = league_here("sweep", folder)
    assert done.returncode == 0, done.stderr
    assert "seed=3: is there. Trained" in done.stdout
    assert "seed=4: goes on" in done.stdout
    assert "mean of 2 seeds" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert state_in(folder, plan.runs[1]).kind == "trained"
