"""The writer's lock: one process, and in it one ledger, may write a run; others get an error that names it.

The lock is the kernel's (flock), so that it ends with its process however that ends. The file holds the
holder's name, a token that no other holder has, and the generation: the number of this writer among all
that the run has had. A thread of the holder touches the file every BEAT_SECONDS, as a sign of life.

A holder may be cut off without its end: stopped by a signal, or on a node that no longer reaches the
folder. Then another process goes on in its place:

    the lock is held, without a sign of life for CUT_OFF_SECONDS     a new file replaces LOCK
    the lock is free, its holder was on another machine and never    the file is signed again, after
    gave it back: locks of some file systems hold on one machine     FOREIGN_SECONDS without a sign of life

Times are taken by the newcomer's own clock, between two looks at the file; clocks of machines are never
compared. The old holder may come back at any moment. It is kept out by fencing: `Lock.require` opens the
file once more and raises RunTaken unless this holder's token is in it. The ledger calls it before and after
each frame, `storage.disk` before each file that is replaced or removed. A system call that was under way
when the holder was cut off may still happen when it comes back, so the newcomer also gives the last
journal a new file (`Lock.in_doubt`): such a late write reaches only the old file, which has no name
any more.

A frame that was acknowledged is never lost: its writer saw its own token after the frame was durable, so
the newcomer, which signs before it reads, finds the frame. What remains open is one instant: a holder that
is cut off between the check and the rename of a whole file, two calls later. It can bring back the older
state of one learner, whole; the next save replaces that.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import secrets
import socket
import threading
import time
from pathlib import Path
from typing import Any

from storage.disk import disk
from storage.errors import DiskFailed, RunLocked, RunTaken

LOCK = "LOCK"
LOCK_WAIT_SECONDS = 1.0  # a reader that only looks whether a writer is there holds the lock for an instant
BEAT_SECONDS = 1.0
CUT_OFF_SECONDS = 30.0
FOREIGN_SECONDS = 5.0
_LOOK_SECONDS = 0.02
_GIVEN_BACK = 0  # time of the last change, in ns since the epoch, of a lock that its holder gave back
_log = logging.getLogger(__name__)


class Lock:
    """The right to write `folder`, until `release`. Made by `take`."""

    def __init__(self, path: Path, handle: int, text: bytes, generation: int, in_doubt: bool) -> None:
        self.generation = generation
        self.in_doubt = in_doubt  # whether the holder before may still be alive
        self._path, self._handle, self._text = path, handle, text
        self._using = threading.Lock()  # of the handle: a closed one may be another file's a moment later
        self._released = threading.Event()
        threading.Thread(target=self._beat, name="lock", daemon=True).start()

    def require(self) -> None:
        """Raise RunTaken if another process writes the folder now, DiskFailed if that cannot be found out."""
        try:
            found = _read(self._path)  # opened again: file systems of networks compare with the server then
        except OSError as error:
            raise DiskFailed(f"{self._path}: cannot be read: {error.strerror or error}") from error
        if found != self._text:
            by = f"{_who(found)} writes it now" if found else "its file LOCK was removed or emptied"
            raise RunTaken(
                f"{self._path.parent}: {by}; this process was cut off and writes nothing more, and all that "
                "it had recorded is kept"
            )

    def release(self) -> None:
        """Let the next writer in."""
        self._released.set()
        with self._using:
            handle, self._handle = self._handle, -1
            if handle < 0:
                return
            with contextlib.suppress(OSError):  # then the next writer of another machine waits a little
                if _read(self._path) == self._text:
                    os.utime(handle, ns=(_GIVEN_BACK, _GIVEN_BACK))
            with contextlib.suppress(OSError):  # what counts was synced
                disk().close(handle)

    def _beat(self) -> None:
        while not self._released.wait(BEAT_SECONDS):
            with contextlib.suppress(OSError), self._using:
                if self._handle < 0 or _read(self._path) != self._text:
                    return
                os.utime(self._handle)


def take(folder: Path, owner: str) -> Lock:
    """Return the lock of `folder`, held until it is released. Raise RunLocked, DiskFailed.

    flock, not lockf: it also keeps out a second writer of this process, and is not dropped when some other
    handle of the file is closed.
    """
    path = folder / LOCK
    watch = _Watch(path)
    try:
        while True:
            handle = disk().open(path, os.O_RDWR | os.O_CREAT)
            lock = None
            try:
                lock = watch.look(handle, owner)
            finally:
                if lock is None or lock._handle != handle:
                    disk().close(handle)
            if lock is not None:
                break
            time.sleep(_LOOK_SECONDS)
    except OSError as error:
        raise DiskFailed(f"{path}: cannot be locked: {error.strerror or error}") from error
    if lock.in_doubt:
        try:
            lock.require()  # of several newcomers the last one has it
        except BaseException:
            lock.release()
            raise
    return lock


def is_written(folder: Path) -> bool:
    """Return True if a writer holds the ledger in `folder` now."""
    try:
        handle = os.open(folder / LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


class _Watch:
    """A newcomer's looks at a lock."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._since = time.monotonic()
        self._first: tuple[bytes, int] | None = None  # text and time of the last change, at the first look
        self._said = False

    def look(self, handle: int, owner: str) -> Lock | None:
        """Return the lock if it can be had; `None` if that is not known yet. Raise RunLocked, OSError."""
        free = _flock(handle)
        if free and not _is_at(handle, self._path):
            return None  # replaced since it was opened
        text, changed = os.pread(handle, 4096, 0), os.fstat(handle).st_mtime_ns
        fields = _fields(text)
        if free and (changed == _GIVEN_BACK or not text or _of_this_machine(fields)):
            return self._signed(handle, owner, fields, in_doubt=False)
        first = self._first = self._first or (text, changed)
        waited = time.monotonic() - self._since
        # no holder signs a text without a generation, so it gives no signs of life
        if (text, changed) != first or "generation" not in fields:
            if free or waited > LOCK_WAIT_SECONDS:
                raise RunLocked(f"{self._path.parent}: another process is writing: {_who(text)}")
            return None
        if waited > (FOREIGN_SECONDS if free else CUT_OFF_SECONDS):
            _log.warning("%s: going on in place of %s, which is cut off", self._path.parent, _who(text))
            return (self._signed if free else self._replaced)(handle, owner, fields, in_doubt=True)
        if waited > 2 * BEAT_SECONDS and not self._said:
            self._said = True
            _log.warning("%s: %s shows no sign of life, waiting for one", self._path.parent, _who(text))
        return None

    def _signed(self, handle: int, owner: str, before: dict[str, Any], in_doubt: bool) -> Lock:
        """Sign the file that is locked by `handle`."""
        text, generation = _text(owner, before)
        disk().truncate(handle, 0)
        disk().pwrite(handle, text, 0)
        if in_doubt:
            disk().sync(handle)  # so that the holder before sees it, also on another node
        return Lock(self._path, handle, text, generation, in_doubt)

    def _replaced(self, handle: int, owner: str, before: dict[str, Any], in_doubt: bool) -> Lock:
        """Put a new file in the place of the one whose lock another process holds."""
        del handle
        text, generation = _text(owner, before)
        fresh = self._path.with_name(f".{LOCK}.{secrets.token_hex(6)}.tmp")
        own = disk().open(fresh, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        try:
            if not _flock(own):
                raise BlockingIOError(f"{fresh} is locked")  # nothing else has that name
            disk().pwrite(own, text, 0)
            disk().sync(own)
            disk().rename(fresh, self._path)
            disk().sync_folder(self._path.parent)
        except BaseException:
            disk().close(own)
            raise
        return Lock(self._path, own, text, generation, in_doubt)


def _flock(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(handle: int, path: Path) -> bool:
    """Return whether the open file is the one at `path`."""
    try:
        there, own = os.stat(path), os.fstat(handle)
    except FileNotFoundError:
        return False
    return (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino)


def _read(path: Path) -> bytes:
    """Return what the file holds now; nothing if there is none."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return b""
    try:
        return os.pread(handle, 4096, 0)
    finally:
        os.close(handle)


def _text(owner: str, before: dict[str, Any]) -> tuple[bytes, int]:
    """Return what a new holder writes, and its generation."""
    last = before.get("generation")
    generation = 1 + (last if type(last) is int else 0)
    fields = {
        "owner": owner[:200],  # so that all of it is in one read
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "started": time.strftime("%Y-%m-%d %H:%M:%S"),
        "machine": machine(),
        "generation": generation,
        "token": secrets.token_hex(8),
    }
    return json.dumps(fields).encode(), generation


def machine() -> str:
    """Return a text that identifies the kernel that runs here: locks of its files end with its processes."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return boot.read_text().strip() if boot.exists() else socket.gethostname()


def _of_this_machine(fields: dict[str, Any]) -> bool:
    """Return whether the holder was a process of this kernel, or left no whole name, as after a power cut."""
    return bool(fields.get("machine", machine()) == machine())


def _fields(text: bytes) -> dict[str, Any]:
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    return {}


def _who(text: bytes) -> str:
    found = _fields(text)
    try:
        return f"{found['owner']}, pid {found['pid']} on {found['host']}, since {found['started']}"
    except KeyError:
        return "it left no name"
