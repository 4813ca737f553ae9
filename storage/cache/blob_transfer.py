"""Pieces: the way of a blob from a process that has it to a node that lacks it.

A `Holder` reads blobs of its own node, piece by piece; `pull` puts the pieces together elsewhere. Neither
knows what is between them: `share` makes of a piece what the other process gets it from. With Ray that is a
reference to an object, which each node that gets it can pass on, so that many nodes at once do not all read
from the holder.

    holder = Holder(NodeCache(), share)                    a process of a node that has the blobs
    pull(lambda number: ask(holder, number), write)        a process of another node
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from storage.cache.node_cache import NodeCache
from storage.cache.policy_map import PolicyMap
from storage.errors import CorruptBlob

PIECE_BYTES = 4 * 2**20
SHARED_BYTES = 64 * 2**20  # of pieces that were shared last: nodes ask for the same blob at about one time


class Holder:
    """Blobs of this node, handed out piece by piece. Memory: `shared_bytes` and one piece.

    `node` must verify what it leases, so that no other file is handed out.
    """

    def __init__(
        self,
        node: NodeCache,
        share: Callable[[bytes], Any] = lambda piece: piece,
        shared_bytes: int = SHARED_BYTES,
    ) -> None:
        self._node = node
        self._share = share
        self._shared = PolicyMap(sys.maxsize, self._read, shared_bytes, size=lambda found: found[2])

    def piece(self, blob_hash: str, path: str, number: int) -> tuple[int, Any]:
        """Return the bytes of the whole blob, and its piece of that number, shared.

        `path` is where the run has the blob. Only what hashes to `blob_hash` is handed out. Raise CorruptBlob
        if it is neither there nor in the node's cache, or damaged.
        """
        size, shared, _ = self._shared[blob_hash, path, number]
        return size, shared

    def _read(self, key: tuple[str, str, int]) -> tuple[int, Any, int]:
        """Return the bytes of a blob, a piece of it, shared, and the bytes of that piece."""
        blob_hash, path, number = key
        with self._node.lease(blob_hash, Path(path)) as blob:  # hashed here once; who gets it hashes it again
            assert blob.path is not None  # only a fetched blob has none, and nothing is fetched
            with open(blob.path, "rb") as file:
                piece = os.pread(file.fileno(), PIECE_BYTES, number * PIECE_BYTES)
            return blob.bytes, self._share(piece), len(piece)


def pull(ask: Callable[[int], tuple[int, bytes]], write: Callable[[bytes], Any]) -> None:
    """Pass all pieces to `write`, in order; `ask(number)` returns the bytes of the whole blob, and a piece.

    Raise CorruptBlob if a piece is missing, and what `ask` raises.
    """
    done = number = 0
    while True:
        size, piece = ask(number)
        write(piece)
        done, number = done + len(piece), number + 1
        if done >= size:
            return
        if not piece:
            raise CorruptBlob(f"found {done} bytes of a blob, expected {size}; the file was cut meanwhile")
