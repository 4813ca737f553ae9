"""Blobs: tensors in safetensors files, named by the blake3 hash of their bytes, never changed.

A blob is mapped into memory, not read: all processes of a node share one copy of it in the page
cache. The mapping is private copy-on-write: a process that writes to a tensor changes its own copy.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import mmap
import os
import stat
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import safetensors.torch
import torch
from blake3 import blake3

from storage.disk import make_folder, sync_folder, whole, write_whole
from storage.errors import CorruptBlob
from storage.layout import blob_path

MAX_HEADER_BYTES = 4 * 2**20  # of JSON, which takes twenty times the memory
MAX_AXES = 64
_AS_IT_LIES = os.O_NOFOLLOW | os.O_NONBLOCK
_PIECE_BYTES = 2**20
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U64": torch.uint64,
    "U32": torch.uint32,
    "U16": torch.uint16,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

Tensors = Mapping[str, torch.Tensor | np.ndarray]
Table = dict[str, dict[str, Any]]
"""tensor -> {"dtype", "shape"}, as a manifest lists them"""


def publish(objects: Path, tensors: Tensors) -> tuple[str, int]:
    """Store `tensors` as a blob under `objects`, durably; return its hash and bytes.

    The same tensors give the same blob, in any order of the mapping. The stored bytes are copies: later
    changes of `tensors` do not reach them. An existing blob is kept unless it is damaged; then it is replaced
    for new maps only.
    """
    data = encode(tensors)
    blob_hash = hash_of(data)
    path = blob_path(objects, blob_hash)
    make_folder(path.parent)
    sync_folder(objects)  # who made the folder may have died before its name was durable
    try:
        verify(path)
        sync_folder(path.parent)  # another writer may have renamed it an instant ago
    except CorruptBlob:
        write_whole(path, [data], mode=0o444)
    return blob_hash, len(data)


def encode(tensors: Tensors) -> bytes:
    """Return the safetensors bytes of `tensors`, by name, without metadata: equal tensors, equal bytes."""
    copies = {}
    for name in sorted(tensors):
        value = tensors[name]
        tensor = torch.tensor(value) if isinstance(value, np.ndarray) else value.detach().cpu()
        if tensor.dtype not in _DTYPES.values():
            raise ValueError(f"tensor '{name}' is {tensor.dtype}, which blobs do not hold")
        copies[name] = tensor.clone(memory_format=torch.contiguous_format)
    return safetensors.torch.save(copies)


def hash_of(data: bytes) -> str:
    """Return the name of a blob of these bytes."""
    return blake3(data).hexdigest()


def receive(objects: Path, source: Path, blob_hash: str, size: int, tensors: Table) -> Table:
    """Store the blob at `source`, a file of another person, under `objects`, durably, if it is as described.

    It must be a plain file of `size` bytes that hash to `blob_hash` and hold `tensors`. The file is read
    once, piece by piece, and the checked bytes are the stored bytes, even if it changes meanwhile. Return the
    table of the file's tensors. Raise CorruptBlob; nothing is stored then.
    """
    with _plain_file(source) as file:
        found = os.fstat(file.fileno()).st_size
        if found != size:
            raise CorruptBlob(f"{source}: {found} bytes, its manifest says {size}; get it again")
        head = _head(file)
        held = _table(_header(source, head, size))
        if held != tensors:
            raise CorruptBlob(f"{source}: its tensors are not those of its manifest; get it again")
        path, digest = blob_path(objects, blob_hash), blake3()
        make_folder(path.parent)
        sync_folder(objects)  # as in `publish`
        with whole(path, mode=0o444) as copy:
            for piece in itertools.chain([head], _pieces(file, size - len(head))):
                digest.update(piece)
                copy.write(piece)
            _compare(source, digest.hexdigest(), blob_hash)
    return held


def describe(tensors: Tensors) -> Table:
    """Return the table of `tensors`."""
    return {
        name: {"dtype": _dtype_name(value.dtype), "shape": list(value.shape)}
        for name, value in sorted(tensors.items())
    }


def table(path: Path) -> Table:
    """Return the table of a blob's tensors, read from its header only. Raise CorruptBlob."""
    with _plain_file(path) as file:
        return _table(_header(path, _head(file), os.fstat(file.fileno()).st_size))


def verify(path: Path, blob_hash: str | None = None) -> None:
    """Raise CorruptBlob unless the file's bytes hash to `blob_hash` (`None`: to the file's name)."""
    try:
        found = blake3().update_mmap(path).hexdigest()
    except OSError as error:
        raise CorruptBlob(f"{path}: cannot be read: {error.strerror or error}") from None
    _compare(path, found, blob_hash)


def map_tensors(path: Path, *, verify: bool, blob_hash: str | None = None) -> dict[str, torch.Tensor]:
    """Map the tensors of a blob into memory, by name; they stay valid after the file is unlinked.

    `verify` hashes the bytes first, as the function of that name does; the header is always checked. Raise
    CorruptBlob.
    """
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise CorruptBlob(f"{path}: cannot be mapped: {error}") from None
    if verify:
        _compare(path, blake3(mapped).hexdigest(), blob_hash)
    tensors = {}
    for name, (dtype, shape, start) in _header(path, mapped, len(mapped)).items():
        count = math.prod(shape)
        flat = torch.frombuffer(mapped, dtype=dtype, count=count, offset=start) if count else torch.empty(0)
        tensors[name] = flat.to(dtype).reshape(shape)
    return tensors


def _compare(path: Path, found: str, blob_hash: str | None) -> None:
    expected = path.stem if blob_hash is None else blob_hash
    if found != expected:
        raise CorruptBlob(f"{path}: its bytes hash to {found}, expected {expected}; restore it from a copy")


@contextlib.contextmanager
def _plain_file(path: Path) -> Iterator[BinaryIO]:
    """Open a regular file for reading, without following a link or waiting for a pipe. Raise CorruptBlob."""
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _AS_IT_LIES)) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise CorruptBlob(f"{path}: no plain file, expected safetensors")
            yield file
    except OSError as error:
        raise CorruptBlob(f"{path}: cannot be read: {error.strerror or error}") from None


def _head(file: BinaryIO) -> bytes:
    """Return the beginning of a blob: the size of its header, and the header up to its limit."""
    size = file.read(8)
    return size + file.read(min(int.from_bytes(size, "little"), MAX_HEADER_BYTES))


def _pieces(file: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield the next `size` bytes of a file, fewer if it ends before."""
    while size > 0 and (piece := file.read(min(size, _PIECE_BYTES))):
        size -= len(piece)
        yield piece


def _table(header: Mapping[str, tuple[torch.dtype, tuple[int, ...], int]]) -> Table:
    return {
        name: {"dtype": _dtype_name(dtype), "shape": list(shape)}
        for name, (dtype, shape, _) in sorted(header.items())
    }


def _dtype_name(dtype: torch.dtype | np.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _header(
    path: Path, data: mmap.mmap | bytes, size: int
) -> dict[str, tuple[torch.dtype, tuple[int, ...], int]]:
    """Return name -> (dtype, shape, offset in the file), every range checked against the file's `size`.

    `data` is the file, or at least what `_head` reads of it.

    Format: https://huggingface.co/docs/safetensors, "Format": u64 header size, JSON, then the data, which the
    tensors cover without holes.
    """
    try:
        (header_bytes,) = struct.unpack_from("<Q", data)
        base = 8 + header_bytes
        if header_bytes > MAX_HEADER_BYTES or base > min(size, len(data)):
            raise ValueError(f"header of {header_bytes} bytes in a file of {size}")
        fields = json.loads(data[8:base], object_pairs_hook=_unique)
        fields.pop("__metadata__", None)
        tensors, ranges = {}, []
        for name, entry in fields.items():
            dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
            if len(shape) > MAX_AXES or not all(
                type(n) is int and 0 <= n < 2**63 for n in [*shape, begin, end]
            ):
                raise ValueError(f"'{name}': shape {shape}, offsets {begin} to {end}")
            if math.prod(n for n in shape if n) >= 2**63:  # without the zeros: strides have no zeros either
                raise ValueError(f"'{name}': shape {shape}, more than can be counted")
            if end - begin != math.prod(shape) * dtype.itemsize or base + end > size:
                raise ValueError(f"'{name}': {shape} of {entry['dtype']} at {begin} to {end}")
            tensors[name] = (dtype, tuple(shape), base + begin)
            ranges.append((begin, end))
        at = 0
        for begin, end in sorted(ranges):
            if begin != at:
                raise ValueError(f"data {at} to {begin} is claimed by no tensor or by two")
            at = end
        if base + at != size:
            raise ValueError(f"{size - base - at} bytes behind the last tensor")
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        reason = f"{type(error).__name__}: {error}"
        reason = reason if len(reason) <= 300 else f"{reason[:300]}..."  # it may quote a stranger's header
        raise CorruptBlob(f"{path}: no safetensors: {reason}") from None
    return tensors


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found
