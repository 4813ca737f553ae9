import pytest
import typer
from typer.testing import CliRunner

from league.commands.report import report
from storage.errors import Mistake

app = typer.Typer()
app.command()(report)


def run_report(*arguments: str):
    return CliRunner().invoke(app, list(arguments), standalone_mode=False)


def test_a_page_is_written_where_it_is_asked_for(begun, tmp_path):
    done = run_report(str(begun), "-o", str(tmp_path / "page.html"), "--static")
    assert done.exception is None
    assert (tmp_path / "page.html").read_text().startswith("<!DOCTYPE html>")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert "page.html: 0." in done.output


@pytest.mark.parametrize("out", [".", "missing/page.html"])
def test_a_place_that_cannot_hold_it_is_a_mistake(begun, tmp_path, monkeypatch, out):
    monkeypatch.chdir(tmp_path)
    done = run_report(str(begun), "-o", out)
    assert isinstance(done.exception, Mistake)
    assert "expected a file in a folder that exists" in str(done.exception)


def test_a_moment_that_is_none_is_a_mistake(begun, tmp_path):
    done = run_report(str(begun), "-o", str(tmp_path / "page.html"), "--as-of", "yesterday")
    assert isinstance(done.exception, Mistake)
    assert not list(tmp_path.iterdir())
