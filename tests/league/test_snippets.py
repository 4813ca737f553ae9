"""What pages show runs as it is written there: programs, and the options of commands.

league/EXTEND.md has tests of its own (tests/league/test_extend.py), so have play.py of league/GAMES.md
(tests/league/competitors/test_portable_export.py) and the program of league/PROGRAMS.md; tests/test_readme.py
loads all settings that are shown.
"""

import re
import shlex
from pathlib import Path

import click
import pytest
import typer

import league
from league.commands.app import app
from league.commands.console import RunGroup
from league.commands.reference import all_keys

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("*/*.md"))]
COMING = ROOT / "league" / "COMING.md"
ELSEWHERE = {
    "league/EXTEND.md": 15,
    "league/GAMES.md": 1,
    "league/PROGRAMS.md": 1,
}  # programs that other tests run


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), flags=re.DOTALL | re.MULTILINE)


PROGRAMS = {
    (str(page.relative_to(ROOT)), at): text
    for page in PAGES
    for at, text in enumerate(blocks(page, "python"))
}


def run_of(page, at, names=None):
    names = {} if names is None else names
    exec(compile(PROGRAMS[page, at], page, "exec"), names)
    return names


def test_every_program_of_every_page_is_run_by_a_test():
    here = {("README.md", 0), ("README.md", 1), ("analysis/README.md", 0), ("storage/README.md", 0)}
    here |= {("league/COMING.md", at) for at in range(3)}
    elsewhere = {(page, at) for page, number in ELSEWHERE.items() for at in range(number)}
    assert set(PROGRAMS) == here | elsewhere


def test_the_loop_is_the_loop_of_the_code():
    code = (ROOT / "league/training/loop.py").read_text()
    lines = [line.partition("  #")[0] for line in PROGRAMS["README.md", 0].splitlines()]
    places = [code.index(line) for line in lines]
    assert places == sorted(places)


@pytest.fixture
def runs(trained, tmp_path, monkeypatch):
    """A folder with the runs that pages name."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "connect_four").symlink_to(trained)
    (tmp_path / "runs" / "other").symlink_to(trained)
    monkeypatch.chdir(tmp_path)
    return trained


def test_the_program_of_the_readme_runs(runs, monkeypatch):
    monkeypatch.setattr(league, "train", lambda config: runs if (ROOT / config).exists() else None)
    names = run_of("README.md", 1)
    assert len(names["history"].payoff()) > 0
    assert names["policy"].act


def test_the_programs_of_the_rooms_run(runs, league_here):
    assert (
        league_here("tournament", "runs/connect_four", "--pairs", "1", "--run", "runs/tournament").returncode
        == 0
    )
    names = run_of("analysis/README.md", 0)
    assert len(names["history"].leaderboard()) > 0
    assert run_of("storage/README.md", 0, {"run": runs})["storage"].open_reader(runs).snapshots()


@pytest.mark.slow
@pytest.mark.parametrize("at", range(3))
def test_the_programs_for_those_who_come_from_elsewhere_run(at, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = run_of("league/COMING.md", at)
    assert (names["run"] / "FORMAT").exists()
    assert 0.0 < names.get("distance", 0.5) < 2.0  # chips, of Kuhn poker
    assert names.get("returned", 9.0) > 5.0  # steps that a pole stays up


def test_every_setting_in_the_tables_is_one():
    keys = {key.path for key in all_keys()} | {"runners", "bots"}
    tables = "\n".join(line for line in COMING.read_text().splitlines() if line.startswith("| "))
    ours = re.findall(
        r"`((?:env|league|learner|policy|rollout|evaluation|resources|stop|log)\.[a-z_.]+)[`:]", tables
    )
    ours = [key for key in ours if not key.startswith("league.load_policy")]
    assert len(ours) > 35
    assert [key for key in ours if key not in keys] == []


def commands():
    """Return every line of every page that is a command of ours, without what is said beside it."""
    for page in PAGES:
        shown = blocks(page, "console") + re.findall(r"`(league [a-z]+ [^`]*)`", page.read_text())
        for line in "\n".join(shown).splitlines():
            line = re.split(r" {3,}", line.removeprefix("$ "))[0]
            if re.match(r"league [a-z]", line) and "learner.entropie" not in line:
                yield page.name, line


COMMAND = typer.main.get_command(app)


def unknown_in(words):
    """Return the command or the options of a command line that there are not."""
    command = COMMAND
    context = click.Context(command)
    while isinstance(command, click.Group) or hasattr(command, "commands"):
        if isinstance(command, RunGroup):
            words = command.command_first(words)
        name, *words = words
        command = command.get_command(context, name)
        if command is None:
            return [name]
    known = {flag for parameter in command.params for flag in parameter.opts + parameter.secondary_opts}
    return [
        word
        for word in words
        if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known | {"--help", "-h"}
    ]


def test_every_command_that_a_page_shows_has_its_options():
    found = [(page, line, wrong) for page, line in commands() if (wrong := unknown_in(shlex.split(line)[1:]))]
    assert found == []
    assert len([*commands()]) > 60
    assert unknown_in(["train", "a.yaml", "--nope", "--run", "a"]) == ["--nope"]
    assert unknown_in(["config", "explan", "learner.lr"]) == ["explan"]


def test_every_target_of_make_that_a_page_shows_is_one():
    makefile = (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.MULTILINE))
    shown = "\n".join(block for page in PAGES for block in blocks(page, "sh"))
    shown += "\n".join(named for page in PAGES for named in re.findall(r"`(make [^`]+)`", page.read_text()))
    named = {name for name in re.findall(r"\bmake ([a-z-]+)", shown) if name != "test-"}
    assert len(named) > 8
    assert [name for name in sorted(named) if name not in targets and not name.startswith("test-")] == []
