"""Every key of a config can be asked for, from the command line and in the config itself."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from league.commands.reference import all_keys, explain, with_comments
from league.config.loading import load


def test_a_key_is_found_by_its_own_path():
    for key in all_keys()[::17]:
        assert key.path in {found.path for found in explain(key.path)}


@pytest.mark.parametrize(
    ("asked", "path"),
    [
        ("learner.lr", "learner.lr"),
        ("lr", "learner.lr"),
        ("league.roles.main.share", "league.roles.<name>.share"),
        ("league.roles.main.learner.lr", "learner.lr"),
        ("league.members.main-0.policy.hidden", "policy.hidden"),
        ("evaluation.yardsticks[0].bot", "evaluation.yardsticks[].bot"),
        ("evaluation.yardsticks.0.bot", "evaluation.yardsticks[].bot"),
    ],
)
def test_a_key_is_found_as_it_is_written_in_a_config(asked, path):
    assert explain(asked)[0].path == path


def test_a_section_is_answered_with_its_keys():
    assert {"stop", "stop.minutes", "stop.env_steps"} <= {key.path for key in explain("stop")}


def test_a_config_with_comments_is_the_same_config_and_says_what_each_setting_means(tiny_config):
    settings = load(tiny_config)
    text = with_comments(settings.to_yaml())
    assert yaml.safe_load(text) == yaml.safe_load(settings.to_yaml())
    assert "# Seed of all random numbers (integer" in text
    lines = text.splitlines()
    at = next(i for i, line in enumerate(lines) if line.startswith("  lr: "))
    assert lines[at - 1].startswith("  # ")
    assert "  # Step size" in "\n".join(lines[at - 3 : at])
    assert max(map(len, lines)) <= 120


def test_the_commands_print_them(league_here, tiny_config):
    found = json.loads(league_here("config", "explain", "learner.lr", "--json").stdout)
    assert found[0]["default"] == "`0.0005`"
    assert "learner.lr: number" in league_here("config", "explain", "learner.lr").stdout
    assert "# Step size" in league_here("config", "show", str(tiny_config), "--comments").stdout
    assert league_here("config", "explain", "nothing.like.it").returncode == 2


def test_the_version_and_the_short_help_are_there(league_here):
    assert league_here("--version").stdout.startswith("league 0.")
    assert "tournament" in league_here("-h").stdout
    assert "--pairs" in league_here("compare", "-h").stdout


@pytest.mark.slow
def test_a_shell_completes_commands_and_options():
    def completed(words, at):
        environment = {**os.environ, "_LEAGUE_COMPLETE": "complete_bash", "COMP_WORDS": words}
        command = [Path(sys.executable).parent / "league"]
        done = subprocess.run(
            command, env={**environment, "COMP_CWORD": str(at)}, capture_output=True, text=True, check=True
        )
        return done.stdout.split()

    assert completed("league snap", 1) == ["snapshots"]
    assert {"--run", "--resume", "--set"} <= {*completed("league train x.yaml --", 3)}
