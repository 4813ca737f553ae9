"""A snapshot of another run plays in this one, and stays what it is."""

import pytest

import analysis
import league
from storage.archive import Archive, open_reader
from storage.records import IMPORTED
from storage.upkeep.exports import export_snapshot
from storage.upkeep.imports import import_snapshot

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def stranger(tmp_path_factory, tiny):
    """The exported champion of another run, with another network."""
    folder = tmp_path_factory.mktemp("stranger")
    run = league.train(
        tiny("tic_tac_toe", policy={"hidden": [24, 24]}, stop={"env_steps": 4000}), folder / "run"
    )
    reader = open_reader(run)
    export_snapshot(reader, reader.snapshots()[-1], folder / "out")
    return folder / "out"


@pytest.fixture(scope="module")
def joined(tmp_path_factory, tiny, stranger):
    """(run that trained on with the imported snapshot in its league, its id)"""
    run = tmp_path_factory.mktemp("joined") / "run"
    league.train(tiny("tic_tac_toe", stop={"env_steps": 4000}), run)
    with Archive.open(run) as archive:
        snapshot = import_snapshot(archive, stranger, "stranger")
    league.train(tiny("tic_tac_toe", stop={"env_steps": 16_000}), run, resume=True)
    return run, snapshot.snapshot_id


def test_an_imported_snapshot_is_played_against_and_rated(joined):
    run, imported = joined
    with analysis.open_run(run) as history:
        met = history.sql("SELECT sum(games) AS games FROM payoff WHERE away = ?", [imported])
        assert met["games"][0] > 20
        (row,) = history.sql("SELECT * FROM leaderboard WHERE competitor = ?", [imported]).itertuples()
    assert row.role == IMPORTED
    assert row.games > 20
    assert 0.0 < row.win_rate < 1.0


def test_an_imported_snapshot_is_nobodys_newest_and_nobodys_parent(joined):
    run, imported = joined
    reader = open_reader(run)
    assert all(snapshot.parent_id != imported for snapshot in reader.snapshots())
    assert all(snapshot.player != "main-0" for snapshot in reader.snapshots() if snapshot.role == IMPORTED)


def test_an_imported_snapshot_plays_by_name_with_its_own_network(joined, league_command, stranger):
    run, imported = joined
    done = league_command("compare", run, imported, "main-0", "--pairs", 20, "--json")
    assert done.returncode == 0, done.stderr
    policy = league.load_policy(run, imported)
    assert policy.spec.settings.hidden == (24, 24)


def test_the_command_imports_and_says_what_it_took_in(league_command, stranger, trained, tmp_path):
    import shutil

    shutil.copytree(trained, tmp_path / "run")
    done = league_command("snapshots", tmp_path / "run", "import", stranger, "--as", "guest")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("guest (mlp) imported from ")
    listed = league_command("snapshots", tmp_path / "run", "list", "--where", "role = 'imported'", "--json")
    assert '"snapshot_id": "guest"' in listed.stdout
    twice = league_command("snapshots", tmp_path / "run", "import", stranger, "--as", "guest")
    assert "guest (mlp) is here already" in twice.stdout
    again = league_command("snapshots", tmp_path / "run", "import", stranger, "--as", "main-0")
    assert again.returncode == 2
    assert again.stderr.count("\n") == 1
