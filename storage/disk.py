"""Disk: every change that storage makes to files goes through this module.

So one place decides what survives a crash, and a test can replace it by a disk that fills up, fails at
the k-th call or loses its power. DuckDB writes its file by itself; that file is a copy, which is
made again when it is lost.

    disk().pwrite(handle, data, offset)     the calls themselves, as os has them
    with whole(path) as file: ...           a file that appears whole or not at all, durable behind the block
    with whole_folder(path) as fresh: ...   the same for a folder
    end = guard(folder, check)              `check` is called before a file in it is replaced or removed
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import secrets
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from storage.errors import DiskFailed, Mistake

Progress = Callable[[str, int, int], None]
"""Callback that reports the progress of a long operation: its name, the steps done, the steps in all."""

_BLOCK_BYTES = 2**22
# What keeps a folder from being made in one place and not in another.
_OF_THE_PLACE = (
    *(errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR, errno.ENAMETOOLONG),
    *(errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOENT),
)
# Errors of a link where a copy can be made: another file system, too many links, no links, not permitted.
_NO_LINK = (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.EACCES, errno.ENOTSUP, errno.ENOSYS)
_fdatasync = getattr(os, "fdatasync", os.fsync)  # macOS has no fdatasync


class Disk:
    """Calls that change files. All raise OSError."""

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        """Return a handle, closed on exec."""
        return os.open(path, flags | os.O_CLOEXEC, mode)

    def close(self, handle: int) -> None:
        """Close the handle."""
        os.close(handle)

    def pwrite(self, handle: int, data: bytes | memoryview, offset: int) -> int:
        """Return the number of bytes written, which may be fewer than given."""
        return os.pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        """Cut or extend the file to `size` bytes."""
        os.ftruncate(handle, size)

    def sync(self, handle: int) -> None:
        """Make the file's bytes and attributes durable, but not its name."""
        os.fsync(handle)

    def sync_data(self, handle: int) -> None:
        """Make the file's bytes and size durable."""
        _fdatasync(handle)

    def sync_folder(self, folder: Path) -> None:
        """Make the names in `folder` durable: a synced file without a synced name can be lost."""
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def chmod(self, handle: int, mode: int) -> None:
        """Set the mode of `path`."""
        os.fchmod(handle, mode)

    def rename(self, source: Path, target: Path) -> None:
        """Rename `path`. Files replace files; a folder replaces only an empty one."""
        os.rename(source, target)

    def link(self, source: Path, target: Path) -> None:
        """Give the file `source` the second name `target`, which must be new."""
        os.link(source, target, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        """Remove the file `path`."""
        os.unlink(path)

    def mkdir(self, path: Path) -> None:
        """Make the folder `path`."""
        os.mkdir(path)

    def rmdir(self, path: Path) -> None:
        """Remove the empty folder `path`."""
        os.rmdir(path)


_current = Disk()


def disk() -> Disk:
    """Return the disk in use."""
    return _current


@contextlib.contextmanager
def using(other: Disk) -> Iterator[None]:
    """Let this process write through `other`: for tests of failing disks."""
    global _current
    before, _current = _current, other
    try:
        yield
    finally:
        _current = before


_guards: dict[str, Callable[[], None]] = {}


def guard(folder: Path, check: Callable[[], None]) -> Callable[[], None]:
    """Let `check` be called before this process replaces or removes a file in `folder`.

    It raises an error where the process may no longer write there. Return a function that ends this.
    """
    name = os.path.abspath(folder)
    _guards[name] = check

    def end() -> None:
        if _guards.get(name) is check:
            del _guards[name]

    return end


def require_allowed(path: Path) -> None:
    """Raise what the guard of a folder around `path` raises, if there is one."""
    if _guards:
        name = os.path.abspath(path)
        for folder, check in list(_guards.items()):
            if name.startswith(folder + os.sep):
                check()


def write_all(handle: int, data: bytes | memoryview, offset: int) -> int:
    """Write all of `data` from `offset` of a file on; return the number of bytes. Raise OSError."""
    view = memoryview(data).cast("B")
    written = 0
    while written < len(view):
        written += disk().pwrite(handle, view[written:], offset + written)
    return written


class Growing:
    """A file that is written from its beginning to its end."""

    def __init__(self, handle: int) -> None:
        self._handle = handle
        self._end = 0

    def write(self, data: bytes | memoryview) -> int:
        """Write all of `data`. Raise OSError."""
        written = write_all(self._handle, data, self._end)
        self._end += written
        return written

    def tell(self) -> int:
        """Return the number of bytes written."""
        return self._end


@contextlib.contextmanager
def whole(path: Path, mode: int = 0o644) -> Iterator[Growing]:
    """Yield a file that replaces `path`: after a crash the old or the new is there, never a part.

    The file is written beside `path`, synced and renamed; then the folder is synced. It is durable when the
    block is left. An error leaves the old file. Raise DiskFailed, and what a guard of the folder raises.
    """
    with _replacing(path) as temporary:
        handle = disk().open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        try:
            yield Growing(handle)
            disk().sync(handle)
            disk().chmod(handle, mode)
        finally:
            disk().close(handle)


@contextlib.contextmanager
def whole_by_name(path: Path) -> Iterator[Path]:
    """Yield the name of a file that does not exist yet, for a library that writes files by itself.

    When the block is left, the file replaces `path`, as that of `whole` does. Raise as `whole`.
    """
    with _replacing(path) as temporary:
        yield temporary
        handle = disk().open(temporary, os.O_RDWR)
        try:
            disk().sync(handle)
        finally:
            disk().close(handle)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """Yield the name of a file beside `path` that replaces it when the block is left without an error."""
    require_allowed(path)
    temporary = path.with_name(f".{path.name[:80]}.{secrets.token_hex(6)}.tmp")
    try:
        yield temporary
        require_allowed(path)
        disk().rename(temporary, path)
        disk().sync_folder(path.parent)
    except OSError as error:
        _forget(temporary)
        raise failed(path, "written", error) from error
    except BaseException:
        _forget(temporary)
        raise


@contextlib.contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a folder to fill, which becomes `folder`: after a crash all of it or nothing.

    `folder` must be absent or empty. The new folder is made beside it, renamed, and its name synced. It is
    durable when the block is left. An error leaves nothing. Raise Mistake when that place cannot hold it,
    DiskFailed for all else.
    """
    fresh = folder.with_name(f".{folder.name[:80]}.{secrets.token_hex(4)}.creating")
    try:
        with _in_its_place(folder):
            _make(fresh)
        yield fresh
        with _in_its_place(folder):
            disk().rename(fresh, folder)
            disk().sync_folder(folder.parent)
    except BaseException:
        remove_tree(fresh)
        raise


@contextlib.contextmanager
def _in_its_place(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _OF_THE_PLACE:
            raise Mistake(f"{folder}: cannot be made: {error.strerror}; choose another folder") from None
        raise failed(folder, "made", error) from error


def write_whole(path: Path, parts: Iterable[bytes], mode: int = 0o644) -> None:
    """Write the bytes of `parts` to `path`, as `whole` does."""
    with whole(path, mode) as file:
        for part in parts:
            file.write(part)


def link_or_copy(source: Path, target: Path, mode: int = 0o644) -> bool:
    """Give the immutable file `source` the name `target` too; copy it where no link can be made.

    Return whether it is a link: then no bytes are written. Its name is durable once the folder is synced.
    Raise FileNotFoundError if `source` does not exist, DiskFailed.
    """
    require_allowed(target)
    if not source.exists():
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(source))
    try:
        disk().link(source, target)
        return True
    except FileNotFoundError:  # removed since
        raise
    except OSError as error:
        if error.errno not in _NO_LINK:
            raise failed(target, "linked", error) from error
    with open(source, "rb") as file:
        write_whole(target, iter(lambda: file.read(_BLOCK_BYTES), b""), mode)
    return False


def write_json(path: Path, value: Any) -> None:
    """Write `value` as JSON to `path`, as `whole` does."""
    write_whole(path, [json.dumps(value, indent=1).encode()])


def failed(path: Path, what: str, error: OSError) -> DiskFailed:
    """Return the error for a `path` that could not be `what`: written, synced, ..."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
    remedy = "; make room, then go on: what was acknowledged is safe" if full else ""
    return DiskFailed(f"{path}: cannot be {what}: {error.strerror or error}{remedy}")


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable. Raise DiskFailed."""
    try:
        disk().sync_folder(folder)
    except OSError as error:
        raise failed(folder, "synced", error) from error


def make_folder(folder: Path) -> None:
    """Make `folder` and its parents with durable names; do nothing if it exists. Raise DiskFailed."""
    try:
        _make(folder)
    except OSError as error:
        raise failed(folder, "made", error) from error


def make_new_folder(folder: Path) -> None:
    """Make a folder that a user has named, as `make_folder` does. Raise Mistake if it cannot be there."""
    with _in_its_place(folder):
        _make(folder)


def _make(folder: Path) -> None:
    if os.path.isdir(folder):  # Path.is_dir raises for names that are too long
        return
    _make(folder.parent)
    with contextlib.suppress(FileExistsError):  # another process was faster
        disk().mkdir(folder)
    disk().sync_folder(folder.parent)


def remove_tree(folder: Path) -> None:
    """Remove `folder` and everything in it, as far as possible: for folders that never became visible."""
    for parent, folders, files in os.walk(folder, topdown=False):
        for remove, names in ((disk().unlink, files), (disk().rmdir, folders)):
            for name in names:
                with contextlib.suppress(OSError):
                    remove(Path(parent, name))
    with contextlib.suppress(OSError):
        disk().rmdir(folder)


def _forget(temporary: Path) -> None:
    with contextlib.suppress(OSError):  # what failed before may fail again; `gc` finds what stays
        disk().unlink(temporary)
