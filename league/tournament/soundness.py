"""Soundness: the check that the weights of entrants are present, undamaged, and fit their networks."""

from __future__ import annotations

from collections.abc import Mapping

from league.competitors.names import load_snapshot, snapshots_of
from league.models.networks.networks import build_network, check_connectors
from league.models.spec import PolicySpec
from league.rollout.requests import MixtureSource
from league.rollout.snapshots import SnapshotSource
from storage.disk import Progress
from storage.errors import CorruptBlob, Mistake, StorageError, UnknownSnapshot, WeightsMismatch
from storage.remote.remote import RemoteMissing
from storage.snapshots.manifests import CorruptManifest

DAMAGE = (CorruptBlob, CorruptManifest, RemoteMissing, UnknownSnapshot, WeightsMismatch)
"""Errors which mean that a single snapshot is missing or damaged."""
_SHOWN = 5


class DamagedCompetitors(StorageError, Mistake):
    """Competitors whose policies are missing or damaged."""

    def __init__(self, damaged: Mapping[str, str], remedy: str) -> None:
        """`damaged`: reasons by name of the competitor."""
        shown = list(damaged.items())[:_SHOWN]
        some = ", ".join(
            f"{name} ({why.partition('; ')[0]})" for name, why in shown
        )  # without its own remedy
        more = f" and {len(damaged) - _SHOWN} more" if len(damaged) > _SHOWN else ""
        super().__init__(f"competitors: {len(damaged)} missing or damaged: {some}{more}; {remedy}")


def find_damaged(
    sources: Mapping[str, SnapshotSource | MixtureSource], progress: Progress | None = None
) -> dict[str, str]:
    """Return reasons, by name, why weights of `sources` are missing, changed, or do not fit their networks.

    Each file is hashed once, even if this node has verified it before; files of a remote are fetched.
    Raise RemoteFailed, WeightsMismatch for a custom network that `trust` has not admitted.
    """
    stored = [(name, one) for name, source in sources.items() for one in snapshots_of(source)]
    for spec in {source.spec for _, source in stored}:
        _require_trust(spec)
    damaged: dict[str, str] = {}
    looked_at: dict[tuple[str, SnapshotSource], str] = {}  # the reason, or an empty text
    for done, (name, source) in enumerate(stored, start=1):
        key = source.path, source
        if key not in looked_at:
            looked_at[key] = ""
            try:
                load_snapshot(source)
            except DAMAGE as error:
                looked_at[key] = str(error)
        if looked_at[key]:
            damaged.setdefault(name, looked_at[key])
        if progress is not None:
            progress("verifying competitors", done, len(stored))
    return damaged


def _require_trust(spec: PolicySpec) -> None:
    """Raise WeightsMismatch for code that is not trusted, BadNetwork for code that is missing.

    In both cases no snapshot is damaged, so none may be left out.
    """
    if spec.own_code:
        check_connectors(spec)
        build_network(spec)
