"""`league plot`, `league report` and `league serve`; tests/analysis/server has the live page itself."""

import re
import socket
import sys

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import analysis
from league.commands.pages import Plot, plot, report
from storage.archive import Archive
from storage.errors import Mistake
from tests.analysis.planted_runs import Plan, plant

report_app = typer.Typer()
report_app.command()(report)


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """A run in which nothing has been played."""
    folder = tmp_path_factory.mktemp("pages") / "begun"
    Archive.create(folder, "", {"name": "new", "env": "tic_tac_toe", "seed": 1}).close()
    return folder


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("plots") / "planted"
    return plant(folder, np.random.default_rng(0), Plan(snapshots=4, batches=2, matches=100))


def command(*arguments):
    app = typer.Typer()
    app.command()(plot)
    done = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.slow
def test_every_picture_is_written_and_named(run, tmp_path):
    said = command(run, "all", "-o", tmp_path / "pictures")
    written = sorted((tmp_path / "pictures").iterdir())
    assert [path.stem for path in written] == sorted(name for name in Plot if name is not Plot.ALL)
    assert sorted(said.split()) == [str(path) for path in written]
    titles = {path.stem: re.search("<title>(.*)</title>", path.read_text())[1] for path in written}
    with analysis.open_run(run) as history:
        assert titles["lineage"].startswith(f"{len(history.snapshots())} snapshots, ")
    assert "is rated best" in titles["ratings"]
    assert titles["exploitability"] == "Exploitability was not measured"


@pytest.mark.slow
def test_a_suffix_says_which_kind_of_file(run, tmp_path):
    command(run, "lineage", "-o", tmp_path / "lineage.png")
    assert (tmp_path / "lineage.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_picture_of_the_past_is_the_past(run, tmp_path):
    with analysis.open_run(run) as history:
        snapshots = history.snapshots()
    third = int(snapshots["league_env_steps"].iloc[3])
    command(run, "lineage", "-o", tmp_path / "then.svg", "--as-of", third)
    count = int((snapshots["league_env_steps"] <= third).sum())
    assert count < len(snapshots)
    assert f"<title>{count} snapshots" in (tmp_path / "then.svg").read_text()


@pytest.mark.long
def test_several_runs_are_in_one_picture_and_on_one_page(run, tmp_path_factory, tmp_path):
    later = plant(tmp_path_factory.mktemp("plots") / "later", np.random.default_rng(1), Plan(snapshots=2))
    command(run, later, "-o", tmp_path / "strengths.svg")
    assert "<title>How strong each run became" in (tmp_path / "strengths.svg").read_text()
    said = command(run, later, "all", "-o", tmp_path / "pictures")
    assert len(said.split()) == len(list((tmp_path / "pictures").iterdir())) == 4
    done = run_report(str(run), str(later), "-o", str(tmp_path / "page.html"))
    assert done.exception is None
    assert "planted/main-0@" in (tmp_path / "page.html").read_text()


SECTIONS = """
from matplotlib.figure import Figure
from league.extend import Column, picture, section, table

def text(story):
    return "no section"

def misspelt(story):
    return story.leaderbord

def unknown(story):
    return story.sql("SELECT nothing FROM matches")

def drawn(story):
    figure = Figure(figsize=(4, 2))
    figure.subplots().plot([0, 1])
    columns = [Column("who", lambda row: row["player"])]
    rows = story.players.to_dict("records")
    return section("mine", "Mine", picture("mine-plot", figure, "A line"), table("t", "All", columns, rows))
"""


@pytest.mark.slow
def test_a_section_of_ones_own_has_pictures_and_tables(run, tmp_path, own_module):
    own_module("my_sections", SECTIONS)
    page = tmp_path / "page.html"
    assert run_report(str(run), "--section", "my_sections:drawn", "-o", str(page)).exception is None
    mine = page.read_text().partition('<section id="mine"')[2]
    assert mine.count("<svg") == 1
    assert '<th scope="row">main-0</th>' in mine
    assert "<h3></h3>" not in mine


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text", "my_sections:text: returned a str, expected what `section` returns"),
        ("misspelt", r"my_sections:misspelt: AttributeError: .* \(.*my_sections.py, line 9, in misspelt\)"),
        ("unknown", r"my_sections:unknown: BinderException: .*\(.*my_sections.py, line 12, in unknown\)"),
    ],
)
def test_a_section_of_ones_own_that_fails_is_one_message_and_no_page(
    begun, tmp_path, own_module, name, message
):
    own_module("my_sections", SECTIONS)
    done = run_report(str(begun), "--section", f"my_sections:{name}", "-o", str(tmp_path / "page.html"))
    assert isinstance(done.exception, Mistake)
    assert re.match(f"--section {message}", str(done.exception))
    assert not (tmp_path / "page.html").exists()


def run_report(*arguments: str):
    return CliRunner().invoke(report_app, list(arguments), standalone_mode=False)


@pytest.mark.slow
def test_a_page_is_written_where_it_is_asked_for(begun, tmp_path):
    done = run_report(str(begun), "-o", str(tmp_path / "page.html"))
    assert done.exception is None
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert "page.html: 0." in done.output


def test_a_port_that_is_taken_is_one_message(league_here, trained):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        done = league_here("serve", trained, "--port", port)
    assert done.returncode == 2
    assert done.stderr.startswith(
        f"league: --port {port}: another program listens there; expected a free port"
    )
    assert done.stderr.count("\n") == 1


def test_a_server_that_is_not_installed_is_one_message(league_here, trained, monkeypatch):
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = league_here("serve", trained)
    assert done.returncode == 2
    assert "pip install '.[serve]'" in done.stderr
