"""Frames: one batch of facts over several tables as bytes, whole or absent; a journal is nothing else.

    magic 8 | payload bytes u64 | sequence u64 | batch id 16 | blake3 of all else in the frame 32 | payload

and a payload nothing but sections, one per table:

    name bytes u16 | data bytes u64 | name | data: an Arrow IPC stream, its buffers zstd-compressed if large

A crash can tear the last frame of the last journal: reading stops before it. Damage anywhere else,
or with a whole frame behind it, is no crash: CorruptLedger. Nothing is parsed before its hash fits.
"""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
from blake3 import blake3

from storage.errors import CorruptLedger

MAGIC = b"LGFRAME1"
BATCH_ID_BYTES = 16
_HEAD = struct.Struct("<8sQQ16s")
_DIGEST_BYTES = 32
_SECTION = struct.Struct("<HQ")
_HEAD_BYTES = _HEAD.size + _DIGEST_BYTES
NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,63}")  # of a table: it becomes part of a file's name
_COMPRESS_FROM = 4096  # bytes; below, compressing takes twenty times as long as all the rest (measured)
_PLAIN = pa.ipc.IpcWriteOptions()
_ONE_THREAD = pa.ipc.IpcReadOptions(use_threads=False)
_COMPRESSED = pa.ipc.IpcWriteOptions(compression="zstd")


@dataclass(frozen=True, slots=True)
class Frame:
    """One acknowledged batch of facts."""

    sequence: int
    batch_id: bytes
    tables: dict[str, pa.Table]


@dataclass(frozen=True, slots=True)
class FrameOffset:
    """The place of a whole frame in its journal, and the names of its tables."""

    sequence: int
    batch_id: bytes
    offset: int
    size: int  # bytes, head included
    names: tuple[str, ...]


def encode(sequence: int, batch_id: bytes, tables: Mapping[str, pa.Table]) -> tuple[bytes, bytes]:
    """Return (head, payload) of a frame. Raise ValueError for a table name that is not a plain word."""
    parts: list[bytes] = []
    for name, table in tables.items():
        if not NAME.fullmatch(name):
            raise ValueError(f"table '{name}', expected a name of letters, digits and '_'")
        size = table.get_total_buffer_size()  # nbytes takes a hundred times as long (measured)
        data, label = write_stream(table.schema, table.to_batches(), size), name.encode()
        parts += [_SECTION.pack(len(label), len(data)), label, data]
    payload = b"".join(parts)
    head = _HEAD.pack(MAGIC, len(payload), sequence, batch_id)
    return head + _digest(head, payload), payload


def write_stream(schema: pa.Schema, batches: Collection[pa.RecordBatch], nbytes: int) -> bytes:
    """Return an Arrow IPC stream of `batches`, which hold `nbytes` bytes."""
    sink = pa.BufferOutputStream()
    options = _COMPRESSED if nbytes >= _COMPRESS_FROM else _PLAIN
    with pa.ipc.new_stream(sink, schema, options=options) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return sink.getvalue().to_pybytes()


def decode(place: FrameOffset, payload: bytes, wanted: Collection[str] | None = None) -> Frame:
    """Return the frame, with all its tables or only those `wanted`. Raise CorruptLedger."""
    try:
        tables = {name: open_stream(data).read_all() for name, data in streams(payload, wanted)}
    except (pa.ArrowException, OSError) as error:
        raise not_arrow(place, error) from None
    return Frame(place.sequence, place.batch_id, tables)


def not_arrow(place: FrameOffset, error: Exception) -> CorruptLedger:
    """Return the error for a frame whose hash fits but whose payload is not Arrow."""
    return CorruptLedger(
        f"frame {place.sequence} of the ledger, at offset {place.offset}: no tables: {error}"
    )


def open_stream(data: pa.Buffer) -> pa.ipc.RecordBatchStreamReader:
    """Open an Arrow IPC stream for one thread: passing small columns to other threads takes longer."""
    return pa.ipc.open_stream(data, options=_ONE_THREAD)


def streams(payload: bytes, wanted: Collection[str] | None = None) -> Iterator[tuple[str, pa.Buffer]]:
    """Yield (table, Arrow IPC stream) of each section, or of those `wanted`."""
    buffer = pa.py_buffer(payload)
    for name, start, end in _sections(payload):
        if wanted is None or name in wanted:
            yield name, buffer.slice(start, end - start)


def read(file: BinaryIO, path: Path, place: FrameOffset) -> bytes:
    """Return the payload of the frame at `place` of the journal `path`.

    Raise CorruptLedger if it has changed.
    """
    found = _read_frame(file, place.offset, place.offset + place.size)
    if found is None or found[0] != place:
        raise CorruptLedger(
            f"{path}: frame {place.sequence} at offset {place.offset} has changed since it was written; "
            "restore the file from a backup"
        )
    return found[1]


def scan(
    file: BinaryIO, path: Path, *, offset: int = 0, previous: int | None, last: bool
) -> Iterator[tuple[FrameOffset, bytes]]:
    """Yield every whole frame of the journal from `offset` on with its payload, one in memory at a time.

    `previous` is the sequence of the frame before (`None`: not known). In the `last` journal the scan stops
    at a torn tail; anything else that is not a frame raises CorruptLedger.
    """
    size = os.fstat(file.fileno()).st_size  # what is written from now on is for the next scan
    while offset < size:
        found = _read_frame(file, offset, size)
        if found is None:
            behind = _whole_frame_behind(file, offset, size)
            if not last or behind is not None:
                raise CorruptLedger(
                    f"{path}: damaged frame at offset {offset}"
                    + ("" if behind is None else f", with a whole one at {behind}")
                    + "; no crash does that: restore the file from a backup"
                )
            return
        place, _ = found
        if previous is not None and place.sequence != previous + 1:
            raise CorruptLedger(
                f"{path}: frame at offset {offset} has sequence {place.sequence}, "
                f"expected {previous + 1}: frames are missing"
            )
        previous = place.sequence
        yield found
        offset += place.size


def _read_frame(file: BinaryIO, offset: int, size: int) -> tuple[FrameOffset, bytes] | None:
    """Return the frame at `offset` of a file of `size` bytes; `None` if there is no whole one."""
    file.seek(offset)
    head = file.read(_HEAD_BYTES)
    if len(head) < _HEAD_BYTES or head[: len(MAGIC)] != MAGIC:
        return None
    _, length, sequence, batch_id = _HEAD.unpack_from(head)
    if offset + _HEAD_BYTES + length > size:
        return None
    payload = file.read(length)
    if _digest(head[: _HEAD.size], payload) != head[_HEAD.size :]:
        return None
    try:
        names = tuple(name for name, _, _ in _sections(payload))
    except (ValueError, struct.error):
        return None
    return FrameOffset(sequence, batch_id, offset, _HEAD_BYTES + length, names), payload


def _whole_frame_behind(file: BinaryIO, offset: int, size: int) -> int | None:
    """Return the offset of a whole frame behind the damage at `offset`; `None` if there is none."""
    block, position = 2**20, offset + 1
    while position < size:
        file.seek(position)
        window = file.read(min(block + len(MAGIC) - 1, size - position))
        for match in re.finditer(re.escape(MAGIC), window):
            if _read_frame(file, position + match.start(), size) is not None:
                return position + match.start()
        position += block
    return None


def _digest(head: bytes, payload: bytes) -> bytes:
    return blake3(head).update(payload).digest()


def _sections(payload: bytes) -> Iterator[tuple[str, int, int]]:
    """Yield (table, start, end) of each section. Raise ValueError or struct.error for damaged sections."""
    at = 0
    while at < len(payload):
        name_bytes, data_bytes = _SECTION.unpack_from(payload, at)
        start = at + _SECTION.size + name_bytes
        name = payload[start - name_bytes : start].decode()
        if not NAME.fullmatch(name) or start + data_bytes > len(payload):
            raise ValueError(f"section '{name}' of {data_bytes} bytes")
        yield name, start, start + data_bytes
        at = start + data_bytes
