"""Files of a run's folder `learners/`: the states that training resumes from, and refused batches.

A state is two files, tensors and a JSON head that names them; the head is written last, so that a
crash leaves the old or the new pair.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from storage.disk import disk, make_folder, write_whole
from storage.errors import CorruptBlob, DiskFailed, StorageError
from storage.layout import REFUSED, file_name
from storage.snapshots import blobs, manifests
from storage.snapshots.blobs import Tensors

_TENSORS = re.compile(r".+\.\d+\.safetensors")


def save(folder: Path, player: str, tensors: Tensors, meta: Mapping[str, Any]) -> None:
    """Save a learner's state: `tensors` and `meta` (JSON) as one.

    Raise DiskFailed; the state saved before is then still there.
    """
    name = file_name(player)
    head = folder / f"{name}.json"
    data = blobs.encode(tensors)
    mine = re.compile(re.escape(name) + r"\.(\d+)\.safetensors")
    try:
        stale = [(path, m) for path in folder.iterdir() if (m := mine.fullmatch(path.name))]
    except OSError as error:
        raise DiskFailed(f"{folder}: cannot be read: {error.strerror or error}") from error
    number = 1 + max((int(m[1]) for _, m in stale), default=0)
    path = head.with_name(f"{name}.{number}.safetensors")
    write_whole(path, [data])
    fields = {"file": path.name, "hash": blobs.hash_of(data), "meta": dict(meta)}
    write_whole(head, [manifests.seal(fields)])
    for old, _ in stale:
        with contextlib.suppress(OSError):  # one too many costs only room; the next save tries again
            disk().unlink(old)


def load(folder: Path, player: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return (tensors, meta) as saved last, verified; `None` before the first save. Raise CorruptBlob."""
    head = folder / f"{file_name(player)}.json"
    if not head.exists():
        return None
    path, blob_hash, meta = _read_head(head)
    return blobs.map_tensors(path, verify=True, blob_hash=blob_hash), meta


def superseded(folder: Path) -> list[Path]:
    """Return the tensors that no head names: of older states, and of saves that a crash cut short.

    A save under way has some too, so only the holder of the run's lock may remove them. Raise CorruptBlob.
    """
    named = {_read_head(head)[0] for head in folder.glob("*.json")}
    found = [path for path in folder.iterdir() if _TENSORS.fullmatch(path.name) and path not in named]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def save_refused(folder: Path, player: str, update: int, tensors: Tensors) -> Path:
    """Keep the batch that an update was refused for; return its safetensors file."""
    make_folder(folder / REFUSED)
    path = folder / REFUSED / f"{file_name(player)}.{update}.safetensors"
    write_whole(path, [blobs.encode(tensors)])
    return path


def _read_head(head: Path) -> tuple[Path, str, dict[str, Any]]:
    """Return (tensors file, its hash, meta)."""
    try:
        saved = manifests.read(head)
        return head.with_name(saved["file"]), saved["hash"], saved["meta"]
    except (StorageError, ValueError, KeyError, TypeError) as error:
        raise CorruptBlob(f"{head}: the state of a learner cannot be read: {error}") from None
