"""Soundness: whether the weights of those who take part are there, whole, and fit their networks."""

from __future__ import annotations

from collections.abc import Mapping

from league.models.networks.networks import build_network
from league.models.policies.policy import Policy
from league.models.spec import PolicySpec
from league.rollout.snapshots import SnapshotSource, load_tensors
from storage.disk import Progress
from storage.errors import CorruptBlob, Mistake, StorageError, UnknownSnapshot, WeightsMismatch
from storage.remote.remote import RemoteMissing
from storage.snapshots.manifests import CorruptManifest

DAMAGE = (CorruptBlob, CorruptManifest, RemoteMissing, UnknownSnapshot, WeightsMismatch)
"""What says that one snapshot is missing or damaged, and nothing of any other."""
_SHOWN = 5


class DamagedCompetitors(StorageError, Mistake):
    """Competitors whose policies are missing or damaged."""

    def __init__(self, damaged: Mapping[str, str], remedy: str) -> None:
        """`damaged`: why, by name."""
        shown = list(damaged.items())[:_SHOWN]
        some = ", ".join(
            f"{name} ({why.partition('; ')[0]})" for name, why in shown
        )  # without its own remedy
        more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
        super().__init__(f"competitors: {len(damaged)} missing or damaged: {some}{more}; {remedy}")


def find_damaged(sources: Mapping[str, SnapshotSource], progress: Progress | None = None) -> dict[str, str]:
    """Whose weights, of all `sources` by name, are missing, are not what they were, or do not fit their
    networks, and why. Each file is hashed once, also if it was on this node before; those of a remote are
    fetched.

    Raises RemoteFailed, WeightsMismatch for a network of somebody's own that no `trust_network` has named.
    """
    for spec in {source.spec for source in sources.values()}:
        _require_trust(spec)
    damaged: dict[str, str] = {}
    looked_at: dict[tuple[str, SnapshotSource], str] = {}  # why, or nothing
    for done, (name, source) in enumerate(sources.items(), start=1):
        key = source.path, source
        if key not in looked_at:
            looked_at[key] = _damage(source)
        if looked_at[key]:
            damaged[name] = looked_at[key]
        if progress is not None:
            progress("verifying competitors", done, len(sources))
    return damaged


def _require_trust(spec: PolicySpec) -> None:
    """Raise WeightsMismatch for a network that is code nobody here has named, BadNetwork for code that is
    not there: nothing is damaged then, and nobody to be left out."""
    if ":" in spec.architecture:
        build_network(spec)


def _damage(source: SnapshotSource) -> str:
    try:
        Policy(source.spec, load_tensors(source), source.snapshot_id)
    except DAMAGE as error:
        return str(error)
    return ""
