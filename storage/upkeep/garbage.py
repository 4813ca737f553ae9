"""Garbage: files of a run that nothing refers to any more.

A blob stays while a snapshot of the ledger, a manifest or a pin names it, or a process holds a lease on
it: a shared lock on the file. All else is left by crashes: blobs whose snapshot was never recorded,
files half written, states of learners that newer ones replaced.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.disk import disk, make_folder, sync_folder, write_whole
from storage.errors import DiskFailed, Mistake, StorageError
from storage.layout import KEPT, LEARNERS, LEDGER, MANIFESTS, OBJECTS, PINS, REFUSED, file_name, require_run
from storage.ledger.ledger import Ledger
from storage.reader import open_reader
from storage.snapshots import learner_states, manifests
from storage.snapshots.figures import MEASUREMENTS, YARDSTICKS

UNFINISHED_SECONDS = 3600.0  # a temporary file this old has no writer any more
_BLOB = re.compile(r"([0-9a-f]{64})\.safetensors")
_FOLDER = re.compile(r"[0-9a-f]{2}")
_UNFINISHED = re.compile(r"\..*\.tmp")


@dataclass(frozen=True, slots=True)
class Garbage:
    """A file that was found, or removed."""

    files: list[tuple[Path, int, str]]  # path, bytes, why it is garbage

    @property
    def bytes(self) -> int:
        """The bytes of all files together."""
        return sum(size for _, size, _ in self.files)


def collect(run: str | Path, delete: bool = False) -> Garbage:
    """Find the garbage of `run`, and with `delete` remove it.

    Removing holds the run's lock, so it never happens beside a writer. Links are not followed, and nothing is
    touched but blobs, superseded states and temporary files. Raise NotARun, RunLocked, StorageError for a
    manifest, pin or state that cannot be read: it might name anything.
    """
    run = Path(run)
    require_run(run)
    try:
        if not delete:
            return Garbage([found for found in _find(run) if not _leased(found[0])])
        with Ledger(run / LEDGER, "collecting garbage"):
            return Garbage([found for found in list(_find(run)) if _remove(found[0])])
    except OSError as error:
        raise DiskFailed(f"{error.filename or run}: cannot be read: {error.strerror or error}") from error


def pin(run: str | Path, name: str, blob_hash: str, why: str) -> None:
    """Keep a blob though no manifest names it, until `unpin`. Replace a pin of that name."""
    if not re.fullmatch(r"[0-9a-f]{64}", blob_hash):
        raise Mistake(f"pin '{name}': blob hash '{blob_hash}', expected 64 hexadecimal digits")
    run = Path(run)
    require_run(run)
    make_folder(run / PINS)
    write_whole(_pin_path(run, name), [manifests.seal({"blob_hash": blob_hash, "why": why})])


def unpin(run: str | Path, name: str) -> None:
    """Release a pinned blob. Raise Mistake if there is no such pin."""
    path = _pin_path(Path(run), name)
    if not path.exists():
        raise Mistake(f"{run}: no pin '{name}', expected one of those in {path.parent}")
    _unlink(path)
    sync_folder(path.parent)


def _find(run: Path) -> Iterator[tuple[Path, int, str]]:
    """Return (path, bytes, reason) of what nothing names, leases aside."""
    named = _named_blobs(run)
    for path, size, _ in _files(run / OBJECTS, depth=1):
        blob = _BLOB.fullmatch(path.name)
        if blob and path.parent.name == blob[1][:2] and blob[1] not in named:
            yield path, size, "no manifest, pin or lease names it"
    for folder in (LEARNERS, f"{LEARNERS}/{KEPT}"):
        for path in learner_states.superseded(run / folder):
            yield path, path.stat().st_size, "a newer state of the learner replaced it"
    now = time.time()
    of_learners = (LEARNERS, f"{LEARNERS}/{REFUSED}", f"{LEARNERS}/{KEPT}")
    for folder in (OBJECTS, MANIFESTS, *of_learners, PINS, MEASUREMENTS, YARDSTICKS):
        for path, size, changed in _files(run / folder, depth=1):
            if _UNFINISHED.fullmatch(path.name) and now - changed > UNFINISHED_SECONDS:
                yield path, size, "was never finished"


def _named_blobs(run: Path) -> set[str]:
    """Return the hashes that are named. Raise StorageError if a file that may name a blob cannot be read."""
    named = {snapshot.blob_hash for snapshot in open_reader(run).snapshots()}
    for folder in (MANIFESTS, PINS):
        for path, _, _ in _files(run / folder, depth=0):
            if path.suffix == ".json":
                blob_hash = manifests.read(path).get("blob_hash")
                if not isinstance(blob_hash, str):
                    raise StorageError(f"{path}: names no blob, so nothing can be collected; restore it")
                named.add(blob_hash)
    return named


def _files(folder: Path, depth: int) -> Iterator[tuple[Path, int, float]]:
    """Yield (path, bytes, time of change) of the plain files in `folder`, and `depth` folders deep."""
    if folder.is_symlink() or not folder.is_dir():
        return
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_file(follow_symlinks=False):
                found = entry.stat(follow_symlinks=False)
                yield Path(entry.path), found.st_size, found.st_mtime
            elif depth and entry.is_dir(follow_symlinks=False) and _FOLDER.fullmatch(entry.name):
                yield from _files(Path(entry.path), depth - 1)


def _leased(path: Path) -> bool:
    with _alone_with(path) as alone:
        return not alone


def _remove(path: Path) -> bool:
    """Remove a file unless it is leased; return True if it was removed."""
    with _alone_with(path) as alone:
        if alone:
            _unlink(path)
            sync_folder(path.parent)
    return alone


@contextlib.contextmanager
def _alone_with(path: Path) -> Iterator[bool]:
    """Yield True if no process has a lease on the file; while the block runs, none can take one."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except FileNotFoundError:  # who wrote it was not idle after all
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        yield False
    else:
        yield True
    finally:
        os.close(handle)


def _unlink(path: Path) -> None:
    try:
        disk().unlink(path)
    except OSError as error:
        raise DiskFailed(f"{path}: cannot be removed: {error.strerror or error}") from error


def _pin_path(run: Path, name: str) -> Path:
    return run / PINS / f"{file_name(name)}.json"
