"""An exported snapshot stands alone, and nothing but a whole, undamaged one is read."""

import json

import pytest
import torch

from storage.archive import Archive, open_reader
from storage.errors import CorruptBlob, Mistake
from storage.exports import MANIFEST, WEIGHTS, NotAnExport, export_snapshot, read_export
from storage.records import MAIN, LivePlayer

TENSORS = {"b": torch.arange(4.0), "a": torch.ones(2, 3)}


@pytest.fixture
def exported(tmp_path):
    with Archive.create(tmp_path / "run", "{}", {"name": "x", "env": "e", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        archive.add_snapshot(
            player="main-0",
            role=MAIN,
            env_steps=5,
            updates=1,
            parent_id=None,
            tensors=TENSORS,
            spec={"any": "thing"},
            architecture="mlp",
            reason="test",
        )
    reader = open_reader(tmp_path / "run")
    export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "out" / "best")
    return tmp_path / "out" / "best"


def test_an_export_holds_the_same_bytes_and_what_they_mean(exported):
    manifest, tensors = read_export(exported)
    assert (manifest["snapshot_id"], manifest["spec"]) == ("main-0@5", {"any": "thing"})
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert sorted(path.name for path in exported.iterdir()) == [MANIFEST, WEIGHTS]


def test_a_folder_that_is_there_is_never_written_to(exported, tmp_path):
    reader = open_reader(tmp_path / "run")
    before = (exported / MANIFEST).read_bytes()
    with pytest.raises(Mistake, match="expected a new folder"):
        export_snapshot(reader, reader.resolve("main-0@5"), exported)
    assert (exported / MANIFEST).read_bytes() == before


def test_a_damaged_snapshot_is_not_exported_and_leaves_no_folder(exported, tmp_path):
    reader = open_reader(tmp_path / "run")
    blob = reader.blob_path(reader.resolve("main-0@5"))
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1] + b"\x01")
    with pytest.raises(CorruptBlob):
        export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "out" / "second")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["best"]


def test_changed_weights_are_refused(exported):
    weights = exported / WEIGHTS
    weights.chmod(0o644)
    data = bytearray(weights.read_bytes())
    data[-1] ^= 1
    weights.write_bytes(data)
    with pytest.raises(CorruptBlob, match="its bytes hash to"):
        read_export(exported)


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", "no json", json.dumps({"blob_hash": 1, "snapshot_id": "x"})]
)
def test_a_manifest_that_is_none_is_refused(exported, content):
    (exported / MANIFEST).write_text(content)
    with pytest.raises(NotAnExport, match=r"manifest\.json"):
        read_export(exported)


def test_a_folder_without_an_export_is_refused(tmp_path, exported):
    with pytest.raises(NotAnExport, match="league snapshots RUN export"):
        read_export(tmp_path / "nowhere")
    (exported / WEIGHTS).unlink()
    with pytest.raises(CorruptBlob, match="no such file"):
        read_export(exported)
