"""Weights of a snapshot come from the nearest place that has them; each node fetches them once."""

import socket
import sys
import types

import pytest
import torch

from league.rollout import snapshots
from league.rollout.snapshots import SnapshotPolicies, SnapshotSource
from storage.cache.node_cache import NodeCache
from storage.errors import BlobMissing, CorruptBlob, StorageError
from storage.layout import blob_path
from storage.snapshots.blobs import encode, hash_of

torch.set_num_threads(1)
DATA = encode({"w": torch.arange(300.0)})
HASH, SIZE = hash_of(DATA), len(DATA)


class FakePeers:
    """Stands in for the other nodes: they have the blob, or raise `error`."""

    def __init__(self, data=DATA, error=None):
        self.data, self.error, self.asked = data, error, 0

    def fetch(self, blob_hash, path, write):
        self.asked += 1
        for start in range(0, len(self.data), 100):
            write(self.data[start : start + 100])
            if self.error is not None:
                raise self.error


@pytest.fixture
def remote(monkeypatch):
    """A stand-in for the module of remotes; `calls` counts what was fetched, `error` is raised."""
    found = types.SimpleNamespace(calls=0, error=None)

    def fetch_blob(url, blob_hash, write):
        found.calls += 1
        if found.error is not None:
            raise found.error
        write(DATA)

    module = types.ModuleType("storage.remote.remote")
    module.fetch_blob = fetch_blob
    monkeypatch.setitem(sys.modules, "storage.remote.remote", module)
    return found


def source(path="/not/here/aa.safetensors", remote=None, size=SIZE):
    return SnapshotSource("main-0@7", HASH, str(path), None, remote=remote, bytes=size)


@pytest.fixture
def node(tmp_path):
    return NodeCache(tmp_path / "cache")


@pytest.mark.parametrize("size", [len(DATA), None], ids=["size known", "size unknown"])
def test_a_node_that_does_not_see_the_run_gets_a_snapshot_from_another_node_once(node, tmp_path, size):
    peers = FakePeers()
    neighbour = NodeCache(tmp_path / "cache")  # as of another process of this node
    for each in (node, neighbour, node):
        with snapshots.lease_blob(each, source(size=size), peers) as blob:
            assert torch.equal(blob.tensors()["w"], torch.arange(300.0))
            assert blob.path is not None, "it must be mapped, not held in private memory"
    assert peers.asked == 1


def test_a_node_that_sees_the_run_asks_no_other_node(node, tmp_path):
    path = blob_path(tmp_path, HASH)
    path.parent.mkdir()
    path.write_bytes(DATA)
    peers = FakePeers()
    with snapshots.lease_blob(node, source(path), peers) as blob:
        assert blob.path == path
    assert peers.asked == 0


def test_other_nodes_come_before_the_remote_so_that_play_never_waits_for_an_upload(node, remote):
    remote.error = StorageError("objects/ab is not there")  # as before the upload
    snapshots.lease_blob(node, source(remote="s3://bucket/run"), FakePeers()).close()
    assert remote.calls == 0


def test_the_remote_serves_what_no_node_can(node, remote):
    peers = FakePeers(error=StorageError("RayActorError within 60 s, 3 times"))
    with snapshots.lease_blob(node, source(remote="s3://bucket/run"), peers) as blob:
        assert torch.equal(blob.tensors()["w"], torch.arange(300.0))
    assert (peers.asked, remote.calls) == (1, 1)


def test_a_request_that_cannot_be_served_says_which_node_misses_what_and_why(node, remote):
    remote.error = StorageError("objects/ab is not there")
    peers = FakePeers(error=StorageError("RayActorError within 60 s, 3 times"))
    with pytest.raises(BlobMissing) as raised:
        snapshots.lease_blob(node, source(remote="s3://bucket/run"), peers)
    said = str(raised.value)
    assert said.startswith(
        f"node {socket.gethostname()} misses snapshot main-0@7: it does not see /not/here/"
    )
    assert "through Ray: RayActorError within 60 s, 3 times; s3://bucket/run: objects/ab is not there" in said


def test_what_other_nodes_send_is_compared_with_its_hash_and_not_kept_if_it_differs(node):
    wrong = DATA[:-1] + b"x"
    with pytest.raises(BlobMissing, match="what was fetched hashes to"):
        snapshots.lease_blob(node, source(), FakePeers(wrong))
    with pytest.raises(BlobMissing, match="more was fetched than its"):
        snapshots.lease_blob(node, source(), FakePeers(DATA + b"x"))
    assert node.room.used() == (0, 0)
    snapshots.lease_blob(node, source(), FakePeers()).close()
    assert node.room.used() == (len(DATA), 1)


def test_a_damaged_file_of_the_run_is_named_and_not_hidden_by_a_copy(node, tmp_path):
    path = blob_path(tmp_path, HASH)
    path.parent.mkdir()
    path.write_bytes(b"damaged")
    with pytest.raises(CorruptBlob, match=str(path)):
        snapshots.lease_blob(node, source(path), FakePeers())


def test_a_fetched_blob_is_written_as_it_comes(node, monkeypatch):
    """No more than a piece of it is in memory: a part of it is in the file when the next one is fetched."""
    sizes = []

    class Watching(FakePeers):
        def fetch(self, blob_hash, path, write):
            for start in range(0, len(DATA), 100):
                write(DATA[start : start + 100])
                (file,) = node.room.folder.glob("objects/*/.*.tmp")
                sizes.append(file.read_bytes()[: start + 100] == DATA[: start + 100])

    snapshots.lease_blob(node, source(), Watching()).close()
    assert sizes
    assert all(sizes)


def test_a_blob_for_which_the_cache_has_no_room_is_played_from_memory(tmp_path):
    with snapshots.lease_blob(NodeCache(tmp_path / "cache", 100), source(), FakePeers()) as blob:
        assert blob.path is None
        assert torch.equal(blob.tensors()["w"], torch.arange(300.0))


def test_a_holder_that_is_being_started_again_is_asked_again(monkeypatch):
    answers = iter([TimeoutError("RayActorError within 60 s"), (3, ["reference"]), b"abc"])

    def answer(reference, seconds):
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    monkeypatch.setattr(snapshots, "answer", answer)
    monkeypatch.setattr(snapshots, "PAUSE_SECONDS", 0.0)
    holder = types.SimpleNamespace(piece=types.SimpleNamespace(remote=lambda *arguments: arguments))
    data = []
    snapshots.RayPeers(holder).fetch(HASH, "/run/x", data.append)
    assert data == [b"abc"]


def test_policies_of_a_runner_are_fetched_from_its_peers(node):
    peers = FakePeers()
    policies = SnapshotPolicies(4, None, node, peers=peers)
    with pytest.raises(AttributeError):  # a spec of None is no policy; its blob was fetched
        policies.lease(source()).__enter__()
    assert peers.asked == 1
