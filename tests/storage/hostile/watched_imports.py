"""Strangers' folders, read and taken in one by one, and all that this process does meanwhile."""

from __future__ import annotations

import os
import pickle
import resource
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from storage.archive import Archive
from storage.errors import StorageError
from storage.ledger.lock import LOCK
from storage.upkeep.exports import read_export
from storage.upkeep.imports import import_snapshot
from tests.storage.hostile.malicious_exports import Bomb

FORBIDDEN = (
    *("pickle.find_class", "compile", "exec", "import", "code.__new__", "ctypes.dlopen", "marshal.loads"),
    *("os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "subprocess.Popen"),
    *("socket.connect", "socket.bind", "shutil.copyfile", "shutil.unpack_archive", "urllib.Request"),
)
WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


class Watch:
    """What Python's audit hooks tell of this process, while it is watched, that no reader has to do."""

    def __init__(self, run: Path) -> None:
        self._inside = str(run.resolve())
        self._seen: list[str] | None = None
        sys.addaudithook(self._hook)

    @contextmanager
    def watching(self) -> Iterator[list[str]]:
        self._seen = []
        try:
            yield self._seen
        finally:
            self._seen = None

    def _hook(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self._seen is None:
            return
        if event in FORBIDDEN:
            self._seen.append(f"{event} {arguments!r:.200}")
        if event == "open" and arguments[2] & WRITING and not str(arguments[0]).startswith(self._inside):
            self._seen.append(f"writes to {arguments[0]}")


def import_all(home: str, honest: str, folders: list[str]) -> list[dict[str, Any]]:
    """Each folder read as an export and imported into `home`/run: how that ended, and what it did to `home`.

    The `honest` one comes first, so that everything that is ever loaded is loaded when the watch begins.
    """
    run, found = Path(home) / "run", []
    with Archive.open(run) as archive:
        read_export(Path(honest))
        import_snapshot(archive, Path(honest))
        watch = Watch(run)
        for folder in map(Path, folders):
            before, memory = _listing(Path(home)), _peak_bytes()
            with watch.watching() as seen:
                read = _outcome(lambda folder=folder: read_export(folder))
            with watch.watching() as seen_too:
                taken = _outcome(lambda folder=folder: import_snapshot(archive, folder))
            changed = sorted({path for path, _ in before ^ _listing(Path(home))})
            memory = _peak_bytes() - memory
            did = seen + seen_too
            found.append({"read": read, "taken": taken, "changed": changed, "did": did, "memory": memory})
    return found


def provoked(home: str) -> list[str]:
    """What the watch sees of a pickle that is opened, to see whether it sees anything."""
    bomb = pickle.dumps(Bomb(Path(home) / "canary"))
    with Watch(Path(home) / "run").watching() as seen:
        pickle.loads(bomb)
    return seen


def _outcome(work: Callable[[], object]) -> str | None:
    """The message of the one kind of error that may come; None when it worked."""
    try:
        work()
    except StorageError as error:
        return str(error)
    return None


def _listing(home: Path) -> set[tuple[str, tuple[int, ...]]]:
    """Everything there is, with what tells a changed file from an unchanged one."""
    found = set()
    for path in home.rglob("*"):
        status = path.lstat()
        if not path.is_dir() or path.is_symlink():
            # the writer of the run touches LOCK every second, as a sign of life
            changed = 0 if path.name == LOCK else status.st_mtime_ns
            times = (status.st_ino, status.st_size, changed, status.st_mode)
            found.add((str(path.relative_to(home)), times))
    return found


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
