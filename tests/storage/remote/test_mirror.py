"""A run that lies in a remote, read here: brought level again and again, at the cost of what is new."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import storage
from storage import open_reader
from storage.archive import Archive
from storage.errors import CorruptLedger, NotARun
from storage.layout import LEDGER
from storage.ledger.ledger import Ledger
from storage.records import MAIN
from storage.remote import mirror as mirrors
from storage.remote.mirror import local_mirror, mirror, origin
from storage.remote.remote import Remote, RemoteMissing
from storage.remote.restore import restore
from storage.remote.uploader import Uploader
from storage.snapshots.manifests import CorruptManifest
from tests.steps import flip_bit
from tests.storage.conftest import SPEC, frames


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/remote"


@pytest.fixture
def train(run, url, make_results):
    """Plays `batches` batches, freezes once, and lets the remote follow."""

    def go_on(batches):
        with Archive.open(run) as archive:
            uploader = Uploader(archive, url, seconds=0.05)
            for n in range(batches):
                archive.append_results(make_results(10, archive.next_seq, seed=n), [])
            step = archive.next_seq
            weights = {"w": np.full(10, step, np.float32)}
            archive.add_snapshot("main-0", MAIN, step, 1, "main-0@0", weights, SPEC, "mlp", "due")
            uploader.close()

    return go_on


@pytest.fixture
def fetched(monkeypatch):
    """The names of the objects that are read."""
    names = []
    pieces = Remote.pieces

    def note(self, name):
        names.append(name)
        return pieces(self, name)

    monkeypatch.setattr(Remote, "pieces", note)
    return names


@pytest.mark.slow
def test_a_mirror_answers_what_the_run_answers(run, url, tmp_path, train):
    train(3)
    folder = mirror(url, tmp_path / "mirror")
    question = "SELECT count(*) AS n, max(seq) AS last FROM matches"
    assert storage.query(folder, question) == storage.query(run, question)
    here, there = open_reader(folder), open_reader(run)
    assert here.snapshots() == there.snapshots()
    assert here.config() == there.config()
    for snapshot in here.snapshots():
        assert here.manifest(snapshot.snapshot_id) == there.manifest(snapshot.snapshot_id)
    assert origin(folder) == url
    assert origin(run) is None


@pytest.mark.slow
def test_only_what_is_new_is_fetched(run, url, tmp_path, train, fetched):
    train(3)
    mirror(url, tmp_path / "mirror")
    fetched.clear()
    mirror(url, tmp_path / "mirror")
    assert set(fetched) == {"config.yaml", "FORMAT"}
    before = Remote(url).list("ledger")
    train(2)
    after = Remote(url).list("ledger")
    fetched.clear()
    mirror(url, tmp_path / "mirror")
    assert len(after) > len(before) > 0
    assert set(fetched) == {"config.yaml", "FORMAT"} | (after.keys() - before.keys())
    assert frames(tmp_path / "mirror") == frames(run)


@pytest.mark.slow
def test_neither_weights_nor_manifests_are_fetched_before_they_are_asked_for(url, tmp_path, train, fetched):
    train(1)
    reader = open_reader(mirror(url, tmp_path / "mirror"))
    assert not [name for name in fetched if name.startswith(("objects", "learners", "manifests"))]
    fetched.clear()
    assert reader.manifest("main-0@0") == reader.manifest("main-0@0")
    assert fetched == ["manifests/main-0@0.json"]
    assert len(reader.snapshots()) == 2


class Tidy(Ledger):
    """Ledger of short segments, compacted to the last when it is closed."""

    def __init__(self, *args, **options):
        super().__init__(*args, segment_frames=5, **options)

    def close(self):
        self.compact()
        super().close()


@pytest.mark.slow
def test_segments_that_were_compacted_since_take_the_place_of_their_journals(
    run, url, tmp_path, train, monkeypatch
):
    monkeypatch.setattr("storage.archive.Ledger", Tidy)
    train(3)
    mirror(url, tmp_path / "mirror")
    train(30)
    train(1)
    mirror(url, tmp_path / "mirror")
    assert frames(tmp_path / "mirror") == frames(run)
    compacted = {path.stem for path in (tmp_path / "mirror" / LEDGER).glob("*.json")}
    assert len(compacted) >= 4
    assert not [p for p in (tmp_path / "mirror" / LEDGER).glob("*.journal") if p.stem in compacted]


@pytest.mark.slow
def test_a_mirror_torn_in_the_middle_is_mended(run, url, tmp_path, train):
    train(3)
    folder = mirror(url, tmp_path / "mirror")
    (journal,) = (folder / LEDGER).glob("*.journal")
    for size in (0, 1, 5000, journal.stat().st_size - 1):
        journal.write_bytes(journal.read_bytes()[:size])
        mirror(url, folder)
        assert frames(folder) == frames(run)


def test_a_damaged_mirror_is_told_and_then_made_anew(run, url, tmp_path, train):
    train(3)
    folder = mirror(url, tmp_path / "mirror")
    (journal,) = (folder / LEDGER).glob("*.journal")
    flip_bit(journal, 1000)
    with pytest.raises(CorruptLedger, match="damaged frame at byte"):
        mirror(url, folder)
    mirror(url, folder)
    assert frames(folder) == frames(run)


@pytest.mark.slow
def test_a_folder_that_mirrored_another_run_is_made_anew(url, tmp_path, train, run):
    train(1)
    folder = mirror(url, tmp_path / "mirror")
    row = {"name": "other", "env": "leduc_poker", "seed": 4}
    with Archive.create(tmp_path / "other", "env: {id: leduc_poker}\n", row) as other:
        Uploader(other, f"file://{tmp_path}/second").close()
    mirror(f"file://{tmp_path}/second", folder)
    assert frames(folder) == frames(tmp_path / "other")
    assert open_reader(folder).snapshots() == []


@pytest.mark.parametrize("bring", [mirror, restore])
def test_what_holds_no_run_is_told(tmp_path, bring):
    remote = Remote(f"file://{tmp_path}/remote", make=True)
    with pytest.raises(
        NotARun, match=r"no config\.yaml there, expected what a run has as its storage.remote"
    ):
        bring(remote.url, tmp_path / "copy")
    remote.put("config.yaml", b"env: {}\n")
    remote.put("FORMAT", b'{"version": 99}')
    with pytest.raises(NotARun, match="format version 99"):
        bring(remote.url, tmp_path / "copy")
    remote.put("FORMAT", b'{"version": 1}')
    with pytest.raises(NotARun, match="has no ledger yet"):
        bring(remote.url, tmp_path / "copy")


@pytest.mark.slow
@pytest.mark.parametrize("bring", [mirror, restore])
def test_a_chunk_that_is_missing_or_damaged_is_one_error(tmp_path, url, train, bring, run):
    train(3)
    train(3)
    first, second = sorted((tmp_path / "remote" / LEDGER).iterdir())[:2]
    aside = first.read_bytes()
    first.unlink()
    with pytest.raises(CorruptLedger, match=r"00000001\.journal\.0+ is missing; bring it back"):
        bring(url, tmp_path / "copy")
    first.write_bytes(aside)
    flip_bit(second, -5)
    with pytest.raises(CorruptLedger, match="damaged frame at byte"):
        bring(url, tmp_path / "copy")
    flip_bit(second, -5)
    bring(url, tmp_path / "copy")
    assert frames(tmp_path / "copy") == frames(run)


@pytest.mark.slow
def test_a_damaged_or_missing_manifest_is_refused_each_time_and_taken_once_mended(tmp_path, url, train):
    train(1)
    reader = open_reader(mirror(url, tmp_path / "mirror"))
    there = tmp_path / "remote" / "manifests" / "main-0@0.json"
    flip_bit(there, 30)
    for _ in range(2):
        with pytest.raises(CorruptManifest, match=r"remote/manifests/main-0@0\.json"):
            reader.manifest("main-0@0")
        with pytest.raises(CorruptManifest, match=r"remote/manifests/main-0@0\.json"):
            restore(url, tmp_path / "copy")
        assert not (tmp_path / "copy").exists()
    flip_bit(there, 30)
    aside = there.read_bytes()
    there.unlink()
    with pytest.raises(RemoteMissing, match=r"main-0@0\.json is not there"):
        reader.manifest("main-0@0")
    there.write_bytes(aside)
    assert reader.manifest("main-0@0")["snapshot_id"] == "main-0@0"


def test_commands_share_one_mirror_in_the_users_cache(run, url, tmp_path, train, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train(1)
    told = []
    folder = local_mirror(url, lambda *what: told.append(what))
    assert told == [("fetching the ledger", 1, 1)]
    assert folder.is_relative_to(tmp_path / "cache")
    assert local_mirror(f"{url}/") == folder
    assert frames(folder) == frames(run)


@pytest.mark.slow
def test_two_who_mirror_at_once_wait_for_each_other(url, tmp_path, train, monkeypatch):
    train(1)
    inside, most = [], []
    original = mirrors.bring_facts

    def counted(*args):
        inside.append(1)
        most.append(len(inside))
        found = original(*args)
        inside.pop()
        return found

    monkeypatch.setattr(mirrors, "bring_facts", counted)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda _: mirror(url, tmp_path / "mirror"), range(8)))
    assert most == [1] * 8
