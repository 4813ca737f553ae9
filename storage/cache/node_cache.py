"""NodeCache: the blobs of one node, for all of its processes.

    with cache.lease(blob_hash, path, fetch) as blob:
        tensors = blob.tensors()

A blob on a disk that this node sees (in the run's own folder) is mapped where it is. Any
other is fetched, once for the whole node, into the cache's folder, which keeps to a budget of bytes
(`storage.cache.disk_budget`). Mapped files are page cache: the node holds one copy, however many processes
use it.

A lease is a shared lock on the blob's file, so it ends with its process, however that ends. What is
leased is not removed, and what is removed is unlinked, never cut or overwritten: a process that
has mapped it keeps its map. Several runs may share a folder, since blobs are named by their hash.

What is computed from a blob, such as its weights in another precision, is kept in the same way (`derived`).

    objects/, used      blobs that were fetched or computed, and how many bytes they are
    verified            which files were hashed: a table of 65,536 places
    locks/              256 locks: only the holder of a blob's lock may hash or fetch it
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import io
import os
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
from blake3 import blake3
from safetensors import SafetensorError

from storage.cache.disk_budget import ELSEWHERE, DiskBudget, Used, cache_folder
from storage.cache.policy_map import TierInfo
from storage.disk import Growing, disk, make_folder
from storage.errors import CorruptBlob, DiskFailed
from storage.settings import FETCHED_BYTES
from storage.snapshots import blobs

Fetch = Callable[[Callable[[bytes], Any]], Any]
"""Hands a blob's bytes, piece by piece, to what it is called with; raises if it cannot get them."""

RECORD_BYTES = 256  # more than any record needs
_HASH = re.compile(r"[0-9a-f]{64}")


class BlobLease:
    """A blob that stays in place until `close`. Tensors mapped from it stay valid after that."""

    def __init__(self, path: Path | None, handle: int | None, data: bytes = b"") -> None:
        """Hold the file `path` by a locked handle; without one, `data` in this process's memory."""
        self.path = path
        self.bytes = len(data) if handle is None else os.fstat(handle).st_size
        self._handle = handle
        self._data = data

    def tensors(self) -> dict[str, Any]:
        """Return the blob's tensors by name, mapped if it is a file. Raise CorruptBlob."""
        if self.path is not None:
            return blobs.map_tensors(self.path, verify=False)
        try:
            return safetensors.torch.load(self._data)
        except SafetensorError as error:
            raise CorruptBlob(f"a blob that was fetched is no safetensors: {error}") from None

    def close(self) -> None:
        """Release the blob, if that is not done yet."""
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None

    def __enter__(self) -> BlobLease:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _File(NamedTuple):
    """A blob's file, open and locked against removal."""

    path: Path
    handle: int


class NodeCache:
    """One process's access to the node's blobs. Safe among threads and processes."""

    def __init__(
        self, folder: str | Path | None = None, max_bytes: int = FETCHED_BYTES, verify: str = "admission"
    ) -> None:
        """Take the arguments of `CacheSettings`; nothing is made before it is needed. Raise ValueError."""
        if verify not in ("admission", "always", "never"):
            raise ValueError(f"verify is '{verify}', expected admission, always or never")
        self._given = folder
        self._max_bytes = max_bytes
        self._verify = verify
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()  # of the counts

    @functools.cached_property
    def room(self) -> DiskBudget:
        """The folder of fetched blobs. Raises UnfitNode or DiskFailed for a folder that cannot be used."""
        return DiskBudget(cache_folder(self._given), self._max_bytes)

    def check(self) -> None:
        """Raise UnfitNode or DiskFailed if the cache's folder cannot be used."""
        with self._alone("0" * 64):
            pass

    def lease(
        self,
        blob_hash: str,
        path: Path | None = None,
        fetch: Fetch | None = None,
        size: int | None = None,
    ) -> BlobLease:
        """Lease the blob: the file `path` if it exists, else the node's copy.

        `fetch` gets the copy if there is none yet: into its file piece by piece if its `size` in bytes is
        known, else through memory. A copy for which no room can be made is kept in private memory.

        Raise CorruptBlob if the bytes do not hash to `blob_hash`, or if there are none and no `fetch`;
        whatever `fetch` raises; UnfitNode or DiskFailed for a cache folder that cannot be used.
        """
        if _HASH.fullmatch(blob_hash) is None:  # it becomes a path
            raise CorruptBlob(f"'{blob_hash[:80]}' is no blob's hash, expected 64 hexadecimal digits")
        file = self._find(blob_hash, path)
        if file is None or not self._is_verified(blob_hash, file):
            with self._alone(blob_hash):
                file = file or self._find(blob_hash, path)  # another process may have fetched it meanwhile
                if file is None or not self._verified(blob_hash, file):
                    return self._fetched(blob_hash, path, fetch, size)
        self._count(found=1)
        return BlobLease(*file)

    def derived(self, blob_hash: str, kind: str, make: Callable[[], bytes]) -> BlobLease | None:
        """Lease what `make` computes from the blob as a file of this node, made once for all processes.

        `kind` says what it is: equal kinds of equal blobs have equal bytes. Return `None` if there is no
        room, or if nothing on the disk is to be trusted (verify: always). Raise UnfitNode or DiskFailed for a
        cache folder that cannot be used.
        """
        if self._verify == "always":
            return None
        name = blake3(f"{blob_hash} {kind}".encode()).hexdigest()
        file = self._find(name, None)
        if file is None or not self._is_verified(name, file):
            with self._alone(name):
                file = file or self._find(name, None)  # another process may have made it meanwhile
                if file is None or not self._is_verified(name, file):
                    return self._made(name, make(), file)
        return BlobLease(*file)

    def drop(self, blob_hash: str) -> bool:
        """Remove the node's copy of a blob; return False if there is none or it is leased."""
        return self.room.drop(blob_hash)

    def info(self) -> tuple[TierInfo, ...]:
        """Return the tiers `disk` and `remote`, as this process used them.

        disk: hits were found on this node. Resident blobs are those of the folder, which all processes fill.
        Evicted were blobs for room (bytes), damaged copies, and those that found no room (unkept). remote:
        hits were fetched, `bytes` in all; misses could not be fetched.
        """
        count, room = self._counts, vars(self).get("room")  # not made for this
        used = Used(0, 0) if room is None else room.used()
        evictions = {
            "bytes": 0 if room is None else room.evicted,
            "damaged": count["damaged"],
            "unkept": count["unkept"],
        }
        misses = count["fetched"] + count["failed"]
        return (
            TierInfo("disk", count["found"], misses, used.files, used.bytes, evictions),
            TierInfo("remote", count["fetched"], count["failed"], 0, count["fetched_bytes"], {}),
        )

    # ------------------------------------------------------------------ on this node

    def _find(self, blob_hash: str, path: Path | None) -> _File | None:
        """Return the blob's file on this node, verified or not."""
        handle = None if path is None else _locked(path)
        if path is not None and handle is not None:
            return _File(path, handle)
        path = self.room.path(blob_hash)
        handle = _locked(path)
        if handle is None:
            return None
        os.utime(handle, ns=(time.time_ns(), os.fstat(handle).st_mtime_ns))  # used now, unchanged
        return _File(path, handle)

    def _is_verified(self, blob_hash: str, file: _File) -> bool:
        """Return True if a process of this node hashed the file and it is unchanged since."""
        if self._verify != "admission":
            return self._verify == "never"
        try:
            with open(self._table, "rb") as table:
                found = os.pread(table.fileno(), RECORD_BYTES, _place(blob_hash))
        except FileNotFoundError:
            return False
        return found == _record(blob_hash, file.handle)

    def _verified(self, blob_hash: str, file: _File) -> bool:
        """Hash the file unless that was done; return False for a damaged copy, which is removed.

        Raise CorruptBlob for any other damaged file.
        """
        if self._is_verified(blob_hash, file):
            return True
        record = _record(blob_hash, file.handle)  # of before: a change meanwhile shall show
        try:
            blobs.verify(file.path, blob_hash)
        except CorruptBlob:
            os.close(file.handle)
            if file.path != self.room.path(blob_hash):
                raise
            self.room.drop(blob_hash, leased=True)
            self._count(damaged=1)
            return False
        self._note(blob_hash, record)
        return True

    def _made(self, name: str, data: bytes, found: _File | None) -> BlobLease | None:
        """Keep what was computed, unless it is what was `found`."""
        if found is not None and os.pread(found.handle, len(data) + 1, 0) == data:
            self._note(name, _record(name, found.handle))
            return BlobLease(*found)
        if found is not None:
            os.close(found.handle)
            self.room.drop(name, leased=True)
            self._count(damaged=1)
        return self._kept(name, data)

    def _kept(self, name: str, data: bytes) -> BlobLease | None:
        """Keep `data`, whose hash is known to be right; return `None` if there is no room."""
        handle = self.room.keep(name, data)
        if handle is None:
            self._count(unkept=1)
            return None
        self._note(name, _record(name, handle))
        return BlobLease(self.room.path(name), handle)

    def _note(self, blob_hash: str, record: bytes) -> None:
        """Record for the other processes that a file was hashed."""
        with contextlib.suppress(OSError):  # then it is hashed again
            table = disk().open(self._table, os.O_WRONLY | os.O_CREAT, 0o600)
            try:
                disk().pwrite(table, record, _place(blob_hash))
            finally:
                disk().close(table)

    @property
    def _table(self) -> Path:
        return self.room.folder / "verified"

    @contextlib.contextmanager
    def _alone(self, blob_hash: str) -> Iterator[None]:
        """Let one thread of the node at a time hash or fetch the blob."""
        path = self.room.folder / "locks" / blob_hash[:2]
        make_folder(path.parent)
        try:
            handle = disk().open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise DiskFailed(f"{path}: cannot be made: {error.strerror or error}; {ELSEWHERE}") from error
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
        finally:
            with contextlib.suppress(OSError):  # the lock is gone with the handle, whatever is said
                disk().close(handle)

    # ------------------------------------------------------------------ from elsewhere

    def _fetched(self, blob_hash: str, path: Path | None, fetch: Fetch | None, size: int | None) -> BlobLease:
        own = self.room.path(blob_hash)
        if fetch is None:
            raise CorruptBlob(
                f"{path or own}: the blob is not on this node and there is no remote to fetch it from; "
                "restore it from a copy, or set storage.remote"
            )
        if size is not None:
            handle = self._received(blob_hash, fetch, size)
            if handle is not None:
                return BlobLease(own, handle)
        buffer = io.BytesIO()
        try:
            fetch(buffer.write)
            data = buffer.getvalue()
            _require_hash(blob_hash, blobs.hash_of(data))
        except BaseException:
            self._count(failed=1)
            raise
        self._count(fetched=1, fetched_bytes=len(data))
        return self._kept(blob_hash, data) or BlobLease(None, None, data)

    def _received(self, blob_hash: str, fetch: Fetch, size: int) -> int | None:
        """Fetch the blob into its file; return a handle with a shared lock, `None` if there is no room."""

        def fill(file: Growing) -> None:
            digest = blake3()

            def write(piece: bytes) -> None:
                if file.tell() + len(piece) > size:
                    raise CorruptBlob(f"blob {blob_hash}: more was fetched than its {size} bytes")
                digest.update(piece)
                file.write(piece)

            fetch(write)
            _require_hash(blob_hash, digest.hexdigest())

        try:
            handle = self.room.receive(blob_hash, size, fill)
        except BaseException:
            self._count(failed=1)
            raise
        if handle is not None:
            self._count(fetched=1, fetched_bytes=size)
            self._note(blob_hash, _record(blob_hash, handle))
        return handle

    def _count(self, **more: int) -> None:
        with self._lock:
            self._counts.update(more)


def _require_hash(blob_hash: str, found: str) -> None:
    if found != blob_hash:
        raise CorruptBlob(f"blob {blob_hash}: what was fetched hashes to {found}; restore it from a copy")


def _locked(path: Path) -> int | None:
    """Return a handle of the file with a shared lock; `None` if there is no file. Raise CorruptBlob."""
    while True:
        try:
            handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise CorruptBlob(f"{path}: cannot be read: {error.strerror or error}") from None
        fcntl.flock(handle, fcntl.LOCK_SH)
        if os.fstat(handle).st_nlink:
            return handle
        os.close(handle)  # removed or replaced while we waited


def _record(blob_hash: str, handle: int) -> bytes:
    """Return the bytes that identify a verified file and change when it is changed."""
    found = os.fstat(handle)
    text = f"{blob_hash} {found.st_dev:x} {found.st_ino:x} {found.st_size:x} {found.st_mtime_ns:x}"
    return text.encode().ljust(RECORD_BYTES, b"\n")


def _place(blob_hash: str) -> int:
    """Return the place of the blob's record. Another blob's record may be there, which costs one hash."""
    return int(blob_hash[:4], 16) * RECORD_BYTES
