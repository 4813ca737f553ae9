"""An exported mixture is whole or not there, and what a stranger wrote there is checked before it is used."""

import pytest
import torch

from storage.archive import Archive, open_reader
from storage.errors import CorruptBlob, Mistake
from storage.records import MAIN, LivePlayer
from storage.snapshots.manifests import read, seal
from storage.upkeep.exported_mixtures import export_mixture, is_mixture, read_mixture
from storage.upkeep.exports import MEMBERS, MIXTURE, README, NotAnExport, read_export
from tests import made_up

pytestmark = pytest.mark.slow

CONFIG = "env: {id: connect_four, options: {rows: 6}}\n"
SPEC = {
    "settings": {"architecture": "mlp"},
    "observation": {"shape": [84], "dtype": "float32"},
    "action": {"kind": "discrete", "sizes": [7]},
}


@pytest.fixture
def reader(tmp_path):
    with Archive.create(tmp_path / "run", CONFIG, {"name": "x", "env": "e", "seed": 0}) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        for steps in (5, 6):
            made_up.add_snapshot(archive, steps, {"a": torch.full((2, 3), float(steps))}, SPEC, updates=1)
    return open_reader(tmp_path / "run")


@pytest.fixture
def exported(reader, tmp_path):
    first, second = reader.snapshots()
    members = [(first, 0.25, 1.0), (second, 0.75, 0.0)]
    export_mixture(reader, "main-0:average", members, tmp_path / "out" / "mixture", license="MIT")
    return tmp_path / "out" / "mixture"


def test_it_holds_whole_exports_and_how_often_each_plays(exported):
    assert is_mixture(exported)
    fields, members = read_mixture(exported)
    assert (fields["name"], fields["license"], fields["env"]["id"]) == (
        "main-0:average",
        "MIT",
        "connect_four",
    )
    assert [(member.weight, member.temperature) for member in members] == [(0.25, 1.0), (0.75, 0.0)]
    manifests = [read_export(member.folder)[0] for member in members]
    assert [manifest["snapshot_id"] for manifest in manifests] == ["main-0@5", "main-0@6"]
    text = (exported / README).read_text()
    for said in ("# A mixture of 2 snapshots", "| members/1 | main-0@6 | 0.75 | 0 |", "league.load_export"):
        assert said in text


def test_a_folder_that_is_there_is_never_written_to(reader, exported):
    with pytest.raises(Mistake, match="expected a new folder"):
        export_mixture(reader, "again", [(reader.snapshots()[0], 1.0, 1.0)], exported)


def test_a_damaged_member_leaves_no_folder(reader, tmp_path):
    first, second = reader.snapshots()
    path = reader.blob_path(second)
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:-4] + b"abcd")
    with pytest.raises(CorruptBlob):
        export_mixture(reader, "m", [(first, 0.5, 1.0), (second, 0.5, 1.0)], tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_who_expects_one_snapshot_is_told_that_it_is_a_mixture(exported):
    with pytest.raises(NotAnExport, match="found a mixture of snapshots, expected one; name one of the fold"):
        read_export(exported)


def test_a_folder_without_one_is_told_apart(tmp_path):
    assert not is_mixture(tmp_path)
    with pytest.raises(NotAnExport, match=r"mixture\.json: no such file|No such file"):
        read_mixture(tmp_path)


def changed(members, **changes):
    return [members[0] | changes, *members[1:]]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda members: [], "expected a list of 1 to"),
        (lambda members: "all", "expected a list of 1 to"),
        (lambda members: [1, 2], r"member 0 is 1, expected one in the folder members/0"),
        (lambda members: changed(members, folder="../../etc"), "expected one in the folder members/0"),
        (lambda members: members[::-1], "expected one in the folder members/0"),
        (lambda members: changed(members, weight=0), "weight is 0, expected more than 0, up to 1"),
        (lambda members: changed(members, weight=True), "weight is True"),
        (lambda members: changed(members, weight="half"), "weight is 'half'"),
        (lambda members: changed(members, temperature=-1), "temperature is -1, expected 0 or more"),
        (lambda members: changed(members, weight=0.5), "weights sum to 1.25, expected 1"),
    ],
)
def test_what_a_stranger_wrote_is_refused_in_one_sentence(exported, change, message):
    path = exported / MIXTURE
    fields = read(path)
    path.chmod(0o644)
    path.write_bytes(seal(fields | {"members": change(fields["members"])}))
    with pytest.raises(NotAnExport, match=message):
        read_mixture(exported)


def test_a_changed_byte_is_noticed(exported):
    path = exported / MIXTURE
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b"0.75", b"0.74"))
    with pytest.raises(NotAnExport, match="not as it was written"):
        read_mixture(exported)
    assert (exported / MEMBERS / "0").is_dir()
