"""The README is true: its tree is the repository's, and it has exactly two set-up commands."""

import re
from pathlib import Path

import yaml

from league.config.loading import load
from league.tournament.settings import load as load_tournament
from storage.records import MAIN

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def test_the_tree_names_every_file_of_the_three_packages_and_nothing_else():
    (tree,) = blocks("tree")
    named, stack = set(), []
    for line in tree.splitlines():
        depth, name = (len(line) - len(line.lstrip())) // 2, line.split()[0]
        stack = [*stack[:depth], name.rstrip("/")]
        if not name.endswith("/"):
            named.add("/".join(stack))
    packages = ("league", "storage", "analysis")
    present = {
        str(path.relative_to(ROOT))
        for package in packages
        for path in (ROOT / package).rglob("*")
        if path.suffix in {".py", ".sql"} and path.name != "__init__.py"
    }
    assert {name for name in named if name.split("/")[0] in packages} == present


def test_every_file_in_the_tree_has_one_clause():
    (tree,) = blocks("tree")
    for line in tree.splitlines():
        assert len(line.split(maxsplit=1)) == 2, f"no clause: {line}"
        assert len(line) <= 118, f"too long: {line}"


def test_there_are_exactly_two_set_up_commands():
    commands = [line for block in blocks("sh") for line in block.splitlines() if "pip install" in line]
    assert len(commands) == 2
    assert "league train configs/connect_four.yaml" in commands[0]
    assert "make test" in commands[1]


def test_the_test_command_of_ci_is_the_readmes():
    assert "README.md" in (ROOT / ".ci/run").read_text()


def test_every_config_is_mentioned_and_every_mentioned_config_exists():
    mentioned = set(re.findall(r"configs/([a-z_]+\.yaml)", README))
    assert mentioned == {path.name for path in (ROOT / "configs").glob("*.yaml")}


def test_the_settings_shown_are_settings():
    fields = {"env": {"id": "connect_four"}, "runners": 2}
    shown = [yaml.safe_load(block) for block in blocks("yaml")]
    tournaments = [block for block in shown if "competitors" in block]
    assert [load_tournament(block).schedule.kind for block in tournaments] == ["round_robin"]
    shown = [block for block in shown if block not in tournaments]
    loaded = [load(fields | block) for block in shown]
    assert {key for block in shown for key in block} >= {"env", "league", "bots", "policy", "storage"}
    planes = [settings for settings in loaded if settings.policy.connectors]
    assert [settings.policy_spec("main-0", MAIN).seen.shape for settings in planes] == [(2, 7, 6)]
