"""The mirror of a remote run, for readers here: settings and ledger, kept up to date.

Manifests and weights are fetched when they are needed.

The ledger is read first. Everything that it names was in the remote before it, so what is brought is a
state in which the run once was, also while it is being written.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from blake3 import blake3

from storage.cache.disk_budget import cache_folder
from storage.disk import (
    Progress,
    disk,
    failed,
    make_folder,
    remove_tree,
    sync_folder,
    whole,
    write_all,
    write_json,
    write_whole,
)
from storage.errors import CorruptLedger, NotARun
from storage.layout import (
    CONFIG,
    FORMAT,
    LEDGER,
    MANIFESTS,
    OBJECTS,
    ORIGIN,
    blob_path,
    manifest_path,
    origin,
    require_run,
)
from storage.ledger import frames
from storage.ledger.segments import Segment
from storage.reader import ArchiveReader, read_competitors
from storage.records import Snapshot
from storage.remote.chunks import Holding, chunk_name, seal_name
from storage.remote.remote import Remote, RemoteMissing, fetch_blob, object_name
from storage.snapshots import blobs, manifests

LOOKS = 5  # at one and the same thing that is not as it was listed


class _Changed(Exception):
    """The remote's ledger was compacted or continued while it was listed: look again."""


def mirror(url: str, folder: str | Path, progress: Progress | None = None) -> Path:
    """Update `folder` to the settings and ledger of the run at `url`, and return it, for readers.

    What is here already is not fetched again; manifests and weights are fetched later (`bring_manifest`,
    `bring_blob`). `folder` is a cache: if it holds another run, it is replaced. Raise NotARun if no run is
    there, CorruptLedger, RemoteFailed.
    """
    folder, remote = Path(folder), Remote(url)
    make_folder(folder)
    with _locked(folder):
        begun = remote.modified(CONFIG)
        if begun is None:
            raise _no_run(remote, CONFIG)
        came_from = {"url": remote.url, "begun": begun.isoformat()}
        if not _is_of(folder, came_from):
            for name in (LEDGER, MANIFESTS):
                remove_tree(folder / name)
            for name in (LEDGER, MANIFESTS, OBJECTS):
                make_folder(folder / name)
            write_json(folder / ORIGIN, came_from)
        bring_facts(remote, folder, progress)
    return folder


def local_mirror(url: str, progress: Progress | None = None) -> Path:
    """Return the mirror of `url` in the user's cache folder, brought up to date. Raise as `mirror` does."""
    name = blake3(url.rstrip("/").encode()).hexdigest()[:32]
    return mirror(url, cache_folder() / "mirrors" / name, progress)


class MirrorReader(ArchiveReader):
    """A reader of a mirror, which fetches manifests from the remote when they are first needed."""

    def manifest(self, snapshot_id: str) -> dict[str, Any]:
        """Return what a program needs to use the snapshot. Raise CorruptManifest, RemoteFailed."""
        return manifests.read(bring_manifest(self.run, snapshot_id))

    def verify_blob(self, snapshot: Snapshot) -> blobs.Table | None:
        """Hash the weights, in the remote if they are not in this folder. Raise CorruptBlob, RemoteFailed."""
        url = origin(self.run)
        if url is None or self.blob_path(snapshot).exists():
            return super().verify_blob(snapshot)
        fetch_blob(url, snapshot.blob_hash, lambda piece: None)
        return None


def open_mirror(folder: Path) -> MirrorReader:
    """Return a reader of the mirror in `folder`. Raise NotARun, CorruptLedger."""
    require_run(folder)
    return MirrorReader(folder, read_competitors(folder))


def bring_manifest(run: Path, snapshot_id: str) -> Path:
    """Return the path of that manifest in the run folder `run`; a mirror fetches it if needed.

    Raise CorruptManifest, RemoteFailed.
    """
    path = manifest_path(run, snapshot_id)
    if not path.exists() and (url := origin(run)) is not None:
        fetch_manifest(Remote(url), run, snapshot_id)
    return path


def fetch_manifest(remote: Remote, run: Path, snapshot_id: str) -> None:
    """Fetch a manifest into the folder `run`, if it is whole. Raises CorruptManifest, RemoteFailed."""
    path = manifest_path(run, snapshot_id)
    name = f"{MANIFESTS}/{path.name}"
    data = require(remote, name)
    manifests.parse(data, f"{remote.url}/{name}")
    write_whole(path, [data])


def bring_blob(run: Path, blob_hash: str) -> Path:
    """Return the path of that blob in the run folder `run`; a mirror fetches it if needed.

    Raise CorruptBlob, RemoteFailed.
    """
    path, url = blob_path(run / OBJECTS, blob_hash), origin(run)
    if url is not None and not path.exists():
        fetch_into(Remote(url), run, blob_hash)
    return path


def fetch_into(remote: Remote, run: Path, blob_hash: str) -> None:
    """Fetch a blob into the folder `run`, hashed on the way. Raises CorruptBlob, RemoteFailed."""
    name = object_name(blob_hash)
    make_folder((run / name).parent)
    with whole(run / name, mode=0o444) as file:
        remote.fetch(name, blob_hash, file.write)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Let one process at a time update the folder."""
    handle = disk().open(folder / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        disk().close(handle)


def _is_of(folder: Path, came_from: dict[str, Any]) -> bool:
    try:
        return json.loads((folder / ORIGIN).read_text()) == came_from
    except (OSError, ValueError):
        return False


def bring_facts(remote: Remote, run: Path, progress: Progress | None) -> None:
    """Fetch settings and ledger."""
    for name in (CONFIG, FORMAT):
        data = remote.get(name)
        if data is None:
            raise _no_run(remote, name)
        write_whole(run / name, [data])
    require_run(run)
    _bring_ledger(remote, run, progress)


def _no_run(remote: Remote, name: str) -> NotARun:
    return NotARun(f"{remote.url}: no {name} there, expected what a run has as its storage.remote")


def _bring_ledger(remote: Remote, run: Path, progress: Progress | None) -> None:
    changes: list[str] = []
    while True:
        holding = Holding.of(remote.list(LEDGER))
        try:
            sequence, last = 0, holding.last()
            for number in range(1, last + 1):
                sequence = _bring_segment(remote, run, holding, number, sequence)
                if progress is not None:
                    progress("fetching the ledger", number, last)
            break
        except _Changed as change:
            changes.append(str(change))
            if changes.count(changes[-1]) == LOOKS:
                raise CorruptLedger(
                    f"{remote.url}: {change}; bring it back, or go on from the run's own folder"
                ) from None
    if sequence == 0:
        raise NotARun(f"{remote.url}: the run there has no ledger yet; wait until its writer has sent some")
    if last in holding.seals:  # a ledger ends with a journal; an empty one is not sent
        _brought(remote, run, last + 1, {})
    sync_folder(run / LEDGER)


def _bring_segment(remote: Remote, run: Path, holding: Holding, number: int, previous: int) -> int:
    """Update one segment, which begins behind sequence `previous`; return the last sequence in it."""
    if number in holding.seals:
        return _bring_sealed(remote, run, number, holding.parts.get(number, []))
    chunks, end = holding.chunks.get(number, {}), holding.end(number)
    if not chunks or end < max(offset + size for offset, size in chunks.items()):
        raise _Changed(f"{chunk_name(number, end)} is missing")
    journal = _brought(remote, run, number, chunks)
    return _last_sequence(remote, journal, previous, end)


def _brought(remote: Remote, run: Path, number: int, chunks: dict[int, int]) -> Path:
    """Return the journal of that number, made of `chunks` (offset -> bytes) that are not here yet."""
    journal = run / LEDGER / f"{number:08d}.journal"
    end = max((offset + size for offset, size in chunks.items()), default=0)
    try:
        handle = disk().open(journal, os.O_RDWR | os.O_CREAT)
        try:
            if os.fstat(handle).st_size > end:
                disk().truncate(handle, 0)
            here = os.fstat(handle).st_size
            for offset in sorted(at for at, size in chunks.items() if at + size > here):
                data = remote.get(name := chunk_name(number, offset))
                if data is None:  # its segment was compacted since it was listed
                    raise _Changed(f"{name} is missing")
                write_all(handle, data, offset)
            disk().sync(handle)
        finally:
            disk().close(handle)
    except OSError as error:
        raise failed(journal, "written", error) from error
    return journal


def _last_sequence(remote: Remote, journal: Path, previous: int, end: int) -> int:
    """Verify a journal of `end` bytes whose first frame follows `previous`; return its last sequence."""
    offset = 0
    try:
        with open(journal, "rb") as file:
            for place, _ in frames.scan(file, journal, previous=None, last=True):
                if place.sequence != previous + 1:
                    raise _Changed(f"frame {previous + 1} is missing, the next is {place.sequence}")
                previous, offset = place.sequence, place.offset + place.size
    except CorruptLedger:  # the next check reports all kinds of damage
        offset = min(offset, end - 1)
    if offset != end:
        _remove(journal)
        raise CorruptLedger(
            f"{remote.url}: damaged frame at byte {offset} of segment {int(journal.stem)}; "
            "go on from the run's own folder, or restore the object from a copy"
        )
    return previous


def _bring_sealed(remote: Remote, run: Path, number: int, parts: list[str]) -> int:
    """Fetch a compacted segment; return the last sequence in it."""
    seal = run / seal_name(number)
    if not seal.exists():
        for name in parts:
            write_whole(run / name, [require(remote, name)], mode=0o444)
        write_whole(seal, [require(remote, seal_name(number))], mode=0o444)
        try:
            Segment.load(run / LEDGER, number)
        except CorruptLedger as error:  # so it looks, too, if a part was created behind the listing's back
            _remove(seal)
            raise _Changed(str(error)) from None
        _remove(run / LEDGER / f"{number:08d}.journal")
    return int(manifests.read(seal)["last"])


def _remove(path: Path) -> None:
    try:
        disk().unlink(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise failed(path, "removed", error) from error


def require(remote: Remote, name: str) -> bytes:
    """Return the object's bytes. Raise RemoteMissing."""
    data = remote.get(name)
    if data is None:
        raise RemoteMissing(f"{remote.url}: {name} is not there, expected it from what names it")
    return data
