"""The names of files and folders in a run folder."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import quote

from storage.errors import Mistake, NotARun, RunExists

VERSION = 1
FORMAT, CONFIG, DATABASE = "FORMAT", "config.yaml", "league.duckdb"
LEDGER, OBJECTS, MANIFESTS, LEARNERS = "ledger", "objects", "manifests", "learners"
SUMS = "sums"  # of closed segments, derived from them
PINS = "pins"  # blobs that are kept though no manifest names them
LABELS = "labels.json"  # tags and a note of its owner
INCIDENTS = "incidents"  # matches that were set aside
REFUSED, KEPT = "refused", "kept"  # in LEARNERS
MOST_NAMED = 5  # runs in a message
ORIGIN = "REMOTE"  # in a mirror: where it came from


RATED = "rated"
"""Key in the settings of a run whose games were played elsewhere: the size and hash of each file of them."""


def require_run(run: Path) -> None:
    """Raise NotARun unless `run` is a run folder that this version can read."""
    try:
        found = json.loads((run / FORMAT).read_text())["version"]
    except FileNotFoundError:
        within = _runs_in(run)
        if within:
            raise NotARun(
                f"{run}: expected a run folder, found a folder of runs; name one of them: {within}"
            ) from None
        raise NotARun(f"{run}: no file FORMAT there, expected a run folder (made by: league train)") from None
    except NotADirectoryError:
        raise NotARun(
            f"{run}: found a file, expected a run folder (made by: league train); a file of games is rated "
            f"by: league rate {run}"
        ) from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotARun(f'{run}/FORMAT cannot be read ({error}), expected {{"version": {VERSION}}}') from None
    if found != VERSION:
        raise NotARun(f"{run}: format version {found!r}, this package reads version {VERSION}")


def require_ledger(run: Path) -> None:
    """Raise NotARun unless `run` is a run folder that has its facts."""
    require_run(run)
    if not (run / LEDGER).is_dir():
        raise NotARun(f"{run}: no folder ledger in it, the run's facts are lost")


def _runs_in(folder: Path) -> str:
    """Return the run folders in `folder`, the newest first, for a message; "" if there are none."""
    try:
        found = sorted(folder.glob(f"*/{FORMAT}"), key=lambda path: path.stat().st_mtime, reverse=True)
    except OSError:
        return ""
    names = [str(path.parent) for path in found[:MOST_NAMED]]
    return ", ".join([*names, *(["..."] if len(found) > MOST_NAMED else [])])


def require_new(run: Path, *, resumes: bool = True) -> None:
    """Raise RunExists unless `run` is absent or an empty folder; `resumes`: whether --resume is an option.

    Raise Mistake for the address of an object store, which a Path would make a folder of that name.
    """
    if run.parts[:1] and run.parts[0].endswith(":"):
        raise Mistake(
            f"{run.as_posix().replace(':/', '://', 1)}: found an address, expected a new folder; "
            "`storage.remote` is where a run that is trained keeps a copy"
        )
    try:
        taken = run.exists() and (not run.is_dir() or any(run.iterdir()))
    except OSError as error:
        raise RunExists(f"{run} cannot be looked into: {error.strerror}; choose another folder") from None
    if taken:
        if not (run / FORMAT).exists():
            remedy = "it is no run:"
        else:
            remedy = "give --resume to go on with it, or" if resumes else "it is a run:"
        raise RunExists(f"{run.absolute() if run == Path() else run} exists; {remedy} choose another folder")


def blob_path(objects: Path, blob_hash: str) -> Path:
    """Return the path of the blob of that hash."""
    return objects / blob_hash[:2] / f"{blob_hash}.safetensors"


def file_name(name: str) -> str:
    """Return a file name for any competitor's id; different ids give different names."""
    return quote(name, safe="@").replace(".", "%2E")


def manifest_path(run: Path, snapshot_id: str) -> Path:
    """Return the path of the manifest of that snapshot."""
    return run / MANIFESTS / f"{file_name(snapshot_id)}.json"


def origin(run: Path) -> str | None:
    """Return the URL of the remote that the mirror `run` was brought from; `None` for a run's own folder."""
    try:
        return str(json.loads((run / ORIGIN).read_text())["url"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
