"""The ledger as a remote holds it: compacted segments as they are, journals in chunks of whole frames."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from storage.errors import CorruptLedger
from storage.layout import LEDGER
from storage.ledger import frames

CHUNK_BYTES = 8 * 2**20  # a chunk ends with the frame that reaches this size

_CHUNK = re.compile(rf"{LEDGER}/(\d{{8}})\.journal\.(\d{{20}})")
_PART = re.compile(rf"{LEDGER}/(\d{{8}})\.\w+\.(?:parquet|arrow)", re.ASCII)
_SEAL = re.compile(rf"{LEDGER}/(\d{{8}})\.json")


@dataclass(slots=True)
class Holding:
    """The objects of a ledger that a remote has, by segment number."""

    seals: set[int] = field(default_factory=set)  # the compacted segments
    parts: dict[int, list[str]] = field(default_factory=dict)  # -> their files, also of unsealed ones
    chunks: dict[int, dict[int, int]] = field(default_factory=dict)  # -> offset -> bytes, of journals

    @classmethod
    def of(cls, listing: Mapping[str, int]) -> Holding:
        """Build the holding from name -> bytes of the objects in `ledger`."""
        found = cls()
        for name, size in sorted(listing.items()):
            if match := _CHUNK.fullmatch(name):
                found.chunks.setdefault(int(match[1]), {})[int(match[2])] = size
            elif match := _PART.fullmatch(name):
                found.parts.setdefault(int(match[1]), []).append(name)
            elif match := _SEAL.fullmatch(name):
                found.seals.add(int(match[1]))
        return found

    def last(self) -> int:
        """Return the number of the last segment; 0 if there is none."""
        return max([*self.seals, *self.chunks], default=0)

    def end(self, number: int) -> int:
        """Return the bytes of a segment's journal that are there, from its beginning to the first gap."""
        end = 0
        for offset, size in sorted(self.chunks.get(number, {}).items()):
            if offset != end:
                break
            end += size
        return end

    def drop_behind_gaps(self) -> list[tuple[int, int]]:
        """Forget the chunks that come after missing ones; return their (segment, offset)."""
        behind = [(n, o) for n, offsets in self.chunks.items() for o in offsets if o >= self.end(n)]
        for number, offset in behind:
            del self.chunks[number][offset]
        self.chunks = {number: offsets for number, offsets in self.chunks.items() if offsets}
        return behind


def chunk_name(number: int, offset: int) -> str:
    """Return the name of the object with a segment's frames from byte `offset` of its journal on."""
    return f"{LEDGER}/{number:08d}.journal.{offset:020d}"


def seal_name(number: int) -> str:
    """Return the name of the object that marks segment `number` as compacted and lists its files."""
    return f"{LEDGER}/{number:08d}.json"


def cut(path: Path, offset: int, end: int) -> tuple[bytes, list[dict[str, Any]]]:
    """Return whole frames of a journal from `offset` on, and their rows of `snapshots`.

    The frames reach up to `end`, or hold about CHUNK_BYTES. Raise CorruptLedger, FileNotFoundError.
    """
    stop = offset
    snapshots: list[dict[str, Any]] = []
    with open(path, "rb") as file:
        for place, payload in frames.scan(file, path, offset=offset, previous=None, last=True):
            stop = place.offset + place.size
            snapshots += rows_of_snapshots(place, payload)
            if stop >= end or stop - offset >= CHUNK_BYTES:
                break
        if stop == offset or stop > end:
            raise CorruptLedger(f"{path}: damaged frame at offset {stop}; restore the file from a copy")
        file.seek(offset)
        return file.read(stop - offset), snapshots


def rows_of_snapshots(place: frames.FrameOffset, payload: bytes) -> list[dict[str, Any]]:
    """Return the rows of `snapshots` in a frame."""
    if "snapshots" not in place.names:
        return []
    return frames.decode(place, payload, ("snapshots",)).tables["snapshots"].to_pylist()


def last_batch_id(data: bytes) -> bytes:
    """Return the batch id of the last frame of a chunk; empty if it holds no whole frame."""
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.flush()
        places = [place for place, _ in frames.scan(file, Path("chunk"), previous=None, last=True)]
    return places[-1].batch_id if places else b""
