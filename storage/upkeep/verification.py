"""Verification: a check that every snapshot of a run is unchanged since it was frozen."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from storage.disk import Progress
from storage.errors import StorageError
from storage.reader import ArchiveReader
from storage.records import Snapshot
from storage.snapshots import blobs


@dataclass(frozen=True, slots=True)
class Problem:
    """The damage of one file of a snapshot; the message names the file."""

    snapshot_id: str
    path: Path
    message: str


def verify_snapshots(reader: ArchiveReader, progress: Progress | None = None) -> list[Problem]:
    """Hash every blob, and compare every manifest with the ledger's row and the blob's own table.

    Of a mirror, blobs that are not here are hashed in the remote. A damaged one does not end the search.
    Return all problems, in the order of freezing. `progress` receives the step, the snapshots done, and their
    number.
    """
    problems: list[Problem] = []
    stored = reader.snapshots()
    # by hash, since snapshots may share a blob: its damage, and the table of its tensors if it is here
    verified: dict[str, tuple[str, blobs.Table | None]] = {}
    for done, snapshot in enumerate(stored, start=1):
        path = reader.blob_path(snapshot)
        if snapshot.blob_hash not in verified:
            try:
                verified[snapshot.blob_hash] = "", reader.verify_blob(snapshot)
            except StorageError as error:
                verified[snapshot.blob_hash] = str(error), None
        damage, table = verified[snapshot.blob_hash]
        if damage:
            problems.append(Problem(snapshot.snapshot_id, path, damage))
        found = _problem_of_manifest(reader, snapshot, table)
        if found is not None:
            manifest = reader.manifest_path(snapshot.snapshot_id)
            problems.append(Problem(snapshot.snapshot_id, manifest, found))
        if progress is not None:
            progress("verifying snapshots", done, len(stored))
    return problems


def _problem_of_manifest(reader: ArchiveReader, snapshot: Snapshot, table: blobs.Table | None) -> str | None:
    path = reader.manifest_path(snapshot.snapshot_id)
    try:
        manifest = reader.manifest(snapshot.snapshot_id)
    except StorageError as error:
        return str(error)
    for name in Snapshot.__slots__:
        found, expected = manifest.get(name), getattr(snapshot, name)
        if found != expected:
            return f"{path}: {name} is {found!r}, the ledger says {expected!r}; restore it from a copy"
    if table is not None and manifest.get("tensors") != table:
        return f"{path}: its tensors are not those of the blob; restore it from a copy"
    return None
