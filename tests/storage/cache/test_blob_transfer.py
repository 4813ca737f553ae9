"""Blobs reach another node piece by piece, whole or not at all, in bounded memory."""

import functools

import pytest
import torch

from storage.cache import blob_transfer
from storage.cache.blob_transfer import Holder, pull
from storage.cache.node_cache import NodeCache
from storage.errors import CorruptBlob
from storage.layout import blob_path
from storage.snapshots.blobs import publish

torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(blob_transfer, "PIECE_BYTES", 100)


def published(folder, number=1, size=100):
    blob_hash, _ = publish(folder / "run", {"w": torch.full((size,), float(number))})
    return blob_hash, blob_path(folder / "run", blob_hash)


@pytest.fixture
def holder(tmp_path):
    return Holder(NodeCache(tmp_path / "cache"), shared_bytes=350)


def pulled(holder, blob_hash, path):
    data = []
    pull(functools.partial(holder.piece, blob_hash, str(path)), data.append)
    return data


def test_the_pieces_of_a_blob_are_its_bytes(holder, tmp_path):
    blob_hash, path = published(tmp_path)
    found = pulled(holder, blob_hash, path)
    assert b"".join(found) == path.read_bytes()
    assert {len(piece) for piece in found[:-1]} == {100}


def test_pieces_shared_last_are_shared_again_and_no_more_are_held_than_may_be(tmp_path):
    shared = []
    holder = Holder(NodeCache(tmp_path / "cache"), lambda piece: shared.append(piece) or len(shared), 350)
    blob_hash, path = published(tmp_path)
    ask = functools.partial(holder.piece, blob_hash, str(path))
    assert [ask(0)[1], ask(1)[1], ask(2)[1], ask(0)[1]] == [1, 2, 3, 1]
    ask(3)  # the fourth: what was asked for longest ago makes way
    assert (ask(0)[1], ask(1)[1]) == (1, 5)


def test_a_damaged_blob_is_not_handed_out(holder, tmp_path):
    blob_hash, path = published(tmp_path)
    path.chmod(0o644)
    path.write_bytes(b"damaged" + path.read_bytes()[7:])
    with pytest.raises(CorruptBlob, match="its bytes hash to"):
        holder.piece(blob_hash, str(path), 0)


def test_only_blobs_are_handed_out(holder, tmp_path):
    secret = tmp_path / "id_ed25519"
    secret.write_text("secret")
    with pytest.raises(CorruptBlob, match="its bytes hash to"):
        holder.piece("0" * 64, str(secret), 0)


def test_a_blob_that_ends_too_early_is_no_blob():
    with pytest.raises(CorruptBlob, match="found 3 bytes of a blob, expected 9"):
        pull(lambda number: (9, b"abc" if number == 0 else b""), lambda piece: None)
