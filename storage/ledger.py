"""The ledger: an append-only journal of facts, frame by frame. It is the truth of a run.

A frame is one batch over several tables, whole or absent: `append` writes it, syncs it and only
then returns its sequence. Segments `00000001.journal`, ... hold nothing but frames:

    magic 8 | payload bytes u64 | sequence u64 | batch id 16 | blake3 of all else in the frame 32 | payload

and a payload nothing but sections, one per table:

    name bytes u16 | data bytes u64 | name | data: an Arrow IPC stream, its buffers zstd-compressed

A crash can tear the end of the last segment only. There, what follows the last whole frame is cut
off when a writer opens the ledger (and kept beside it as `<segment>.torn-<offset>`); readers stop
before it. Damage anywhere else, or with a whole frame behind it, is no crash: CorruptLedger.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import secrets
import socket
import struct
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from blake3 import blake3

from storage.disk import disk, sync_folder, write_whole
from storage.errors import CorruptLedger, RunLocked, StorageError

MAGIC = b"LGFRAME1"
_HEAD = struct.Struct("<8sQQ16s")
_DIGEST_BYTES = 32
_SECTION = struct.Struct("<HQ")
_HEAD_BYTES = _HEAD.size + _DIGEST_BYTES
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")
_LOCK = "LOCK"
LOCK_WAIT_SECONDS = 1.0  # a reader that only looks whether a writer is there holds the lock for an instant


@dataclass(frozen=True, slots=True)
class Frame:
    """One acknowledged batch."""

    sequence: int
    batch_id: bytes
    tables: dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a whole frame lies, and which tables it has."""

    sequence: int
    batch_id: bytes
    path: Path
    offset: int
    size: int  # bytes, head included
    names: tuple[str, ...]


class Ledger:
    """The one writer of the ledger in `folder`, which must exist.

    `owner` is told to whoever else tries. Raises RunLocked, CorruptLedger.
    """

    def __init__(self, folder: Path, owner: str, segment_bytes: int = 64 * 2**20) -> None:
        self.folder = folder
        self._segment_bytes = segment_bytes
        self._unlock = _lock(folder, owner)
        self._file = -1
        self._failed = False
        try:
            self._places = list(_scan(_segments(folder)))
            self._by_batch = {place.batch_id: place.sequence for place in self._places}
            self._open_last()
        except BaseException:
            self.close()
            raise

    def _open_last(self) -> None:
        segments = _segments(self.folder)
        if not segments:
            self._start_segment(1)
            return
        path = segments[-1]
        here = [place for place in self._places[-1:] if place.path == path]
        self._end = here[0].offset + here[0].size if here else 0
        self._path = path
        self._file = disk().open(path, os.O_RDWR)
        if os.fstat(self._file).st_size > self._end:
            torn = os.pread(self._file, os.fstat(self._file).st_size - self._end, self._end)
            write_whole(path.with_name(f"{path.name}.torn-{self._end}"), [torn])
            disk().truncate(self._file, self._end)
            disk().sync(self._file)

    def _start_segment(self, number: int) -> None:
        if self._file >= 0:
            disk().close(self._file)
            self._file = -1
        self._path = self.folder / f"{number:08d}.journal"
        self._file = disk().open(self._path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
        self._end = 0
        sync_folder(self.folder)

    @property
    def last_sequence(self) -> int:
        """Of the last frame; 0 when there is none."""
        return self._places[-1].sequence if self._places else 0

    def batch_id(self, sequence: int) -> bytes | None:
        """The batch id of that frame; None when there is no such frame."""
        return self._places[sequence - 1].batch_id if 1 <= sequence <= len(self._places) else None

    def append(self, tables: Mapping[str, pa.Table], batch_id: bytes | None = None) -> int:
        """Write one batch; returns its sequence once it is durable. A batch id that is there already
        (16 bytes; None: a new one) writes nothing and returns the first one's sequence.

        After a failed write nobody knows what the disk holds: the ledger then refuses everything
        until it is opened anew. Raises StorageError.
        """
        if batch_id is None:
            batch_id = secrets.token_bytes(16)
        elif len(batch_id) != 16:
            raise ValueError(f"batch id has {len(batch_id)} bytes, expected 16")
        if self._file < 0 or self._failed:
            state = "failed to write before" if self._failed else "is closed"
            raise StorageError(f"{self.folder}: the ledger {state}; open the run again to go on")
        known = self._by_batch.get(batch_id)
        if known is not None:
            return known
        parts: list[bytes] = []
        for name, table in tables.items():
            data, label = _encode(table), name.encode()
            parts += [_SECTION.pack(len(label), len(data)), label, data]
        sequence, payload = self.last_sequence + 1, b"".join(parts)
        head = _HEAD.pack(MAGIC, len(payload), sequence, batch_id)
        frame = b"".join((head, _digest(head, payload), payload))
        try:
            if self._end >= self._segment_bytes:
                self._start_segment(int(self._path.stem) + 1)
            written = 0
            while written < len(frame):
                written += disk().pwrite(self._file, memoryview(frame)[written:], self._end + written)
            disk().sync_data(self._file)
        except OSError as error:
            self._failed = True
            raise StorageError(f"{self._path}: writing frame {sequence} failed: {error}") from error
        except BaseException:  # an interrupt between write and sync leaves the same doubt
            self._failed = True
            raise
        place = _Place(sequence, batch_id, self._path, self._end, len(frame), tuple(tables))
        self._end += len(frame)
        self._places.append(place)
        self._by_batch[batch_id] = sequence
        return sequence

    def frames(self, after: int = 0, tables: Collection[str] | None = None) -> Iterator[Frame]:
        """The frames behind sequence `after`; with `tables`, those that have any of them, and those only."""
        for place in self._places[after:]:
            if tables is None or any(name in tables for name in place.names):
                with open(place.path, "rb") as file:
                    file.seek(place.offset)
                    payload = file.read(place.size)[_HEAD_BYTES:]
                yield _decode(place, payload, tables)

    def last_with(self, tables: Collection[str]) -> Frame | None:
        """The last frame that has any of `tables`."""
        for place in reversed(self._places):
            if any(name in tables for name in place.names):
                return next(self.frames(place.sequence - 1, tables))
        return None

    def close(self) -> None:
        """Let the next writer in. Whatever was acknowledged is on disk already."""
        if self._file >= 0:
            disk().close(self._file)
            self._file = -1
        self._unlock.close()

    def __enter__(self) -> Ledger:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def read_frames(folder: Path, after: int = 0, tables: Collection[str] | None = None) -> Iterator[Frame]:
    """What `Ledger.frames` gives, for readers: needs no lock, changes nothing, also beside a writer."""
    for place, payload in _scan_payloads(_segments(folder)):
        if place.sequence > after and (tables is None or any(name in tables for name in place.names)):
            yield _decode(place, payload, tables)


def last_frame(folder: Path) -> tuple[int, bytes]:
    """(sequence, batch id) of the last frame, at the cost of reading one segment; (0, b"") when none."""
    segments = _segments(folder)
    while segments:
        places = list(_scan(segments[-1:]))
        if places:
            return places[-1].sequence, places[-1].batch_id
        segments.pop()
    return 0, b""


def is_written(folder: Path) -> bool:
    """Whether a writer holds the ledger now."""
    try:
        handle = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _lock(folder: Path, owner: str) -> BinaryIO:
    """The lock file, locked until closed. flock, not lockf: it also keeps out a second writer of this
    process, and is not dropped when some other handle of the file is closed."""
    path = folder / _LOCK
    file = open(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644), "r+b", buffering=0)  # noqa: SIM115  # held open: closing unlocks
    deadline = time.monotonic() + LOCK_WAIT_SECONDS
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            if time.monotonic() > deadline:
                holder = file.read().decode(errors="replace")
                file.close()
                raise RunLocked(f"{folder}: another process is writing: {_who(holder)}") from None
            time.sleep(0.02)
    started = time.strftime("%Y-%m-%d %H:%M:%S")
    text = json.dumps({"owner": owner, "pid": os.getpid(), "host": socket.gethostname(), "started": started})
    file.truncate(0)
    file.write(text.encode())
    return file


def _who(text: str) -> str:
    with contextlib.suppress(ValueError, KeyError, TypeError):
        found = json.loads(text)
        return f"{found['owner']}, pid {found['pid']} on {found['host']}, since {found['started']}"
    return "it left no name"


def _segments(folder: Path) -> list[Path]:
    """The segment files in order. Raises CorruptLedger when one in between is missing."""
    found = sorted(p for p in folder.glob("*.journal") if re.fullmatch(r"\d{8}", p.stem))
    for expected, path in enumerate(found, start=1):
        if int(path.stem) != expected:
            raise CorruptLedger(
                f"{folder}: found {path.name}, expected {expected:08d}.journal: it is missing"
            )
    return found


def _scan(segments: list[Path]) -> Iterator[_Place]:
    return (place for place, _ in _scan_payloads(segments))


def _scan_payloads(segments: list[Path]) -> Iterator[tuple[_Place, bytes]]:
    """Every whole frame of `segments` (the last of them the ledger's last), checked, one in memory
    at a time. Stops at a torn tail; raises CorruptLedger at anything else that is not a frame."""
    sequence: int | None = 0 if segments and int(segments[0].stem) == 1 else None
    for path in segments:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size  # what is written from now on is for the next reader
            offset = 0
            while offset < size:
                found = _read_frame(file, path, offset, size)
                if found is None:
                    behind = _whole_frame_behind(file, path, offset, size)
                    if path != segments[-1] or behind is not None:
                        raise CorruptLedger(
                            f"{path}: damaged frame at offset {offset}"
                            + ("" if behind is None else f", with a whole one at {behind}")
                            + "; no crash does that: restore the file from a backup"
                        )
                    return
                place, _ = found
                if sequence is not None and place.sequence != sequence + 1:
                    raise CorruptLedger(
                        f"{path}: frame at offset {offset} has sequence {place.sequence}, "
                        f"expected {sequence + 1}: frames are missing"
                    )
                sequence = place.sequence
                yield found
                offset += place.size


def _read_frame(file: BinaryIO, path: Path, offset: int, size: int) -> tuple[_Place, bytes] | None:
    """The frame at `offset` of a file of `size` bytes; None when there is no whole one."""
    file.seek(offset)
    head = file.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES or head[:8] != MAGIC:
        return None
    _, length, sequence, batch_id = _HEAD.unpack_from(head)
    if offset + _HEAD_BYTES + length > size:
        return None
    payload = file.read(length)
    if _digest(head[: _HEAD.size], payload) != head[_HEAD.size :]:
        return None
    names = tuple(name for name, _, _ in _sections(payload))
    return _Place(sequence, batch_id, path, offset, _HEAD_BYTES + length, names), payload


def _whole_frame_behind(file: BinaryIO, path: Path, offset: int, size: int) -> int | None:
    """The offset of a whole frame behind the damage at `offset`; None when there is none."""
    block, position = 2**20, offset + 1
    while position < size:
        file.seek(position)
        window = file.read(min(block + len(MAGIC) - 1, size - position))
        for match in re.finditer(re.escape(MAGIC), window):
            if _read_frame(file, path, position + match.start(), size) is not None:
                return position + match.start()
        position += block
    return None


def _digest(head: bytes, payload: bytes) -> bytes:
    return blake3(head).update(payload).digest()


def _sections(payload: bytes) -> Iterator[tuple[str, int, int]]:
    """(table, start, end) of each section."""
    at = 0
    while at < len(payload):
        name_bytes, data_bytes = _SECTION.unpack_from(payload, at)
        start = at + _SECTION.size + name_bytes
        yield payload[start - name_bytes : start].decode(), start, start + data_bytes
        at = start + data_bytes


def _encode(table: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_COMPRESSED) as stream:
        stream.write_table(table)
    return sink.getvalue().to_pybytes()


def _decode(place: _Place, payload: bytes, wanted: Collection[str] | None) -> Frame:
    buffer = pa.py_buffer(payload)
    tables = {
        name: pa.ipc.open_stream(buffer.slice(start, end - start)).read_all()
        for name, start, end in _sections(payload)
        if wanted is None or name in wanted
    }
    return Frame(place.sequence, place.batch_id, tables)
