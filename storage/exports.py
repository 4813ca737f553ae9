"""Exported snapshots: a folder that stands alone, `manifest.json` beside `weights.safetensors`.

The manifest says how the policy is built and what its weights hash to. Nothing in such a folder
is ever executed, so one from a stranger can be read.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Any

from storage import blobs
from storage.archive import ArchiveReader
from storage.disk import disk, make_folder, remove_tree, sync_folder, write_json, write_whole
from storage.errors import CorruptBlob, Mistake, StorageError
from storage.records import Snapshot

MANIFEST, WEIGHTS = "manifest.json", "weights.safetensors"


class NotAnExport(StorageError, Mistake):
    """The folder holds no exported snapshot."""


def export_snapshot(reader: ArchiveReader, snapshot: Snapshot, folder: Path) -> None:
    """Copy `snapshot` to `folder`, which must not exist yet; it appears there whole, or not at all.

    Raises Mistake when something is there already, CorruptBlob when the weights are damaged.
    """
    if folder.exists():
        raise Mistake(f"{folder} exists, expected a new folder to export to; choose another")
    source = reader.blob_path(snapshot)
    blobs.verify(source)
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.creating")
    try:
        make_folder(fresh)
        write_whole(fresh / WEIGHTS, [source.read_bytes()], mode=0o444)
        write_json(fresh / MANIFEST, reader.manifest(snapshot.snapshot_id))
        disk().rename(fresh, folder)
    except OSError as error:
        raise Mistake(f"{folder} cannot be made: {error.strerror}; choose another folder") from None
    finally:
        remove_tree(fresh)
    sync_folder(folder.parent)


def read_export(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """(manifest, tensors) of an exported snapshot, its bytes verified against the manifest.

    Raises NotAnExport for a folder that holds none, CorruptBlob for weights that do not fit it.
    """
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        blob_hash, snapshot_id = manifest["blob_hash"], manifest["snapshot_id"]
        if not isinstance(blob_hash, str) or not isinstance(snapshot_id, str):
            raise TypeError("blob_hash and snapshot_id are not text")
    except OSError as error:
        raise NotAnExport(
            f"{path}: {error.strerror}, expected a folder made by: league snapshots RUN export ID DIR"
        ) from None
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise NotAnExport(f"{path}: no manifest of a snapshot: {type(error).__name__}: {error}") from None
    if not (folder / WEIGHTS).is_file():
        raise CorruptBlob(f"{folder / WEIGHTS}: no such file, expected the weights of '{snapshot_id}'")
    return manifest, blobs.map_tensors(folder / WEIGHTS, verify=True, blob_hash=blob_hash)
