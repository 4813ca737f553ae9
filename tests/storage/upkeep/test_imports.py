"""A stranger's folder is taken in whole and checked, as nobody's snapshot, or not at all."""

import numpy as np
import pytest

from storage.archive import Archive, open_reader
from storage.errors import Mistake, StorageError
from storage.ledger.ledger import read_frames
from storage.records import IMPORTED, MAIN, LivePlayer
from storage.snapshots.blobs import map_tensors
from storage.snapshots.manifests import read, seal
from storage.upkeep.exports import MANIFEST, export_snapshot
from storage.upkeep.imports import MAX_MANIFEST_BYTES, BadImport, import_snapshot
from storage.upkeep.verification import verify_snapshots

SPEC = {
    "settings": {"architecture": "mlp", "connectors": [{"kind": "flatten"}]},
    "observation": {"shape": [84], "dtype": "float32", "parts": []},
    "action": {"kind": "discrete", "sizes": [7], "low": [], "high": []},
}
CONFIG = "env: {id: connect_four, options: {rows: 6}}\n"
ROW = {"name": "test", "env": "connect_four", "seed": 3}


def weights(value):
    return {"w": np.full((3, 2), value, np.float32), "b": np.zeros(2, np.float32)}


def make_run(path, player, value, spec=SPEC, config=CONFIG):
    with Archive.create(path, config, ROW) as archive:
        archive.add_player(LivePlayer(player, MAIN))
        archive.add_snapshot(player, MAIN, 0, 0, None, weights(0), spec, "mlp", "initial weights")
        archive.add_snapshot(player, MAIN, 5, 2, f"{player}@0", weights(value), spec, "mlp", "due")
    return path


def export(run, snapshot_id, folder, **options):
    reader = open_reader(run)
    export_snapshot(reader, reader.resolve(snapshot_id), folder, **options)
    return folder


@pytest.fixture
def run(tmp_path):
    return make_run(tmp_path / "run", "main-0", 1.0)


@pytest.fixture
def folder(tmp_path):
    """`friend-0@5` of another run, exported."""
    return export(
        make_run(tmp_path / "other", "friend-0", 2.0), "friend-0@5", tmp_path / "out", license="MIT"
    )


@pytest.fixture
def change(folder):
    """Change fields of the exported manifest, as somebody would who makes a valid one."""

    def make(**fields):
        manifest = read(folder / MANIFEST) | fields
        (folder / MANIFEST).write_bytes(seal(manifest))

    return make


@pytest.fixture
def forget(folder):
    """Leave fields out of the exported manifest."""

    def make(*names):
        manifest = read(folder / MANIFEST)
        kept = {name: value for name, value in manifest.items() if name not in names}
        (folder / MANIFEST).write_bytes(seal(kept))

    return make


@pytest.fixture
def refused(run, folder, tmp_path):
    """Importing fails with a message that fits, and changes nothing anywhere."""

    def look():
        files = [p for p in tmp_path.rglob("*") if p.is_file() and not p.is_symlink()]
        kept = [p for p in files if p.name != "LOCK"]
        return {p: p.stat().st_size for p in kept}

    def check(message):
        before = look()
        with Archive.open(run) as archive, pytest.raises(Mistake, match=message) as raised:
            import_snapshot(archive, folder)
        assert "\n" not in str(raised.value)
        assert len(str(raised.value)) < 1000
        assert look() == before

    return check


@pytest.mark.slow
def test_an_imported_snapshot_is_stored_whole_and_is_nobodys(run, folder):
    with Archive.open(run) as archive:
        before = archive.next_seq
        snapshot = import_snapshot(archive, folder)
        assert archive.next_seq == before
    reader = open_reader(run)
    assert reader.resolve("friend-0@5") == snapshot
    assert (snapshot.role, snapshot.player, snapshot.parent_id) == (IMPORTED, "friend-0@5", None)
    assert (snapshot.env_steps, snapshot.updates, snapshot.architecture) == (5, 2, "mlp")
    assert verify_snapshots(reader) == []
    assert np.array_equal(
        map_tensors(reader.blob_path(snapshot), verify=True)["w"].numpy(), weights(2.0)["w"]
    )
    manifest = reader.manifest("friend-0@5")
    assert manifest["spec"] == SPEC
    assert manifest["origin"] == {
        "snapshot_id": "friend-0@5",
        "player": "friend-0",
        "role": "main",
        "parent_id": "friend-0@0",
        "license": "MIT",
    }
    *_, last = read_frames(run / "ledger")
    assert set(last.tables) == {"snapshots", "competitors"}


@pytest.mark.slow
def test_history_tells_of_an_import_where_it_happened(run, folder):
    with Archive.open(run) as archive:
        snapshot = import_snapshot(archive, folder)
        archive.add_snapshot("main-0", MAIN, 9, 3, "main-0@5", weights(3), SPEC, "mlp", "due")
        assert [s.snapshot_id for s in archive.history() if hasattr(s, "snapshot_id")] == [
            "main-0@0",
            "main-0@5",
            "friend-0@5",
            "main-0@9",
        ]
        assert list(archive.history())[3] == snapshot


@pytest.mark.slow
def test_importing_again_is_no_second_fact(run, folder):
    with Archive.open(run) as archive:
        first = import_snapshot(archive, folder)
        frames = len(list(read_frames(run / "ledger")))
        assert import_snapshot(archive, folder) == first
        assert len(list(read_frames(run / "ledger"))) == frames
    with Archive.open(run) as archive:
        assert import_snapshot(archive, folder) == first


@pytest.mark.slow
def test_the_same_policy_may_be_here_under_two_ids(run, folder):
    with Archive.open(run) as archive:
        first = import_snapshot(archive, folder)
        second = import_snapshot(archive, folder, "friend@again")
    assert second.blob_hash == first.blob_hash
    assert second.player == "friend@again"
    assert verify_snapshots(open_reader(run)) == []


@pytest.mark.slow
def test_a_taken_id_is_refused_until_another_is_given(run, tmp_path):
    stranger = export(make_run(tmp_path / "other", "main-0", 2.0), "main-0@5", tmp_path / "out")
    with Archive.open(run) as archive:
        with pytest.raises(BadImport, match="'main-0@5' is another competitor here, expected a free id"):
            import_snapshot(archive, stranger)
        with pytest.raises(BadImport, match="'main-0' is another competitor"):
            import_snapshot(archive, stranger, "main-0")
        taken = import_snapshot(archive, stranger, "main-0@77")
        assert taken.player == "main-0@77"
        assert archive.manifest("main-0@77")["origin"]["snapshot_id"] == "main-0@5"


@pytest.mark.slow
def test_an_id_that_an_import_took_does_not_stop_the_player_that_comes_to_it(run, folder):
    with Archive.open(run) as archive:
        import_snapshot(archive, folder, "main-0@77")
        own = archive.add_snapshot("main-0", MAIN, 77, 3, "main-0@5", weights(3), SPEC, "mlp", "due")
        assert (own.snapshot_id, own.player) == ("main-0@77-2", "main-0")
        with pytest.raises(StorageError, match="'main-0@77-2' is there already"):
            archive.add_snapshot("main-0", MAIN, 77, 3, "main-0@5", weights(3), SPEC, "mlp", "again")
    assert len(open_reader(run).snapshots()) == 4


@pytest.mark.slow
def test_an_imported_snapshot_can_be_exported_and_keeps_its_licence(run, folder, tmp_path):
    with Archive.open(run) as archive:
        import_snapshot(archive, folder)
    again = read(export(run, "friend-0@5", tmp_path / "again") / MANIFEST)
    assert (again["license"], again["role"], again["format"]) == ("MIT", "imported", 1)
    assert again["origin"]["player"] == "friend-0"
    with Archive.open(make_run(tmp_path / "third", "main-0", 3.0)) as archive:
        assert import_snapshot(archive, tmp_path / "again").role == IMPORTED


@pytest.mark.slow
def test_a_network_of_somebodys_own_is_refused(change, refused):
    change(spec=SPEC | {"settings": {"architecture": "os:system"}}, architecture="os:system")
    refused("its network is 'os:system'")


@pytest.mark.slow
def test_the_runs_own_network_is_taken_with_the_runs_own_settings_only(run, change, folder, refused):
    own = SPEC | {"settings": {"architecture": "mine:Net", "options": {"width": 8}}}
    manifest_of_run = run / "manifests" / "main-0@0.json"
    fields = read(manifest_of_run) | {"spec": own}
    manifest_of_run.chmod(0o644)
    manifest_of_run.write_bytes(seal(fields))
    (run / "config.yaml").write_text("env: {id: connect_four}\npolicy: {architecture: 'mine:Net'}\n")
    change(
        spec=SPEC | {"settings": {"architecture": "mine:Net", "options": {"width": 10**9}}},
        architecture="mine:Net",
    )
    refused("its network")
    change(spec=own, architecture="mine:Net")
    with Archive.open(run) as archive:
        assert import_snapshot(archive, folder).architecture == "mine:Net"


WRONG = [
    ("format", 2, "format 2, expected 1"),
    (
        "spec",
        SPEC | {"settings": {"architecture": "os:system"}},
        "is 'mlp', expected 'os:system', as its spec",
    ),
    ("snapshot_id", "x" * 201, "snapshot_id is 'x+...\\."),
    ("snapshot_id", "a\u202eb", r"snapshot_id is 'a\\u202eb'"),
    ("snapshot_id", "Ω" * 100, "at most 200 bytes as a file name"),
    ("snapshot_id", 5, "snapshot_id is 5, expected one line"),
    ("player", ["x"], r"player is \['x'\]"),
    ("license", None, "license is None"),
    ("parent_id", 7, "parent_id is 7, expected an id, or null"),
    ("blob_hash", "../../../etc/passwd", "64 hexadecimal digits"),
    ("blob_hash", None, "blob_hash is None, expected 64 hexadecimal digits"),
    ("env_steps", 2**63, "env_steps is"),
    ("env_steps", True, "env_steps is True"),
    ("bytes", "5", "bytes is '5'"),
    ("spec", [], "spec is"),
    ("tensors", None, "tensors is None"),
    ("env", None, "env.id is None"),
    ("env", {"id": "leduc_poker"}, "plays 'leduc_poker', expected this run's game, 'connect_four'"),
    ("spec", SPEC | {"observation": {"shape": [9]}}, r"its observation is \{'shape': \[9\]\}, expected"),
    ("spec", SPEC | {"action": None}, "its action is None, expected"),
]


@pytest.mark.slow
def test_fields_that_are_missing_or_not_what_they_should_be_are_named(folder, change, forget, refused):
    honest = (folder / MANIFEST).read_bytes()
    for field, value, message in WRONG:
        change(**{field: value})
        refused(message)
        (folder / MANIFEST).write_bytes(honest)
    needed = {field for field, _, _ in WRONG} - {"parent_id"}
    for field in sorted(needed | {"role", "updates", "architecture"}):
        forget(field)
        refused(field)
        (folder / MANIFEST).write_bytes(honest)


@pytest.mark.slow
def test_fields_that_are_not_needed_may_be_missing(run, folder, forget):
    forget("parent_id", "evidence", "reason", "created_at")
    with Archive.open(run) as archive:
        import_snapshot(archive, folder)
        assert archive.manifest("friend-0@5")["origin"]["parent_id"] is None


@pytest.mark.slow
def test_the_folder_itself_may_be_a_link(run, folder, tmp_path):
    (tmp_path / "link").symlink_to(folder)
    with Archive.open(run) as archive:
        assert import_snapshot(archive, tmp_path / "link").snapshot_id == "friend-0@5"


@pytest.mark.slow
def test_a_manifest_that_is_too_large_too_deep_or_no_json_is_refused(folder, change, refused):
    written, nested = (folder / MANIFEST).read_bytes(), []
    for _ in range(40):
        nested = [nested]
    change(spec=SPEC | {"large": "x" * MAX_MANIFEST_BYTES})
    refused("expected a manifest of at most")
    change(spec=SPEC | {"deep": nested})
    refused("levels")
    for data in (b"\x80\x04K\x05.", written.replace(b'"env_steps":5', b'"env_steps":Infinity')):
        (folder / MANIFEST).write_bytes(data)
        refused("no manifest")


def test_a_run_without_a_snapshot_of_its_own_has_nothing_to_compare_with(tmp_path, folder):
    with Archive.create(tmp_path / "new", CONFIG, ROW) as archive:
        archive.add_player(LivePlayer("main-0", MAIN))
        with pytest.raises(BadImport, match="no snapshot of its own yet"):
            import_snapshot(archive, folder)
