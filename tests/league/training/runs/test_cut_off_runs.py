"""A driver that is stopped, and comes back after another went on with its run."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

import league
from storage.ledger import lock
from storage.ledger.ledger import read_frames

pytestmark = pytest.mark.slow


def files(run):
    """All bytes of the run."""
    return {str(path): path.read_bytes() for path in run.rglob("*") if path.is_file()}


@pytest.mark.long
def test_a_driver_back_after_another_went_on_ends_in_one_sentence_and_writes_nothing(
    tmp_path, tiny, monkeypatch
):
    monkeypatch.setattr(lock, "CUT_OFF_SECONDS", 2.5)
    run, config = tmp_path / "run", tmp_path / "tiny.yaml"
    settings = tiny(stop={"env_steps": 10**9}, storage={"save_seconds": 0.5})
    config.write_text(json.dumps(settings))
    command = [sys.executable, "-m", "league", "train", str(config), "--run", str(run)]
    driver = subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    try:
        deadline = time.monotonic() + 120
        while sum(path.stat().st_size for path in run.glob("ledger/*.journal")) < 50_000:
            assert driver.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.05)
        os.kill(driver.pid, signal.SIGSTOP)
        league.train({**settings, "stop": {"env_steps": 1}}, run, resume=True)
        frames, before = [frame.batch_id for frame in read_frames(run / "ledger")], files(run)
        os.kill(driver.pid, signal.SIGCONT)
        _, said = driver.communicate(timeout=60)
    finally:
        driver.kill()
        driver.wait()
    assert driver.returncode == 1
    assert len(said.splitlines()) == 1, said
    assert said.startswith(f"league: {run}")
    assert "this process was cut off and writes nothing more" in said
    assert files(run) == before
    assert [frame.batch_id for frame in read_frames(run / "ledger")] == frames
    monkeypatch.setattr("league.training.resume._check_stop", lambda *_: None)  # it is over at once
    league.train({**settings, "stop": {"env_steps": 2}}, run, resume=True)
