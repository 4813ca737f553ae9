"""Blobs: safetensors files named by the hash of their bytes, written once, mapped ever after.

The mapping is private and copy-on-write: the page cache holds one copy of a blob for all
processes of a node, and nobody can change what another sees. Bytes are deterministic (sorted
names, no metadata), so equal weights are one file. Nothing read from a blob is ever executed.
"""

from __future__ import annotations

import json
import math
import mmap
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from blake3 import blake3
from safetensors.torch import save
from torch import Tensor

from storage.errors import CorruptBlob, StorageError
from storage.ledger import sync_folder

MAX_HEADER = 16 * 2**20
DTYPES = {
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


def encode(tensors: Mapping[str, Tensor | np.ndarray]) -> bytes:
    """Safetensors bytes of copies of `tensors`; equal tensors give equal bytes."""
    copies = {name: torch.as_tensor(tensors[name]).detach().cpu().contiguous() for name in sorted(tensors)}
    return save({name: tensor.clone() for name, tensor in copies.items()})


def blob_path(objects: Path, blob_hash: str) -> Path:
    return objects / blob_hash[:2] / f"{blob_hash}.safetensors"


def publish(objects: Path, tensors: Mapping[str, Tensor | np.ndarray]) -> tuple[str, int]:
    """Store tensors as an immutable file; returns its blake3 hash, in hex, and its size in bytes.

    When this returns the blob is on the disk, whole. Raises StorageError if it cannot be written.
    """
    data = encode(tensors)
    blob_hash = blake3(data).hexdigest()
    path = blob_path(objects, blob_hash)
    if not path.exists():
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            write_atomically(path, data, mode=0o444)
            sync_folder(objects)
        except OSError as error:
            raise StorageError(
                f"{path}: the blob could not be written: {error.strerror}; make room"
            ) from error
    return blob_hash, len(data)


def write_atomically(path: Path, data: bytes, mode: int = 0o644) -> None:
    """Put `data` at `path`, synced: after a crash the old file is there, or the new one, whole."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fchmod(handle, mode)
            os.fsync(handle)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def verify(path: Path) -> None:
    """Raise CorruptBlob unless the file's bytes hash to its name."""
    try:
        found = blake3(max_threads=1).update_mmap(path).hexdigest()
    except OSError as error:
        raise CorruptBlob(f"{path}: the blob cannot be read: {error.strerror}; put back a copy") from error
    if found != path.stem:
        raise CorruptBlob(f"{path}: its bytes hash to {found[:12]}..., expected its name; put back a copy")


def map_tensors(path: Path, *, verify: bool) -> dict[str, Tensor]:
    """The tensors of a blob, mapped, not read: memory is touched when they are.

    Tensors are for inference; writing to one copies its page for this process alone. Raises
    CorruptBlob for a file that is not well-formed, or with `verify` not the one that was stored.
    """
    if verify:
        _verify(path)
    try:
        with path.open("rb") as file:
            mapping = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except (OSError, ValueError) as error:
        raise CorruptBlob(f"{path}: the blob cannot be mapped: {error}; put back a copy") from error
    header, start = _header(path, mapping)
    return {name: _tensor(path, mapping, start, name, entry) for name, entry in header.items()}


_verify = verify  # `map_tensors` has a parameter of that name


def _header(path: Path, mapping: mmap.mmap) -> tuple[dict[str, Any], int]:
    """The table of tensors, and where their bytes begin."""
    length = int.from_bytes(mapping[:8], "little")
    if len(mapping) < 8 or length > min(MAX_HEADER, len(mapping) - 8):
        raise CorruptBlob(f"{path}: its header of {length} bytes cannot be; put back a copy")
    try:
        header = json.loads(mapping[8 : 8 + length])
    except ValueError as error:
        raise CorruptBlob(f"{path}: its header is not JSON; put back a copy") from error
    if not isinstance(header, dict):
        raise CorruptBlob(f"{path}: its header is no table of tensors; put back a copy")
    header.pop("__metadata__", None)
    return header, 8 + length


def _tensor(path: Path, mapping: mmap.mmap, start: int, name: str, entry: Any) -> Tensor:
    try:
        dtype, shape = DTYPES[entry["dtype"]], [int(n) for n in entry["shape"]]
        begin, end = (int(n) for n in entry["data_offsets"])
    except (TypeError, KeyError, ValueError) as error:
        raise CorruptBlob(f"{path}: tensor '{name}' is described as {entry!r}; put back a copy") from error
    count = math.prod(shape)
    fits = 0 <= begin <= end <= len(mapping) - start and end - begin == count * dtype.itemsize
    if min(shape, default=0) < 0 or not fits:
        raise CorruptBlob(f"{path}: tensor '{name}' lies outside the file or is misshapen; put back a copy")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    if (start + begin) % dtype.itemsize:  # legal in the format, not for a view: copied
        return torch.frombuffer(bytearray(mapping[start + begin : start + end]), dtype=dtype).reshape(shape)
    return torch.frombuffer(mapping, dtype=dtype, count=count, offset=start + begin).reshape(shape)
