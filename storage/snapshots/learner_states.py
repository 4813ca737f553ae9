"""Files of a run's folder `learners/`: the states that training resumes from, and refused batches.

A state is two files, tensors and a JSON head that names them; the head is written last, so that a
crash leaves the old or the new pair. The head also has the last frame of the ledger at that time.

    <player>.json, <player>.<n>.safetensors                   the state that was saved last
    kept/<player>.<frame>.<updates>.json, .safetensors        earlier ones, for branches of the run
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from storage.disk import disk, failed, link_or_copy, make_folder, require_allowed, sync_folder, write_whole
from storage.errors import CorruptBlob, DiskFailed, StorageError
from storage.layout import KEPT, REFUSED, file_name
from storage.snapshots import blobs, manifests
from storage.snapshots.blobs import Tensors

_TENSORS = re.compile(r".+\.\d+\.safetensors")


@dataclass(frozen=True, slots=True)
class SavedState:
    """The files of a learner's state, and when it was saved."""

    head: Path
    tensors: Path
    hash: str  # of the tensors
    meta: Mapping[str, Any]
    frame: int | None  # the ledger's last frame at that time; None: saved by an older version

    @property
    def env_steps(self) -> int:
        """Decisions that the learner had been trained on."""
        return int(self.meta["env_steps"])


def save(
    folder: Path, player: str, tensors: Tensors, meta: Mapping[str, Any], frame: int | None = None
) -> None:
    """Save a learner's state: `tensors` and `meta` (JSON) as one; `frame` is the ledger's last one.

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
    fields = {"file": path.name, "hash": blobs.hash_of(data), "meta": dict(meta), "frame": frame}
    write_whole(head, [manifests.seal(fields)])
    require_allowed(head)
    for old, _ in stale:
        with contextlib.suppress(OSError):  # one too many costs only room; the next save tries again
            disk().unlink(old)


def load(folder: Path, player: str) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return (tensors, meta) as saved last, verified; `None` before the first save. Raise CorruptBlob."""
    head = folder / f"{file_name(player)}.json"
    if not head.exists():
        return None
    saved = _read_head(head)
    return blobs.map_tensors(saved.tensors, verify=True, blob_hash=saved.hash), dict(saved.meta)


def keep(folder: Path, player: str, most: int) -> None:
    """Keep the state saved last beside those kept before it, `most` of them in all.

    If there are too many, those go whose neighbours are nearest in env steps, so that the others stay spread
    over the run; the first and the last stay longest. Raise CorruptBlob, DiskFailed.
    """
    head = folder / f"{file_name(player)}.json"
    if most and head.exists():
        _put_kept(_read_head(head), folder, player)
    found = _kept(folder, player)
    while len(found) > most:
        inner = range(1, len(found) - 1) or range(1)
        steps = [state.env_steps for state in found]
        require_allowed(head)
        gone = found.pop(min(inner, key=lambda i: (steps[i + 1] - steps[i - 1]) if i else 0))
        try:
            disk().unlink(gone.head)
            disk().unlink(gone.tensors)
        except OSError as error:
            raise failed(gone.head, "removed", error) from error


def put_newest(saved: SavedState, folder: Path, player: str) -> None:
    """Put a state into `folder`, which has none of `player`, so that training goes on from it.

    Raise FileNotFoundError if a newer state has replaced it, DiskFailed.
    """
    name = file_name(player)
    _put(saved, folder / f"{name}.json", folder / f"{name}.1.safetensors")


def put_kept(states: Sequence[SavedState], folder: Path, player: str) -> None:
    """Put states into `folder` as earlier ones of `player`, but for those that are gone. Raise DiskFailed."""
    for state in states:
        with contextlib.suppress(FileNotFoundError):  # its run keeps it no longer
            _put_kept(state, folder, player)


def _put_kept(saved: SavedState, folder: Path, player: str) -> None:
    """Put a state beside those that were kept. Older versions noted no frame; such a state is left out."""
    if saved.frame is None:
        return
    head = folder / KEPT / f"{file_name(player)}.{saved.frame}.{saved.meta.get('updates', 0)}.json"
    if not head.exists():
        make_folder(head.parent)
        _put(saved, head, head.with_suffix(".safetensors"))


def _put(saved: SavedState, head: Path, tensors: Path) -> None:
    """Give a state these files, in one folder; its tensors are linked where that is possible.

    Raise FileNotFoundError if a newer state has replaced it, DiskFailed.
    """
    with contextlib.suppress(FileNotFoundError):  # of a keeping that a crash cut short
        disk().unlink(tensors)
    link_or_copy(saved.tensors, tensors)
    sync_folder(tensors.parent)
    fields = {"file": tensors.name, "hash": saved.hash, "meta": dict(saved.meta), "frame": saved.frame}
    write_whole(head, [manifests.seal(fields)])


def states(folder: Path, player: str) -> list[SavedState]:
    """Return all states of the player, oldest first: those that were kept, and the one saved last.

    Raise CorruptBlob.
    """
    head = folder / f"{file_name(player)}.json"
    found = _kept(folder, player)
    return [*found, _read_head(head)] if head.exists() else found


def _kept(folder: Path, player: str) -> list[SavedState]:
    """Return the states that were kept, oldest first. Raise CorruptBlob."""
    mine = re.compile(re.escape(file_name(player)) + r"\.\d+\.\d+\.json")
    heads = [path for path in (folder / KEPT).glob("*.json") if mine.fullmatch(path.name)]
    found = []
    for head in heads:
        with contextlib.suppress(FileNotFoundError):  # beside a writer: kept no longer
            found.append(_read_head(head))
    return sorted(found, key=lambda state: (state.frame or 0, state.meta.get("updates", 0)))


def superseded(folder: Path) -> list[Path]:
    """Return the tensors that no head names: of older states, and of saves that a crash cut short.

    A save under way has some too, so only the holder of the run's lock may remove them. Raise CorruptBlob.
    """
    if not folder.is_dir():
        return []
    named = {_read_head(head).tensors for head in folder.glob("*.json")}
    found = [path for path in folder.iterdir() if _TENSORS.fullmatch(path.name) and path not in named]
    return sorted(path for path in found if path.is_file() and not path.is_symlink())


def save_refused(folder: Path, player: str, update: int, tensors: Tensors) -> Path:
    """Keep the batch that an update was refused for; return its safetensors file."""
    make_folder(folder / REFUSED)
    path = folder / REFUSED / f"{file_name(player)}.{update}.safetensors"
    write_whole(path, [blobs.encode(tensors)])
    return path


def _read_head(head: Path) -> SavedState:
    try:
        saved = manifests.read(head)
        tensors, frame = head.with_name(saved["file"]), saved.get("frame")
        return SavedState(head, tensors, saved["hash"], saved["meta"], None if frame is None else int(frame))
    except (StorageError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptBlob(f"{head}: the state of a learner cannot be read: {error}") from None
