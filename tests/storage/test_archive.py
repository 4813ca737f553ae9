import errno
import itertools
import json
import shutil
from dataclasses import fields

import numpy as np
import pytest
import torch

import storage
from storage.archive import Archive, open_reader
from storage.disk import Disk, using
from storage.errors import (
    DiskFailed,
    Mistake,
    NotARun,
    RunExists,
    StorageError,
)
from storage.ledger.ledger import read_frames
from storage.records import (
    MAIN,
    MAIN_EXPLOITER,
    Add,
    Bot,
    CacheRecord,
    Decision,
    Freeze,
    LivePlayer,
    MatchBatch,
    RatingChange,
    Reset,
    ResultBatch,
    Retire,
    UpdateRecord,
)
from storage.snapshots.blobs import map_tensors, verify

torch.set_num_threads(1)

SPEC = {"architecture": "mlp", "hidden": [4]}
ROW = {"name": "test", "env": "connect_four", "seed": 3}


def assert_same(found, expected):
    """Two ResultBatches are equal to the bit, dtypes included."""
    for part, other in ((found, expected), (found.matches, expected.matches)):
        for field in fields(part):
            a, b = getattr(part, field.name), getattr(other, field.name)
            if isinstance(a, (ResultBatch, MatchBatch)):
                continue
            if isinstance(b, np.ndarray):
                assert a.dtype == b.dtype, field.name
                assert a.shape == b.shape, field.name
                assert a.tobytes() == b.tobytes(), field.name
            else:
                assert a == b, field.name


@pytest.mark.slow
def test_results_come_back_exactly_as_appended_also_after_reopening(run, make_results):
    batches = [make_results(m, first, seed=m) for m, first in ((7, 0), (1, 7), (300, 8))]
    with Archive.open(run) as archive:
        for batch in batches:
            archive.append_results(batch, [])
        for found, expected in zip(archive.results(), batches, strict=True):
            assert_same(found, expected)
    with Archive.open(run) as archive:
        for found, expected in zip(archive.results(), batches, strict=True):
            assert_same(found, expected)


@pytest.mark.slow
def test_results_can_be_read_from_a_batch_on(run, make_results):
    with Archive.open(run) as archive:
        archive.append_results(make_results(5), [])
        second = archive.append_results(make_results(6, 5), [])
        archive.append_results(make_results(7, 11), [])
        assert [len(batch) for batch in archive.results(after_batch=second)] == [7]
    found = storage.query(run, f"SELECT count(*) AS n FROM matches WHERE batch = {second}").to_pylist()
    assert found == [{"n": 6}]


def test_scores_that_are_not_numbers_and_odd_times_survive(run, make_results):
    batch = make_results(3)
    batch.score[0] = [np.inf, np.nan]
    batch.started_at[:] = [0.0, 1.7e9 + 1e-7, 4e9]
    with Archive.open(run) as archive:
        archive.append_results(batch, [])
        (found,) = archive.results()
    assert_same(found, batch)


def test_an_index_without_a_name_is_refused_and_nothing_is_written(run, make_results):
    batch = make_results(3, competitors=("main-0", "random"))
    with Archive.open(run) as archive:
        with pytest.raises(IndexError, match="out of bounds"):
            archive.append_results(batch, [])
        assert list(archive.results()) == []


def test_an_empty_batch_is_no_fact(run, make_results):
    with Archive.open(run) as archive:
        before = archive.next_seq
        archive.append_results(make_results(0), [])
        archive.append_decisions([])
        archive.append_updates([])
        assert archive.next_seq == before
        assert list(archive.results()) == []


@pytest.mark.slow
def test_numbers_go_on_where_they_stopped(run, make_results):
    with Archive.open(run) as archive:
        assert (archive.next_seq, archive.last_match_id()) == (1, -1)
        archive.append_results(make_results(10, 100), [RatingChange("main-0", 25.0, 8.0, 10)])
        archive.append_decisions([Reset(player="main-0", reason="stuck", target="main-0@0")])
        assert archive.next_seq == 12
    with Archive.open(run) as archive:
        assert (archive.next_seq, archive.last_match_id()) == (12, 109)
        archive.append_updates([UpdateRecord("main-0", 1, 1, 0.0, {})] * 2)
        archive.append_results(make_results(3, 50), [])
        assert (archive.next_seq, archive.last_match_id()) == (17, 109)
    seqs = storage.query(
        run, "SELECT seq FROM matches UNION ALL SELECT seq FROM decisions UNION ALL SELECT seq FROM updates"
    )
    assert sorted(seqs["seq"].to_pylist()) == list(range(1, 17))
    assert storage.query(run, "SELECT seq FROM ratings").to_pylist() == [{"seq": 10}]


@pytest.mark.slow
def test_decisions_come_back_as_they_were_taken(run, weights):
    freeze = Freeze(player="main-0", reason="due", evidence={"win_rate": 0.71, "steps": float("inf")})
    others = [
        Reset(player="main-0", reason="stuck", target="main-0@0", evidence={"win_rate": 0.1}),
        Add(player="exploiter-1", reason="asked for", role=MAIN_EXPLOITER),
        Retire(player="main-0", reason="old", target="main-0@0"),
    ]
    with Archive.open(run) as archive:
        archive.add_snapshot(
            "main-0", MAIN, 50, 1, "main-0@0", weights, SPEC, "mlp", "due", decisions=[freeze]
        )
        archive.append_decisions(others)
        assert [fact for fact in archive.history() if isinstance(fact, Decision)] == [freeze, *others]
    found = storage.query(run, "SELECT kind, snapshot_id FROM decisions ORDER BY seq").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        ("freeze", "main-0@50"),
        ("reset", "main-0@0"),
        ("add", None),
        ("retire", "main-0@0"),
    ]


def test_a_snapshot_and_all_that_was_decided_with_it_are_one_frame(run, weights):
    both = [
        Freeze(player="main-0", reason="due", evidence={"win_rate": 0.8}),
        Reset(player="main-0", reason="always reset", target="main-0@0"),
    ]
    with Archive.open(run) as archive:
        archive.add_snapshot("main-0", MAIN, 50, 1, "main-0@0", weights, SPEC, "mlp", "due", decisions=both)
        assert archive.next_seq == 3
        assert archive.manifest("main-0@50")["evidence"] == {"win_rate": 0.8}
    *_, last = read_frames(run / "ledger")
    assert set(last.tables) == {"snapshots", "competitors", "decisions"}
    assert last.tables["decisions"]["snapshot_id"].to_pylist() == ["main-0@50", "main-0@0"]


@pytest.mark.slow
def test_a_newcomers_rating_stands_on_the_leaderboard_before_its_first_game(run, make_results):
    with Archive.open(run) as archive:
        archive.append_results(make_results(5), [RatingChange("main-0", 30.0, 1.0, 5)])
        archive.append_ratings([RatingChange("main-0@0", 30.0, 8.0, 0)])
        archive.append_ratings([RatingChange("main-0@0", 29.0, 8.0, 0)])
        archive.append_ratings([])
        assert archive.next_seq == 6
    found = storage.query(run, "SELECT competitor, mu FROM leaderboard").to_pylist()
    assert [tuple(row.values()) for row in found] == [("main-0", 30.0), ("main-0@0", 29.0)]


def test_ratings_and_caches_stand_behind_the_last_numbered_row(run, make_results):
    caches = [
        CacheRecord("here", "mapped", 5, 2, 1, 800, {"count": 1, "bytes": 0}),
        CacheRecord("here", "disk", 2, 0, 2, 900, {}),
    ]
    with Archive.open(run) as archive:
        archive.append_results(make_results(5), [RatingChange("main-0", 30.0, 1.0, 5)])
        newcomer = archive.append_ratings([RatingChange("main-0@0", 30.0, 8.0, 0)])
        last = archive.append_caches(caches)
        assert archive.append_caches([]) == last
        assert archive.next_seq == 6
    frames = list(read_frames(run / "ledger", tables=("ratings", "caches")))
    assert [frame.tables["ratings"]["seq"].to_pylist() for frame in frames[:2]] == [[5], [5]]
    assert frames[1].tables["ratings"]["batch"].to_pylist() == [newcomer]
    rows = frames[-1].tables["caches"].to_pylist()
    assert [(row["seq"], row["tier"], row["hits"], row["bytes"]) for row in rows] == [
        (5, "mapped", 5, 800),
        (5, "disk", 2, 900),
    ]
    assert json.loads(rows[0]["evictions"]) == {"count": 1, "bytes": 0}


@pytest.mark.slow
def test_every_session_leaves_its_settings(run, make_results):
    with Archive.open(run) as archive:
        archive.append_results(make_results(5), [])
        archive.begin_session(ROW, "lr: 1e-3\n")
    found = storage.query(run, "SELECT seq, name, seed, config FROM runs ORDER BY seq").to_pylist()
    assert [tuple(row.values()) for row in found] == [
        (1, "test", 3, "env: {id: connect_four}\n"),
        (6, "test", 3, "lr: 1e-3\n"),
    ]


def test_history_tells_every_fact_in_the_order_of_recording(run, make_results, weights):
    freeze = Freeze(player="main-0", reason="due")
    reset = Reset(player="main-0", reason="stuck", target="main-0@50")
    with Archive.open(run) as archive:
        archive.begin_session(ROW, "seed: 3\n")
        archive.append_results(make_results(5), [])
        archive.append_updates([UpdateRecord("main-0", 1, 1, 0.0, {})])
        fifty = archive.add_snapshot(
            "main-0", MAIN, 50, 1, "main-0@0", weights, SPEC, "mlp", "due", decisions=[freeze, reset]
        )
        archive.append_results(make_results(6, 5), [])
        first = archive.resolve("main-0@0")
        events = list(archive.history())
    assert events[:3] == [LivePlayer("main-0", MAIN), Bot("random"), first]
    assert events[4:7] == [fifty, freeze, reset]
    assert [len(event) for event in (events[3], events[7])] == [5, 6]
    assert len(events) == 8


def test_a_snapshot_is_stored_whole(run, weights):
    reader = open_reader(run)
    (snapshot,) = reader.snapshots()
    assert (snapshot.snapshot_id, snapshot.role, snapshot.parent_id) == ("main-0@0", MAIN, None)
    path = reader.blob_path(snapshot)
    verify(path)
    assert snapshot.bytes == path.stat().st_size
    for name, tensor in map_tensors(path, verify=True).items():
        assert np.array_equal(tensor.numpy(), weights[name])
    manifest = reader.manifest("main-0@0")
    assert manifest["spec"] == SPEC
    assert manifest["blob_hash"] == snapshot.blob_hash
    assert manifest["tensors"]["torso.weight"] == {"dtype": "float32", "shape": [4, 3]}


def test_ids_are_given_once_and_parents_must_exist(run, weights):
    with Archive.open(run) as archive:
        with pytest.raises(StorageError, match="'main-0@0' is there already"):
            archive.add_snapshot("main-0", MAIN, 0, 0, None, weights, SPEC, "mlp", "again")
        with pytest.raises(StorageError, match="parent 'main-0@77'"):
            archive.add_snapshot("main-0", MAIN, 80, 0, "main-0@77", weights, SPEC, "mlp", "orphan")
        with pytest.raises(StorageError, match="'random' is there already"):
            archive.add_player(LivePlayer("random", MAIN))
        assert len(archive.snapshots()) == 1


def test_a_manifest_that_a_crash_left_without_its_row_is_overwritten(run, weights):
    (run / "manifests" / "main-0@50.json").write_text("{")
    with Archive.open(run) as archive:
        archive.add_snapshot("main-0", MAIN, 50, 1, "main-0@0", weights, SPEC, "mlp", "due")
        assert archive.manifest("main-0@50")["env_steps"] == 50


@pytest.fixture
def full():
    """A disk on which nothing can be written to files of some kind; counts what it refused."""

    class Full(Disk):
        def __init__(self, *kinds):
            self.kinds, self.names, self.refused = kinds, {}, 0

        def open(self, path, flags, mode=0o644):
            handle = super().open(path, flags, mode)
            self.names[handle] = str(path)
            return handle

        def pwrite(self, handle, data, offset):
            if any(kind in self.names.get(handle, "journal") for kind in self.kinds):
                self.refused += 1
                raise OSError(errno.ENOSPC, "No space left on device")
            return super().pwrite(handle, data, offset)

    return Full


@pytest.mark.parametrize("kind", ["objects", "manifests"])
def test_a_snapshot_that_found_no_room_is_not_there_and_can_be_stored_later(run, weights, full, kind):
    with Archive.open(run) as archive:
        frames = len(list(read_frames(run / "ledger")))
        disk = full(kind)
        with using(disk), pytest.raises(DiskFailed, match=rf"{kind}.*: cannot be written: No space left"):
            archive.add_snapshot("main-0", MAIN, 9, 1, "main-0@0", {"w": np.ones(9)}, SPEC, "mlp", "due")
        assert disk.refused == 1
        assert len(list(read_frames(run / "ledger"))) == frames
        assert [s.snapshot_id for s in archive.snapshots()] == ["main-0@0"]
        stored = archive.add_snapshot("main-0", MAIN, 9, 1, "main-0@0", {"w": np.ones(9)}, SPEC, "mlp", "due")
        verify(archive.blob_path(stored))
    assert [s.snapshot_id for s in open_reader(run).snapshots()] == ["main-0@0", "main-0@9"]
    assert not list(run.rglob(".*.tmp"))


@pytest.mark.slow
def test_after_a_failed_write_of_the_ledger_all_is_refused_until_the_run_is_reopened(
    run, weights, full, make_results
):
    player = LivePlayer("late", MAIN)
    with Archive.open(run) as archive:
        with using(full("journal")), pytest.raises(StorageError, match="No space left on device"):
            archive.add_player(player)
        for append in (
            lambda: archive.add_player(player),
            lambda: archive.add_snapshot("main-0", MAIN, 9, 1, "main-0@0", weights, SPEC, "mlp", "due"),
            lambda: archive.append_results(make_results(3), []),
            lambda: archive.append_updates([UpdateRecord("main-0", 1, 1, 0.0, {})]),
        ):
            with pytest.raises(StorageError, match="failed to write before; open the run again"):
                append()
        assert archive.players() == [LivePlayer("main-0", MAIN)]
    with Archive.open(run) as archive:
        archive.add_player(player)
        assert archive.append_results(make_results(3), [])
        assert archive.players() == [LivePlayer("main-0", MAIN), player]


def test_a_learner_state_that_found_no_room_leaves_the_one_before(run, full):
    with Archive.open(run) as archive:
        archive.save_learner("main-0", {"w": torch.ones(3)}, {"updates": 1})
        with using(full("learners")), pytest.raises(DiskFailed, match=r"learners.*No space left on device"):
            archive.save_learner("main-0", {"w": torch.ones(3)}, {"updates": 2})
        assert archive.load_learner("main-0")[1] == {"updates": 1}
        shutil.rmtree(run / "learners")
        with pytest.raises(DiskFailed, match="learners: cannot be read: No such file"):
            archive.save_learner("main-0", {"w": torch.ones(3)}, {"updates": 3})


def test_who_copies_the_run_is_told_which_files_and_how_much_of_them(run, make_results):
    with Archive.open(run) as archive:
        before = archive.ledger_extent()[-1]
        archive.append_results(make_results(3), [])
        path, size = archive.ledger_extent()[-1]
        assert path.parent == run / "ledger"
        assert path.stat().st_size == size > before[1]


def test_odd_names_stay_inside_their_folders(run, weights):
    name = "../../odd name/.x"
    with Archive.open(run) as archive:
        archive.add_player(LivePlayer(name, MAIN))
        snapshot = archive.add_snapshot(name, MAIN, 1, 0, None, weights, SPEC, "mlp", "odd")
        archive.save_learner(name, weights, {"n": 1})
        assert archive.manifest(snapshot.snapshot_id)["player"] == name
        assert archive.load_learner(name)[1] == {"n": 1}
    assert len(list((run / "manifests").iterdir())) == 2
    assert len(list((run / "learners").iterdir())) == 2


def test_creating_refuses_foreign_folders_and_leaves_no_remains(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("x")
    with pytest.raises(RunExists, match="it is no run"):
        Archive.create(tmp_path / "mine", "", ROW)
    with pytest.raises(StorageError, match="unknown columns"):
        Archive.create(tmp_path / "other", "", {"colour": "blue"})
    (tmp_path / "empty").mkdir()
    Archive.create(tmp_path / "empty", "", ROW).close()
    with pytest.raises(RunExists, match="give --resume"):
        Archive.create(tmp_path / "empty", "", ROW)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["empty", "mine"]
    with pytest.raises(NotARun):
        Archive.open(tmp_path / "mine")
    with pytest.raises(RunExists, match="cannot be looked into: File name too long; choose another"):
        Archive.create(tmp_path / ("x" * 300), "", ROW)
    (tmp_path / "file").write_text("x")
    with pytest.raises(Mistake, match="cannot be made: Not a directory; choose another folder"):
        Archive.create(tmp_path / "file" / "run", "", ROW)


def test_a_fold_is_wanted_when_many_matches_lie_behind_it_and_rarer_the_larger_it_is(
    make_results, tmp_path, monkeypatch
):
    monkeypatch.setattr("storage.archive.FOLD_MATCHES", 400)
    with Archive.create(tmp_path / "run", "env: {id: connect_four}\n", ROW) as archive:
        numbers = itertools.count()

        def matches_until_wanted():
            done = 0
            while not archive.wants_fold:
                archive.append_results(make_results(200, 200 * next(numbers)), [])
                done += 200
            return done

        assert matches_until_wanted() == 400
        archive.note_fold({}, {})
        assert matches_until_wanted() == 400
        archive.note_fold({"payoff": np.random.default_rng(0).random(100)}, {})
        assert 1_600 <= matches_until_wanted() < 2_200  # 800 bytes that cannot be compressed
