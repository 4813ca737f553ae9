"""The ledger: an append-only record of facts, frame by frame. It is the truth of a run.

A frame is one batch over several tables, whole or absent: `append` writes it, syncs it and only
then returns its sequence. The folder holds segments 1, 2, 3, ...: compacted ones first, then closed
journals that wait to be compacted, last the journal that is written.

    00000001.json, .<table>.parquet, .frames.arrow     compacted (storage/ledger/segments.py)
    00000002.journal                                   frames as they were appended (storage/ledger/frames.py)
    00000002.journal.torn-<offset>                     what a crash left behind the last whole frame
    LOCK                                               held by the writer (storage/ledger/lock.py)

Where a segment is both journal and compacted, a crash came between: the next writer removes the
journal. Readers need no lock and change nothing, also beside a writer; what is not as it was
written, and no crash can explain, is CorruptLedger.

A writer that was cut off while another went on (storage/ledger/lock.py) gets RunTaken for each frame: it is
checked before the frame is written, so that nothing is, and again before it is acknowledged. A write that was
under way reaches no reader, since the newcomer has put a copy in the place of the last journal.
"""

from __future__ import annotations

import contextlib
import itertools
import logging
import os
import secrets
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from storage.disk import disk, sync_folder, write_all, write_whole
from storage.errors import CorruptLedger, DiskFailed, StorageError
from storage.ledger import lock
from storage.ledger.follower import (
    Follower,
    joined,
    last_frame,
    missing,
    numbers_of,
    read_frames,
    read_tables,
    summed_until,
)
from storage.ledger.frames import BATCH_ID_BYTES, Frame, FrameOffset, encode, streams
from storage.ledger.journal import Journal, journal_path
from storage.ledger.lock import is_written
from storage.ledger.segments import Segment, compact, manifest_path, superseded

__all__ = [
    "Follower",
    "Frame",
    "Ledger",
    "Segment",
    "is_written",
    "last_frame",
    "read_frames",
    "read_tables",
    "summed_until",
]

TORN_KEPT = 8  # files, the newest
_log = logging.getLogger(__name__)


class Ledger:
    """The one writer of the ledger in `folder`, which must exist.

    `owner` appears in the error of any other process that tries to write. A segment is closed at
    `segment_bytes` or `segment_frames`. One thread appends; any thread may read and compact meanwhile. Raise
    RunLocked, CorruptLedger, DiskFailed; later, RunTaken.
    """

    def __init__(
        self, folder: Path, owner: str, segment_bytes: int = 16 * 2**20, segment_frames: int = 8192
    ) -> None:
        self.folder = folder
        self._segment_bytes, self._segment_frames = segment_bytes, segment_frames
        self._file = -1
        self._failed = self._closed = False
        self._compacting = threading.Lock()
        self._segments: list[Segment | Journal] = []
        self._lock = lock.take(folder, owner)
        try:
            if self._lock.in_doubt:
                _renew(folder)
            self._load()
        except OSError as error:
            self.close()
            raise DiskFailed(f"{folder}: cannot be opened: {error.strerror or error}") from error
        except BaseException:
            self.close()
            raise

    def _load(self) -> None:
        sync_folder(self.folder)  # what is found here may be a name that its writer had no time to sync
        _clear(self.folder)
        numbers = numbers_of(self.folder)
        for number in numbers:
            self._segments.append(self._load_segment(number, last=number == numbers[-1]))
        self._sequences = {
            batch_id: sequence
            for segment in self._segments
            for sequence, batch_id in segment.batch_ids().items()
        }
        if self._segments:
            self._open_last()
        else:
            self._start_segment()

    def _load_segment(self, number: int, last: bool) -> Segment | Journal:
        before, journal = self.last_sequence, journal_path(self.folder, number)
        if not manifest_path(self.folder, number).exists():
            return Journal.scanned(self.folder, number, before, last)
        try:
            segment = joined(Segment.load(self.folder, number), before)
        except CorruptLedger as error:
            if not journal.exists():
                raise
            _log.warning("%s; made again from its journal, which still exists", error)
            segment = compact(self.folder, Journal.scanned(self.folder, number, before, last))
        if journal.exists():
            _remove(journal)
        return segment

    def _open_last(self) -> None:
        journal = self._journal
        self._file = disk().open(journal.path, os.O_RDWR)
        size = os.fstat(self._file).st_size
        if size > journal.end:
            torn = (os.pread(self._file, min(2**20, size - at), at) for at in range(journal.end, size, 2**20))
            write_whole(journal.path.with_name(f"{journal.path.name}.torn-{journal.end}"), torn)
        # Its writer may have died before it synced the last frame. Or the sync has failed: then the kernel
        # has the bytes, counts them as written, and syncs them only if they are written again.
        disk().truncate(self._file, journal.end)
        for place in journal.places[-1:]:
            write_all(self._file, os.pread(self._file, place.size, place.offset), place.offset)
        disk().sync(self._file)

    def end_segment(self, least_bytes: int) -> bool:
        """Close the newest journal if it has so many bytes, and return whether it had. Raise DiskFailed."""
        if self._journal.end < least_bytes:
            return False
        self.require_own()
        try:
            self._start_segment()
        except OSError as error:
            raise DiskFailed(f"{self.folder}: no new journal: {error.strerror or error}") from error
        return True

    def _start_segment(self) -> None:
        """Start the next journal, which closes the one before."""
        journal = Journal(self.folder, len(self._segments) + 1, self.last_sequence)
        before, self._file = self._file, disk().open(journal.path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        if before >= 0:
            disk().close(before)
        sync_folder(self.folder)
        self._segments.append(journal)

    @property
    def _journal(self) -> Journal:
        """The journal that is written."""
        journal = self._segments[-1]
        assert isinstance(journal, Journal)
        return journal

    @property
    def last_sequence(self) -> int:
        """Sequence of the last frame; 0 if there is none."""
        return self._segments[-1].last if self._segments else 0

    @property
    def compacted(self) -> list[Segment]:
        """Compacted segments, oldest first; the frames behind them are in journals."""
        return [segment for segment in self._segments if isinstance(segment, Segment)]

    @property
    def num_closed(self) -> int:
        """Number of closed journals that `compact` would find."""
        return sum(isinstance(segment, Journal) for segment in self._segments[:-1])

    @property
    def closed_until(self) -> int:
        """Last frame of the closed segments; 0 if there are none."""
        return self._segments[-2].last if len(self._segments) > 1 else 0

    def append(self, tables: Mapping[str, pa.Table], batch_id: bytes | None = None) -> int:
        """Write one batch and return its sequence once it is durable; see `append_all`."""
        return self.append_all(
            [(tables, secrets.token_bytes(BATCH_ID_BYTES) if batch_id is None else batch_id)]
        )[0]

    def append_all(self, batches: Sequence[tuple[Mapping[str, pa.Table], bytes]]) -> list[int]:
        """Write batches with their ids (16 bytes) in order, and return their sequences once all are durable.

        They are synced together. A crash keeps the first few of them, each whole or absent. A batch id that
        exists already writes nothing and gets the sequence of the first.

        After a failed write the content of the disk is unknown: the ledger then refuses everything until it
        is opened again. Raise StorageError.
        """
        for _, batch_id in batches:
            if len(batch_id) != BATCH_ID_BYTES:
                raise ValueError(f"batch id has {len(batch_id)} bytes, expected {BATCH_ID_BYTES}")
        if self._file < 0 or self._failed:
            state = "failed to write before" if self._failed else "is closed"
            raise StorageError(f"{self.folder}: the ledger {state}; open the run again to go on")
        fresh = {batch_id: tables for tables, batch_id in batches if batch_id not in self._sequences}
        if fresh:
            self.require_own()
        encoded = [
            (sequence, batch_id, tuple(fresh[batch_id]), *encode(sequence, batch_id, fresh[batch_id]))
            for sequence, batch_id in enumerate(fresh, self.last_sequence + 1)
        ]
        written: list[FrameOffset] = []  # in the present journal, and not synced
        try:
            for sequence, batch_id, names, head, payload in encoded:
                if self._is_full(written) or not self._journal.columns.take(streams(payload)):
                    self._acknowledge(written)
                    self._start_segment()
                    self._journal.columns.take(streams(payload))
                end = written[-1].offset + written[-1].size if written else self._journal.end
                write_all(self._file, head + payload, end)
                written.append(FrameOffset(sequence, batch_id, end, len(head) + len(payload), names))
            self._acknowledge(written)
        except OSError as error:
            self._failed = True
            self.require_own()  # a file system may give the old writer any error
            raise DiskFailed(
                f"{self._journal.path}: writing frame {self.last_sequence + 1} failed: "
                f"{error.strerror or error}; see to the disk, then go on with --resume"
            ) from error
        except BaseException:  # an interrupt between write and sync leaves the same doubt
            self._failed = True
            raise
        return [self._sequences[batch_id] for _, batch_id in batches]

    def _acknowledge(self, written: list[FrameOffset]) -> None:
        """Sync the frames that were written to the present journal, and count them; empty the list."""
        if not written:
            return
        disk().sync_data(self._file)
        self.require_own()  # else the newcomer may have read the journal without these frames
        self._journal.places += written
        self._sequences |= {place.batch_id: place.sequence for place in written}
        written.clear()

    def require_own(self) -> None:
        """Raise RunTaken if another process went on in place of this one."""
        if not self._closed:
            self._lock.require()

    def _is_full(self, written: Sequence[FrameOffset]) -> bool:
        """Return whether the next frame begins a journal; `written` are frames behind its places."""
        journal = self._journal
        end = written[-1].offset + written[-1].size if written else journal.end
        frames = len(journal.places) + len(written)
        full = end >= self._segment_bytes or frames >= self._segment_frames
        return bool(frames) and (full or not journal.uniform)

    def frames(self, after: int = 0, tables: Collection[str] | None = None) -> Iterator[Frame]:
        """Yield the frames behind sequence `after`; with `tables`, only their parts in these tables."""
        last = self.last_sequence
        for i in range(len(self._segments)):
            yield from itertools.takewhile(lambda frame: frame.sequence <= last, self._read(i, after, tables))

    def _read(self, i: int, after: int, tables: Collection[str] | None) -> Iterator[Frame]:
        segment = self._segments[i]
        try:
            yield from segment.frames(after, tables)
        except FileNotFoundError:  # on opening it, so nothing was given: compacted an instant ago
            if self._segments[i] is segment:
                raise missing(self.folder, segment.number) from None
            yield from self._segments[i].frames(after, tables)

    def last_with(self, tables: Collection[str]) -> Frame | None:
        """Return the last frame that has any of `tables`."""
        for segment in reversed(self._segments):
            sequence = segment.last_with(tables)
            if sequence is not None:
                return next(self.frames(sequence - 1, tables))
        return None

    def highest(self, columns: Mapping[str, str]) -> int:
        """Return the highest value of these columns of whole numbers, one of each table; -1 if there is none.

        Of compacted segments it is in the statistics of their files. Values are 0 or more.
        """
        found = -1
        for i, segment in enumerate(self._segments):
            if isinstance(segment, Segment):
                values = [segment.highest(table, column) for table, column in columns.items()]
            else:
                values = [
                    pc.max(rows[columns[table]]).as_py()
                    for frame in self._read(i, 0, columns)
                    for table, rows in frame.tables.items()
                ]
            found = max([found, *(value for value in values if value is not None)])
        return found

    def compact(self, most: int | None = None) -> int:
        """Turn closed journals (at most so many), oldest first, into Parquet; return their number.

        Run it in a thread of its own: neither `append` nor `frames` waits for it. Raise StorageError; the
        journal is then unchanged, and the next call tries it again.
        """
        done = 0
        with self._compacting:
            for i, journal in enumerate(self._segments[:-1]):
                if self._file >= 0 and done != most and isinstance(journal, Journal):
                    try:
                        self.require_own()
                        self._segments[i] = compact(self.folder, journal)
                        self.require_own()
                        _remove(journal.path)
                    except OSError as error:
                        reason = error.strerror or error
                        raise DiskFailed(f"{journal.path}: compacting it failed: {reason}") from error
                    done += 1
        return done

    def sum_up(self, number: int, make: Callable[[Segment], Segment]) -> None:
        """Let `make` replace the compacted segment of that number, durably.

        Run it in the thread of `compact`. Raise StorageError; the segment is then as it was.
        """
        with self._compacting:
            segment = self._segments[number - 1]
            if self._file < 0 or not isinstance(segment, Segment):
                raise StorageError(f"{self.folder}: segment {number} cannot be summed up now")
            self.require_own()
            try:
                fresh = make(segment)
            except OSError as error:
                reason = error.strerror or error
                raise DiskFailed(f"{segment.manifest[0]}: summing it up failed: {reason}") from error
            self.require_own()
            self._segments[number - 1] = fresh
            left = fresh.batch_ids()
            for sequence, batch_id in segment.batch_ids().items():
                if sequence not in left:
                    self._sequences.pop(batch_id, None)

    def remove_superseded(self, seconds: float) -> None:
        """Remove files of summed segments that were replaced `seconds` ago. Raise StorageError."""
        with self._compacting:
            self.require_own()
            for path in list(superseded(self.folder, seconds)):
                if path.suffix == ".arrow":  # the index, by which files left are found: gone after them
                    sync_folder(self.folder)
                disk().unlink(path)

    def extent(self) -> list[tuple[Path, int]]:
        """Return (file, acknowledged bytes) of everything that a copy of the ledger needs, in order.

        Bytes of a journal beyond them are not part of the ledger. An empty journal is needed too. If a
        journal was compacted and is gone before it is copied, call this again. Raise RunTaken: copies are
        then another process's matter.
        """
        self.require_own()
        return [file for segment in list(self._segments) for file in segment.files()]

    def close(self) -> None:
        """Let the next writer in. Everything acknowledged is on disk already."""
        file, self._file = self._file, -1  # so that `compact` ends
        with self._compacting:
            self._closed = True
            if file >= 0:
                with contextlib.suppress(OSError):  # what counts was synced
                    disk().close(file)
            self._lock.release()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _remove(journal: Path) -> None:
    """Remove a journal whose segment is durable."""
    disk().unlink(journal)
    sync_folder(journal.parent)


def _renew(folder: Path) -> None:
    """Give the last journal a new file with the same bytes, so that the old file's writer reaches nothing."""
    journal = journal_path(folder, numbers_of(folder)[-1]) if numbers_of(folder) else folder / "none"
    if journal.exists():
        with open(journal, "rb") as file:
            write_whole(journal, iter(lambda: file.read(2**20), b""))


def _clear(folder: Path) -> None:
    """Remove what crashes left behind: half-written files, and all torn tails but the newest."""
    torn = sorted(folder.glob("*.torn-*"), key=lambda path: path.stat().st_mtime_ns)
    for path in [*folder.glob(".*.tmp"), *torn[: 1 - TORN_KEPT]]:
        disk().unlink(path)
