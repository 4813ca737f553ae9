"""Power cuts: what a disk may hold afterwards, by nothing but what POSIX promises.

A `PowerDisk` writes to real files and remembers every call. A `Volume` plays such calls again and knows
of each file what is durable and what is not yet; `cut` draws one state that the files may be found in:

- a file's bytes are those of its last sync; each write since may be kept, lost or torn: of its sectors
  (512 B or 4 KB) any may be kept. The size may be old, new or between; where no byte arrived, there are
  zeros or rubbish;
- a folder's names are those of its last sync; of the changes since any may have arrived, in whatever
  order. A rename is atomic, and the file that it names is only as durable as it was synced;
- a sync that failed has forgotten what it could not write: a later one does not write it again.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage.disk import Disk

SECTORS = (512, 4096)


@dataclass(frozen=True, slots=True)
class Call:
    """One call of a disk, in terms of the folder it is about; or, named "note", what a program said."""

    name: str
    arguments: tuple[Any, ...]


class PowerDisk(Disk):
    """A disk on which nothing is durable before it was synced. `calls` is all that happened below `root`,
    which is empty at first; syncing itself costs nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.calls: list[Call] = []
        self._lock = threading.RLock()

    def note(self, *said: Any) -> None:
        """Let `said` be known at this point, to whoever looks at a cut behind it."""
        with self._lock:
            self.calls.append(Call("note", said))

    def lose(self, handle: int) -> None:
        """A sync of `handle` has failed."""
        self._remember("lose", handle)

    def _remember(self, name: str, *arguments: Any) -> None:
        with self._lock:
            self.calls.append(Call(name, arguments))

    def _parts(self, path: Path) -> tuple[str, ...]:
        return path.relative_to(self.root).parts

    def open(self, path: Path, flags: int, mode: int = 0o644) -> int:
        assert not flags & (os.O_TRUNC | os.O_APPEND), "no call of storage's needs these"
        with self._lock:
            fresh = bool(flags & os.O_CREAT) and not path.exists()
            handle = super().open(path, flags, mode)
            self._remember("open", handle, self._parts(path), fresh)
        return handle

    def close(self, handle: int) -> None:
        with self._lock:  # else another thread may be given the same handle before it is noted
            self._remember("close", handle)
            super().close(handle)

    def pwrite(self, handle: int, data: bytes | memoryview, offset: int) -> int:
        with self._lock:
            written = super().pwrite(handle, data, offset)
            self._remember("pwrite", handle, bytes(data[:written]), offset)
        return written

    def sync(self, handle: int) -> None:
        self._remember("sync", handle)

    def sync_data(self, handle: int) -> None:
        self._remember("sync", handle)

    def sync_folder(self, folder: Path) -> None:
        assert folder.is_dir()
        self._remember("sync_folder", self._parts(folder))


def _remembered(kind: str) -> Callable[..., None]:
    def method(disk: PowerDisk, *arguments: Any) -> None:
        with disk._lock:
            getattr(Disk, kind)(disk, *arguments)
            disk._remember(kind, *(disk._parts(a) if isinstance(a, Path) else a for a in arguments))

    return method


for _kind in ("truncate", "rename", "unlink", "mkdir", "rmdir"):
    setattr(PowerDisk, _kind, _remembered(_kind))


@dataclass(eq=False, slots=True)
class File:
    """Its bytes as of the last sync, and what came since: (offset, bytes) written, or a new size."""

    durable: bytes = b""
    pending: list[tuple[int, bytes] | int] = field(default_factory=list)

    def sync(self) -> None:
        self.durable = _written(self.durable, self.pending)
        self.pending = []

    def cut(self, rng: random.Random) -> bytes:
        """Bytes that a power cut may leave."""
        if not self.pending:
            return self.durable
        kept: list[tuple[int, bytes] | int] = []
        for change in _some(rng, self.pending):
            if isinstance(change, int) or rng.random() < 0.3:
                kept.append(change)
            else:
                kept += _sectors(rng, *change)
        found = _written(self.durable, kept, rng.choice((bytes, rng.randbytes)))
        cuts = [change for change in self.pending if isinstance(change, int)]
        ends = [change[0] + len(change[1]) for change in self.pending if not isinstance(change, int)]
        if rng.random() < 0.5:
            lowest, highest = min([len(self.durable), *cuts]), max([len(self.durable), *cuts, *ends])
            size = rng.choice((highest, rng.randint(lowest, highest)))
            found = _written(found, [size], rng.choice((bytes, rng.randbytes)))
        return found


@dataclass(eq=False, slots=True)
class Folder:
    """Its names as of the last sync, now, and the changes between: each of several names at once, to a
    file or folder or (None) to nothing."""

    durable: dict[str, File | Folder] = field(default_factory=dict)
    names: dict[str, File | Folder] = field(default_factory=dict)
    pending: list[dict[str, File | Folder | None]] = field(default_factory=list)

    def change(self, change: dict[str, File | Folder | None]) -> None:
        self.names = _named(self.names, [change])
        self.pending.append(change)

    def sync(self) -> None:
        self.durable, self.pending = self.names, []

    def cut(self, rng: random.Random) -> dict[str, File | Folder]:
        """Names that a power cut may leave."""
        return _named(self.durable, _some(rng, self.pending))


class Volume:
    """The files below one folder, as far as they are durable."""

    def __init__(self, seed: int) -> None:
        self.root = Folder()
        self._open: dict[int, File | None] = {}  # None: a file that was not made through the disk
        self._rng = random.Random(seed)

    def play(self, call: Call) -> None:
        """Let `call` happen."""
        match call.name, call.arguments:
            case "open", (handle, parts, fresh):
                folder, name = self._folder(parts[:-1]), parts[-1]
                if fresh:
                    folder.change({name: File()})
                found = folder.names.get(name)
                self._open[handle] = found if isinstance(found, File) else None
            case "close", (handle,):
                del self._open[handle]
            case "pwrite", (handle, data, offset):
                if file := self._open[handle]:
                    file.pending.append((offset, data))
            case "truncate", (handle, size):
                if file := self._open[handle]:
                    file.pending.append(size)
            case "sync", (handle,):
                if file := self._open[handle]:
                    file.sync()
            case "lose", (handle,):
                if file := self._open[handle]:
                    file.durable, file.pending = file.cut(self._rng), []
            case "sync_folder", (parts,):
                self._folder(parts).sync()
            case "mkdir", (parts,):
                self._folder(parts[:-1]).change({parts[-1]: Folder()})
            case (("unlink" | "rmdir"), (parts,)):
                folder = self._folder(parts[:-1])
                if parts[-1] in folder.names:
                    folder.change({parts[-1]: None})
            case "rename", (source, target):
                assert source[:-1] == target[:-1], "a rename across folders needs a rule of its own"
                folder = self._folder(source[:-1])
                if source[-1] in folder.names:
                    folder.change({source[-1]: None, target[-1]: folder.names[source[-1]]})
            case "note", _:
                pass
            case _:
                raise AssertionError(f"unknown call: {call}")

    def cut(self, rng: random.Random) -> dict[str, bytes | None]:
        """path -> bytes (None: a folder), parents first: one state that a power cut now may leave."""
        found: dict[str, bytes | None] = {}
        bytes_of: dict[File, bytes] = {}

        def visit(folder: Folder, prefix: str) -> None:
            for name, node in folder.cut(rng).items():
                if isinstance(node, Folder):
                    found[prefix + name] = None
                    visit(node, f"{prefix}{name}/")
                else:
                    if node not in bytes_of:
                        bytes_of[node] = node.cut(rng)
                    found[prefix + name] = bytes_of[node]

        visit(self.root, "")
        return found

    def _folder(self, parts: Sequence[str]) -> Folder:
        folder = self.root
        for name in parts:
            below = folder.names[name]
            assert isinstance(below, Folder)
            folder = below
        return folder


def lay_out(found: dict[str, bytes | None], folder: Path) -> Path:
    """Make these files in `folder`, which must not exist; returns it."""
    folder.mkdir()
    for path, data in found.items():
        if data is None:
            (folder / path).mkdir()
        else:
            (folder / path).write_bytes(data)
    return folder


def _some(rng: random.Random, changes: list[Any]) -> list[Any]:
    """None, all, the first of them, or any."""
    how = rng.randrange(4)
    if how == 0:
        return []
    if how == 1:
        return changes
    if how == 2:
        return changes[: rng.randint(0, len(changes))]
    return [change for change in changes if rng.random() < 0.5]


def _sectors(rng: random.Random, offset: int, data: bytes) -> list[tuple[int, bytes]]:
    """What arrived of a write: each sector, or not."""
    size = rng.choice(SECTORS)
    edges = [offset, *range(offset - offset % size + size, offset + len(data), size), offset + len(data)]
    return [
        (start, data[start - offset : end - offset])
        for start, end in itertools.pairwise(edges)
        if rng.random() < 0.5
    ]


def _written(before: bytes, changes: Sequence[tuple[int, bytes] | int], fill: Any = bytes) -> bytes:
    """`before` with `changes`; `fill(n)` makes n bytes where nobody wrote."""
    found = bytearray(before)
    for change in changes:
        if isinstance(change, int):
            del found[change:]
            found += fill(change - len(found))
        else:
            offset, data = change
            if offset > len(found):
                found += fill(offset - len(found))
            found[offset : offset + len(data)] = data
    return bytes(found)


def _named(
    before: dict[str, File | Folder], changes: list[dict[str, File | Folder | None]]
) -> dict[str, File | Folder]:
    found: dict[str, File | Folder | None] = dict(before)
    for change in changes:
        found.update(change)
    return {name: node for name, node in found.items() if node is not None}
