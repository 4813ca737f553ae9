"""A run restored from its remote: all of it, verified, or nothing."""

import json

import numpy as np
import pytest

from storage.archive import Archive, open_reader
from storage.errors import CorruptBlob, RunExists
from storage.records import MAIN
from storage.remote.remote import Remote, RemoteMissing
from storage.remote.restore import restore
from storage.remote.uploader import Uploader
from storage.snapshots import manifests
from storage.snapshots.blobs import verify
from tests.steps import flip_bit
from tests.storage.conftest import SPEC


@pytest.fixture
def url(run, tmp_path, make_results):
    """A remote with five snapshots and a learner's state."""
    url = f"file://{tmp_path}/remote"
    with Archive.open(run) as archive:
        uploader = Uploader(archive, url, seconds=0.05)
        for step in (10, 20, 30, 40):
            weights = {"w": np.full(100, step, np.float32)}
            archive.add_snapshot("main-0", MAIN, step, 1, "main-0@0", weights, SPEC, "mlp", "due")
        archive.append_results(make_results(10), [])
        archive.save_learner("main-0", {"w": np.ones(5, np.float32)}, {"env_steps": 40})
        uploader.close()
    return url


def left(tmp_path):
    """What a failed restoring leaves behind."""
    return sorted(path.name for path in tmp_path.iterdir() if path.name not in ("run", "remote"))


@pytest.mark.slow
def test_progress_is_told_and_snapshots_are_whole(url, tmp_path):
    told = []
    restore(url, tmp_path / "back", lambda *what: told.append(what))
    assert told == [("fetching the ledger", 1, 1), *(("fetching snapshots", n, 10) for n in range(1, 11))]
    reader = open_reader(tmp_path / "back")
    for snapshot in reader.snapshots():
        assert reader.manifest(snapshot.snapshot_id)["blob_hash"] == snapshot.blob_hash
        verify(reader.blob_path(snapshot))
        assert reader.blob_path(snapshot).stat().st_mode & 0o777 == 0o444
    with Archive.open(tmp_path / "back") as archive:
        assert archive.load_learner("main-0")[1] == {"env_steps": 40}


@pytest.mark.slow
def test_a_folder_that_is_there_is_left_alone(url, tmp_path, run):
    with pytest.raises(RunExists):
        restore(url, run)
    (tmp_path / "empty").mkdir()
    restore(url, tmp_path / "empty")
    assert len(open_reader(tmp_path / "empty").snapshots()) == 5


@pytest.mark.slow
def test_a_missing_blob_a_damaged_one_and_a_damaged_state_leave_nothing_here(url, tmp_path):
    blob = next((tmp_path / "remote" / "objects").rglob("*.safetensors"))
    (state,) = (tmp_path / "remote" / "learners").glob("*.safetensors")
    for path in (blob, state):
        flip_bit(path)
        with pytest.raises(CorruptBlob, match=path.name):
            restore(url, tmp_path / "back")
        assert left(tmp_path) == []
        flip_bit(path)
    aside = blob.read_bytes()
    blob.unlink()
    with pytest.raises(RemoteMissing, match=blob.name):
        restore(url, tmp_path / "back")
    assert left(tmp_path) == []
    blob.write_bytes(aside)
    restore(url, tmp_path / "back")
    assert left(tmp_path) == ["back"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "file", ["../../outside.safetensors", "/tmp/outside.safetensors", "x/y.safetensors", 7]
)
def test_a_state_that_names_a_file_elsewhere_is_refused(url, tmp_path, file):
    head = json.dumps({"file": file, "hash": "0" * 64, "meta": {}}).encode()
    Remote(url).put("learners/main-0.json", head)
    with pytest.raises(CorruptBlob, match="names the file"):
        restore(url, tmp_path / "back")
    assert left(tmp_path) == []


@pytest.mark.slow
def test_a_state_that_is_replaced_while_it_is_read_is_read_anew(url, tmp_path, monkeypatch, run):
    remote, fetch = Remote(url), Remote.fetch
    replaced = []

    def replace_first(self, name, expected, write):
        if name.startswith("learners/") and not replaced:
            replaced.append(name)
            tensors = remote.get(name)
            head = json.loads(remote.get("learners/main-0.json"))
            remote.put("learners/main-0.9.safetensors", tensors)
            new = head | {"file": "main-0.9.safetensors", "meta": {"env_steps": 50}}
            remote.put("learners/main-0.json", manifests.seal(new))
            remote.delete(name)
        fetch(self, name, expected, write)

    monkeypatch.setattr(Remote, "fetch", replace_first)
    restore(url, tmp_path / "back")
    with Archive.open(tmp_path / "back") as archive:
        assert archive.load_learner("main-0")[1] == {"env_steps": 50}
