"""Blobs: tensors in safetensors files, named by the blake3 hash of their bytes, never changed.

A blob is mapped into memory, not read: all processes of a node share one copy of it in the page
cache. The mapping is private copy-on-write: whoever writes to a tensor changes a copy of its own.
"""

from __future__ import annotations

import json
import math
import mmap
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.torch
import torch
from blake3 import blake3

from storage.disk import make_folder, sync_folder, write_whole
from storage.errors import CorruptBlob
from storage.layout import blob_path

MAX_HEADER_BYTES = 16 * 2**20
_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}

Tensors = Mapping[str, torch.Tensor | np.ndarray]


def publish(objects: Path, tensors: Tensors) -> tuple[str, int]:
    """Store `tensors` as a blob under `objects`, durably; returns its hash and bytes.

    The same tensors give the same blob, whatever their order in the mapping. The stored bytes are
    copies: later changes of `tensors` do not reach them. A blob that is there already is kept,
    unless it is damaged: then it is replaced, under new maps only.
    """
    data = encode(tensors)
    blob_hash = hash_of(data)
    path = blob_path(objects, blob_hash)
    make_folder(path.parent)
    try:
        verify(path)
        sync_folder(path.parent)  # another writer may have renamed it an instant ago
    except CorruptBlob:
        write_whole(path, [data], mode=0o444)
    return blob_hash, len(data)


def encode(tensors: Tensors) -> bytes:
    """The safetensors bytes of `tensors`, by name, without metadata: equal tensors, equal bytes."""
    copies = {}
    for name in sorted(tensors):
        value = tensors[name]
        tensor = torch.tensor(value) if isinstance(value, np.ndarray) else value.detach().cpu()
        if tensor.dtype not in _DTYPES.values():
            raise ValueError(f"tensor '{name}' is {tensor.dtype}, which blobs do not hold")
        copies[name] = tensor.clone(memory_format=torch.contiguous_format)
    return safetensors.torch.save(copies)


def hash_of(data: bytes) -> str:
    """The name that a blob of these bytes has."""
    return blake3(data).hexdigest()


def describe(tensors: Tensors) -> dict[str, dict[str, Any]]:
    """name -> {"dtype", "shape"}, as a manifest lists them."""
    return {
        name: {"dtype": str(value.dtype).removeprefix("torch."), "shape": list(value.shape)}
        for name, value in sorted(tensors.items())
    }


def verify(path: Path, blob_hash: str | None = None) -> None:
    """Raise CorruptBlob unless the file's bytes hash to `blob_hash` (None: to the file's name)."""
    try:
        found = blake3().update_mmap(path).hexdigest()
    except OSError as error:
        raise CorruptBlob(f"{path}: cannot be read: {error.strerror or error}") from None
    _compare(path, found, blob_hash)


def map_tensors(path: Path, *, verify: bool, blob_hash: str | None = None) -> dict[str, torch.Tensor]:
    """The tensors of a blob, mapped into memory, by name; valid also after the file is unlinked.

    `verify` hashes the bytes first, as the function of that name does; the header is checked always.
    Raises CorruptBlob.
    """
    try:
        with open(path, "rb") as file:
            mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:  # ValueError: an empty file cannot be mapped
        raise CorruptBlob(f"{path}: cannot be mapped: {error}") from None
    if verify:
        _compare(path, blake3(mapped).hexdigest(), blob_hash)
    tensors = {}
    for name, (dtype, shape, start) in _header(path, mapped).items():
        count = math.prod(shape)
        flat = torch.frombuffer(mapped, dtype=dtype, count=count, offset=start) if count else torch.empty(0)
        tensors[name] = flat.to(dtype).reshape(shape)
    return tensors


def _compare(path: Path, found: str, blob_hash: str | None) -> None:
    expected = path.stem if blob_hash is None else blob_hash
    if found != expected:
        raise CorruptBlob(f"{path}: its bytes hash to {found}, expected {expected}; restore it from a copy")


def _header(path: Path, data: mmap.mmap) -> dict[str, tuple[torch.dtype, tuple[int, ...], int]]:
    """name -> (dtype, shape, offset in the file), every range checked against the file's size.

    Format: https://huggingface.co/docs/safetensors, "Format": u64 header size, JSON, then the data,
    which the tensors cover without holes.
    """
    try:
        (header_bytes,) = struct.unpack_from("<Q", data)
        base = 8 + header_bytes
        if header_bytes > MAX_HEADER_BYTES or base > len(data):
            raise ValueError(f"header of {header_bytes} bytes in a file of {len(data)}")
        fields = json.loads(data[8:base], object_pairs_hook=_unique)
        fields.pop("__metadata__", None)
        tensors, ranges = {}, []
        for name, entry in fields.items():
            dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
            if not all(type(n) is int and n >= 0 for n in [*shape, begin, end]):
                raise ValueError(f"'{name}': shape {shape}, offsets {begin} to {end}")
            if end - begin != math.prod(shape) * dtype.itemsize or base + end > len(data):
                raise ValueError(f"'{name}': {shape} of {entry['dtype']} at {begin} to {end}")
            tensors[name] = (dtype, tuple(shape), base + begin)
            ranges.append((begin, end))
        at = 0
        for begin, end in sorted(ranges):
            if begin != at:
                raise ValueError(f"data {at} to {begin} is claimed by no tensor or by two")
            at = end
        if base + at != len(data):
            raise ValueError(f"{len(data) - base - at} bytes behind the last tensor")
    except (ValueError, KeyError, TypeError, AttributeError, struct.error, RecursionError) as error:
        raise CorruptBlob(f"{path}: no safetensors: {type(error).__name__}: {error}") from None
    return tensors


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is given twice")
    return found
