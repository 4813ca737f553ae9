"""Bringing a remote level with a run's folder, object after object.

The order is safe at any moment: learners' states, then for each piece of the ledger the snapshots that it
names, then the piece.

So no learner's state in the remote is older than a snapshot of that learner there, and every snapshot
that the remote's ledger names is complete. What is there already is not sent again.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from storage.errors import Mistake
from storage.layout import CONFIG, FORMAT, LEARNERS, LEDGER, MANIFESTS, OBJECTS, blob_path, file_name
from storage.ledger.segments import Segment
from storage.remote.chunks import Holding, chunk_name, cut, last_batch_id, seal_name
from storage.remote.claims import Claim
from storage.remote.remote import Remote, RemoteTaken, object_name
from storage.snapshots import blobs, manifests

Extent = list[tuple[Path, int]]
"""The files that a copy of the ledger needs, in order, each with its acknowledged bytes."""


class Shipper:
    """The part of the run at `run` that `remote` holds, and the sending of the rest. For one thread.

    All methods raise RemoteFailed, and RemoteTaken if `claim` is lost or bytes of another writer are found.
    """

    def __init__(self, run: Path, remote: Remote, claim: Claim) -> None:
        self._run = run
        self._remote = remote
        self._claim = claim
        self._there = Holding()
        self._manifests: set[str] = set()  # of snapshots in the ledger, those that are there
        self._sent: set[str] = set()  # manifests that this process has sent
        self._learners: dict[str, bytes] = {}  # file -> head as it is there; b"" for tensors
        self.sent_bytes = 0

    def begin(self, extent: Extent, snapshot_ids: Collection[str]) -> None:
        """List what is there, and remove what an earlier writer left half done.

        `extent`, `snapshot_ids`: the run's ledger, and the snapshots in it. Raise Mistake if the remote holds
        another run, or more of this one.
        """
        for name in (CONFIG, FORMAT):
            if not self._remote.create(name, (self._run / name).read_bytes()):
                raise _other_run(self._remote, name)
        self._there = Holding.of(self._remote.list(LEDGER))
        behind = self._there.drop_behind_gaps()
        self._require_same(dict(extent))
        for number, offset in behind:  # sent again, together with what is missing
            self._remote.delete(chunk_name(number, offset))
        for number, names in self._there.parts.items():
            if number not in self._there.seals:
                self._delete(names)
        for number in self._there.seals & self._there.chunks.keys():
            self._delete_chunks(number)
        expected = {f"{MANIFESTS}/{file_name(snapshot_id)}.json" for snapshot_id in snapshot_ids}
        self._manifests = expected & set(self._remote.list(MANIFESTS))
        for name in self._remote.list(LEARNERS):
            self._learners[name] = (self._remote.get(name) or b"") if name.endswith(".json") else b""

    def num_snapshots(self) -> int:
        """Return the number of the ledger's snapshots that are there."""
        return len(self._manifests)

    def missing_bytes(self, extent: Extent) -> int:
        """Return the number of the ledger's bytes that are missing there."""
        missing = 0
        for path, size in extent:
            number = _number(path)
            if number not in self._there.seals:
                missing += size - (self._there.end(number) if path.suffix == ".journal" else 0)
        return missing

    def ship(self, extent: Extent) -> None:
        """Send what is missing of a ledger that reached to `extent` a moment ago, and of all learners."""
        self._ship_learners()
        segments: dict[int, Extent] = {}
        for path, size in extent:
            segments.setdefault(_number(path), []).append((path, size))
        for number, files in segments.items():
            if number in self._there.seals:
                continue
            try:
                if files[0][0].suffix == ".journal":
                    self._ship_journal(number, *files[0])
                else:
                    self._seal(number, [path for path, _ in files])
            except FileNotFoundError:
                if all(path.exists() for path, _ in files):
                    raise
                return  # compacted meanwhile: the next look finds it so

    # ------------------------------------------------------------------ the ledger

    def _ship_journal(self, number: int, path: Path, end: int) -> None:
        offset = self._there.end(number)
        while offset < end:
            data, snapshots = cut(path, offset, end)
            for row in snapshots:
                self._ship_snapshot(row)
            self._create(chunk_name(number, offset), data)
            self._there.chunks.setdefault(number, {})[offset] = len(data)
            offset += len(data)

    def _seal(self, number: int, paths: list[Path]) -> None:
        """Send a compacted segment, its JSON last; then its chunks are no longer needed."""
        seal = self._run / seal_name(number)
        for path in paths:
            if path.name == f"{number:08d}.snapshots.parquet":
                for row in pq.read_table(path, columns=["snapshot_id", "blob_hash", "bytes"]).to_pylist():
                    self._ship_snapshot(row)
        for path in [*(path for path in paths if path != seal), seal]:
            self._create(f"{LEDGER}/{path.name}", path.read_bytes())
        self._there.seals.add(number)
        self._delete_chunks(number)

    def _ship_snapshot(self, row: dict[str, Any]) -> None:
        """Send the blob, then the manifest."""
        name = f"{MANIFESTS}/{file_name(row['snapshot_id'])}.json"
        if name in self._sent:
            return
        blob = object_name(row["blob_hash"])
        if self._remote.size(blob) != row["bytes"]:
            path = blob_path(self._run / OBJECTS, row["blob_hash"])
            blobs.verify(path)
            self._remote.put(blob, path)
            self.sent_bytes += row["bytes"]
        manifests.read(self._run / name)
        manifest = (self._run / name).read_bytes()
        if name in self._manifests and self._remote.get(name) != manifest:
            self._claim.require()
            self._remote.delete(name)  # of a writer before, whose freeze never got into the ledger there
        self._create(name, manifest)
        self._manifests.add(name)
        self._sent.add(name)

    # ------------------------------------------------------------------ learners

    def _ship_learners(self) -> None:
        for path in sorted((self._run / LEARNERS).glob("*.json")):
            name = f"{LEARNERS}/{path.name}"
            while self._learners.get(name) != (head := path.read_bytes()):
                try:
                    self._ship_learner(name, head)
                except FileNotFoundError:  # its tensors are gone: a newer state took its place
                    if path.read_bytes() == head:
                        raise

    def _ship_learner(self, name: str, head: bytes) -> None:
        """Send the tensors, then the head that names them; then remove those that the head named before."""
        tensors = f"{LEARNERS}/{json.loads(head)['file']}"
        size = (self._run / tensors).stat().st_size
        self._claim.require()
        self._remote.put(tensors, self._run / tensors)
        self._learners[tensors] = b""
        self._claim.require()
        self._remote.put(name, head)
        self._learners[name] = head
        self.sent_bytes += size + len(head)
        mine = re.compile(re.escape(name.removesuffix(".json")) + r"\.\d+\.safetensors")
        stale = [other for other in self._learners if mine.fullmatch(other) and other != tensors]
        self._delete(stale)
        for other in stale:
            del self._learners[other]

    # ------------------------------------------------------------------ one object

    def _create(self, name: str, data: bytes) -> None:
        self._claim.require()
        if not self._remote.create(name, data):
            raise RemoteTaken(
                f"{self._remote.url}/{name}: something else is there, so another process writes this remote; "
                f"nothing more is uploaded from here, all facts are in {self._run}"
            )
        self.sent_bytes += len(data)

    def _delete(self, names: Collection[str]) -> None:
        for name in sorted(names):
            self._remote.delete(name)

    def _delete_chunks(self, number: int) -> None:
        offsets = self._there.chunks.pop(number, {})
        self._delete([chunk_name(number, offset) for offset in offsets])

    # ------------------------------------------------------------------ whose run it is

    def _require_same(self, here: dict[Path, int]) -> None:
        """Raise Mistake unless the ledger `here` continues the remote's."""
        number = self._there.last()
        if number in self._there.seals:
            name, seal = seal_name(number), self._run / seal_name(number)
            if not seal.exists() or self._remote.get(name) != seal.read_bytes():
                raise _other_run(self._remote, name)
        elif number:
            offset = max(self._there.chunks[number])
            name = chunk_name(number, offset)
            if not self._has(here, number, offset, self._remote.get(name) or b""):
                raise _other_run(self._remote, name)

    def _has(self, here: dict[Path, int], number: int, offset: int, chunk: bytes) -> bool:
        """Return True if the ledger `here` has these frames at `offset` of the journal of that number."""
        folder = self._run / LEDGER
        journal = folder / f"{number:08d}.journal"
        if journal in here:
            with contextlib.suppress(FileNotFoundError), open(journal, "rb") as file:
                file.seek(offset)
                return offset + len(chunk) <= here[journal] and file.read(len(chunk)) == chunk
        if not (self._run / seal_name(number)).exists():
            return False
        return last_batch_id(chunk) in Segment.load(folder, number).batch_ids().values()


def require_own(remote: Remote, run: Path) -> None:
    """Raise Mistake if another run was begun in `remote`, before anything is written there."""
    if remote.get(CONFIG) not in (None, (run / CONFIG).read_bytes()):
        raise _other_run(remote, CONFIG)


def _other_run(remote: Remote, name: str) -> Mistake:
    return Mistake(
        f"{remote.url}/{name}: the remote holds another run, or more of this one; choose another remote, "
        "or restore what is there to a new folder and go on with that"
    )


def _number(path: Path) -> int:
    return int(path.name.split(".")[0])
