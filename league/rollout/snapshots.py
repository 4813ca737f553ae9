"""Snapshots: the frozen policies that a process plays, through every tier of its caches.

device    their weights on the GPU, if that is where matches are played
mapped    their weights where they lie in files: page cache, which a node has once
disk      the files: those of the run, and copies of what was fetched (`storage.cache.node_cache`)
remote    the object store that the run is copied to
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import torch

from league.models.policies.policy import Policy
from league.models.policies.resident import ResidentPolicies
from league.models.spec import PolicySpec
from storage.cache.node_cache import BlobLease, NodeCache
from storage.cache.policy_map import PolicyMap, TierInfo


@dataclass(frozen=True, slots=True)
class SnapshotSource:
    """Where a snapshot's policy comes from. Sources are equal if the policies are: the same weights in
    the same network, whichever file or name they go by, and however they are played."""

    snapshot_id: str = field(compare=False)
    blob_hash: str
    path: str = field(compare=False)
    spec: PolicySpec
    temperature: float = field(default=1.0, compare=False)  # as `Actor.decide` has it
    remote: str | None = field(default=None, compare=False)  # URL of the run's remote


def load_tensors(source: SnapshotSource) -> dict[str, torch.Tensor]:
    """The weights of one snapshot, hashed now. Raises CorruptBlob, RemoteFailed."""
    with _lease(NodeCache(verify="always"), source) as blob:
        return blob.tensors()


def _lease(node: NodeCache, source: SnapshotSource) -> BlobLease:
    fetch = None
    if source.remote is not None:
        from storage.remote.remote import fetch_blob  # needs what a run without a remote does not

        fetch = functools.partial(fetch_blob, source.remote, source.blob_hash)
    return node.lease(source.blob_hash, Path(source.path), fetch)


class _Mapped(NamedTuple):
    policy: Policy
    blob: BlobLease


class SnapshotPolicies:
    """The policies of snapshots, loaded when first asked for. For one thread."""

    def __init__(
        self,
        capacity: int,
        max_bytes: int | None,
        node: NodeCache,
        device: str = "cpu",
    ) -> None:
        """At most `capacity` policies, and `max_bytes` of their weights, are kept at hand unless leased."""
        self._node = node
        self._mapped: PolicyMap[SnapshotSource, _Mapped] = PolicyMap(
            capacity,
            self._map,
            max_bytes,
            size=lambda mapped: mapped.blob.bytes,
            release=lambda mapped: mapped.blob.close(),
        )
        self._resident: ResidentPolicies[SnapshotSource] | None = None
        if device != "cpu":
            self._resident = ResidentPolicies(capacity, torch.device(device), self._lend)

    def lease(self, source: SnapshotSource) -> contextlib.AbstractContextManager[Policy]:
        """The policy of `source`, at hand until the block is left. Raises CorruptBlob, WeightsMismatch."""
        return self._lend(source) if self._resident is None else self._resident.lease(source)

    def tiers(self) -> tuple[TierInfo, ...]:
        """What each tier did for this process, the nearest first."""
        device = () if self._resident is None else (self._resident.info(),)
        return (*device, self._mapped.info(), *self._node.info())

    @contextlib.contextmanager
    def _lend(self, source: SnapshotSource) -> Iterator[Policy]:
        with self._mapped.lease(source) as mapped:
            yield mapped.policy

    def _map(self, source: SnapshotSource) -> _Mapped:
        blob = _lease(self._node, source)
        try:
            return _Mapped(Policy(source.spec, blob.tensors(), f"snapshot {source.snapshot_id}"), blob)
        except BaseException:
            blob.close()
            raise
