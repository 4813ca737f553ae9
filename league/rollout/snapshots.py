"""Snapshots: the frozen policies that a process plays, loaded through several tiers of caches.

device    weights on the GPU, if matches are played there
mapped    weights mapped from files: page cache, which all processes of a node share
disk      files of the run, mapped where this node sees them, and copies of fetched blobs
          (`storage.cache.node_cache`); beside them, weights in bfloat16 of those that play in it, made once
          for the node
nodes     a node that has the blob, through Ray: piece by piece, each node once, verified by its hash
remote    the object store that the run is copied to

So a cluster needs no shared disk and no remote. Play never waits for an upload: a snapshot is seated as
soon as it is in the run's folder, and other nodes have it through Ray from then on.

A process beside the driver hands out the run's blobs (`storage.cache.blob_transfer.Holder`). Its pieces are
objects of Ray, which a node that has them passes on. Memory is bounded: a fetched blob goes to the cache's
file as it comes, one piece at a time.
"""

from __future__ import annotations

import contextlib
import functools
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch

from league.cluster.runtime import ResourceSettings, answer, beside_driver, over_nodes, share
from league.models.policies.policy import Policy, Tensors
from league.models.policies.resident import ResidentPolicies
from league.models.spec import PolicySpec
from storage.cache.blob_transfer import Holder, pull
from storage.cache.node_cache import BlobLease, NodeCache
from storage.cache.policy_map import PolicyMap, TierInfo
from storage.errors import BlobMissing, StorageError
from storage.settings import CacheSettings
from storage.snapshots import blobs

PIECE_SECONDS = 60.0  # for one piece of 4 MiB; a dead holder is started again meanwhile
TRIES = 3
PAUSE_SECONDS = 3.0  # between two tries: a process that imports torch takes about as long to start


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Location of a snapshot's policy.

    Sources are equal if their policies are: the same weights in the same network. Snapshot id, path, remote
    and temperature make no difference.
    """

    snapshot_id: str = field(compare=False)
    blob_hash: str
    path: str = field(compare=False)
    spec: PolicySpec
    temperature: float = field(default=1.0, compare=False)  # see `Actor.decide`
    remote: str | None = field(default=None, compare=False)  # URL of the run's remote, if it has one
    bytes: int | None = field(default=None, compare=False)  # of the blob, if they are known


class RayPeers:
    """The process beside the driver, and all nodes that have its pieces already. Travels to each runner."""

    def __init__(self, holder: Any) -> None:
        self._holder = holder

    def fetch(self, blob_hash: str, path: str, write: Callable[[bytes], Any]) -> None:
        """Pass the bytes of a blob to `write`, piece by piece. Raise StorageError."""
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


def lease_blob(node: NodeCache, source: SnapshotSource, peers: RayPeers | None = None) -> BlobLease:
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


def load_tensors(source: SnapshotSource) -> dict[str, torch.Tensor]:
    """Return the weights of one snapshot after hashing its blob. Raise CorruptBlob, RemoteFailed."""
    with lease_blob(NodeCache(verify="always"), source) as blob:
        return blob.tensors()


class _Mapped(NamedTuple):
    policy: Policy
    blob: BlobLease
    derived: list[BlobLease]  # of copies of its weights


class SnapshotPolicies:
    """Policies of snapshots, loaded at first use. Not safe for several threads."""

    def __init__(
        self,
        capacity: int,
        max_bytes: int | None,
        node: NodeCache,
        device: str = "cpu",
        peers: RayPeers | None = None,
    ) -> None:
        """Keep up to `capacity` policies with `max_bytes` of weights loaded, beside leased ones.

        `peers`: other nodes to fetch blobs from, if there are any.
        """
        self._node = node
        self._peers = peers
        self._mapped: PolicyMap[SnapshotSource, _Mapped] = PolicyMap(
            capacity,
            self._map,
            max_bytes,
            size=lambda mapped: mapped.blob.bytes,
            release=_close,
        )
        self._resident: ResidentPolicies[SnapshotSource] | None = None
        if device != "cpu":
            self._resident = ResidentPolicies(capacity, torch.device(device), self._lend, max_bytes)

    def lease(self, source: SnapshotSource) -> contextlib.AbstractContextManager[Policy]:
        """Return a context with the policy of `source`. Raise CorruptBlob, WeightsMismatch."""
        return self._lend(source) if self._resident is None else self._resident.lease(source)

    def tiers(self) -> tuple[TierInfo, ...]:
        """Return the counts of each tier of this process, the nearest first."""
        device = () if self._resident is None else (self._resident.info(),)
        return (*device, self._mapped.info(), *self._node.info())

    @contextlib.contextmanager
    def _lend(self, source: SnapshotSource) -> Iterator[Policy]:
        with self._mapped.lease(source) as mapped:
            yield mapped.policy

    def _map(self, source: SnapshotSource) -> _Mapped:
        blob = lease_blob(self._node, source, self._peers)
        derived: list[BlobLease] = []

        def keep(kind: str, make: Callable[[Tensors], Tensors]) -> Tensors | None:
            # from a map of its own: what is read of the blob for this does not stay in the policy's
            copy = self._node.derived(source.blob_hash, kind, lambda: blobs.encode(make(blob.tensors())))
            if copy is None:
                return None
            derived.append(copy)
            return copy.tensors()

        try:
            policy = Policy(source.spec, blob.tensors(), f"snapshot {source.snapshot_id}", keep)
            return _Mapped(policy, blob, derived)
        except BaseException:
            blob.close()
            raise


def _close(mapped: _Mapped) -> None:
    for lease in (mapped.blob, *mapped.derived):
        lease.close()
