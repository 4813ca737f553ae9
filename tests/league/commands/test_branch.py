"""`league branch`, as a person and a script see it."""

import json

import pytest

from storage.archive import open_reader

pytestmark = pytest.mark.slow


def test_a_branch_says_where_it_comes_from_and_is_resumed_by_its_folder(league_here, trained, tmp_path):
    done = league_here(
        "branch", trained, tmp_path / "new", "--as-of", "4_000", "--set", "stop.env_steps=9_000"
    )
    assert done.returncode == 0, done.stderr
    assert f"{tmp_path / 'new'}: branched from {trained} at 4," in done.stdout
    assert "set: stop.env_steps=9_000" in done.stdout
    assert f"Next: league train {tmp_path / 'new'} --resume" in done.stdout
    done = league_here("train", tmp_path / "new", "--resume")
    assert done.returncode == 0, done.stderr
    assert f"Trained: {tmp_path / 'new'}" in done.stdout
    assert open_reader(tmp_path / "new").config()["name"] == "new"
    assert league_here("snapshots", tmp_path / "new", "verify").returncode == 0
    rows = json.loads(league_here("sql", tmp_path / "new", "SELECT * FROM runs", "--format", "json").stdout)
    assert [row["name"] for row in rows] == ["tiny", "new", "new"]
    done = league_here("branch", tmp_path / "new", tmp_path / "newer", "--json")
    assert json.loads(done.stdout)["parent"] == str(tmp_path / "new")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--as-of", "0"), "as of 0: is before the first match of"),
        (("--set", "env.id=connect_four"), "a run keeps its game"),
        (("--set", "stop.steps=1"), "unknown key 'stop.steps'"),
    ],
)
def test_a_mistake_is_one_message_and_leaves_nothing(league_here, trained, tmp_path, arguments, said):
    done = league_here("branch", trained, tmp_path / "new", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert said in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_exists_is_refused(league_here, trained, tmp_path):
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine").touch()
    done = league_here("branch", trained, tmp_path / "new")
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert f"{tmp_path / 'new'} exists; it is no run: choose another folder" in done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
