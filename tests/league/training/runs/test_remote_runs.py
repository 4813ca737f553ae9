"""A run with a copy of all facts in an object store: read from there, resumed from there."""

import shutil

import pytest

import analysis
import league
import storage
from league.config.file import ConfigError
from league.config.loading import load
from storage.archive import Archive, open_reader
from storage.errors import Mistake
from storage.remote.uploader import Uploader

COUNTS = "SELECT (SELECT count(*) FROM matches) AS matches, (SELECT count(*) FROM snapshots) AS snapshots"


def facts(run):
    """Rows that must be the same in every copy of the run."""
    rows = {
        name: storage.query(run, f"SELECT * FROM {name} ORDER BY ALL").to_pylist()
        for name in ("matches", "seats", "snapshots", "decisions", "players")
    }
    assert all(rows.values())
    return rows


@pytest.fixture(scope="module")
def remote(tmp_path_factory):
    return (tmp_path_factory.mktemp("remote") / "store").as_uri()


@pytest.fixture(scope="module")
def trained_there(tmp_path_factory, tiny, remote):
    """A run that was trained with the remote, and has ended."""
    settings = tiny("tic_tac_toe", stop={"env_steps": 8000}, storage={"remote": remote})
    return league.train(settings, tmp_path_factory.mktemp("runs") / "run")


@pytest.mark.long
def test_what_was_trained_can_be_asked_and_played_from_the_remote_alone(
    league_command, trained_there, remote, tmp_path, monkeypatch
):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # a machine that has seen nothing of it
    asked = league_command("sql", remote, COUNTS, "--format", "json")
    assert asked.returncode == 0, asked.stderr
    assert asked.stdout == league_command("sql", trained_there, COUNTS, "--format", "json").stdout
    newest = open_reader(trained_there).snapshots()[-1].snapshot_id
    played = [
        league_command("compare", run, newest, "random", "--pairs", 20, "--json").stdout
        for run in (remote, trained_there)
    ]
    assert played[0] == played[1] != ""
    exported = league_command("snapshots", remote, "export", newest, tmp_path / "exported")
    assert exported.returncode == 0, exported.stderr
    assert league.load_policy(remote, newest).spec == league.load_policy(trained_there, newest).spec
    with analysis.open_run(remote) as there, analysis.open_run(trained_there) as here:
        assert there.payoff().drop(columns="run").equals(here.payoff().drop(columns="run"))
    verified = league_command("snapshots", remote, "verify")
    assert verified.returncode == 0, verified.stderr


@pytest.mark.long
def test_a_fresh_machine_goes_on_with_a_run_from_the_remote_alone(
    league_command, trained_there, tiny, remote, tmp_path
):
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(remote.removeprefix("file://"), tmp_path / "store")
    copied = (tmp_path / "store").as_uri()
    before = facts(trained_there)
    settings = tiny("tic_tac_toe", stop={"env_steps": 12_000}, storage={"remote": copied})
    league.train(settings, elsewhere, resume=True)
    after = facts(elsewhere)
    for name, rows in before.items():
        assert after[name][: len(rows)] == rows or {str(r) for r in rows} < {str(r) for r in after[name]}, (
            name
        )
    assert len(after["matches"]) > len(before["matches"])
    assert league_command("snapshots", elsewhere, "verify").returncode == 0
    again = league_command("sql", copied, COUNTS, "--format", "json").stdout
    assert again == league_command("sql", elsewhere, COUNTS, "--format", "json").stdout


@pytest.mark.slow
def test_a_new_run_is_refused_where_another_lies_and_nothing_is_made(trained_there, tiny, remote, tmp_path):
    with pytest.raises(Mistake, match="a run is there already"):
        league.train(tiny(storage={"remote": remote}), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_going_on_with_a_run_that_is_nowhere_is_refused(tiny, tmp_path):
    settings = tiny(storage={"remote": (tmp_path / "nothing").as_uri()})
    with pytest.raises(Mistake):
        league.train(settings, tmp_path / "run", resume=True)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("remote", ["http://example.org/x", "s3://", "file://host/x", "runs/here"])
def test_an_address_that_can_be_no_remote_is_refused_by_name(tiny, remote):
    with pytest.raises(ConfigError, match="expected s3://"):
        load(tiny(storage={"remote": remote}))


@pytest.mark.slow
def test_a_run_stops_when_somebody_else_writes_its_remote(trained_there, tiny, tmp_path, monkeypatch):
    """The claim is lost while training; nothing that was acknowledged is."""
    from storage.remote.remote import RemoteTaken

    def lost(self):
        raise RemoteTaken("file:///there: pid 7 on other, run /x, writes it now; nothing more is uploaded")

    monkeypatch.setattr(Uploader, "check", lost)
    settings = tiny("tic_tac_toe", storage={"remote": (tmp_path / "store").as_uri()})
    with pytest.raises(RemoteTaken, match="writes it now"):
        league.train(settings, tmp_path / "run")
    monkeypatch.undo()
    with Archive.open(tmp_path / "run") as archive:
        assert archive.snapshots()
