"""An exported snapshot stands alone, and nothing but a whole, undamaged one is read."""

import errno
import json
import os
import shutil

import pytest
import torch
import yaml

from storage.archive import Archive, open_reader
from storage.disk import Disk, using
from storage.errors import CorruptBlob, Mistake, StorageError
from storage.records import MAIN, LivePlayer
from storage.snapshots.blobs import map_tensors
from storage.snapshots.manifests import CorruptManifest, read, seal
from storage.upkeep.exports import MANIFEST, README, WEIGHTS, NotAnExport, export_snapshot, read_export
from tests import made_up
from tests.steps import flip_bit

pytestmark = pytest.mark.slow

TENSORS = {"b": torch.arange(4.0), "a": torch.ones(2, 3)}
CONFIG = "env: {id: connect_four, options: {rows: 6}}\n"
SPEC = {
    "settings": {"architecture": "mlp", "connectors": [{"kind": "frame_stack", "frames": 4}]},
    "observation": {"shape": [84], "dtype": "float32"},
    "action": {"kind": "discrete", "sizes": [7]},
}


@pytest.fixture
def exported(tmp_path):
    with Archive.create(tmp_path / "run", CONFIG, {"name": "x", "env": "e", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        made_up.add_snapshot(archive, 5, TENSORS, SPEC, updates=1)
    reader = open_reader(tmp_path / "run")
    export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "out" / "best")
    return tmp_path / "out" / "best"


def test_an_export_holds_the_same_bytes_and_what_they_mean_also_when_its_run_is_gone(exported, tmp_path):
    shutil.rmtree(tmp_path / "run")
    manifest, tensors = read_export(exported)
    assert (manifest["snapshot_id"], manifest["spec"]) == ("main-0@5", SPEC)
    assert manifest["env"] == {"id": "connect_four", "options": {"rows": 6}}
    assert (manifest["format"], manifest["license"]) == (1, "unspecified")
    assert set(tensors) == set(TENSORS)
    assert all(torch.equal(tensors[name], TENSORS[name]) for name in TENSORS)
    assert sorted(path.name for path in exported.iterdir()) == sorted([MANIFEST, WEIGHTS, README])


def test_the_readme_tells_people_what_it_is_and_how_to_use_it(exported):
    text = (exported / README).read_text()
    for said in (
        "# main-0@5",
        'connect_four, options {"rows": 6}',
        "player main-0, role main",
        '{"frames": 4, "kind": "frame_stack"}',
        "10 numbers in 2 tensors",
        read(exported / MANIFEST)["blob_hash"],
        "| licence | unspecified |",
        "league snapshots RUN import",
        "init_from",
        "league.load_export",
    ):
        assert said in text


def test_a_model_hub_reads_licence_library_and_game_at_the_head_of_the_readme(exported, tmp_path):
    def head(folder):
        _, yaml_text, text = (folder / README).read_text().split("---\n", 2)
        assert text.startswith("\n# main-0@5\n")
        return yaml.safe_load(yaml_text)

    assert head(exported) == {
        "library_name": "checkpoint-league",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "self-play", "checkpoint-league", "connect_four"],
    }
    reader = open_reader(tmp_path / "run")
    for given, read_as in {
        "MIT": {"license": "mit"},
        "mine: 'all' # rights": {"license": "other", "license_name": "mine: 'all' # rights"},
    }.items():
        folder = tmp_path / given[:4]
        export_snapshot(reader, reader.resolve("main-0@5"), folder, license=given)
        assert read_as.items() <= head(folder).items()


def test_a_licence_goes_along_if_it_is_one_line(exported, tmp_path):
    reader = open_reader(tmp_path / "run")
    snapshot = reader.resolve("main-0@5")
    export_snapshot(reader, snapshot, tmp_path / "licensed", license="CC-BY-4.0 | mine")
    assert read_export(tmp_path / "licensed")[0]["license"] == "CC-BY-4.0 | mine"
    assert "| licence | CC-BY-4.0 \\| mine |" in (tmp_path / "licensed" / README).read_text()
    for bad in ("", "MIT\nand more", "x" * 201):
        with pytest.raises(Mistake, match="expected one line of at most 200 characters"):
            export_snapshot(reader, snapshot, tmp_path / "other", license=bad)
    assert not (tmp_path / "other").exists()


def test_a_folder_that_is_there_is_never_written_to(exported, tmp_path):
    reader = open_reader(tmp_path / "run")
    before = (exported / MANIFEST).read_bytes()
    with pytest.raises(Mistake, match="expected a new folder"):
        export_snapshot(reader, reader.resolve("main-0@5"), exported)
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(Mistake, match="expected a new folder"):
        export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "link")
    with pytest.raises(Mistake, match="cannot be made: File name too long"):
        export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / ("x" * 300))
    assert (exported / MANIFEST).read_bytes() == before


def test_a_damaged_snapshot_is_not_exported_and_leaves_no_folder(exported, tmp_path):
    reader = open_reader(tmp_path / "run")
    snapshot = reader.resolve("main-0@5")
    path = reader.manifest_path("main-0@5")
    honest = path.read_bytes()
    path.write_bytes(honest.replace(b"connectors", b"konnectors"))
    with pytest.raises(CorruptManifest, match=r"main-0@5\.json"):
        export_snapshot(reader, snapshot, tmp_path / "out" / "second")
    path.write_bytes(honest)
    flip_bit(reader.blob_path(snapshot))
    with pytest.raises(CorruptBlob):
        export_snapshot(reader, snapshot, tmp_path / "out" / "second")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["best"]


def test_an_export_that_a_full_disk_stops_leaves_nothing_and_can_be_tried_again(exported, tmp_path):
    reader = open_reader(tmp_path / "run")

    class Full(Disk):
        def pwrite(self, handle, data, offset):
            raise OSError(errno.ENOSPC, "No space left on device")

    with using(Full()), pytest.raises(StorageError, match="cannot be written: No space left on device"):
        export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "out" / "second")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["best"]
    export_snapshot(reader, reader.resolve("main-0@5"), tmp_path / "out" / "second")
    assert read_export(tmp_path / "out" / "second")[0] == read_export(exported)[0]


def test_changed_weights_a_changed_manifest_and_one_that_is_none_are_refused(exported):
    flip_bit(exported / WEIGHTS)
    with pytest.raises(CorruptBlob, match="its bytes hash to"):
        read_export(exported)
    changed = seal(read(exported / MANIFEST)).replace(b'"env_steps":5', b'"env_steps":6')
    (exported / MANIFEST).write_bytes(changed)
    with pytest.raises(NotAnExport, match="not as it was written"):
        read_export(exported)
    for content in ("", "[]", "{}", "no json", json.dumps({"blob_hash": 1, "snapshot_id": "x"})):
        (exported / MANIFEST).write_text(content)
        with pytest.raises(NotAnExport, match=r"manifest\.json"):
            read_export(exported)


def test_a_folder_without_an_export_is_refused(tmp_path, exported):
    with pytest.raises(NotAnExport, match="league snapshots RUN export"):
        read_export(tmp_path / "nowhere")
    (exported / WEIGHTS).unlink()
    with pytest.raises(CorruptBlob, match="no such file"):
        read_export(exported)
    os.mkfifo(exported / WEIGHTS)
    with pytest.raises(CorruptBlob, match="no such file"):
        read_export(exported)


def test_exports_of_older_versions_are_read(exported):
    manifest = read(exported / MANIFEST)
    for name in ("format", "license", "env"):
        del manifest[name]
    (exported / MANIFEST).write_bytes(seal(manifest))
    (exported / README).unlink()
    found, tensors = read_export(exported)
    assert found == manifest
    assert map_tensors(exported / WEIGHTS, verify=False).keys() == tensors.keys()
