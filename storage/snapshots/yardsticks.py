"""Figures on yardsticks that were measured beside the run's writer; kept in the run, next to the snapshots.

The writer of a run records its own figures in the ledger. Those of the command `league yardstick`, which any
process may measure while the run trains, are files in the folder `yardsticks`, sealed as manifests are. Files
are only added. What a file says is believed no further than its types: a run folder may be a stranger's.

    add(run, records)
    read(run)           (time, record) of all, oldest first
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from storage.records import YardstickRecord
from storage.snapshots import sealed_files

YARDSTICKS = "yardsticks"
LAST = 253_402_300_799.0  # seconds since the epoch: the end of the year 9999
_FIELDS = tuple(field.name for field in dataclasses.fields(YardstickRecord))
_NUMBERS = ("value", "low", "high")


def add(run: str | Path, records: Sequence[YardstickRecord]) -> Path:
    """Keep the figures of one competitor in the run folder `run`, durably; return the path of their file.

    Raise ValueError for figures that could not be read again, NotARun, Mistake, DiskFailed.
    """
    rows = [dataclasses.asdict(record) for record in records]
    fields = {"created_at": time.time(), "figures": rows}
    _parsed(fields)
    return sealed_files.add(run, YARDSTICKS, records[0].competitor, fields)


def prepare(run: str | Path) -> Path:
    """Make and return the folder for figures, so that a read-only run fails before the measuring.

    Raise NotARun, Mistake, DiskFailed.
    """
    return sealed_files.prepare(run, YARDSTICKS)


def files(run: str | Path) -> list[Path]:
    """Return the paths of all files with figures of the run folder `run`. Raise Mistake for a link."""
    return sealed_files.files(run, YARDSTICKS)


def read(
    run: str | Path, tell: Callable[[str], None] = lambda problem: None
) -> list[tuple[float, YardstickRecord]]:
    """Return the time (seconds since the epoch) of each figure in the run folder `run`, and the figure.

    The oldest come first. Files that hold no figures are left out; `tell` gets one sentence about each.
    """
    found = [figure for path in files(run) for figure in read_file(path, tell)]
    return sorted(found, key=lambda one: one[0])


def read_file(
    path: Path, tell: Callable[[str], None] = lambda problem: None
) -> list[tuple[float, YardstickRecord]]:
    """Return the figures of one file, each with its time; none if it is no such file."""
    return sealed_files.read_file(path, _parsed, tell) or []


def _parsed(fields: Mapping[str, Any]) -> list[tuple[float, YardstickRecord]]:
    """Return the figures of these fields. Raise ValueError for fields that are not figures."""
    if fields.keys() != {"created_at", "figures"} or not isinstance(fields["figures"], list):
        raise ValueError("no figures: expected created_at and figures")
    created_at = fields["created_at"]
    if type(created_at) not in (int, float) or not 0.0 <= created_at <= LAST:
        raise ValueError("no figures: created_at is no time")
    return [(float(created_at), _record(row)) for row in fields["figures"]]


def _record(row: Any) -> YardstickRecord:
    if not isinstance(row, Mapping) or row.keys() != set(_FIELDS):
        raise ValueError(f"no figure: expected {', '.join(_FIELDS)}")
    for name, given in row.items():
        if name in _NUMBERS:
            good = type(given) in (int, float) and 0.0 <= given <= 1.0  # nor NaN
        elif name == "samples":
            good = type(given) is int and 0 < given < 2**63
        else:
            good = isinstance(given, str) and 0 < len(given) <= 1000 and given.isprintable()
        if not good:
            raise ValueError(f"no figure: {name} is {str(given)[:40]!r}")
    if not row["low"] <= row["value"] <= row["high"]:
        raise ValueError("no figure: the value is outside its interval")
    return YardstickRecord(**{**row, **{name: float(row[name]) for name in _NUMBERS}})
