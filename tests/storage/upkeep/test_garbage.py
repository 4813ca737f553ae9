"""Only what nothing names is collected, only when asked for, and never beside a writer."""

import errno
import fcntl
import os
import time

import numpy as np
import pytest

from storage.archive import Archive, open_reader
from storage.disk import Disk, using
from storage.errors import CorruptBlob, DiskFailed, Mistake, NotARun, RunLocked
from storage.layout import blob_path
from storage.snapshots.blobs import publish
from storage.snapshots.manifests import CorruptManifest, read, seal
from storage.upkeep.garbage import UNFINISHED_SECONDS, collect, pin, unpin
from storage.upkeep.verification import verify_snapshots

pytestmark = pytest.mark.slow


@pytest.fixture
def orphan(run):
    """A blob whose snapshot was never recorded."""
    blob_hash, _ = publish(run / "objects", {"w": np.full(9, 5.0, np.float32)})
    return blob_path(run / "objects", blob_hash)


def files(run):
    return {p for p in run.rglob("*") if p.is_file() or p.is_symlink()}


def unfinished(folder, age=UNFINISHED_SECONDS + 60):
    path = folder / ".x.safetensors.0123456789ab.tmp"
    path.write_bytes(b"half")
    then = time.time() - age
    os.utime(path, (then, then))
    return path


def test_a_run_in_order_has_no_garbage(run):
    assert collect(run).files == []
    before = files(run)
    assert collect(run, delete=True).files == []
    assert files(run) == before


def test_garbage_is_named_and_removed_only_when_asked_for(run, orphan):
    found = collect(run)
    assert found.files == [(orphan, orphan.stat().st_size, "no manifest, pin or lease names it")]
    assert found.bytes == orphan.stat().st_size
    assert orphan.exists()
    assert collect(run, delete=True).files == found.files
    assert not orphan.exists()
    assert verify_snapshots(open_reader(run)) == []
    assert collect(run).files == []


def test_a_manifest_without_its_row_keeps_its_blob(run, orphan):
    fields = read(run / "manifests" / "main-0@0.json") | {"snapshot_id": "x", "blob_hash": orphan.stem}
    (run / "manifests" / "x.json").write_bytes(seal(fields))
    assert collect(run, delete=True).files == []
    assert orphan.exists()


def test_a_row_without_its_manifest_keeps_its_blob(run):
    (run / "manifests" / "main-0@0.json").unlink()
    assert collect(run, delete=True).files == []
    assert len(list((run / "objects").rglob("*.safetensors"))) == 1


def test_a_pinned_blob_stays_until_it_is_let_go(run, orphan):
    pin(run, "../odd name", orphan.stem, "the paper's figure 3")
    assert collect(run, delete=True).files == []
    unpin(run, "../odd name")
    assert [path for path, _, _ in collect(run, delete=True).files] == [orphan]
    with pytest.raises(Mistake, match=r"no pin '\.\./odd name'"):
        unpin(run, "../odd name")
    with pytest.raises(Mistake, match="expected 64 hexadecimal digits"):
        pin(run, "x", "../../etc", "why")


def test_a_leased_blob_stays_until_its_lease_ends(run, orphan):
    with open(orphan, "rb") as lease:
        fcntl.flock(lease, fcntl.LOCK_SH)
        assert collect(run).files == []
        assert collect(run, delete=True).files == []
        assert orphan.exists()
    assert [path for path, _, _ in collect(run, delete=True).files] == [orphan]


def test_nothing_is_removed_beside_a_writer(run, orphan):
    with Archive.open(run):
        assert [path for path, _, _ in collect(run).files] == [orphan]
        with pytest.raises(RunLocked, match=f"pid {os.getpid()}"):
            collect(run, delete=True)
    assert orphan.exists()


def test_a_manifest_pin_or_state_that_cannot_be_read_stops_it(run, orphan, weights):
    with Archive.open(run) as archive:
        archive.save_learner("main-0", weights, {})
    state = run / "learners" / "main-0.json"
    pin(run, "x", "0" * 64, "test")
    for path, kind in (
        (run / "manifests" / "main-0@0.json", CorruptManifest),
        (run / "pins" / "x.json", CorruptManifest),
        (state, CorruptBlob),
    ):
        before = path.read_bytes()
        path.write_bytes(before[:-3])
        for delete in (False, True):
            with pytest.raises(kind, match=path.name):
                collect(run, delete)
        path.write_bytes(before)
    assert orphan.exists()


def test_only_old_unfinished_files_of_the_runs_own_folders_go(run):
    (run / "learners" / "refused").mkdir()
    old = [unfinished(run / name) for name in ("objects", "manifests", "learners", "learners/refused")]
    (run / "objects" / "ab").mkdir(exist_ok=True)
    old.append(unfinished(run / "objects" / "ab"))
    (run / "mine").mkdir()
    kept = [unfinished(run), unfinished(run / "mine"), unfinished(run / "objects", age=60)]
    kept[-1].rename(run / "objects" / ".y.tmp")
    kept[-1] = run / "objects" / ".y.tmp"
    old[0] = unfinished(run / "objects")
    found = collect(run, delete=True).files
    assert sorted(path for path, _, _ in found) == sorted(old)
    assert {why for _, _, why in found} == {"was never finished"}
    assert all(path.exists() for path in kept)


def test_states_that_newer_ones_replaced_go(run, weights):
    with Archive.open(run) as archive:
        archive.save_learner("main-0", weights, {"updates": 1})
        archive.save_refused("main-0", 7, weights)
    left = [run / "learners" / name for name in ("main-0.9.safetensors", "other.1.safetensors")]
    for path in left:
        path.write_bytes(b"of a crash")
    assert [path for path, _, _ in collect(run, delete=True).files] == left
    with Archive.open(run) as archive:
        assert archive.load_learner("main-0")[1] == {"updates": 1}
    assert len(list((run / "learners" / "refused").iterdir())) == 1


def test_links_are_not_followed_and_strange_files_are_left_alone(run, tmp_path, orphan):
    outside = tmp_path / "outside"
    (outside / "ab").mkdir(parents=True)
    name = "ab" + 62 * "0" + ".safetensors"
    (outside / "ab" / name).write_bytes(b"x")
    (run / "objects" / "cd").mkdir()
    strange = [
        run / "objects" / "notes.txt",
        run / "objects" / "cd" / name,  # not where a blob of that hash lies
        run / "objects" / name,
    ]
    for path in strange:
        path.write_bytes(b"x")
    (run / "objects" / "ab").symlink_to(outside / "ab")
    (run / "objects" / "cd" / ("cd" + 62 * "0" + ".safetensors")).symlink_to(outside / "ab" / name)
    assert [path for path, _, _ in collect(run, delete=True).files] == [orphan]
    assert (outside / "ab" / name).exists()
    assert all(path.exists() for path in strange)
    (run / "objects").rename(tmp_path / "moved")
    (run / "objects").symlink_to(tmp_path / "moved")
    publish(tmp_path / "moved", {"w": np.ones(3, np.float32)})
    assert collect(run, delete=True).files == []


def test_a_folder_that_is_no_run_is_refused(tmp_path):
    with pytest.raises(NotARun):
        collect(tmp_path)


def test_a_file_that_cannot_be_removed_is_one_sentence(run, orphan):
    class Sticky(Disk):
        def unlink(self, path):
            raise OSError(errno.EIO, "Input/output error")

    with (
        using(Sticky()),
        pytest.raises(DiskFailed, match=r"safetensors: cannot be removed: Input/output error"),
    ):
        collect(run, delete=True)
    assert orphan.exists()
