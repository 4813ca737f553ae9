"""`league demo`, run as a newcomer runs it."""

import pytest

pytestmark = pytest.mark.long


def test_a_demo_makes_all_that_it_names_by_commands_that_it_prints(league_command, league_here, tmp_path):
    folder = tmp_path / "first"
    options = ("--game", "tic_tac_toe", "--minutes", 0.05, "--pairs", 2, "--no-serve")
    done = league_command("demo", folder, *options, timeout=300)
    assert done.returncode == 0, done.stderr
    for made in ("run/config.yaml", "tournament/config.yaml", "report.html", "agent/agent.onnx"):
        assert (folder / made).exists(), made
    said = done.stdout.splitlines()
    commands = [line[2:] for line in said if line.startswith("$ league ")]
    assert [command.split()[1] for command in commands] == ["train", "tournament", "report", "export"]
    assert [line.strip() for line in said if line.startswith("  league")][:4] == commands
    again = league_here("demo", folder, *options)
    assert again.returncode == 2
    assert "exists, expected a new folder" in again.stderr


def test_a_demo_ends_where_a_step_fails(league_command, tmp_path):
    done = league_command("demo", tmp_path / "first", "--game", "tick_tack", "--minutes", 0.05)
    assert done.returncode == 2
    assert "tick_tack" in done.stderr
    assert "$ league tournament" not in done.stdout
