"""What is sent in which order, what a remote is left with when sending stops anywhere, and who may go on."""

import json
import shutil
import threading

import numpy as np
import pytest

from storage.archive import open_reader
from storage.disk import write_whole
from storage.errors import CorruptBlob, Mistake, NotARun
from storage.layout import LEARNERS, LEDGER, MANIFESTS, OBJECTS, file_name
from storage.ledger.ledger import Ledger
from storage.records import MAIN, Snapshot
from storage.remote.claims import Claim
from storage.remote.remote import Remote, RemoteFailed, RemoteTaken
from storage.remote.restore import restore
from storage.remote.shipper import Shipper
from storage.snapshots import blobs, learner_states, manifests
from storage.snapshots.blobs import verify
from storage.tables import columns
from storage.tables.columns import competitor_tables
from tests.steps import flip_bit
from tests.storage.conftest import frames

pytestmark = pytest.mark.slow


class Writer:
    """A run's ledger with segments of four frames, written as an archive does."""

    def __init__(self, run):
        self.run = run
        self.ledger = Ledger(run / LEDGER, "test", segment_frames=4)
        self.snapshots = [snapshot.snapshot_id for snapshot in open_reader(run).snapshots()]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.ledger.close()

    def play(self, results):
        self.ledger.append(columns.result_tables(results, [], 1, self.ledger.last_sequence + 1))

    def freeze(self, env_steps, weight=0.0):
        """Learner state, blob, manifest, ledger: in the order of a session."""
        tensors = {"w": np.full(1000, env_steps + weight, np.float32)}
        learner_states.save(self.run / LEARNERS, "main-0", tensors, {"env_steps": env_steps})
        blob_hash, size = blobs.publish(self.run / OBJECTS, tensors)
        snapshot = Snapshot(
            f"main-0@{env_steps}", "main-0", MAIN, env_steps, 1, None, blob_hash, size, "mlp", 1.5, "due"
        )
        fields = {name: getattr(snapshot, name) for name in Snapshot.__slots__}
        path = self.run / MANIFESTS / f"{file_name(snapshot.snapshot_id)}.json"
        write_whole(path, [manifests.seal(fields)])
        self.ledger.append(competitor_tables(snapshot, 1.5))
        self.snapshots.append(snapshot.snapshot_id)

    def shipper(self, remote, claim):
        shipper = Shipper(self.run, remote, claim)
        shipper.begin(self.ledger.extent(), self.snapshots)
        return shipper


@pytest.fixture
def url(tmp_path):
    return f"file://{tmp_path}/remote"


def send(writer, remote):
    """One process's turn at the remote."""
    claim = Claim(remote, writer.run)
    try:
        writer.shipper(remote, claim).ship(writer.ledger.extent())
    finally:
        claim.stop()
    claim.release()


def assert_complete(run):
    """Every snapshot that the run's ledger names is there, whole, and no older than its learner's state."""
    reader = open_reader(run)
    for snapshot in reader.snapshots():
        verify(reader.blob_path(snapshot))
        assert reader.manifest(snapshot.snapshot_id)["blob_hash"] == snapshot.blob_hash
    state = learner_states.load(run / LEARNERS, "main-0")
    newest = max((s.env_steps for s in reader.snapshots()), default=0)
    assert newest == 0 or state[1]["env_steps"] >= newest


def test_all_of_a_run_is_sent_and_comes_back(run, url, tmp_path, make_results):
    with Writer(run) as writer:
        for step in (10, 20, 30):
            writer.play(make_results(5, step))
            writer.freeze(step)
        writer.ledger.compact()
        writer.play(make_results(5, 40))
        send(writer, Remote(url, make=True))
        expected = frames(run)
    restore(url, tmp_path / "back")
    assert frames(tmp_path / "back") == expected
    assert_complete(tmp_path / "back")
    names = {str(path.relative_to(run)) for path in run.rglob("*") if path.is_file()}
    came = {
        str(path.relative_to(tmp_path / "back")) for path in (tmp_path / "back").rglob("*") if path.is_file()
    }
    assert names - came == {"ledger/LOCK"}
    assert came - names == set()


def test_what_is_there_is_not_sent_again(run, url, make_results):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        writer.freeze(10)
        send(writer, remote)
        before = remote.list("ledger")
        claim = Claim(remote, run)
        shipper = writer.shipper(remote, claim)
        shipper.ship(writer.ledger.extent())
        assert (shipper.sent_bytes, shipper.missing_bytes(writer.ledger.extent())) == (0, 0)
        assert remote.list("ledger") == before
        writer.play(make_results(5))
        assert shipper.missing_bytes(writer.ledger.extent()) > 0
        shipper.ship(writer.ledger.extent())
        assert shipper.missing_bytes(writer.ledger.extent()) == 0
        (chunk,) = set(remote.list("ledger")) - set(before)
        assert shipper.sent_bytes == remote.list("ledger")[chunk]
        claim.release()


def test_a_blob_is_there_before_its_manifest_and_that_before_the_ledger_naming_it(run, url):
    remote, order = Remote(url, make=True), []
    for method in ("put", "create"):
        original = getattr(remote, method)
        setattr(remote, method, lambda name, data, o=original: (order.append(name), o(name, data))[1])
    with Writer(run) as writer:
        writer.freeze(10)
        send(writer, remote)
    order = [name for name in order if not name.startswith(("writers", "probes"))]
    kinds = [name.split("/")[0] for name in order]
    assert kinds[:4] == ["config.yaml", "FORMAT", "learners", "learners"]
    assert kinds[4:] == ["objects", "manifests", "ledger"] * 2, "a snapshot in each of two segments"


def test_chunks_of_a_segment_go_when_it_is_compacted(run, url, make_results, tmp_path):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        claim = Claim(remote, run)
        shipper = writer.shipper(remote, claim)
        for n in range(6):
            writer.play(make_results(3, n))
            shipper.ship(writer.ledger.extent())
        assert len([name for name in remote.list("ledger") if "00000002.journal" in name]) > 1
        assert writer.ledger.compact() > 0
        shipper.ship(writer.ledger.extent())
        listed = remote.list("ledger")
        assert {"ledger/00000001.json", "ledger/00000002.json"} <= set(listed)
        assert {name[:15] for name in listed if "journal" in name} == {"ledger/00000003"}
        expected = frames(run)
        claim.release()
    restore(url, tmp_path / "back")
    assert frames(tmp_path / "back") == expected


def test_a_remote_that_ends_with_a_compacted_segment_goes_on(run, url, tmp_path, make_results):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        claim = Claim(remote, run)
        for n in range(5):
            writer.play(make_results(3, n))
        assert writer.ledger.compact() == 2
        *compacted, (open_journal, _) = writer.ledger.extent()
        assert open_journal.suffix == ".journal"
        writer.shipper(remote, claim).ship(compacted)
        claim.release()
    restore(url, tmp_path / "back")
    with Writer(tmp_path / "back") as writer:
        writer.play(make_results(3))
        assert writer.ledger.last_sequence == 9
        send(writer, remote)


def test_only_the_newest_state_of_a_learner_stays(run, url):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        for step in (10, 20):
            writer.freeze(step)
            send(writer, remote)
    here = {f"learners/{path.name}" for path in (run / LEARNERS).iterdir()}
    assert set(remote.list("learners")) == here
    assert len(here) == 2


def test_a_state_replaced_while_it_is_sent_is_sent_as_it_is_now(run, url, monkeypatch):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        writer.freeze(10)
        original, saved = Shipper._ship_learner, []

        def save_first(self, name, head):
            if not saved:
                saved.append(name)
                learner_states.save(
                    run / LEARNERS, "main-0", {"w": np.ones(9, np.float32)}, {"env_steps": 20}
                )
            original(self, name, head)

        monkeypatch.setattr(Shipper, "_ship_learner", save_first)
        send(writer, remote)
    assert json.loads(remote.get("learners/main-0.json"))["meta"] == {"env_steps": 20}
    (run / LEARNERS / json.loads((run / LEARNERS / "main-0.json").read_text())["file"]).unlink()
    (run / LEARNERS / "main-0.json").write_text(json.dumps({"file": "main-0.2.safetensors", "meta": {}}))
    with Writer(run) as writer, pytest.raises(FileNotFoundError):
        send(writer, remote)


def test_a_damaged_snapshot_is_not_sent(run, url):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        writer.freeze(10)
        reader = open_reader(run)
        path = reader.blob_path(reader.snapshots()[-1])
        flip_bit(path)
        with pytest.raises(CorruptBlob, match=path.name):
            send(writer, remote)
    assert remote.size(f"objects/{path.parent.name}/{path.name}") is None
    assert not [name for name in remote.list("manifests") if "main-0@10" in name]


class Interrupted(Remote):
    """Fails one request, before or after it is carried out, and from then on all of them."""

    def __init__(self, url, strike, done):
        super().__init__(url, make=True)
        self.count, self.strike, self.done = 0, strike, done

    def _try(self, what, call, *, may_miss=False):
        self.count += 1
        if self.count == self.strike and self.done:
            super()._try(what, call, may_miss=may_miss)
        if self.count >= self.strike:
            raise RemoteFailed(f"request {self.count} failed: {what}")
        return super()._try(what, call, may_miss=may_miss)


def scenario(writer, remote, make_results, acknowledged):
    """A few minutes of training: two snapshots, a compaction, and looks of an uploader in between."""
    claim = Claim(remote, writer.run)
    try:
        shipper = writer.shipper(remote, claim)
        for step in (10, 20):
            writer.play(make_results(4, step))
            writer.freeze(step)
            writer.play(make_results(4, step + 5))
            acknowledged[:] = frames(writer.run)
            shipper.ship(writer.ledger.extent())
        writer.ledger.compact()
        writer.play(make_results(2, 30))
        acknowledged[:] = frames(writer.run)
        shipper.ship(writer.ledger.extent())
    finally:
        claim.stop()
    claim.release()


@pytest.mark.long
def test_stopped_at_any_request_the_remote_holds_a_state_of_the_run_completed_later(
    run, tmp_path, make_results
):
    """Each request is refused, or its reply is lost, in turn."""
    strike, states = 0, set()
    while True:
        strike += 1
        here = tmp_path / f"{strike}"
        shutil.copytree(run, here / "run")
        remote = Interrupted(f"file://{here}/remote", strike, done=strike % 2 == 0)
        acknowledged = []
        with Writer(here / "run") as writer:
            try:
                scenario(writer, remote, make_results, acknowledged)
                break
            except RemoteFailed:
                states.add(restored(remote.url, here / "early", acknowledged))
            if not acknowledged:
                acknowledged = frames(here / "run")
            send(writer, Remote(remote.url))
        assert restored(remote.url, here / "late", acknowledged) == len(acknowledged)
    assert strike > 30, "the scenario asks more than that of a remote"
    assert len(states) >= 3


def restored(url, folder, acknowledged):
    """How many frames the remote gives back, each acknowledged; 0 when there is no run yet."""
    try:
        restore(url, folder)
    except NotARun:
        return 0
    found = frames(folder)
    assert found == acknowledged[: len(found)]
    assert_complete(folder)
    return len(found)


def test_a_freeze_that_never_reached_the_remote_ledger_may_be_another_elsewhere(run, url, tmp_path):
    """A machine dies between manifest and ledger; who goes on from the remote freezes at the same step."""
    with Writer(run) as writer:
        send(writer, Remote(url, make=True))
    restore(url, tmp_path / "elsewhere")
    with Writer(run) as writer:
        writer.freeze(10)
        remote = Remote(url)
        remote.create = lambda name, data: lose_ledger(url, name, data)
        with pytest.raises(RemoteFailed, match="the machine dies"):
            send(writer, remote)
    assert "manifests/main-0@10.json" in Remote(url).list("manifests")
    give_back(url)
    with Writer(tmp_path / "elsewhere") as writer:
        writer.freeze(10, weight=0.5)
        manifest = (tmp_path / "elsewhere" / "manifests" / "main-0@10.json").read_bytes()
        send(writer, Remote(url))
    assert Remote(url).get("manifests/main-0@10.json") == manifest


def lose_ledger(url, name, data):
    if name.startswith("ledger/"):
        raise RemoteFailed("the machine dies")
    return Remote(url).create(name, data)


def give_back(url):
    """What waiting for a minute would do."""
    remote = Remote(url)
    for name in remote.list("writers"):
        remote.put(name, json.dumps({"released": True}).encode())


def test_a_ledger_that_went_another_way_is_refused(run, url, tmp_path, make_results):
    shutil.copytree(run, tmp_path / "other")
    with Writer(run) as writer:
        writer.play(make_results(4))
        send(writer, Remote(url, make=True))
    with Writer(tmp_path / "other") as writer:
        writer.play(make_results(4))
        with pytest.raises(
            Mistake, match=r"ledger/00000002\.journal.*holds another run, or more of this one"
        ):
            send(writer, Remote(url))
        for n in range(6):
            writer.play(make_results(4, n))
        writer.ledger.compact()
        before = Remote(url).list("ledger")
        with pytest.raises(Mistake, match="holds another run"):
            send(writer, Remote(url))
    assert Remote(url).list("ledger") == before


def test_a_remote_that_is_ahead_is_refused(run, url, tmp_path, make_results):
    shutil.copytree(run, tmp_path / "backup")
    with Writer(run) as writer:
        for n in range(9):
            writer.play(make_results(4, n))
        writer.ledger.compact()
        send(writer, Remote(url, make=True))
    with Writer(tmp_path / "backup") as writer, pytest.raises(Mistake, match="more of this one"):
        send(writer, Remote(url))


@pytest.mark.parametrize("missing", [0, 2])
def test_a_chunk_that_went_missing_is_sent_again(run, url, tmp_path, make_results, missing):
    remote = Remote(url, make=True)
    with Writer(run) as writer:
        claim = Claim(remote, run)
        shipper = writer.shipper(remote, claim)
        for n in range(3):
            writer.play(make_results(4, n))
            shipper.ship(writer.ledger.extent())
        claim.release()
        remote.delete(sorted(remote.list("ledger"))[missing])
        send(writer, remote)
        expected = frames(run)
    restore(url, tmp_path / "back")
    assert frames(tmp_path / "back") == expected


class Unlimited(Claim):
    """A claim that its owner never finds lost."""

    def __init__(self):
        pass

    def require(self):
        pass


@pytest.mark.slow
@pytest.mark.parametrize("same_step", [False, True])
def test_two_who_write_one_remote_do_not_both_win(run, url, tmp_path, make_results, same_step):
    """Both think that the claim is theirs; what they send differs from the first frame on."""
    with Writer(run) as writer:
        send(writer, Remote(url, make=True))
    runs = [tmp_path / name for name in ("one", "two")]
    outcomes, barrier = {}, threading.Barrier(2)

    def go_on(folder, number):
        with Writer(folder) as writer:
            shipper = Shipper(folder, Remote(url), Unlimited())
            shipper.begin(writer.ledger.extent(), writer.snapshots)
            barrier.wait()
            try:
                for n in range(6):
                    writer.play(make_results(4, n, seed=number))
                    writer.freeze(10 * (n + 1) + (0 if same_step else number))
                    shipper.ship(writer.ledger.extent())
                outcomes[folder] = "all sent"
            except RemoteTaken:
                outcomes[folder] = "told"

    writers = []
    for number, folder in enumerate(runs):
        restore(url, folder)
        writers.append(threading.Thread(target=go_on, args=(folder, number)))
    for thread in writers:
        thread.start()
    for thread in writers:
        thread.join()
    assert sorted(outcomes.values()) in (["all sent", "told"], ["told", "told"])
    restore(url, tmp_path / "back")
    assert_complete(tmp_path / "back")
    found = frames(tmp_path / "back")
    winners = [folder for folder in runs if frames(folder)[: len(found)] == found]
    if len(found) > len(frames(run)):
        assert len(winners) == 1
    with Writer(winners[0]) as writer:
        send(writer, Remote(url))
    restore(url, tmp_path / "completed")
    assert frames(tmp_path / "completed") == frames(winners[0])
    assert_complete(tmp_path / "completed")
