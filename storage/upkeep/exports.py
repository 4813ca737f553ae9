"""Exported snapshots: a self-contained folder, for another run or another person.

    manifest.json        how the policy is built, connectors included; what game it plays; its licence
    weights.safetensors  what the manifest's hash is the hash of
    README.md            the same for people and model hubs, and how to use it

Nothing in such a folder is ever executed, so one from a stranger can be read.
"""

from __future__ import annotations

import json
import math
import os
import re
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.disk import whole_folder, write_whole
from storage.errors import CorruptBlob, Mistake, StorageError
from storage.reader import ArchiveReader
from storage.records import Snapshot
from storage.snapshots import blobs, manifests
from storage.snapshots.manifests import CorruptManifest

MANIFEST, WEIGHTS, README = "manifest.json", "weights.safetensors", "README.md"
MIXTURE, MEMBERS = "mixture.json", "members"  # of an exported mixture (storage.upkeep.exported_mixtures)
FORMAT = 1
UNSPECIFIED = "unspecified"
MAX_TEXT = 200  # characters of any name, and of a licence
_HASH = re.compile(r"[0-9a-f]{64}")


class NotAnExport(StorageError, Mistake):
    """The folder holds no exported snapshot."""


def export_snapshot(
    reader: ArchiveReader, snapshot: Snapshot, folder: Path, license: str = UNSPECIFIED
) -> None:
    """Copy `snapshot` to `folder`, which must not exist yet; it appears whole or not at all.

    `license` is the licence for others, in any words; unspecified: an imported snapshot keeps its own. Raise
    Mistake if something is there already or nothing can be, CorruptBlob or CorruptManifest if the snapshot is
    damaged, DiskFailed.
    """
    check_place(folder, license)
    blobs.verify(reader.blob_path(snapshot))
    with whole_folder(folder) as fresh:
        fill(reader, snapshot, fresh, license)


def export_made(
    manifest: Mapping[str, Any], tensors: blobs.Tensors, folder: Path, license: str = UNSPECIFIED
) -> None:
    """Write a policy that is in no run to `folder`, which must not exist yet; whole or not at all.

    `manifest` is as of a snapshot, with `env`; what follows from `tensors` is filled in. Raise as
    `export_snapshot`.
    """
    check_place(folder, license)
    data = blobs.encode(tensors)
    fields = dict(manifest) | {
        "format": FORMAT,
        "license": license,
        "blob_hash": blobs.hash_of(data),
        "bytes": len(data),
        "tensors": blobs.describe(tensors),
    }
    with whole_folder(folder) as fresh:
        _write(fresh, fields, data)


def check_place(folder: Path, license: str) -> None:
    """Raise Mistake if something is in the place of a new export, or if the licence is not one line."""
    if os.path.lexists(folder):
        raise Mistake(f"{folder} exists, expected a new folder to export to; choose another")
    if not is_plain(license):
        raise Mistake(f"license {shown(license)}, expected one line of at most {MAX_TEXT} characters")


def fill(reader: ArchiveReader, snapshot: Snapshot, fresh: Path, license: str) -> None:
    """Write a verified snapshot into the folder `fresh`, which is empty."""
    manifest = reader.manifest(snapshot.snapshot_id)
    if license == UNSPECIFIED:
        license = manifest.get("origin", {}).get("license", UNSPECIFIED)
    manifest |= {"format": FORMAT, "license": license, "env": reader.env()}
    _write(fresh, manifest, reader.blob_path(snapshot).read_bytes())


def _write(fresh: Path, manifest: Mapping[str, Any], weights: bytes) -> None:
    """Write the three files of an export, its manifest last."""
    write_whole(fresh / WEIGHTS, [weights], mode=0o444)
    write_whole(fresh / README, [readme(manifest).encode()])
    write_whole(fresh / MANIFEST, [manifests.seal(manifest)])


def read_export(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return (manifest, tensors) of an exported snapshot, its bytes verified against the manifest.

    Raise NotAnExport for a folder that holds none, CorruptBlob for weights that do not fit it.
    """
    manifest = read_manifest(folder)
    path = folder / WEIGHTS
    try:
        plain = stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        plain = False
    if not plain:
        raise CorruptBlob(f"{path}: no such file, expected the weights of '{manifest['snapshot_id']}'")
    blobs.table(path)  # costs little, and refuses what would take long to hash
    return manifest, blobs.map_tensors(path, verify=True, blob_hash=manifest["blob_hash"])


def read_manifest(folder: Path, max_bytes: int = manifests.MAX_BYTES) -> dict[str, Any]:
    """Return the manifest of an exported snapshot.

    Its `snapshot_id` and `blob_hash` are checked to be an id and a hash; nothing else is checked. Raise
    NotAnExport.
    """
    path = folder / MANIFEST
    if not os.path.exists(path):  # Path.exists raises where a folder may not be entered
        if os.path.exists(folder / MIXTURE):
            raise NotAnExport(
                f"{folder}: found a mixture of snapshots, expected one; name one of the folders in "
                f"{folder / MEMBERS}"
            )
        raise NotAnExport(
            f"{path}: no such file, expected a folder made by: league snapshots RUN export ID DIR"
        )
    try:
        manifest = manifests.read(path, max_bytes)
    except CorruptManifest as error:
        raise NotAnExport(str(error)) from None
    snapshot_id, blob_hash = manifest.get("snapshot_id"), manifest.get("blob_hash")
    if not is_plain(snapshot_id):
        raise NotAnExport(
            f"{path}: snapshot_id is {shown(snapshot_id)}, expected one line of at most {MAX_TEXT} characters"
        )
    if not isinstance(blob_hash, str) or not _HASH.fullmatch(blob_hash):
        raise NotAnExport(f"{path}: blob_hash is {shown(blob_hash)}, expected 64 hexadecimal digits")
    return manifest


def readme(manifest: Mapping[str, Any]) -> str:
    """Return a description of an export for people, read from its manifest, in Markdown."""
    spec = manifest["spec"]
    settings = spec.get("settings") or {}
    connectors = "; ".join(json.dumps(connector) for connector in settings.get("connectors") or ()) or "none"
    numbers = sum(math.prod(tensor["shape"]) for tensor in manifest["tensors"].values())
    facts = {
        "game": f"{manifest['env']['id']}, options {json.dumps(manifest['env']['options'])}",
        "trained as": f"player {manifest['player']}, role {manifest['role']}",
        "env steps": f"{manifest['env_steps']:,}",
        "updates": f"{manifest['updates']:,}",
        "parent": manifest["parent_id"] or "none",
        "network": manifest["architecture"],
        "observation": json.dumps(spec.get("observation")),
        "action": json.dumps(spec.get("action")),
        "connectors": connectors,
        "weights": f"{numbers:,} numbers in {len(manifest['tensors'])} tensors, {manifest['bytes']:,} bytes",
        "blake3 of the weights": manifest["blob_hash"],
        "licence": manifest["license"],
    }
    rows = "\n".join(f"| {name} | {_cell(value)} |" for name, value in facts.items())
    head = front_matter(manifest["env"]["id"], manifest["license"])
    return f"""{head}
# {_cell(manifest["snapshot_id"])}

A policy that was frozen while it trained in a league. `{MANIFEST}` says how it is built, `{WEIGHTS}` holds
its weights. Reading it runs no code of its own; a network named `module:Class` is only built by a user who
trusts it. A file `agent.onnx`, where there is one, plays without any library but onnxruntime.

| | |
|---|---|
{rows}

As an opponent in another run of the same game:

    league snapshots RUN import FOLDER

As the first weights of a player, in a config:

    init_from:
    - player: main-0
      folder: FOLDER

In Python, to act on observations [n, *shape] and masks of legal actions [n, A]:

    import league
    import numpy as np

    policy = league.load_export("FOLDER")
    actions, log_probs = policy.act(observations, masks, np.random.default_rng(0))
"""


def is_plain(text: object) -> bool:
    """Return True for one line of printable text, not empty, of bounded length."""
    return isinstance(text, str) and 0 < len(text) <= MAX_TEXT and text.isprintable()


def shown(value: object) -> str:
    """Return an untrusted value as a message may quote it."""
    text = ascii(value)
    return text if len(text) <= 80 else f"{text[:80]}..."


def _cell(text: str) -> str:
    """Return `text` as a cell of a table: names may hold anything printable."""
    return text.replace("|", "\\|")


# identifiers of licences that hubs know; other texts are named beside `other`
_KNOWN = frozenset(
    (
        *("mit", "apache-2.0", "bsd", "bsd-2-clause", "bsd-3-clause", "mpl-2.0", "unlicense", "openrail"),
        *("cc0-1.0", "cc-by-4.0", "cc-by-sa-4.0", "cc-by-nc-4.0", "gpl-3.0", "lgpl-3.0", "agpl-3.0"),
    )
)


def front_matter(env_id: str, license: str) -> str:
    """Return what model hubs read at the beginning of a README, with the line break behind it.

    It is YAML between two lines of dashes. Every value is written as JSON, which is YAML too, so that a name
    from a stranger's manifest stays a string.
    """
    fields: dict[str, object] = {}
    if license.lower() in _KNOWN:
        fields["license"] = license.lower()
    elif license != UNSPECIFIED:
        fields |= {"license": "other", "license_name": license}
    fields |= {
        "library_name": "checkpoint-league",
        "pipeline_tag": "reinforcement-learning",
        "tags": ["reinforcement-learning", "self-play", "checkpoint-league", env_id],
    }
    lines = [f"{name}: {json.dumps(value)}" for name, value in fields.items()]
    return "\n".join(["---", *lines, "---", ""])
