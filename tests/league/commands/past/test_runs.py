"""`league runs`: what is in a folder of runs, and how each of them ended."""

import json

import pytest

from league.config.loading import load
from league.training.resume import open_archive
from storage.ends import End, span

pytestmark = pytest.mark.slow


def begun(tiny, folder, *ends):
    """A run that has just begun, with sessions that ended so."""
    with open_archive(load(tiny()), folder, resume=False) as archive:
        for end in ends:
            archive.append_end(end)


STOPPED = End(state="stopped", seconds=45.0, of_seconds=600.0, env_steps=900, ended_at=4e9)
FAILED = End(state="failed", reason="the game crashed", seconds=7200.0, env_steps=5, ended_at=5e9)


def test_runs_are_listed_with_how_they_ended(league_here, tiny, tmp_path):
    begun(tiny, tmp_path / "a", STOPPED)
    begun(tiny, tmp_path / "b", STOPPED, FAILED)
    begun(tiny, tmp_path / "c")
    done = league_here("runs", tmp_path, "--json")
    assert done.returncode == 0, done.stderr
    states = [row["state"] for row in json.loads(done.stdout)]
    assert states[0] == "Stopped after 45 s of 10 min"
    assert states[1] == "Failed after 2 h (no limit is set): the game crashed"
    assert states[2].startswith("killed")


def test_a_run_that_is_being_written_is_training_now(league_here, tiny, tmp_path):
    with open_archive(load(tiny()), tmp_path / "a", resume=False):
        done = league_here("runs", tmp_path, "--json")
    assert [row["state"] for row in json.loads(done.stdout)] == ["training now"]


@pytest.mark.parametrize("command", ["ratings", "report", "diagnose", "serve"])
def test_a_folder_of_runs_in_place_of_a_run_is_answered_with_their_names(
    league_here, tiny, tmp_path, command
):
    begun(tiny, tmp_path / "mine")
    done = league_here(command, tmp_path)
    assert done.returncode == 2
    assert done.stderr.startswith(f"league: {tmp_path}: expected a run folder, found a folder of runs")
    assert done.stderr.endswith(f"name one of them: {tmp_path}/mine\n")


def test_a_folder_without_runs_is_a_mistake(league_here, tmp_path):
    done = league_here("runs", tmp_path)
    assert done.returncode == 2
    assert "no run folder in it" in done.stderr


@pytest.mark.parametrize(("seconds", "said"), [(45.0, "45 s"), (600.0, "10 min"), (7500.0, "2 h 5 min")])
def test_times_are_written_for_people(seconds, said):
    assert span(seconds) == said
