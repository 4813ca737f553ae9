"""Reading a ledger without its lock, also while it is written: by frame, by table, or what is new.

A segment may be compacted at any moment between looking and opening: what is not there as a journal
is looked for as Parquet files before it is called missing.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from storage.errors import CorruptLedger, NotARun, StorageError
from storage.ledger.frames import Frame, FrameOffset, decode, open_stream, scan, streams
from storage.ledger.journal import journal_path
from storage.ledger.parquet import PendingRows, plain
from storage.ledger.segments import Segment, manifest_path

_SEGMENT = re.compile(r"(\d{8})\.(?:journal|json)")


class Follower:
    """A reader beside a writer: each `look` returns what has come since the one before.

    A frame is returned once, by itself or within a compacted segment. A segment whose frames were returned
    already is still reported when it is compacted, so that a caller that keeps frames can drop those up to
    its `last`. No lock is taken and nothing is changed. After an error, make a new follower. Raise
    CorruptLedger.
    """

    def __init__(self, folder: Path) -> None:
        numbers_of(folder)
        self.folder = folder
        self.last = 0  # sequence given last
        self._compacted = 0  # number of the last compacted segment given
        self._covered = 0  # its last sequence
        self._number, self._offset = 1, 0  # where to read on
        self._whole: tuple[int, int] | None = None  # the first segment that is not summed up, its manifest

    def look(self) -> tuple[list[Segment], list[tuple[FrameOffset, bytes]]]:
        """Return (newly compacted segments, new frames behind them), each in order.

        Files of segments are not compared with their hashes yet (`Segment.verify`). Frames are whole
        according to their hashes and not decoded. A call without news costs a few stats.
        """
        segments: list[Segment] = []
        payloads: list[tuple[FrameOffset, bytes]] = []
        while not self._read(segments, payloads):
            pass
        return segments, [(place, payload) for place, payload in payloads if place.sequence > self._covered]

    def stale(self) -> bool:
        """Return whether a segment that was returned has been summed up since: then make a new follower."""
        if self._whole is None:
            return False
        number, file = self._whole
        try:
            return manifest_path(self.folder, number).stat().st_ino != file
        except FileNotFoundError:
            raise missing(self.folder, number) from None

    def _read(self, segments: list[Segment], payloads: list[tuple[FrameOffset, bytes]]) -> bool:
        """Take in what is new; return False if a journal was compacted and there is more to read."""
        while manifest_path(self.folder, self._compacted + 1).exists():
            file = manifest_path(self.folder, self._compacted + 1).stat().st_ino  # before it is read
            segment = Segment.load(self.folder, self._compacted + 1, verify=False)
            if self._whole is None and segment.summed is None:
                self._whole = segment.number, file
            segments.append(joined(segment, self._covered))
            self._compacted, self._covered = segments[-1].number, segments[-1].last
        if self._number <= self._compacted:
            self._number, self._offset, self.last = self._compacted + 1, 0, self._covered
        while True:
            path = journal_path(self.folder, self._number)
            closed = journal_path(self.folder, self._number + 1).exists()  # before reading: then all is there
            try:
                self._read_journal(path, payloads, last=not closed)
            except FileNotFoundError:
                if manifest_path(self.folder, self._compacted + 1).exists():
                    return False
                if self._number > 1 or self._offset:
                    raise missing(self.folder, self._number) from None
                return True  # an empty folder
            if not closed:
                return not manifest_path(self.folder, self._compacted + 1).exists()
            self._number, self._offset = self._number + 1, 0

    def _read_journal(self, path: Path, payloads: list[tuple[FrameOffset, bytes]], last: bool) -> None:
        size = path.stat().st_size
        if size < self._offset:
            raise CorruptLedger(f"{path}: found {size} bytes where {self._offset} were before")
        if size > self._offset:
            with _opened(path) as file:
                for place, payload in scan(file, path, offset=self._offset, previous=self.last, last=last):
                    payloads.append((place, payload))
                    self._offset, self.last = place.offset + place.size, place.sequence


def read_frames(folder: Path, after: int = 0, tables: Collection[str] | None = None) -> Iterator[Frame]:
    """Yield what `Ledger.frames` yields, without a lock and also beside a writer."""
    for part in walk(folder):
        if isinstance(part, Segment):
            yield from part.frames(after, tables)
        else:
            place, payload = part
            if place.sequence > after and (tables is None or not set(tables).isdisjoint(place.names)):
                yield decode(place, payload, tables)


def read_tables(folder: Path, names: Collection[str]) -> dict[str, pa.Table]:
    """Return all rows of these tables in order, dictionaries decoded. A table without rows is left out."""
    found: dict[str, list[pa.Table]] = {name: [] for name in names}
    tail = {name: PendingRows() for name in names}
    for part in walk(folder):
        if isinstance(part, Segment):
            for name in names:
                if part.rows(name):
                    found[name].append(part.table(name))
        else:
            for name, data in streams(part[1], names):
                for batch in open_stream(data):
                    tail[name].add(plain(batch))
    whole = {name: found[name] + tail[name].take() for name in names}
    return {
        name: pa.concat_tables(parts, promote_options="permissive").combine_chunks()
        for name, parts in whole.items()
        if parts
    }


def last_frame(folder: Path) -> tuple[int, bytes]:
    """Return (sequence, batch id) of the last frame; (0, b"") if there is none."""
    segments, payloads = Follower(folder).look()
    if payloads:
        return payloads[-1][0].sequence, payloads[-1][0].batch_id
    return (segments[-1].last, segments[-1].batch_ids()[segments[-1].last]) if segments else (0, b"")


def summed_until(folder: Path) -> int:
    """Return the last frame whose matches were summed up; 0: all are there. Raise CorruptLedger."""
    last = 0
    for number in numbers_of(folder):
        if not manifest_path(folder, number).exists():
            break
        segment = Segment.load(folder, number, verify=False)
        if segment.summed is None:
            break
        last = segment.last
    return last


def walk(folder: Path) -> Iterator[Segment | tuple[FrameOffset, bytes]]:
    """Yield compacted segments, verified, then the frames behind them with their payloads."""
    segments, payloads = Follower(folder).look()
    for segment in segments:
        segment.verify()
        yield segment
    yield from payloads


def _opened(path: Path) -> BinaryIO:
    """Open a segment or a journal. Raise FileNotFoundError, StorageError."""
    try:
        return open(path, "rb")
    except FileNotFoundError:
        raise
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror or error}") from None


def numbers_of(folder: Path) -> range:
    """Return the numbers of the segments. Raise CorruptLedger if one is missing, NotARun if all are.

    A file that changes while its folder is listed may be left out of the list, so the folder is listed again.
    """
    try:
        names = os.listdir(folder)
    except (FileNotFoundError, NotADirectoryError):
        raise NotARun(f"{folder.parent}: no folder {folder.name} in it, the run's facts are lost") from None
    found = {int(match[1]) for name in names if (match := _SEGMENT.fullmatch(name))}
    last = max(found, default=0)
    while manifest_path(folder, last).exists():  # a journal is compacted only when the next one is there
        last += 1
    for number in range(1, last + 1):
        there = number in found or journal_path(folder, number).exists()
        if not there and not manifest_path(folder, number).exists():
            raise missing(folder, number)
    return range(1, last + 1)


def missing(folder: Path, number: int) -> CorruptLedger:
    return CorruptLedger(
        f"{folder}: expected {number:08d}.journal or {number:08d}.json: it is missing; "
        "restore it from a backup"
    )


def joined(segment: Segment, before: int) -> Segment:
    """Return `segment`, which must begin behind frame `before`."""
    if segment.first != before + 1:
        raise CorruptLedger(
            f"{segment.manifest[0]}: begins with frame {segment.first}, expected {before + 1}: "
            "frames are missing"
        )
    return segment
