"""What takes the disk in a run folder, and the removal of a whole run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from storage.disk import disk, failed, remove_tree, sync_folder
from storage.errors import Mistake
from storage.layout import (
    DATABASE,
    FORMAT,
    KEPT,
    LEARNERS,
    LEDGER,
    MANIFESTS,
    OBJECTS,
    REFUSED,
    SUMS,
    require_run,
)
from storage.ledger import lock

_TABLE = re.compile(r"\d{8}\.([A-Za-z][A-Za-z0-9_]*)(?:\.summed)?\.parquet")
_PARTS = {
    LEDGER: "facts: what was not yet turned into tables",
    SUMS: "sums of the facts, for views and reports: made again where they are missing",
    OBJECTS: "weights of snapshots",
    MANIFESTS: "what each snapshot is",
    LEARNERS: "what training resumes from",
    f"{LEARNERS}/{KEPT}": "earlier states of learners, for branches",
    f"{LEARNERS}/{REFUSED}": "batches that an update was refused for",
    DATABASE: "copy of the tables for DuckDB tools: league sql RUN --save FILE makes it again",
}


@dataclass(frozen=True, slots=True)
class Use:
    """Files of one kind in a run folder."""

    part: str
    files: int
    bytes: int
    what: str


def disk_use(run: Path) -> list[Use]:
    """Return what the files of `run` take by kind, most first. Raise NotARun.

    A file that other runs have too, as branches do, counts whole.
    """
    require_run(run)
    sums: dict[str, tuple[int, int]] = {}
    for path, size in _files(run):
        part = _part(path.relative_to(run))
        files, total = sums.get(part, (0, 0))
        sums[part] = (files + 1, total + size)
    facts = f"{LEDGER}, "
    of_tables = {part: part.replace(facts, "facts: table ") for part in sums if part.startswith(facts)}
    what = of_tables | _PARTS
    found = [Use(part, *counts, what.get(part, "")) for part, counts in sums.items()]
    return sorted(found, key=lambda use: (-use.bytes, use.part))


def _part(path: Path) -> str:
    name, parts = path.name, path.parts
    if parts[0] == LEDGER and (table := _TABLE.fullmatch(name)):
        return f"{LEDGER}, {table[1]}"
    if name.startswith(DATABASE):
        return DATABASE
    if parts[0] == LEARNERS and len(parts) > 2 and parts[1] in (KEPT, REFUSED):
        return f"{LEARNERS}/{parts[1]}"
    return parts[0] if len(parts) > 1 else "settings and labels"


def _files(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the files in `folder` and below with their bytes; files that go meanwhile are left out."""
    for parent, _, names in os.walk(folder):
        for name in names:
            path = Path(parent, name)
            try:
                yield path, path.lstat().st_size
            except OSError:  # a run in training has replaced it
                continue


def remove_run(run: Path) -> None:
    """Remove the folder of a run for good. Raise NotARun, DiskFailed, RunLocked while a process writes it.

    The file FORMAT goes first: if the removal is cut short, what is left is no run any more.
    """
    require_run(run)
    if run.is_symlink():
        raise Mistake(f"{run}: is a link, expected the run folder itself")
    held = lock.take(run / LEDGER, "removing the run") if (run / LEDGER).is_dir() else None
    try:
        disk().unlink(run / FORMAT)
        sync_folder(run)
        remove_tree(run)
    except OSError as error:
        raise failed(run, "removed", error) from error
    finally:
        if held is not None:
            held.release()
    if run.exists():
        raise Mistake(f"{run}: some files in it could not be removed; remove the folder by hand")
