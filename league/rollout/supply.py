"""Supply: where a runner's node gets the weights of a snapshot from.

The places are looked at in this order, and the first that has the blob gives it:

    folder    the run's own folder, where this node sees it: mapped as it is
    cache     the folder of fetched blobs of this node (`storage.cache.node_cache`)
    nodes     a node that has it, through Ray: piece by piece, each node once, verified by its hash
    remote    the object store that the run is copied to

So a cluster needs no shared disk and no remote. Play never waits for an upload: a snapshot is seated as
soon as it is in the run's folder, and other nodes have it through Ray from then on.

A process beside the driver hands out the run's blobs (`storage.cache.pieces.Holder`). Its pieces are objects
of Ray, which a node that has them passes on. Memory is bounded: a fetched blob goes to the cache's file as it
comes, one piece at a time.
"""

from __future__ import annotations

import functools
import socket
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from league.runtime import ResourceSettings, answer, beside_driver, over_nodes, share
from storage.cache.node_cache import BlobLease, NodeCache
from storage.cache.pieces import Holder, pull
from storage.errors import BlobMissing, StorageError
from storage.settings import CacheSettings

PIECE_SECONDS = 60.0  # for one piece of 4 MiB; a dead holder is started again meanwhile
TRIES = 3
PAUSE_SECONDS = 3.0  # between two tries: a process that imports torch takes about as long to start


class Wanted(Protocol):
    """What is known of a snapshot's blob."""

    @property
    def snapshot_id(self) -> str: ...
    @property
    def blob_hash(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def remote(self) -> str | None: ...
    @property
    def bytes(self) -> int | None: ...


class Peers(Protocol):
    """Other nodes, of which one may have a blob."""

    def fetch(self, blob_hash: str, path: str, write: Callable[[bytes], Any]) -> None:
        """Pass the bytes of a blob to `write`, piece by piece. Raise StorageError."""


class RayPeers:
    """The process beside the driver, and all nodes that have its pieces already. Travels to each runner."""

    def __init__(self, holder: Any) -> None:
        self._holder = holder

    def fetch(self, blob_hash: str, path: str, write: Callable[[bytes], Any]) -> None:
        pull(functools.partial(self._ask, blob_hash, path), write)

    def _ask(self, blob_hash: str, path: str, number: int) -> tuple[int, bytes]:
        for attempt in range(1, TRIES + 1):
            try:
                size, shared = answer(self._holder.piece.remote(blob_hash, path, number), PIECE_SECONDS)
                return size, answer(shared[0], PIECE_SECONDS)
            except TimeoutError as error:  # the holder died, or the object with the node that had it
                if attempt == TRIES:
                    raise StorageError(f"{error}, {TRIES} times") from None
            time.sleep(PAUSE_SECONDS)
        raise AssertionError("the last try returns or raises")


class RayHolder(Holder):
    """A holder as a Ray actor, whose pieces are objects of Ray."""

    def __init__(self, cache: CacheSettings) -> None:
        super().__init__(NodeCache(cache.folder, cache.max_bytes), share)  # verifies, even if runners do not


def start_peers(resources: ResourceSettings, cache: CacheSettings) -> RayPeers | None:
    """Start the process beside the driver if the cluster has several nodes, or may get them.

    Return `None` where one node is all there is: each process sees the run's folder there. A Ray session is
    needed.
    """
    return RayPeers(beside_driver(RayHolder, cache)) if over_nodes(resources) else None


def lease(node: NodeCache, source: Wanted, peers: Peers | None = None) -> BlobLease:
    """Lease the blob of `source` from the nearest place that has it.

    Raise BlobMissing, which names the node and what each place said, if none has it; CorruptBlob for a
    damaged file of the run; without `peers` also what the remote raises.
    """
    path = Path(source.path)
    places: list[tuple[str, Callable[..., Any] | None]] = []
    if peers is not None:
        places.append(("through Ray", functools.partial(peers.fetch, source.blob_hash, source.path)))
    if source.remote is not None:
        from storage.remote.remote import fetch_blob  # needs packages that a run without a remote does not

        places.append((source.remote, functools.partial(fetch_blob, source.remote, source.blob_hash)))
    if peers is None:
        return node.lease(source.blob_hash, path, places[0][1] if places else None, source.bytes)
    reasons = []
    for place, fetch in places:
        try:
            return node.lease(source.blob_hash, path, fetch, source.bytes)
        except StorageError as error:
            if path.exists():  # what it says is about this file or this node's disk
                raise
            reasons.append(f"{place}: {' '.join(str(error).split())}")
    remedy = "let this node reach the driver's" + ("" if source.remote else ", or set storage.remote")
    raise BlobMissing(
        f"node {socket.gethostname()} misses snapshot {source.snapshot_id}: it does not see {path}, its "
        f"cache has no copy, and none could be fetched ({'; '.join(reasons)}); {remedy}"
    )
