"""The ledger: an append-only journal of facts. THE TRUTH; everything else can be rebuilt from it.

A frame is one atomic batch over several tables. It is written, synced to the disk, and only then
acknowledged. Frames lie in segment files `00000001.journal`, ...; each is

    magic (8 bytes) | payload length (u64) | blake3 (32 bytes) | batch id (16) | sequence (u64) | payload

with the checksum over everything after it. The payload holds one section per table: its name and
an Arrow IPC stream. A kill or a power cut can only tear the tail of the last segment, which is cut
off when the ledger is opened again; damage anywhere else is corruption, and stops with its place.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import struct
import time
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from blake3 import blake3

from storage.errors import CorruptLedger, RunLocked, StorageError

MAGIC = b"LGLEDGR1"
HEADER = struct.Struct("<8sQ32s16sQ")
CHECKED_FROM = 8 + 8 + 32  # the checksum covers the header from here on, and the payload
SECTION = struct.Struct("<HQ")
MAX_PAYLOAD = 2**32
SEGMENT_BYTES = 64 * 2**20
LOCK_NAME = "LOCK"
IPC_OPTIONS = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class Frame:
    """One acknowledged batch."""

    sequence: int
    batch_id: bytes
    tables: Mapping[str, pa.Table]


@dataclass(frozen=True, slots=True)
class _Place:
    """A frame's header, read and checked, and where it lies."""

    sequence: int
    batch_id: bytes
    payload: bytes
    end: int  # offset of the next frame


class Ledger:
    """The one writer of a run's ledger. Raises RunLocked if there is another."""

    def __init__(self, folder: Path, segment_bytes: int = SEGMENT_BYTES) -> None:
        self._folder = folder
        self._segment_bytes = segment_bytes
        self._broken: str | None = None
        self._file: BinaryIO
        self._lock = _lock(folder)
        self._seen: dict[bytes, int] = {}
        self.sequence = 0
        try:
            self._recover()
        except BaseException:
            self._lock.close()
            raise

    def append(self, tables: Mapping[str, pa.Table], batch_id: bytes | None = None) -> int:
        """Write one batch; when this returns its sequence, the batch is on the disk.

        A batch id that is already there is not written again: its first sequence is returned.
        Raises StorageError when the disk refuses; nothing is acknowledged after that.
        """
        if self._broken is not None:
            raise StorageError(f"{self._folder}: nothing can be written after a failure: {self._broken}")
        batch_id = batch_id or uuid.uuid4().bytes
        if batch_id in self._seen:
            return self._seen[batch_id]
        frame = _encode(self.sequence + 1, batch_id, tables)
        try:
            if self._file.tell() and self._file.tell() + len(frame) > self._segment_bytes:
                self._next_segment()
            self._file.write(frame)
            self._file.flush()
            os.fdatasync(self._file.fileno())
        except OSError as error:
            # what reached the disk is unknown: only reading it again, at the next open, can tell
            self._broken = f"{error.strerror} ({error.errno})"
            raise StorageError(
                f"{self._folder}: a batch could not be written: {self._broken}; "
                "make room or repair the disk, then resume"
            ) from error
        self.sequence += 1
        self._seen[batch_id] = self.sequence
        return self.sequence

    def frames(self, after: int = 0) -> Iterator[Frame]:
        """Acknowledged batches with a sequence above `after`, in order."""
        return read_frames(self._folder, after)

    def close(self) -> None:
        self._file.close()
        self._lock.close()

    def _recover(self) -> None:
        segments = _segments(self._folder)
        for path in segments:
            last = path == segments[-1]
            end = 0
            for place in _scan(path, self.sequence, tail_may_be_torn=last):
                self.sequence, end = place.sequence, place.end
                self._seen[place.batch_id] = place.sequence
            if last and end < path.stat().st_size:
                with path.open("r+b") as file:
                    file.truncate(end)
                    os.fsync(file.fileno())
        if segments:
            self._number = int(segments[-1].stem)
            self._file = segments[-1].open("ab")
        else:
            self._number = 0
            self._open_segment()

    def _next_segment(self) -> None:
        self._file.close()
        self._open_segment()

    def _open_segment(self) -> None:
        self._number += 1
        self._file = (self._folder / f"{self._number:08d}.journal").open("ab")
        sync_folder(self._folder)


def read_frames(folder: Path, after: int = 0) -> Iterator[Frame]:
    """What is acknowledged in a ledger, read beside its writer and without disturbing it.

    Stops at the last whole frame: behind it a writer may be at work. Raises CorruptLedger for
    damage anywhere before.
    """
    sequence = 0
    segments = _segments(folder)
    for path in segments:
        for place in _scan(path, sequence, tail_may_be_torn=path == segments[-1]):
            sequence = place.sequence
            if sequence > after:
                yield Frame(sequence, place.batch_id, _decode(place.payload, path))


def last_sequence(folder: Path) -> int:
    """Sequence of the last acknowledged batch, 0 if there is none; nothing is decoded."""
    sequence = 0
    segments = _segments(folder)
    for path in segments:
        for place in _scan(path, sequence, tail_may_be_torn=path == segments[-1]):
            sequence = place.sequence
    return sequence


def is_locked(folder: Path) -> bool:
    """Whether a writer holds the ledger now."""
    path = folder / LOCK_NAME
    if not path.exists():
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def sync_folder(folder: Path) -> None:
    """Make names created or replaced in `folder` survive a power cut."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _lock(folder: Path) -> BinaryIO:
    file = (folder / LOCK_NAME).open("a+b")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.seek(0)
        holder = file.read().decode(errors="replace") or "an unknown process"
        file.close()
        raise RunLocked(
            f"{folder.parent}: another process is writing this run: {holder}; wait for it or stop it"
        ) from None
    owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    file.truncate(0)
    file.write(json.dumps(owner).encode())
    file.flush()
    return file


def _segments(folder: Path) -> list[Path]:
    """Segment files in order. Raises CorruptLedger if one between the first and the last is gone."""
    paths = sorted(path for path in folder.iterdir() if re.fullmatch(r"\d{8}\.journal", path.name))
    for number, path in enumerate(paths, start=1):
        if int(path.stem) != number:
            raise CorruptLedger(f"{folder}: segment {number:08d}.journal is missing before {path.name}")
    return paths


def _scan(path: Path, sequence: int, *, tail_may_be_torn: bool) -> Iterator[_Place]:
    """Check a segment frame by frame, one in memory at a time, from the frame after `sequence` on."""
    size = path.stat().st_size
    with path.open("rb") as file:
        offset = 0
        while offset < size:
            header = file.read(HEADER.size)
            problem, payload, batch_id, found = "it is cut short", b"", b"", 0
            if len(header) == HEADER.size:
                magic, length, checksum, batch_id, found = HEADER.unpack(header)
                if magic != MAGIC:
                    problem = "its magic bytes are wrong"
                elif length > MAX_PAYLOAD:
                    problem = f"its length, {length}, is impossible"
                else:
                    payload = file.read(length)
                    if len(payload) == length:
                        right = blake3(header[CHECKED_FROM:]).update(payload).digest() == checksum
                        problem = "" if right else "its checksum does not match"
            if not problem and found != sequence + 1:
                problem = f"its sequence is {found}, expected {sequence + 1}"
            elif problem and tail_may_be_torn and not _whole_frame_follows(file, offset, size):
                return
            if problem:
                raise CorruptLedger(
                    f"{path}: the frame at byte {offset} is damaged: {problem}, and more follows it; "
                    "put back a copy of this file"
                )
            sequence = found
            offset += HEADER.size + len(payload)
            yield _Place(sequence, batch_id, payload, offset)


def _whole_frame_follows(file: BinaryIO, offset: int, size: int) -> bool:
    """Whether an intact frame lies behind the damaged one at `offset`: then the damage is no torn tail."""
    file.seek(offset + 1)
    rest = file.read()
    at = rest.find(MAGIC)
    while at >= 0:
        header = rest[at : at + HEADER.size]
        if len(header) == HEADER.size:
            _, length, checksum, _, _ = HEADER.unpack(header)
            payload = rest[at + HEADER.size : at + HEADER.size + length]
            if len(payload) == length and blake3(header[CHECKED_FROM:]).update(payload).digest() == checksum:
                return True
        at = rest.find(MAGIC, at + 1)
    return False


def _encode(sequence: int, batch_id: bytes, tables: Mapping[str, pa.Table]) -> bytes:
    sections = []
    for name, table in tables.items():
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=IPC_OPTIONS) as writer:
            writer.write_table(table)
        stream = sink.getvalue().to_pybytes()
        encoded = name.encode()
        sections += [SECTION.pack(len(encoded), len(stream)), encoded, stream]
    payload = b"".join(sections)
    checked = HEADER.pack(MAGIC, len(payload), bytes(32), batch_id, sequence)[CHECKED_FROM:]
    checksum = blake3(checked).update(payload).digest()
    return HEADER.pack(MAGIC, len(payload), checksum, batch_id, sequence) + payload


def _decode(payload: bytes, path: Path) -> dict[str, pa.Table]:
    tables, at = {}, 0
    try:
        while at < len(payload):
            name_length, length = SECTION.unpack_from(payload, at)
            at += SECTION.size
            name = payload[at : at + name_length].decode()
            at += name_length
            tables[name] = pa.ipc.open_stream(memoryview(payload)[at : at + length]).read_all()
            at += length
    except (struct.error, UnicodeDecodeError, pa.ArrowInvalid) as error:
        raise CorruptLedger(f"{path}: a frame's checksum is right but its content is not: {error}") from error
    return tables
