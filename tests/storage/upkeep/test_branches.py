"""A branch is a run as it was at a moment of another: facts, pool, learners' states; or there is none."""

import errno
import json
import os
import time
from dataclasses import replace

import numpy as np
import pytest
import torch

import storage
from storage.archive import Archive, open_reader
from storage.disk import using
from storage.errors import DiskFailed, Mistake, RunExists
from storage.layout import CONFIG
from storage.ledger.ledger import read_tables
from storage.records import MAIN, STATE, Bot, Entrant, Freeze, LivePlayer, RatingChange, Reset
from storage.snapshots import learner_states, manifests
from storage.upkeep.branches import FileReplaced, find_moment, make_branch
from storage.upkeep.garbage import collect
from storage.upkeep.verification import verify_snapshots
from tests.storage.conftest import SPEC
from tests.storage.faults.faulty_disk import Effect, Fault, FaultyDisk

ROW = {"name": "branch", "env": "connect_four", "seed": 3}
BATCH = 12  # matches


@pytest.fixture
def played(tmp_path, make_results, weights):
    """A run of six batches; main-0 is frozen after each, and reset to its first snapshot after the fourth."""
    run = tmp_path / "run"
    with Archive.create(run, "the settings of the first session\n", {**ROW, "name": "run"}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        first = archive.add_snapshot("main-0", MAIN, 0, 0, None, weights, SPEC, "mlp", "initial weights")
        parent = first.snapshot_id
        for n in range(1, 7):
            names = ("main-0", "random", "main-0@0")
            changes = [RatingChange(name, 25.0 + n, 8.0 / n, n) for name in names]
            archive.append_results(make_results(BATCH, BATCH * n, seed=n), changes)
            meta = {"updates": n, "env_steps": 100 * n, "seconds": 10.0 * n}
            archive.save_learner("main-0", {"weights/w": torch.full((3,), float(n))}, meta)
            if n in (2, 6):
                archive.keep_learner("main-0", 4)
            reason = [Freeze(player="main-0", reason="a test")]
            if n == 4:
                reason.append(Reset(player="main-0", reason="a test", target=first.snapshot_id))
            tensors = {**weights, "bias": weights["bias"] + n}
            made = archive.add_snapshot(
                "main-0", MAIN, 100 * n, n, parent, tensors, SPEC, "mlp", "a test", decisions=reason
            )
            parent = first.snapshot_id if n == 4 else made.snapshot_id
    return run


def steps_after(run, batches):
    steps = read_tables(run / "ledger", ("matches",))["matches"]["env_steps"].to_pylist()
    return sum(steps[: BATCH * batches])


def branch(run, new, as_of=None):
    return make_branch(find_moment(run, as_of), new, str(run), "settings\n", ROW)


def tables(run, as_of=None):
    """All rows of the tables and views that standings are made of."""
    with storage.connect(run, as_of=as_of) as live:
        return {
            name: live.execute(f"SELECT * FROM {name} ORDER BY ALL").fetchall()
            for name in ("matches", "seats", "ratings", "payoff", "leaderboard", "snapshots", "decisions")
        }


@pytest.mark.slow
@pytest.mark.parametrize("batches", [2, 4])
def test_facts_pool_and_standings_are_those_of_the_original_as_of_there(played, tmp_path, batches):
    moment = steps_after(played, batches)
    made = branch(played, tmp_path / "new", moment)
    assert (made.env_steps, made.matches) == (moment, BATCH * batches)
    assert tables(tmp_path / "new") == tables(played, as_of=moment)
    with storage.connect(tmp_path / "new") as live:
        row = live.execute("SELECT parent, env_steps, matches, learners FROM branches").fetchone()
    assert row == (str(played), moment, BATCH * batches, json.dumps(dict(made.learners)))
    with Archive.open(tmp_path / "new") as archive:  # it is written further
        assert archive.last_match_id() == BATCH * (batches + 1) - 1
        assert [b.frame for b in archive.branches()] == [made.frame]
    assert (tmp_path / "new" / CONFIG).read_text() == "settings\n"


def test_a_learner_goes_on_from_the_state_of_the_moment_or_the_nearest_snapshot(played, tmp_path):
    expected = {1: "main-0@100", 2: STATE, 3: "main-0@300", 4: "main-0@0", 5: "main-0@500", 6: STATE}
    for batches, origin in expected.items():
        assert find_moment(played, steps_after(played, batches)).origins == {"main-0": origin}
    for head in (played / "learners").rglob("*.json"):  # as older versions and remotes have it
        fields = manifests.read(head)
        head.write_bytes(manifests.seal(fields | {"frame": None if "kept" in str(head) else 10_000}))
    assert [find_moment(played, as_of).origins["main-0"] for as_of in (None, steps_after(played, 3))] == [
        STATE,
        "main-0@300",
    ]


def test_a_state_that_was_kept_is_linked_into_the_branch(played, tmp_path):
    made = branch(played, tmp_path / "new", steps_after(played, 2))
    (kept,) = (path for path in (played / "learners" / "kept").glob("*.2.safetensors"))
    assert kept.samefile(tmp_path / "new" / "learners" / "main-0.1.safetensors")
    tensors, meta = learner_states.load(tmp_path / "new" / "learners", "main-0")
    assert (tensors["weights/w"].tolist(), meta["updates"], made.seconds) == ([2.0] * 3, 2, 20.0)


def test_the_seconds_of_a_branch_without_a_saved_state_are_those_since_play_began(
    tmp_path, make_results, weights
):
    run = tmp_path / "run"
    began = time.time() + 50.0  # processes and nodes were waited for, as with Ray
    with Archive.create(run, "settings\n", {**ROW, "name": "run"}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_bot(Bot("random"))
        for after in (0.0, 7.0):
            results = make_results(BATCH, int(10 * BATCH * after), seed=0)
            times = {"started_at": np.full(BATCH, began + after), "seconds": np.full(BATCH, 2.0)}
            archive.append_results(replace(results, **times), [])
    assert branch(run, tmp_path / "new").seconds == pytest.approx(9.0)


def test_snapshots_are_linked_verified_and_survive_the_original(played, tmp_path):
    branch(played, tmp_path / "new", steps_after(played, 3))
    snapshots = open_reader(tmp_path / "new").snapshots()
    assert [s.snapshot_id for s in snapshots] == [f"main-0@{100 * n}" for n in range(4)]
    for snapshot in snapshots:
        paths = [open_reader(run).blob_path(snapshot) for run in (played, tmp_path / "new")]
        assert paths[0].samefile(paths[1])
        os.unlink(paths[0])
    assert verify_snapshots(open_reader(tmp_path / "new")) == []
    assert collect(tmp_path / "new").files == []


@pytest.mark.slow
def test_a_branch_can_be_branched_again_and_names_all_its_ancestors(played, tmp_path):
    branch(played, tmp_path / "one", steps_after(played, 4))
    branch(tmp_path / "one", tmp_path / "two", steps_after(played, 2))  # before the first branch
    assert storage.query(tmp_path / "two", "FROM branches")["parent"].to_pylist() == [str(tmp_path / "one")]
    branch(tmp_path / "one", tmp_path / "three")
    parents = storage.query(tmp_path / "three", "SELECT parent FROM branches ORDER BY branched_at")
    assert parents["parent"].to_pylist() == [str(played), str(tmp_path / "one")]
    kept = find_moment(tmp_path / "three", steps_after(played, 2))
    assert kept.origins == {"main-0": STATE}  # kept states went along


@pytest.mark.slow
def test_a_run_that_another_writer_holds_is_branched_and_not_disturbed(played, tmp_path, make_results):
    with Archive.open(played) as archive:
        branch(played, tmp_path / "new")
        archive.append_results(make_results(BATCH, 200), [])
    found = [read_tables(run / "ledger", ("matches",))["matches"] for run in (played, tmp_path / "new")]
    assert [len(rows) for rows in found] == [7 * BATCH, 6 * BATCH]


@pytest.mark.parametrize(
    ("spoil", "as_of", "said"),
    [
        ("", 0, "as of 0: is before the first match"),
        ("", "2001-01-01", "as of 2001-01-01: is before the first match"),
        ("", 10**9, "env steps, expected at most as many"),
        ("", "soon", "as of 'soon': found neither a number nor a time"),
        ("blob", None, r"found nothing, expected a file of snapshot 'main-0@300'"),
        ("short", None, r"found 3 bytes, expected a file of snapshot 'main-0@300'"),
        ("manifest", None, r"main-0@300\.json: found nothing"),
    ],
)
def test_a_moment_or_a_file_that_is_not_there_is_one_mistake_and_leaves_nothing(
    played, tmp_path, spoil, as_of, said
):
    reader = open_reader(played)
    blob = reader.blob_path(reader.resolve("main-0@300"))
    if spoil in ("blob", "short"):
        blob.unlink()
    if spoil == "short":
        blob.write_bytes(b"abc")
    if spoil == "manifest":
        reader.manifest_path("main-0@300").unlink()
    with pytest.raises(Mistake, match=said):
        branch(played, tmp_path / "somewhere" / "new", as_of)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]
    if spoil:  # a moment before the snapshot has all that it needs
        assert find_moment(played, steps_after(played, 2)).snapshots


def test_a_folder_that_exists_a_tournament_and_a_run_without_matches_are_refused(
    played, tmp_path, make_results
):
    with pytest.raises(RunExists):
        branch(played, played)
    entrant = Entrant("a", "bot", None, None, None, None, None, None, None, None)
    folder = tmp_path / "tournament"
    with Archive.create(folder, "x\n", ROW, entrants=[entrant]) as archive:
        with pytest.raises(Mistake, match="no match is recorded"):
            find_moment(folder)
        archive.append_results(make_results(2), [])
    with pytest.raises(Mistake, match="is a tournament, expected a run of `league train`"):
        find_moment(folder)


def test_a_full_disk_or_a_file_replaced_meanwhile_leaves_nothing(played, tmp_path):
    past = find_moment(played)
    disk = FaultyDisk()
    disk.plan(Fault(4, Effect.ENOSPC, "pwrite"))
    with using(disk), pytest.raises(DiskFailed):
        make_branch(past, tmp_path / "new", "x", "settings\n", ROW)
    for state in past.states["main-0"]:
        state.tensors.unlink()
    with pytest.raises(FileReplaced):
        make_branch(past, tmp_path / "new", "x", "settings\n", ROW)
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_link_that_fails_for_another_reason_than_the_place_is_an_error(played, tmp_path):
    disk = FaultyDisk()
    disk.plan(Fault(0, Effect.EIO, "link"))
    with using(disk), pytest.raises(DiskFailed, match=os.strerror(errno.EIO)):
        branch(played, tmp_path / "new")
    assert not (tmp_path / "new").exists()
