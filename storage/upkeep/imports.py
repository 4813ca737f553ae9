"""Imported snapshots: an exported folder of another run or another person, taken in as an opponent.

Nothing in such a folder is trusted: files are opened only where they are plain ones, sizes are
looked at before anything is read, every field is checked before it is used, weights are hashed always,
and nothing is executed: a custom network (`module:Class`) is taken only if it is this run's own too.
"""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.archive import Archive
from storage.errors import Mistake, StorageError
from storage.layout import OBJECTS, file_name
from storage.records import IMPORTED, LivePlayer, Snapshot
from storage.snapshots import blobs, manifests
from storage.upkeep.exports import FORMAT, MANIFEST, MAX_TEXT, WEIGHTS, is_plain, read_manifest, shown

MAX_MANIFEST_BYTES = manifests.MAX_BYTES // 2  # the run's own manifest of it is a little longer
MAX_FILE_NAME = 200  # bytes of an id as a file name


class BadImport(StorageError, Mistake):
    """The folder holds something that this run cannot take in."""


def import_snapshot(archive: Archive, folder: Path, name: str | None = None) -> Snapshot:
    """Take in the snapshot that was exported to `folder`, durable on return.

    It keeps its id, or gets `name`. In this run it belongs to no player: its role is `imported`, it has no
    parent, and its player is its own id, the one name that no player of this run can have. Its former
    identity is in its manifest under `origin`. A snapshot that is here already, id and weights, is returned
    unchanged.

    Raise NotAnExport, BadImport and CorruptBlob; nothing is recorded then.
    """
    manifest = read_manifest(folder, MAX_MANIFEST_BYTES)
    _check_fields(folder / MANIFEST, manifest)
    snapshot_id = _check_id(manifest["snapshot_id"] if name is None else name)
    here = archive.find(snapshot_id)
    if isinstance(here, Snapshot) and here.blob_hash == manifest["blob_hash"]:
        return here
    if here is not None:
        raise BadImport(
            f"{archive.run}: '{snapshot_id}' is another competitor here, expected a free id; "
            "give one with --as"
        )
    _check_game(archive, folder / MANIFEST, manifest)
    described = (manifest[name] for name in ("blob_hash", "bytes", "tensors"))
    tensors = blobs.receive(archive.run / OBJECTS, folder / WEIGHTS, *described)
    snapshot = Snapshot(
        snapshot_id=snapshot_id,
        player=snapshot_id,
        role=IMPORTED,
        env_steps=manifest["env_steps"],
        updates=manifest["updates"],
        parent_id=None,
        blob_hash=manifest["blob_hash"],
        bytes=manifest["bytes"],
        architecture=manifest["architecture"],
        created_at=time.time(),
        reason=f"imported, was {manifest['snapshot_id']}",
    )
    origin = {key: manifest.get(key) for key in ("snapshot_id", "player", "role", "parent_id", "license")}
    fields = {"evidence": {}, "spec": manifest["spec"], "tensors": tensors, "origin": origin}
    archive.add_imported(snapshot, fields)
    return snapshot


def _check_fields(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise BadImport unless every field that is used is valid."""
    if manifest.get("format") != FORMAT:
        raise BadImport(
            f"{path}: format {shown(manifest.get('format'))}, expected {FORMAT}; was it exported by another "
            "version?"
        )
    env = manifest.get("env")
    given = {**manifest, "env.id": env.get("id") if isinstance(env, dict) else None}
    for name in ("player", "role", "architecture", "license", "env.id"):
        _expect(path, given, name, is_plain(given.get(name)), f"a line of at most {MAX_TEXT} characters")
    parent = given.get("parent_id")
    _expect(path, given, "parent_id", parent is None or is_plain(parent), "an id, or null")
    for name in ("env_steps", "updates", "bytes"):
        number = given.get(name)
        _expect(path, given, name, type(number) is int and 0 <= number < 2**63, "a whole number")
    for name in ("spec", "tensors"):
        _expect(path, given, name, isinstance(given.get(name), dict), "a table")
    settings = given["spec"].get("settings")
    built = settings.get("architecture") if isinstance(settings, dict) else given["architecture"]
    _expect(path, given, "architecture", built == given["architecture"], f"{shown(built)}, as its spec says")
    try:
        manifests.seal(manifest)
    except ValueError as error:
        raise BadImport(f"{path}: {error}, expected numbers that JSON has") from None


def _expect(path: Path, given: Mapping[str, Any], name: str, fits: object, expected: str) -> None:
    if not fits:
        raise BadImport(
            f"{path}: {name} is {shown(given.get(name))}, expected {expected}; nothing was imported"
        )


def _check_id(name: str) -> str:
    """Return `name` if it can be an id here; as a file name it is quoted, so any printable text is safe."""
    if not is_plain(name) or ":" in name or len(file_name(name)) > MAX_FILE_NAME:
        raise BadImport(
            f"snapshot id {shown(name)}, expected one line of printable text without ':', at most "
            f"{MAX_FILE_NAME} bytes as a file name; give another with --as"
        )
    return name


def _check_game(archive: Archive, path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise BadImport unless the snapshot plays this run's game, with a network that can be built here.

    The game must agree by its name, and by observation and action space with some player of the run. The
    network must be of this package or this run's own.
    """
    ours = archive.env()["id"]
    if manifest["env"]["id"] != ours:
        raise BadImport(
            f"{path}: it plays {shown(manifest['env']['id'])}, expected this run's game, '{ours}'"
        )
    first = {s.player: s for s in reversed(archive.snapshots())}
    own = [s for s in reversed(first.values()) if isinstance(archive.find(s.player), LivePlayer)]
    if not own:
        raise BadImport(
            f"{archive.run}: no snapshot of its own yet, expected one to compare spaces with; train it first"
        )
    specs = [archive.manifest(snapshot.snapshot_id)["spec"] for snapshot in own]
    differing = [_differing(manifest["spec"], spec) for spec in specs]
    if all(differing):
        part = next(part for part in differing if part)
        found, expected = manifest["spec"].get(part), specs[0].get(part)
        raise BadImport(
            f"{path}: its {part} is {shown(found)}, expected {shown(expected)}; is it of another game?"
        )
    network = manifest["spec"].get("settings")
    if ":" in manifest["architecture"] and all(network != spec.get("settings") for spec in specs):
        raise BadImport(
            f"{path}: its network is {shown(manifest['architecture'])}, a custom one, expected one that "
            "comes with this package, or this run's own with the same settings"
        )


def _differing(found: Mapping[str, Any], expected: Mapping[str, Any]) -> str | None:
    """Return the first of `observation` and `action` in which two specs differ, `None` if they agree."""
    for part in ("observation", "action"):
        if json.dumps(found.get(part), sort_keys=True) != json.dumps(expected.get(part), sort_keys=True):
            return part
    return None
