"""`league runs`: what is in a folder of runs, and how each of them ended."""

import json

import pytest

from league.config.loading import load
from league.training.resume import open_archive
from storage.ends import End, span
from storage.tables.database_file import save

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


@pytest.mark.parametrize(("seconds", "said"), [(45.0, "45 s"), (600.0, "10 min"), (7500.0, "2 h 5 min")])
def test_times_are_written_for_people(seconds, said):
    assert span(seconds) == said


def test_tags_and_a_note_are_kept_beside_the_ledger_and_choose_runs(league_here, tiny, tmp_path):
    begun(tiny, tmp_path / "a", STOPPED)
    begun(tiny, tmp_path / "b")
    before = (tmp_path / "a" / "ledger" / "00000001.journal").read_bytes()
    assert league_here("runs", "tag", tmp_path / "a", "good", "lr=1e-3").returncode == 0
    assert league_here("runs", "tag", tmp_path / "a", "good", "--remove").returncode == 0
    assert league_here("runs", "note", tmp_path / "a", "the one to beat").returncode == 0
    found = json.loads(league_here("runs", tmp_path, "--tagged", "lr=1e-3", "--json").stdout)
    assert [(row["run"], row["tags"], row["note"]) for row in found] == [
        (str(tmp_path / "a"), ["lr=1e-3"], "the one to beat")
    ]
    assert found[0]["disk"] > len(before)
    assert (tmp_path / "a" / "ledger" / "00000001.journal").read_bytes() == before


def test_a_run_is_removed_when_it_is_said_twice_and_never_while_it_is_written(league_here, tiny, tmp_path):
    begun(tiny, tmp_path / "a")
    with open_archive(load(tiny()), tmp_path / "b", resume=False):
        refused = league_here("runs", "rm", tmp_path / "a", tmp_path / "b", "--yes")
    assert refused.returncode == 2
    assert refused.stderr == (
        f"league: {tmp_path}/b: a process writes it now; stop that first. Nothing was removed\n"
    )
    assert league_here("runs", "rm", tmp_path / "a").returncode == 2  # no terminal to ask, no --yes
    assert (tmp_path / "a" / "FORMAT").exists()
    assert league_here("runs", "rm", tmp_path / "a", "--yes").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b"]


def test_what_takes_the_disk_is_shown_by_part(league_here, tiny, tmp_path):
    begun(tiny, tmp_path / "a", STOPPED)
    save(tmp_path / "a", tmp_path / "a" / "league.duckdb")
    size = (tmp_path / "a" / "league.duckdb").stat().st_size
    found = json.loads(league_here("du", tmp_path / "a", "--json").stdout)
    assert {part["part"]: part["bytes"] for part in found["parts"]}["league.duckdb"] == size
    everything = sum(path.stat().st_size for path in (tmp_path / "a").rglob("*") if path.is_file())
    assert found["bytes"] == everything
