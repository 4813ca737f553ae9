"""Room: a folder of blobs that holds no more than its budget of bytes, whichever processes fill it.

What it holds is written in the file `used`, and everything is made, renamed and removed under that
file's lock. The number is raised before a file appears and lowered when one is gone. A death in
between can only make it too large; the next process that runs out of room counts all files and corrects
it. All files are also counted after a reboot, since none of this is synced. A file has its full size
from the beginning, so that it is counted right.

    objects/ab/<hash>.safetensors       whole: written and synced under another name first
    objects/ab/.<...>.tmp               being written; left by a dead writer if no process holds a lock on it
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from storage.disk import Growing, disk, make_folder
from storage.errors import DiskFailed, UnfitNode
from storage.layout import OBJECTS, blob_path

SPARE = 10  # one part in so many is freed at once: not every newcomer shall cost a count of all files
_USED = re.compile(rb"(\d{20}) (\d{12}) (\d{12})\n")  # bytes, files, when the machine was booted


class Used(NamedTuple):
    """The contents of a room: bytes and files."""

    bytes: int
    files: int


class DiskBudget:
    """The blobs in `folder`, which belongs to this user alone (`cache_folder`)."""

    def __init__(self, folder: Path, max_bytes: int) -> None:
        self.folder = folder
        self.max_bytes = max_bytes
        self.evicted = 0  # by this process, for room

    def path(self, blob_hash: str) -> Path:
        """Return the path of the blob of that hash, if it is here."""
        return blob_path(self.folder / OBJECTS, blob_hash)

    def used(self) -> Used:
        """Return what all processes keep here, as it is recorded."""
        try:
            with open(self.folder / "used", "rb") as file:
                return _parsed(file.read()) or Used(0, 0)
        except FileNotFoundError:
            return Used(0, 0)

    def keep(self, blob_hash: str, data: bytes) -> int | None:
        """Store `data`; return a handle of its file with a shared lock, held from the beginning.

        What was used least recently makes room. Return `None` if there is no room because too much is leased,
        or if the disk is full or fails: then nothing is stored.
        """
        return self.receive(blob_hash, len(data), lambda file: file.write(data))

    def receive(self, blob_hash: str, size: int, fill: Callable[[Growing], Any]) -> int | None:
        """Store the `size` bytes that `fill` writes, as `keep` does, without holding them in memory.

        Whatever else `fill` raises is passed on, and nothing is stored then. It is not called without room.
        """
        path = self.path(blob_hash)
        temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
        handle = None
        try:
            make_folder(path.parent)
            with self._counting() as count:
                used = self._make_room(_read(count), size)
                if used.bytes + size > self.max_bytes:
                    _write(count, used)
                    return None
                _write(count, Used(used.bytes + size, used.files + 1))
                handle = disk().open(temporary, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
                fcntl.flock(handle, fcntl.LOCK_SH)
                disk().truncate(handle, size)
            fill(Growing(handle))
            disk().sync(handle)
            disk().chmod(handle, 0o444)
            with self._counting():
                disk().rename(temporary, path)
        except (OSError, DiskFailed):
            self._give_up(temporary, handle)
            return None
        except BaseException:
            self._give_up(temporary, handle)
            raise
        return handle

    def _give_up(self, temporary: Path, handle: int | None) -> None:
        if handle is not None:
            with contextlib.suppress(OSError):
                disk().close(handle)
            self._remove(temporary, leased=True)

    def drop(self, blob_hash: str, *, leased: bool = False) -> bool:
        """Remove a blob; return False if it is not here, or leased and `leased` is not set."""
        return self._remove(self.path(blob_hash), leased)

    def _remove(self, path: Path, leased: bool) -> bool:
        with contextlib.suppress(OSError), self._counting() as count:
            used, size = _read(count) or self._counted()[0], path.stat().st_size
            if leased:
                disk().unlink(path)
            elif not _removed(path):
                return False
            _write(count, Used(max(used.bytes - size, 0), max(used.files - 1, 0)))
            return True
        return False

    def _make_room(self, used: Used | None, size: int) -> Used:
        """Evict until `size` more bytes fit, if possible; return what is used then."""
        if used is not None and (size > self.max_bytes or used.bytes + size <= self.max_bytes):
            return used
        used, files = self._counted()
        if size > self.max_bytes or used.bytes + size <= self.max_bytes:
            return used
        goal = max(self.max_bytes - size - self.max_bytes // SPARE, 0)
        for path, found in sorted(files, key=lambda file: file[1].st_atime_ns):
            if used.bytes <= goal:
                break
            if _removed(path):
                used = Used(used.bytes - found.st_size, used.files - 1)
                self.evicted += 1
        return used

    def _counted(self) -> tuple[Used, list[tuple[Path, os.stat_result]]]:
        """Remove what dead writers left, and return what is here, file by file."""
        files = []
        for path in (self.folder / OBJECTS).glob("*/*"):
            found = path.lstat()
            left_behind = path.name.startswith(".") and _removed(path)
            if stat.S_ISREG(found.st_mode) and not left_behind:
                files.append((path, found))
        return Used(sum(found.st_size for _, found in files), len(files)), files

    @contextlib.contextmanager
    def _counting(self) -> Iterator[int]:
        """Lock the file `used`, so that no other process changes it or what it counts."""
        handle = disk().open(self.folder / "used", os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            disk().close(handle)


def _read(count: int) -> Used | None:
    return _parsed(os.pread(count, 64, 0))


def _parsed(text: bytes) -> Used | None:
    """Return the numbers in the file; `None` if they were never written, are torn, or older than a reboot."""
    found = _USED.fullmatch(text)
    if found is None or int(found[3]) != _booted_at():
        return None
    return Used(int(found[1]), int(found[2]))


def _write(count: int, used: Used) -> None:
    disk().pwrite(count, b"%020d %012d %012d\n" % (*used, _booted_at()), 0)


@functools.cache
def _booted_at() -> int:
    """Return the time of the boot in seconds since the epoch. A corrected clock causes one more count."""
    return int(psutil.boot_time())


def _removed(path: Path) -> bool:
    """Unlink `path` unless a process has a lock on it; return True if it is gone."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        disk().unlink(path)
    except BlockingIOError:
        return False
    finally:
        os.close(handle)
    return True


NAME = "checkpoint-league"
ELSEWHERE = "set storage.cache_folder to another folder"


def cache_folder(given: str | Path | None = None) -> Path:
    """Return the folder `given`, else the user's cache folder, else a temporary one.

    It belongs to one user alone, on a disk of the node: who can write there can make a process take any bytes
    for verified. The user's is in XDG_CACHE_HOME or ~/.cache; it is made with mode 0700 if it is not there.
    Raise UnfitNode for a folder that other users can write to, DiskFailed if none can be made.
    """
    if given is not None:
        return _private(Path(given).expanduser())
    try:
        return _private(Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser() / NAME)
    except (DiskFailed, RuntimeError):  # read-only, or no home folder
        return _private(Path(tempfile.gettempdir()) / f"{NAME}-{os.getuid()}")


def _private(folder: Path) -> Path:
    """Return `folder`, which belongs to this user alone; it is made if it does not exist."""
    try:
        if not os.path.lexists(folder):
            _make_private(folder)
        link, found = folder.lstat(), folder.stat()
        writable = os.access(folder, os.W_OK | os.X_OK) and folder.is_dir()
    except OSError as error:
        raise DiskFailed(f"{folder}: cannot be made: {error.strerror or error}; {ELSEWHERE}") from error
    except DiskFailed as error:  # of its parents
        raise DiskFailed(f"{error}; {ELSEWHERE}") from error
    if {link.st_uid, found.st_uid} != {os.getuid()} or found.st_mode & 0o022:
        raise UnfitNode(
            f"{folder}: found a cache folder that others can write to, expected one of user {os.getuid()} "
            f"alone (mode 0700); remove it, or {ELSEWHERE}"
        )
    if not writable:
        raise DiskFailed(
            f"{folder}: cannot be written to, expected a folder for the node's cache; {ELSEWHERE}"
        )
    return folder


def _make_private(folder: Path) -> None:
    """Make the folder under another name first, so that it never appears with another mode."""
    make_folder(folder.parent)
    fresh = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.tmp")
    disk().mkdir(fresh)
    handle = disk().open(fresh, os.O_RDONLY | os.O_DIRECTORY)
    try:
        disk().chmod(handle, 0o700)
    finally:
        disk().close(handle)
    try:
        disk().rename(fresh, folder)
    except OSError:
        disk().rmdir(fresh)
        if not folder.is_dir():  # else another process was faster
            raise
