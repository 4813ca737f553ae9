"""Mistakes at the door of `league play --browser`: one line, exit code 2, no server."""

import sys

import pytest

import analysis.server
from league.commands.matches import room_of

MISTAKES = {
    ("main-0", "nosuch", "--browser"): "'nosuch' is no snapshot, player or bot of this run",
    ("main-0", "--browser"): "found 1 competitors, 'kuhn_poker' has 2 seats",
    ("human", "human", "--browser"): "found 2 seats of 'human', expected at most one",
    ("main-0", "human", "--port", "8000"): "--port 8000: expected --browser beside it",
    ("main-0", "human", "--browser", "--games", "2"): "found --games beside --browser",
    ("main-0", "human", "--browser", "--verbose"): "found --verbose beside --browser",
    ("main-0:gredy", "human", "--browser"): "'main-0:gredy'",
    ("--match", "7", "--browser"): "match 7 was not recorded",
    ("main-0", "--match", "7", "--browser"): "found 'main-0' beside --match",
    ("os.path:nosuch", "human", "--browser"): "has no 'nosuch'",
}


@pytest.fixture(scope="module")
def kuhn(make_run, tmp_path_factory):
    run = make_run(tmp_path_factory.mktemp("door") / "kuhn", "kuhn_poker", snapshots=1)
    assert analysis.server.serve_play  # imports are no test's time
    assert room_of(run).about()["seats"] == 2
    return run


@pytest.mark.parametrize("arguments", MISTAKES, ids=" ".join)
def test_a_mistake_is_one_line(league_here, kuhn, arguments):
    done = league_here("play", kuhn, *arguments)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert MISTAKES[arguments] in done.stderr
    assert done.stdout == ""


def test_what_is_no_run_and_a_server_that_is_not_installed_are_one_line(
    league_here, kuhn, tmp_path, monkeypatch
):
    assert league_here("play", tmp_path, "main-0", "human", "--browser").stderr.count("\n") == 1
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = league_here("play", kuhn, "main-0", "human", "--browser")
    assert done.returncode == 2
    assert "pip install '.[serve]', or play in the terminal" in done.stderr
