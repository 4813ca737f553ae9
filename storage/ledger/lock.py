"""The writer's lock: one process, and in it one ledger, may write a run; others get an error that names it.

The lock is the kernel's (flock), so that it ends with its process however that ends; what the file
holds is only the holder's name.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
import time
from pathlib import Path

from storage.disk import disk
from storage.errors import DiskFailed, RunLocked

LOCK = "LOCK"
LOCK_WAIT_SECONDS = 1.0  # a reader that only looks whether a writer is there holds the lock for an instant


def take(folder: Path, owner: str) -> int:
    """Return a handle that holds the lock of `folder` until it is closed. Raise RunLocked, DiskFailed.

    flock, not lockf: it also keeps out a second writer of this process, and is not dropped when some other
    handle of the file is closed.
    """
    path = folder / LOCK
    try:
        handle = disk().open(path, os.O_RDWR | os.O_CREAT)
        try:
            _wait(handle, path)
            _sign(handle, owner)
        except BaseException:
            disk().close(handle)
            raise
    except OSError as error:
        raise DiskFailed(f"{path}: cannot be locked: {error.strerror or error}") from error
    return handle


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


def _wait(handle: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = _who(os.pread(handle, 4096, 0))
                raise RunLocked(f"{path.parent}: another process is writing: {holder}") from None
            time.sleep(0.02)


def _sign(handle: int, owner: str) -> None:
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    text = json.dumps({"owner": owner, "pid": os.getpid(), "host": socket.gethostname(), "started": started})
    disk().truncate(handle, 0)
    disk().pwrite(handle, text.encode(), 0)


def _who(text: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = json.loads(text)
        return f"{found['owner']}, pid {found['pid']} on {found['host']}, since {found['started']}"
    return "it left no name"
