"""A tournament of snapshots, bots and programs, some of which crash, hang or answer nonsense."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
import yaml

from analysis.tournaments.tournament import verdict
from league.tournament.play import play
from league.tournament.settings import load
from storage import query
from storage.errors import StorageError

PAGE = (Path(__file__).parents[3] / "league" / "PROGRAMS.md").read_text()
FAULTS = {"crashes": "os._exit(9)", "hangs": "time.sleep(3600)", "nonsense": "print('e2e4', flush=True)"}
FAULTY = """
import json, os, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked["type"] == "hello":
        print(json.dumps({"type": "hello", "protocol": 1}), flush=True)
    elif asked["type"] == "act":
        if len(asked["legal"]) <= 7:  # at its second move at the latest
            FAULT
        print(json.dumps({"type": "act", "match": asked["match"], "action": asked["legal"][0]}), flush=True)
"""
ENDS = {"crashes": "error", "hangs": "time", "nonsense": "illegal_action"}


@pytest.fixture(scope="module")
def config(make_run, tmp_path_factory):
    folder = tmp_path_factory.mktemp("eight")
    run = make_run(folder / "run", snapshots=2)
    (folder / "bot.py").write_text(re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)[0])
    (folder / "bot.cpp").write_text(re.findall(r"```cpp\n(.*?)```", PAGE, re.DOTALL)[0])
    subprocess.run(["g++", "-O1", "-o", folder / "bot", folder / "bot.cpp"], check=True)
    commands = {"python": f"{sys.executable} {folder / 'bot.py'}", "cpp": str(folder / "bot")}
    for name, fault in FAULTS.items():
        (folder / f"{name}.py").write_text(FAULTY.replace("FAULT", fault))
        commands[name] = f"{sys.executable} {folder / name}.py"
    return {
        "name": "eight",
        "competitors": [{"run": str(run)}, {"bots": ["one_ply", *commands]}],
        "bots": {
            name: {"kind": "program", "command": given, "processes": 4} for name, given in commands.items()
        },
        "limits": {"move_seconds": 2.0},
        "schedule": {"kind": "round_robin", "pairs": 1},
        "rollout": {"slots": 16, "matches_per_request": 4},
        "runners": 0,
    }


def expect_right(run):
    """Check that all pairings were played, and who lost how."""
    found = verdict(run)
    assert sum(found.ends) == 28 * 2
    assert found.table.games.tolist() == [14] * 8
    table = found.table.set_index("competitor")
    assert set(found.table.competitor[-3:]) == set(FAULTS)
    assert found.table.competitor[0] not in FAULTS
    rows = query(
        run, "SELECT competitor, reason FROM seats JOIN matches USING (seq) WHERE outcome = 'forfeit'"
    ).to_pylist()
    assert {(row["competitor"], row["reason"]) for row in rows} == set(ENDS.items())
    assert table.loc["one_ply", "score"] > 0.5


def left_behind(config):
    folder = str(Path(config["bots"]["cpp"]["command"]).parent)
    return [
        p.pid for p in psutil.process_iter(["cmdline"]) if any(folder in w for w in p.info["cmdline"] or ())
    ]


@pytest.mark.long
def test_eight_of_which_three_fail_play_all_pairings_and_leave_no_process(config, tmp_path):
    expect_right(play(load(config), tmp_path / "out"))
    assert left_behind(config) == []
    causes = query(tmp_path / "out", "SELECT who, cause FROM incidents").to_pylist()
    assert {row["who"] for row in causes} == set(FAULTS)
    assert all("(its log: " in row["cause"] for row in causes)


@pytest.mark.alone
@pytest.mark.long
def test_it_goes_on_after_a_kill_at_each_of_four_moments(config, tmp_path):
    path, out = tmp_path / "eight.yaml", tmp_path / "out"
    path.write_text(yaml.safe_dump(config))
    command = [sys.executable, "-m", "league", "tournament", path, "--run", out]
    for matches in (5, 20, 35, 50):  # of 56
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        until = time.monotonic() + 120
        while process.poll() is None and recorded(out) < matches:
            assert time.monotonic() < until
            time.sleep(0.02)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        while left_behind(config) and time.monotonic() < until:
            time.sleep(0.02)
        assert left_behind(config) == []
        command = [*command[:4], "--run", out, "--resume"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    expect_right(out)
    assert left_behind(config) == []


def recorded(run):
    try:
        return query(run, "SELECT count(*) AS n FROM matches").to_pylist()[0]["n"]
    except (StorageError, OSError):
        return 0
