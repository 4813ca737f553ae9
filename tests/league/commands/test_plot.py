"""`league plot`: one picture of a run or all of them, now or as it was."""

import re

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

import analysis
from league.commands.plot import Plot, plot
from storage.errors import Mistake
from tests.analysis.planted_runs import Plan, plant


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
    return done.output


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


def test_a_suffix_says_which_kind_of_file(run, tmp_path):
    command(run, "lineage", "-o", tmp_path / "lineage.png")
    assert (tmp_path / "lineage.png").read_bytes().startswith(b"\x89PNG")


def test_a_picture_of_the_past_is_the_past(run, tmp_path):
    with analysis.open_run(run) as history:
        snapshots = history.snapshots()
    third = int(snapshots["league_env_steps"].iloc[3])
    command(run, "lineage", "-o", tmp_path / "then.svg", "--as-of", third)
    count = int((snapshots["league_env_steps"] <= third).sum())
    assert count < len(snapshots)
    assert f"<title>{count} snapshots" in (tmp_path / "then.svg").read_text()


def test_a_moment_that_only_looks_like_a_number_is_a_mistake(run, tmp_path):
    with pytest.raises(Mistake, match="neither a number nor a time"):
        command(run, "lineage", "-o", tmp_path / "then.svg", "--as-of", "²")


def test_mistakes_are_told_before_anything_is_read(tmp_path):
    for arguments, told in (
        (("ratings", "-o", tmp_path / "plot.pdf"), r"expected \.svg or \.png"),
        (("all", "-o", tmp_path / "file"), "expected a folder"),
    ):
        (tmp_path / "file").touch()
        with pytest.raises(Mistake, match=told):
            command(tmp_path / "no run", *arguments)
