"""Figures that were measured of a run beside its writer; kept in the run, next to the snapshots.

The writer of a run records its own figures on yardsticks in the ledger. Those of the commands `league
yardstick` and `league exploit`, which any process may measure while the run trains, are files in folders of
the run's own. The table `yardsticks` shows all of them.

Files are sealed as manifests are, so that damage is noticed and nothing in them is ever executed. They are
only added: a later, poorer measurement takes nothing from an earlier one. What a file says is believed no
further than its types: a run folder may be a stranger's.

    add_yardsticks(run, records)
    add_measurement(run, measurement)
    measurements(run)[0]                 the newest of all
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args

import pyarrow as pa
from blake3 import blake3

from storage.disk import make_folder, write_whole
from storage.errors import Mistake, StorageError
from storage.layout import file_name, require_run
from storage.records import YardstickRecord
from storage.snapshots import manifests
from storage.tables import codec

TABLE = "yardsticks"
EXPLOITABILITY = "exploitability"  # in the column `measure`
YARDSTICKS, MEASUREMENTS = "yardsticks", "measurements"  # folders
MAX_BYTES = 2**20
MAX_NAME = 160  # characters of an id in a file's name, which are 255 at most
MAX_ID = 1000  # characters of a snapshot's id, or of a mixture's name
LARGEST = 1e12  # of values and times of measurements: no measurement is beyond, and no axis fits it
LAST = 253_402_300_799.0  # seconds since the epoch: the end of the year 9999
Kind = Literal["exact", "lower_bound"]
Worth = Literal["nothing_learned", "may_rise", "settled"]
_T = TypeVar("_T")
_FIELDS = tuple(field.name for field in dataclasses.fields(YardstickRecord))
_INTERVAL = ("value", "low", "high")
_FOUND_BY = {"exact": "best response", "lower_bound": "trained response"}  # in the column `yardstick`


@dataclass(frozen=True, slots=True)
class Measurement:
    """The average gain of a best response against a snapshot or a mixture: NashConv / num_players."""

    snapshot_id: str  # or the name of a mixture, such as "main-0@120000:average"
    player: str  # of a mixture, the name that its curve goes by, such as "main-0:average"
    env_steps: int  # of its player, when it was frozen; of a mixture: its newest member
    league_env_steps: int  # of the whole league, when it was frozen
    kind: Kind  # exact; or lower_bound: what a trained response gained, which the best may exceed
    value: float
    low: float  # of the 95 % interval; exact: the value
    high: float
    unit: str
    trained_env_steps: int | None  # of the response, until it was as it was measured; exact: None
    created_at: float  # seconds since the epoch
    worth: Worth | None = None  # of a lower bound: what its response learned; None: not known, or exact


def add_yardsticks(run: str | Path, records: Sequence[YardstickRecord]) -> Path:
    """Keep figures of one competitor on yardsticks in the run folder `run`, durably; return their file.

    Raise ValueError for figures that could not be read again, NotARun, Mistake, DiskFailed.
    """
    fields = {"created_at": time.time(), "figures": [dataclasses.asdict(record) for record in records]}
    _yardsticks(fields)
    return _add(run, YARDSTICKS, records[0].competitor, fields)


def add_measurement(
    run: str | Path, measurement: Measurement, details: Mapping[str, Any] | None = None
) -> Path:
    """Keep a measurement in the run folder `run`, durably, beside all others; return its path.

    `details` (JSON) describes the measuring for people only. Raise ValueError for a measurement that could
    not be read again, NotARun, Mistake, DiskFailed.
    """
    fields = dataclasses.asdict(measurement) | {"details": dict(details or {})}
    _measurement(fields)
    return _add(run, MEASUREMENTS, measurement.snapshot_id, fields, measurement.kind)


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


def files(run: str | Path, *folders: str) -> list[Path]:
    """Return the paths of all files with figures in `folders`, by default all. Raise Mistake for a link."""
    found: list[Path] = []
    for folder in folders or (YARDSTICKS, MEASUREMENTS):
        try:
            paths = sorted(_own(Path(run), folder).iterdir())
        except (FileNotFoundError, NotADirectoryError):
            continue
        found += [path for path in paths if path.suffix == ".json" and not path.name.startswith(".")]
    return found


def measurements(run: str | Path) -> list[Measurement]:
    """Return all measurements of exploitability in the run folder `run`, the newest first.

    Files that are not measurements are left out. Raise NotARun, Mistake.
    """
    require_run(Path(run))
    read = (_read(path, _measurement) for path in files(run, MEASUREMENTS))
    found = [measurement for measurement in read if measurement is not None]
    return sorted(found, key=lambda one: (-one.created_at, one.snapshot_id, one.kind))


def rows(path: Path) -> pa.Table:
    """Return the rows of the table `yardsticks` that a file of `files` holds, all of one time.

    There are none if it holds no figures.
    """
    if path.parent.name == MEASUREMENTS:
        measurement = _read(path, _measurement)
        if measurement is None:
            return codec.rows(TABLE, [])
        return codec.rows(
            TABLE,
            [measurement],
            seq=None,
            competitor=measurement.snapshot_id,
            yardstick=_FOUND_BY[measurement.kind],
            measure=EXPLOITABILITY,
            mode="sample",
            part="all",
            samples=None,
            created_at=min(max(measurement.created_at, 0.0), LAST),
        )
    created_at, records = _read(path, _yardsticks) or (0.0, [])
    return codec.rows(TABLE, records, seq=None, created_at=created_at)


def _add(run: str | Path, folder: str, stem: str, fields: Mapping[str, Any], kind: str = "") -> Path:
    """Keep `fields` (JSON) durably in the run's `folder`, in a file named by `stem`; return its path."""
    data = manifests.seal(fields)
    if len(data) > MAX_BYTES:
        raise ValueError(f"{folder}: {len(data):,} bytes, expected at most {MAX_BYTES:,}")
    name = ".".join(part for part in (file_name(stem)[:MAX_NAME], kind) if part)
    path = prepare(run, folder) / f"{name}.{blake3(data).hexdigest()[:16]}.json"
    write_whole(path, [data])
    return path


def _own(run: Path, folder: str) -> Path:
    """Return the path of the run's `folder`. Raise Mistake for a link: its target is not part of the run."""
    path = run / folder
    if path.is_symlink():
        raise Mistake(f"{path}: found a link, expected a folder of the run's own; remove it")
    return path


def _read(path: Path, parsed: Callable[[Mapping[str, Any]], _T]) -> _T | None:
    """Return what `parsed` makes of the fields of a sealed file; `None` if it is gone or damaged.

    `parsed` raises ValueError for fields that it does not accept.
    """
    try:
        return parsed(manifests.read(path, MAX_BYTES))
    except (StorageError, ValueError):
        return None


def _yardsticks(fields: Mapping[str, Any]) -> tuple[float, list[YardstickRecord]]:
    """Return the time and the figures of these fields. Raise ValueError for fields that are not figures."""
    if fields.keys() != {"created_at", "figures"} or not isinstance(fields["figures"], list):
        raise ValueError("no figures: expected created_at and figures")
    created_at = fields["created_at"]
    if type(created_at) not in (int, float) or not 0.0 <= created_at <= LAST:
        raise ValueError("no figures: created_at is no time")
    return float(created_at), [_record(row) for row in fields["figures"]]


def _record(row: Any) -> YardstickRecord:
    if not isinstance(row, Mapping) or row.keys() != set(_FIELDS):
        raise ValueError(f"no figure: expected {', '.join(_FIELDS)}")
    for name, given in row.items():
        if name in _INTERVAL:
            good = type(given) in (int, float) and 0.0 <= given <= 1.0  # nor NaN
        elif name == "samples":
            good = type(given) is int and 0 < given < 2**63
        else:
            good = _is_line(given)
        if not good:
            raise ValueError(f"no figure: {name} is {str(given)[:40]!r}")
    _require_inside("no figure", row)
    return YardstickRecord(**{**row, **{name: float(row[name]) for name in _INTERVAL}})


def _measurement(fields: Mapping[str, Any]) -> Measurement:
    """Return the measurement of these fields. Raise ValueError for fields that are not one."""
    expected = {field.name for field in dataclasses.fields(Measurement)} | {"details"}
    given = fields.keys() | {"worth"}  # which measurements of older versions lack
    if given != expected:
        wrong = ", ".join(sorted(map(str, given ^ expected))[:5])
        raise ValueError(f"no measurement: unknown or missing {wrong}")
    for name in ("snapshot_id", "player", "unit"):
        if not _is_line(fields[name]):
            raise ValueError(f"no measurement: {name} is no line of text")
    for name in ("env_steps", "league_env_steps", "trained_env_steps"):
        if name == "trained_env_steps" and fields[name] is None:
            continue
        if type(fields[name]) is not int or not 0 <= fields[name] < 2**63:
            raise ValueError(f"no measurement: {name} is no count")
    for name in (*_INTERVAL, "created_at"):
        if type(fields[name]) not in (int, float) or not abs(fields[name]) <= LARGEST:  # nor NaN
            raise ValueError(f"no measurement: {name} is no number up to {LARGEST:g}")
    for name, kinds in (("kind", get_args(Kind)), ("worth", (None, *get_args(Worth)))):
        if fields.get(name) not in kinds:
            raise ValueError(f"no measurement: {name} is not one of {', '.join(filter(None, kinds))}")
    _require_inside("no measurement", fields)
    if not isinstance(fields["details"], dict):
        raise ValueError("no measurement: details are no table")
    own = {name: value for name, value in fields.items() if name != "details"}
    return Measurement(**own | {name: float(own[name]) for name in (*_INTERVAL, "created_at")})


def _is_line(given: Any) -> bool:
    return isinstance(given, str) and 0 < len(given) <= MAX_ID and given.isprintable()


def _require_inside(what: str, fields: Mapping[str, Any]) -> None:
    if not fields["low"] <= fields["value"] <= fields["high"]:
        raise ValueError(f"{what}: the value is outside its interval")
