"""Manifests: what a snapshot is, beside its weights, as JSON that notices every change of itself.

A manifest file is the canonical JSON of its fields, among them the blake3 hash of the others, and
nothing else: no other spelling of the same fields is taken for it. So one changed byte is enough to
refuse it, and what was written twice is equal byte by byte. The hash is not a signature: it shows
damage, not the writer. A manifest may come from a stranger: it is read only from a plain file,
bounded in size and depth, and nothing in it is believed or executed here.

    write_whole(path, [seal(fields)])
    read(path) == fields
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from blake3 import blake3

from storage.errors import StorageError

CHECKSUM = "checksum"
MAX_BYTES = 4 * 2**20
MAX_DEPTH = 32  # of nested tables and lists: code that takes a manifest apart may recurse


class CorruptManifest(StorageError):
    """A manifest cannot be read, or is not as it was written."""


def seal(fields: Mapping[str, Any]) -> bytes:
    """Return the file of a manifest with `fields` (JSON), its checksum added; equal fields, equal bytes.

    Raise ValueError for values that JSON lacks: infinities and NaN.
    """
    plain = {name: value for name, value in fields.items() if name != CHECKSUM}
    return _canonical(plain | {CHECKSUM: blake3(_canonical(plain)).hexdigest()})


def read(path: Path, max_bytes: int = MAX_BYTES) -> dict[str, Any]:
    """Return the fields of the manifest at `path`, without the checksum; a link is not followed.

    Raise CorruptManifest.
    """
    return parse(_plain_file(path, max_bytes), str(path))


def parse(data: bytes, source: str) -> dict[str, Any]:
    """Return the fields of a manifest of these bytes, without the checksum; `source` names their origin.

    Raise CorruptManifest.
    """
    try:
        if len(data) > MAX_BYTES:
            raise ValueError(f"{len(data)} bytes, expected at most {MAX_BYTES}")
        fields = json.loads(data)
        if not isinstance(fields, dict) or _depth(fields) > MAX_DEPTH:
            raise ValueError(f"no JSON object of at most {MAX_DEPTH} levels")
        written = seal(fields)
    except (ValueError, RecursionError) as error:
        raise CorruptManifest(f"{source}: no manifest: {error}; restore it from a copy") from None
    if data != written:
        raise CorruptManifest(f"{source}: the manifest is not as it was written; restore it from a copy")
    return {name: value for name, value in fields.items() if name != CHECKSUM}


def _canonical(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _plain_file(path: Path, max_bytes: int) -> bytes:
    """Return all bytes of a regular file; a plain `open` would wait for a pipe."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            found = os.fstat(handle)
            if not stat.S_ISREG(found.st_mode) or found.st_size > max_bytes:
                kind = f"{found.st_size} bytes" if stat.S_ISREG(found.st_mode) else "no plain file"
                raise CorruptManifest(f"{path}: {kind}, expected a manifest of at most {max_bytes} bytes")
            return os.pread(handle, found.st_size, 0)
        finally:
            os.close(handle)
    except OSError as error:
        raise CorruptManifest(f"{path}: the manifest cannot be read: {error.strerror or error}") from None


def _depth(value: Any) -> int:
    if not isinstance(value, dict | list):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)
