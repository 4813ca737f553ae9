"""Where things lie in a run folder, and how a file gets there whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import quote

from storage.errors import NotARun, RunExists

VERSION = 1
FORMAT, CONFIG, INDEX = "FORMAT", "config.yaml", "league.duckdb"
LEDGER, OBJECTS, MANIFESTS, LEARNERS = "ledger", "objects", "manifests", "learners"
REFUSED = "refused"  # in LEARNERS


def require_run(run: Path) -> None:
    """Raise NotARun unless `run` is a run folder that this version can read."""
    try:
        found = json.loads((run / FORMAT).read_text())["version"]
    except FileNotFoundError:
        raise NotARun(f"{run}: no file FORMAT there, expected a run folder (made by: league train)") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotARun(f'{run}/FORMAT cannot be read ({error}), expected {{"version": {VERSION}}}') from None
    if found != VERSION:
        raise NotARun(f"{run}: format version {found!r}, this package reads version {VERSION}")


def require_new(run: Path) -> None:
    """Raise RunExists unless `run` is absent or an empty folder."""
    if run.exists() and (not run.is_dir() or any(run.iterdir())):
        remedy = "give --resume to go on with it, or" if (run / FORMAT).exists() else "it is no run:"
        raise RunExists(f"{run} exists; {remedy} choose another folder")


def blob_path(objects: Path, blob_hash: str) -> Path:
    """Where the blob of that hash lies."""
    return objects / blob_hash[:2] / f"{blob_hash}.safetensors"


def file_name(name: str) -> str:
    """A file name for any competitor's id, different ids giving different names."""
    return quote(name, safe="@").replace(".", "%2E")


def write_json(path: Path, value: Any) -> None:
    """`value` as JSON at `path`, atomically."""
    write_whole(path, [json.dumps(value, indent=1).encode()])


def write_whole(path: Path, parts: Iterable[bytes], mode: int = 0o644) -> None:
    """The bytes of `parts` at `path`, replacing what was there: after a crash the old or the new.

    Written beside it, synced, renamed, folder synced; returns once it is durable.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(6)}.tmp")
    try:
        with open(temporary, "xb") as file:
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
            os.fchmod(file.fileno(), mode)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in `folder` durable: a synced file without a synced name can be lost."""
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
