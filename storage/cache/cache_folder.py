"""The folder of a node's cache: it belongs to one user alone, on a disk of the node.

A user who can write there can make a process take any bytes for verified, so no other user may.
"""

from __future__ import annotations

import os
import secrets
import tempfile
from pathlib import Path

from storage.disk import disk, make_folder
from storage.errors import DiskFailed, Mistake

NAME = "checkpoint-league"


def cache_folder(given: str | Path | None = None) -> Path:
    """Return the folder `given`, else the user's cache folder, else a temporary one.

    The user's is in XDG_CACHE_HOME or ~/.cache. The folder is made with mode 0700 if it does not exist. Raise
    Mistake for a folder that other users can write to, DiskFailed if none can be made.
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
        raise DiskFailed(f"{folder}: cannot be made: {error.strerror or error}") from error
    if {link.st_uid, found.st_uid} != {os.getuid()} or found.st_mode & 0o022:
        raise Mistake(
            f"{folder}: found a cache folder that others can write to, expected one of user {os.getuid()} "
            "alone (mode 0700); remove it, or set storage.cache_folder to another"
        )
    if not writable:
        raise DiskFailed(f"{folder}: cannot be written to, expected a folder for the node's cache")
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
