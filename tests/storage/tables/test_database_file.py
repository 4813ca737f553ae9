"""The copy of a run's tables that other DuckDB tools open."""

import ast
import itertools
import os
import subprocess
import sys
import time
from pathlib import Path

import duckdb
import pytest

import storage
from storage import disk
from storage.archive import Archive
from storage.disk import Disk, using
from storage.errors import DiskFailed, Mistake, RunTaken
from storage.records import MAIN, RatingChange
from storage.tables import database_file, schema
from storage.tables.database_file import METADATA, DatabaseFile, OutOfTime, save

NAMES = (*schema.TABLES, *schema.VIEWS)
SPEC = {"architecture": "mlp", "hidden": [4]}


@pytest.fixture
def filled(run, make_results):
    """A run with matches, and two ratings of each competitor."""
    with Archive.open(run) as archive:
        for n in range(2):
            ratings = [RatingChange(name, 25.0 + n, 8.0, 10) for name in ("main-0", "random", "main-0@0")]
            archive.append_results(make_results(20, 20 * n, seed=n), ratings)
    return run


@pytest.fixture
def clock():
    """A clock that a test sets."""

    class Clock:
        now = 1000.0

        def __call__(self):
            return self.now

    return Clock()


@pytest.fixture
def lines():
    return []


def rows(file, name):
    with duckdb.connect(str(file), read_only=True) as connection:
        return connection.execute(f"FROM {name}").fetchall()


def content(execute):
    """The rows of all tables and views."""
    return {name: sorted(execute(f"FROM {name}").fetchall(), key=repr) for name in NAMES}


def freeze(archive, weights, env_steps):
    archive.add_snapshot("main-0", MAIN, env_steps, 1, "main-0@0", weights, SPEC, "mlp", "due")


def beside(run):
    """Names in the run folder that begin as the file's does, or as its temporary files'."""
    return sorted(path.name for path in run.iterdir() if "league.duckdb" in path.name)


def test_a_copy_has_all_tables_and_views_and_their_comments_in_any_duckdb(filled, tmp_path):
    save(filled, tmp_path / "copy.duckdb")
    with (
        duckdb.connect(str(tmp_path / "copy.duckdb"), read_only=True) as copy,
        storage.connect(filled) as live,
    ):
        assert content(copy.execute) == content(live.execute)
        assert {name for (name,) in copy.execute("SHOW TABLES").fetchall()} == set(NAMES)
        for described in ("tables", "views", "columns"):
            without = f"SELECT * FROM duckdb_{described}() WHERE NOT internal AND comment IS NULL"
            assert copy.execute(without).fetchall() == []
    with duckdb.connect() as other:  # under another name too
        other.execute(f"ATTACH '{tmp_path / 'copy.duckdb'}' AS other (READ_ONLY)")
        assert len(other.execute("FROM other.leaderboard").fetchall()) == 3


def test_a_copy_of_an_earlier_moment_has_what_was_then(filled, tmp_path):
    steps = storage.query(
        filled, "SELECT CAST(sum(env_steps) AS BIGINT) AS n FROM matches WHERE match_id < 20"
    )
    save(filled, tmp_path / "then.duckdb", as_of=steps["n"][0].as_py())
    assert len(rows(tmp_path / "then.duckdb", "matches")) == 20


def test_metadata_has_the_newest_ratings_and_says_of_other_tables_what_to_do(filled):
    save(filled, filled / "league.duckdb", metadata=True)
    with storage.connect(filled) as live:
        for name in (*METADATA, "lineage"):
            assert rows(filled / "league.duckdb", name) == live.execute(f"FROM {name}").fetchall()
    assert {row[1:3] for row in rows(filled / "league.duckdb", "ratings")} == {
        ("main-0", 26.0),
        ("random", 26.0),
        ("main-0@0", 26.0),
    }
    for name in ("matches", "leaderboard", "payoff"):
        with pytest.raises(duckdb.Error, match=r"not in this copy.* league sql RUN --save FILE"):
            rows(filled / "league.duckdb", name)
    with duckdb.connect(str(filled / "league.duckdb"), read_only=True) as copy:
        assert {name for (name,) in copy.execute("SHOW TABLES").fetchall()} == set(NAMES)


def test_metadata_is_renewed_after_each_freeze_every_ten_seconds_at_most(
    run, weights, clock, lines, monkeypatch
):
    made = []
    monkeypatch.setattr(database_file, "save", lambda *args, **options: made.append((clock.now, options)))
    with Archive.open(run) as archive:
        file = DatabaseFile(run, lambda: archive.num_changes, say=lines.append, clock=clock)
        file.renew()
        assert made == [], "nothing has changed since the run was opened"
        freeze(archive, weights, 100)
        file.renew()
        freeze(archive, weights, 200)
        for clock.now in (1003.0, 1009.9, 1010.0, 1020.0, 1100.0):
            file.renew()
        archive.append_ratings([RatingChange("main-0", 25.0, 8.0, 1)])
        file.renew()
    assert made == [(1000.0, {"metadata": True}), (1010.0, {"metadata": True})]
    assert lines == []


def test_renewals_take_at_most_a_hundredth_of_the_time(run, clock, monkeypatch):
    began = []

    def slow(*args, **options):
        began.append(clock.now)
        clock.now += 2.0

    monkeypatch.setattr(database_file, "save", slow)
    changes = iter(range(1, 10**6))
    file = DatabaseFile(run, lambda: next(changes), clock=clock)
    end = clock.now + 2000.0
    while clock.now < end:
        file.renew()
        clock.now += 1.0
    assert len(began) == 10
    assert min(after - before for before, after in itertools.pairwise(began)) >= 200.0


def test_a_thread_renews_the_file_beside_the_writer_and_removes_what_a_kill_left(run, weights, monkeypatch):
    monkeypatch.setattr(database_file, "_LOOK_SECONDS", 0.01)
    (run / ".league.duckdb.abc.tmp").touch()
    (run / ".league.duckdb.abc.tmp.wal").touch()
    with Archive.open(run) as archive, DatabaseFile(run, lambda: archive.num_changes):
        freeze(archive, weights, 100)
        while not (run / "league.duckdb").exists():
            time.sleep(0.01)
    assert len(rows(run / "league.duckdb", "snapshots")) == 2
    assert beside(run) == ["league.duckdb"]


@pytest.mark.parametrize(("content_", "matches"), [("all", 40), ("metadata", None), ("none", None)])
def test_when_a_run_ends_the_file_has_what_the_settings_say(filled, weights, lines, content_, matches):
    with (
        Archive.open(filled) as archive,
        DatabaseFile(filled, lambda: archive.num_changes, content_, lines.append) as file,
    ):
        freeze(archive, weights, 100)
        file.finish()
    assert lines == []
    assert beside(filled) == ([] if content_ == "none" else ["league.duckdb"])
    if content_ != "none":
        assert len(rows(filled / "league.duckdb", "snapshots")) == 2
    if matches:
        assert len(rows(filled / "league.duckdb", "matches")) == matches


@pytest.mark.parametrize("expected", [True, False])
def test_a_copy_over_a_tenth_of_the_time_is_left_out_with_one_line(
    filled, weights, clock, lines, monkeypatch, expected
):
    if expected:
        monkeypatch.setattr(database_file, "BYTES_PER_SECOND", 1.0)
    else:  # it only turns out
        monkeypatch.setattr(database_file, "SHORT_SECONDS", 1e-9)
        monkeypatch.setattr(database_file, "BYTES_PER_SECOND", 1e99)
    with Archive.open(filled) as archive:
        file = DatabaseFile(filled, lambda: archive.num_changes, say=lines.append, clock=clock)
        clock.now += 20.0 if expected else 1e-9
        freeze(archive, weights, 100)
        file.finish()
    (line,) = lines
    assert "over a tenth of the" in line
    assert f"league sql {filled} --save FILE" in line
    assert len(rows(filled / "league.duckdb", "snapshots")) == 2, "the metadata at least"
    assert beside(filled) == ["league.duckdb"]


def test_a_copy_that_takes_too_long_leaves_the_file_of_before(filled):
    (filled / "league.duckdb").write_bytes(b"before")
    with pytest.raises(OutOfTime, match="it takes longer than 1e-09 s"):
        save(filled, filled / "league.duckdb", seconds=1e-9)
    assert (filled / "league.duckdb").read_bytes() == b"before"
    assert beside(filled) == ["league.duckdb"]


class Full(Disk):
    """A disk with no room for a new name."""

    def rename(self, source, target):
        if target.name == "league.duckdb":
            raise OSError(28, "No space left on device")
        super().rename(source, target)


def test_a_full_disk_is_one_line_and_training_goes_on(filled, weights, clock, lines):
    (filled / "league.duckdb").write_bytes(b"before")
    with Archive.open(filled) as archive, using(Full()):
        file = DatabaseFile(filled, lambda: archive.num_changes, say=lines.append, clock=clock)
        freeze(archive, weights, 100)
        file.renew()
        file.finish()
    (line,) = lines
    assert "No space left on device" in line
    assert "the run goes on without this copy" in line
    assert (filled / "league.duckdb").read_bytes() == b"before"
    assert beside(filled) == ["league.duckdb"]


def test_what_duckdb_cannot_write_is_one_sentence(filled, monkeypatch):
    monkeypatch.setattr(disk.secrets, "token_hex", lambda size: "x" * 250)  # too long a name
    with pytest.raises(DiskFailed, match=r"league.duckdb: cannot be written: .*File name too long"):
        save(filled, filled / "league.duckdb")


def test_a_process_that_was_cut_off_leaves_the_file_to_the_one_that_goes_on(filled, weights, lines):
    with Archive.open(filled) as archive:
        file = DatabaseFile(filled, lambda: archive.num_changes, say=lines.append)
        freeze(archive, weights, 100)
        (filled / "ledger" / "LOCK").write_text("{}")  # as the newcomer signs it
        file.finish()
        with pytest.raises(RunTaken):
            archive.require_own()
    assert lines == []
    assert beside(filled) == []


def test_a_full_copy_of_an_older_version_and_its_log_are_replaced_whole(filled, tmp_path):
    file = filled / "league.duckdb"
    with duckdb.connect(str(file)) as old:
        old.execute("PRAGMA disable_checkpoint_on_shutdown")
        old.execute("CREATE TABLE matches AS SELECT 1 AS seq")
    assert beside(filled) == ["league.duckdb", "league.duckdb.wal"]
    with Archive.open(filled):
        save(filled, file, metadata=True)
    assert beside(filled) == ["league.duckdb"]
    assert len(rows(file, "snapshots")) == 1


OPENED = """
import duckdb, sys
connection = duckdb.connect(sys.argv[1])
print(connection.execute("SELECT count(*) FROM snapshots").fetchall(), flush=True)
sys.stdin.read()
print(connection.execute("SELECT count(*) FROM snapshots").fetchall(), flush=True)
"""


@pytest.mark.slow
def test_a_viewer_that_has_the_file_open_stops_nothing(filled, weights):
    save(filled, filled / "league.duckdb")
    viewer = subprocess.Popen(
        [sys.executable, "-c", OPENED, filled / "league.duckdb"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert viewer.stdout.readline() == "[(1,)]\n"
    with Archive.open(filled) as archive, DatabaseFile(filled, lambda: archive.num_changes) as file:
        freeze(archive, weights, 100)
        file.finish()
    assert len(rows(filled / "league.duckdb", "snapshots")) == 2
    said, _ = viewer.communicate("")
    assert said == "[(1,)]\n", "it has what it opened"


KILLED = """
import os, sys, threading, time
from pathlib import Path
from storage.tables import database_file
database_file.save(Path(sys.argv[1]), Path(sys.argv[1], "other.duckdb"))  # all is loaded
threading.Thread(target=lambda: (time.sleep(float(sys.argv[2])), os._exit(1)), daemon=True).start()
while True:
    database_file.save(Path(sys.argv[1]), Path(sys.argv[1], "league.duckdb"))
"""


@pytest.mark.long
def test_a_kill_at_any_moment_leaves_the_old_file_or_the_new_one(filled):
    save(filled, filled / "league.duckdb")
    for n in range(5):
        command = [sys.executable, "-c", KILLED, filled, f"{0.1 * 1.8**n}"]
        assert subprocess.run(command, check=False).returncode == 1
        assert len(rows(filled / "league.duckdb", "matches")) == 40
    assert len(beside(filled)) > 1, "some of the processes died while they wrote"


@pytest.mark.parametrize("found", ["text", "folder", "nowhere/file.duckdb"])
def test_only_a_duckdb_file_or_a_new_name_is_replaced(filled, tmp_path, found):
    (tmp_path / "text").write_text("a text of mine")
    (tmp_path / "folder").mkdir()
    with pytest.raises(Mistake, match="expected a new name, or a DuckDB file to replace"):
        database_file.require_replaceable(tmp_path / found)
    save(filled, tmp_path / "copy.duckdb", metadata=True)
    database_file.require_replaceable(tmp_path / "copy.duckdb")
    database_file.require_replaceable(tmp_path / "new.duckdb")


def test_no_other_module_opens_a_duckdb_file():
    """The others connect to ":memory:"."""
    root = Path(database_file.__file__).parents[2]
    opened = []
    for path in (path for room in ("storage", "league", "analysis") for path in (root / room).rglob("*.py")):
        text = path.read_text()
        for node in ast.walk(ast.parse(text)) if "duckdb" in text or "ATTACH" in text else ():
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "duckdb.connect":
                opened += [path] * (ast.unparse(node.args[0]) != "':memory:'" if node.args else 0)
            if isinstance(node, ast.Constant) and str(node.value).startswith("ATTACH"):
                opened.append(path)
    assert {os.path.relpath(path, root) for path in opened} == {"storage/tables/database_file.py"}
