"""Disks that count their calls, and one of whose calls goes wrong as planned; disks that fill up."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from storage.disk import Disk


class Effect(StrEnum):
    """What goes wrong at a call."""

    EIO = "EIO"  # nothing is done
    ENOSPC = "ENOSPC"  # nothing is done
    UNSURE = "done, but EIO"  # as network file systems do it when the reply is lost
    SHORT = "a short write"  # half is written, and said so
    TORN = "a short write, then ENOSPC"
    DIE_BEFORE = "death before"
    DIE_HALFWAY = "death half-way through"  # of a write; another call is done before
    DIE_AFTER = "death after"


FAILURES = (Effect.EIO, Effect.ENOSPC, Effect.UNSURE, Effect.SHORT, Effect.TORN)
DEATHS = (Effect.DIE_BEFORE, Effect.DIE_HALFWAY, Effect.DIE_AFTER)


@dataclass(frozen=True)
class Fault:
    """The `call`-th call from now on, counted from 0 (of `kind`; None: of any), goes wrong."""

    call: int
    effect: Effect
    kind: str | None = None


class Killed(BaseException):
    """The process has died at this point, as far as the disk is concerned."""


class FaultyDisk(Disk):
    """`inner`, but for one call.

    `plan` says which; `fault` is None again once it has happened, and `happened` says where. Of a death
    that is played nothing more reaches the disk until `revive`: what handlers of exceptions would still
    do, a dead process does not.
    """

    def __init__(self, inner: Disk | None = None) -> None:
        self.inner = inner or Disk()
        self.log: list[tuple[str, Path]] = []  # kind and file of each call
        self.fault: Fault | None = None
        self.happened: str | None = None
        self._open: dict[int, tuple[Path, tuple[int, int]]] = {}
        self._until = 0
        self._dead = False
        self._full = False

    @property
    def calls(self) -> int:
        return len(self.log)

    def plan(self, fault: Fault) -> None:
        self.fault, self._until, self.happened = fault, fault.call, None

    def revive(self) -> None:
        """Another process begins; the system has closed what the dead one had open."""
        self._dead, self.fault = False, None
        for handle, (_, file) in self._open.items():
            with contextlib.suppress(OSError):
                if _file(handle) == file:
                    self.inner.close(handle)
        self._open.clear()

    def _due(self, kind: str) -> bool:
        if self.fault is None or self.fault.kind not in (None, kind):
            return False
        self._until -= 1
        return self._until < 0

    def _call(self, kind: str, *arguments: Any) -> Any:
        call = getattr(self.inner, kind)
        if self._dead:
            if kind == "close":  # the system closes a dead process's files
                return call(*arguments)
            raise Killed
        path = arguments[0] if isinstance(arguments[0], Path) else self._path(arguments[0])
        self.log.append((kind, path))
        if self._full and kind == "pwrite":
            self._full = False
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        if not self._due(kind):
            return call(*arguments)
        assert self.fault is not None
        effect, self.fault = self.fault.effect, None
        self.happened = f"{effect} at call {self.calls - 1}, {kind}({path})"
        if kind == "pwrite" and effect in (Effect.SHORT, Effect.TORN, Effect.DIE_HALFWAY):
            return self._write_half(effect, *arguments)
        if effect == Effect.SHORT:  # only writes have one
            return call(*arguments)
        if effect in (Effect.UNSURE, Effect.DIE_HALFWAY, Effect.DIE_AFTER) or kind == "close":
            try:  # closing is done always: even where it fails the handle is gone
                done = call(*arguments)
                if kind == "open":  # nobody gets to know the handle
                    self.inner.close(done)
            finally:
                if effect in DEATHS:
                    self._end()
        elif effect in DEATHS:
            self._end()
        if kind in ("sync", "sync_data") and effect != Effect.UNSURE:
            self._lose(*arguments)
        number = errno.ENOSPC if effect in (Effect.ENOSPC, Effect.TORN) else errno.EIO
        raise OSError(number, os.strerror(number))

    def _write_half(self, effect: Effect, handle: int, data: bytes | memoryview, offset: int) -> int:
        written = self.inner.pwrite(handle, memoryview(data)[: (len(data) + 1) // 2], offset)
        self._full = effect == Effect.TORN
        if effect == Effect.DIE_HALFWAY:
            self._end()
        return written

    def _path(self, handle: int) -> Path:
        return self._open[handle][0] if handle in self._open else Path("?")

    def _end(self) -> None:
        self._dead = True
        raise Killed

    def _lose(self, handle: int) -> None:
        """After a failed sync the pages count as clean, whether or not they were written."""
        lose = getattr(self.inner, "lose", None)
        if lose is not None:
            lose(handle)

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        handle = self._call("open", path, flags, mode)
        self._open[handle] = path, _file(handle)
        return handle

    def close(self, handle: int) -> None:
        try:
            self._call("close", handle)
        finally:
            self._open.pop(handle, None)


def _passing(kind: str) -> Callable[..., Any]:
    return lambda disk, *arguments: disk._call(kind, *arguments)


for _kind in (
    *("pwrite", "truncate", "sync", "sync_data", "sync_folder", "chmod", "rename", "link"),
    *("unlink", "mkdir", "rmdir"),
):
    setattr(FaultyDisk, _kind, _passing(_kind))


def _file(handle: int) -> tuple[int, int]:
    """Tells an open file from another that was given the same handle later."""
    status = os.fstat(handle)
    return status.st_dev, status.st_ino


class FullDisk(Disk):
    """A disk with `room` bytes left. What is unlinked gives its bytes back."""

    def __init__(self, room: int) -> None:
        self.room = room

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        if flags & os.O_CREAT and not path.exists():
            self._need()
        return super().open(path, flags, mode)

    def pwrite(self, handle: int, data: bytes | memoryview, offset: int) -> int:
        fresh = max(0, offset + len(data) - max(offset, os.fstat(handle).st_size))
        if fresh > self.room:
            self._need()
            data = memoryview(data)[: len(data) - fresh + self.room]
            fresh = self.room
        self.room -= fresh
        return super().pwrite(handle, data, offset)

    def truncate(self, handle: int, size: int) -> None:
        before = os.fstat(handle).st_size
        super().truncate(handle, size)
        self.room += max(0, before - size)

    def unlink(self, path: Path) -> None:
        size = path.lstat().st_size
        super().unlink(path)
        self.room += size

    def mkdir(self, path: Path) -> None:
        self._need()
        super().mkdir(path)

    def _need(self) -> None:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
