"""Sealed files: what was measured of a run, one file each, in a folder of the run's own.

Files are sealed as manifests are, so that damage is noticed and nothing in them is ever executed. They are
only added, by any number of processes, also while the run trains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from blake3 import blake3

from storage.disk import make_folder, write_whole
from storage.errors import Mistake, StorageError
from storage.layout import file_name, require_run
from storage.snapshots import manifests

MAX_BYTES = 2**20
MAX_NAME = 160  # characters of an id in a file's name, which are 255 at most
_T = TypeVar("_T")


def add(run: str | Path, folder: str, stem: str, fields: Mapping[str, Any], kind: str = "") -> Path:
    """Keep `fields` (JSON) durably in the run's `folder`, in a file named by `stem`; return its path.

    `kind` is part of the name too. Raise ValueError for more than MAX_BYTES; else as `prepare`.
    """
    data = manifests.seal(fields)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{folder}: {len(data):,} bytes, expected at most {MAX_BYTES:,}")
    name = ".".join(part for part in (file_name(stem)[:MAX_NAME], kind) if part)
    path = prepare(run, folder) / f"{name}.{blake3(data).hexdigest()[:16]}.json"
    write_whole(path, [data])
    return path


def prepare(run: str | Path, folder: str) -> Path:
    """Make and return the run's `folder`, so that a read-only run fails before hours of work.

    Raise NotARun, Mistake, DiskFailed.
    """
    require_run(Path(run))
    path = _own(Path(run), folder)
    if path.exists() and not path.is_dir():
        raise Mistake(f"{path}: found a file, expected a folder of the run's own; remove it")
    make_folder(path)
    return path


def files(run: str | Path, folder: str) -> list[Path]:
    """Return the paths of the run's sealed files in `folder`, if they are whole. Raise Mistake for a link."""
    try:
        paths = sorted(_own(Path(run), folder).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in paths if path.suffix == ".json" and not path.name.startswith(".")]


def read_file(
    path: Path, parsed: Callable[[Mapping[str, Any]], _T], tell: Callable[[str], None]
) -> _T | None:
    """Return what `parsed` makes of the fields of a sealed file; `None` if it is gone or damaged.

    `parsed` raises ValueError for fields that it does not accept. `tell` gets one sentence about a file that
    is left out.
    """
    try:
        return parsed(manifests.read(path, MAX_BYTES))
    except FileNotFoundError:
        return None
    except StorageError as error:
        tell(str(error))
    except ValueError as error:
        tell(f"{path}: {error}; the file is left out")
    return None


def _own(run: Path, folder: str) -> Path:
    """Return the path of the run's `folder`. Raise Mistake for a link: its target is not part of the run."""
    path = run / folder
    if path.is_symlink():
        raise Mistake(f"{path}: found a link, expected a folder of the run's own; remove it")
    return path
