"""Snapshots: the frozen policies that a process plays, loaded through several tiers of caches.

device    weights on the GPU, if matches are played there
mapped    weights mapped from files: page cache, which all processes of a node share
disk      files of the run, and copies of fetched blobs (`storage.cache.node_cache`); beside them, weights
          in bfloat16 of those that play in it, made once for the node
remote    other nodes of the cluster, and the object store that the run is copied to (`league.rollout.supply`)
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from league.models.policies.policy import Policy, Tensors
from league.models.policies.resident import ResidentPolicies
from league.models.spec import PolicySpec
from league.rollout import supply
from league.rollout.supply import Peers
from storage.cache.node_cache import BlobLease, NodeCache
from storage.cache.policy_map import PolicyMap, TierInfo
from storage.snapshots import blobs


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


def load_tensors(source: SnapshotSource) -> dict[str, torch.Tensor]:
    """Return the weights of one snapshot after hashing its blob. Raise CorruptBlob, RemoteFailed."""
    with supply.lease(NodeCache(verify="always"), source) as blob:
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
        peers: Peers | None = None,
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
            self._resident = ResidentPolicies(capacity, torch.device(device), self._lend)

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
        blob = supply.lease(self._node, source, self._peers)
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
