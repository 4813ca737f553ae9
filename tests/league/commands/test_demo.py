"""`league demo`, run as a newcomer runs it."""

import subprocess
import sys

import pytest

pytestmark = pytest.mark.long


def league(*arguments):
    command = [sys.executable, "-m", "league", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_a_demo_makes_all_that_it_names_by_commands_that_it_prints(tmp_path):
    folder = tmp_path / "first"
    options = ("--game", "tic_tac_toe", "--minutes", 0.05, "--pairs", 2, "--no-serve")
    done = league("demo", folder, *options)
    assert done.returncode == 0, done.stderr
    for made in ("run/config.yaml", "tournament/config.yaml", "report.html", "agent/agent.onnx"):
        assert (folder / made).exists(), made
    said = done.stdout.splitlines()
    commands = [line[2:] for line in said if line.startswith("$ league ")]
    assert [command.split()[1] for command in commands] == ["train", "tournament", "report", "export"]
    assert [line.strip() for line in said if line.startswith("  league")][:4] == commands
    again = league("demo", folder, *options)
    assert again.returncode == 2
    assert "exists, expected a new folder" in again.stderr


def test_a_demo_ends_where_a_step_fails(tmp_path):
    done = league("demo", tmp_path / "first", "--game", "tick_tack", "--minutes", 0.05)
    assert done.returncode == 2
    assert "tick_tack" in done.stderr
    assert "$ league tournament" not in done.stdout
