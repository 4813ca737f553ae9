"""Measurements: how far a snapshot can be exploited, as measured; kept beside the snapshots.

One file for each, in the run's folder `measurements`, sealed as manifests are, so that damage is noticed
and nothing in it is ever executed. Files are only added: a run may be measured while it trains, by any
number of processes, and a later, poorer measurement takes nothing from an earlier one. What a file says
is believed no further than its types: a run folder may be a stranger's.

    add(run, measurement)
    read(run)[0]        the newest of all
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, get_args

from blake3 import blake3

from storage.disk import make_folder, write_whole
from storage.errors import Mistake, StorageError
from storage.layout import file_name, require_run
from storage.snapshots import manifests

MEASUREMENTS = "measurements"
MAX_BYTES = 2**20
LARGEST = 1e12  # of values and times: no measurement is beyond, and no axis fits it
MAX_ID = 1000  # characters of a snapshot's id, or of a mixture's name
MAX_NAME = 160  # characters of a snapshot's id in a file's name, which are 255 at most

Kind = Literal["exact", "lower_bound"]


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


def add(run: str | Path, measurement: Measurement, details: Mapping[str, Any] | None = None) -> Path:
    """Keep a measurement in the run folder `run`, durably, beside all others; return its path.

    `details` (JSON) describes the measuring for people only. Raise ValueError for a measurement that could
    not be read again, NotARun, DiskFailed.
    """
    fields = dataclasses.asdict(measurement) | {"details": dict(details or {})}
    _parsed(fields)
    data = manifests.seal(fields)
    if len(data) > MAX_BYTES:
        raise ValueError(f"measurement: {len(data):,} bytes, expected at most {MAX_BYTES:,}; shorten details")
    folder = prepare(run)
    name = file_name(measurement.snapshot_id)[:MAX_NAME]
    path = folder / f"{name}.{measurement.kind}.{blake3(data).hexdigest()[:16]}.json"
    write_whole(path, [data])
    return path


def prepare(run: str | Path) -> Path:
    """Make and return the folder for measurements, so that a read-only run fails before hours of work.

    Raise NotARun, Mistake, DiskFailed.
    """
    run = Path(run)
    require_run(run)
    folder = _folder(run)
    if folder.exists() and not folder.is_dir():
        raise Mistake(f"{folder}: found a file, expected a folder of the run's own; remove it")
    make_folder(folder)
    return folder


def read(run: str | Path, tell: Callable[[str], None] = lambda problem: None) -> list[Measurement]:
    """Return all measurements in the run folder `run`, the newest first.

    Files that are not measurements are left out; `tell` gets one sentence about each. Raise NotARun.
    """
    found = []
    for path in files(run):
        try:
            found.append(_parsed(manifests.read(path, MAX_BYTES)))
        except FileNotFoundError:
            continue
        except StorageError as error:
            tell(str(error))
        except ValueError as error:
            tell(f"{path}: {error}; the file is left out")
    return sorted(found, key=lambda one: (-one.created_at, one.snapshot_id, one.kind))


def files(run: str | Path) -> list[Path]:
    """Return the paths of measurements of the run folder `run`, if their files are whole. Raise NotARun."""
    run = Path(run)
    require_run(run)
    try:
        paths = sorted(_folder(run).iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [path for path in paths if path.suffix == ".json" and not path.name.startswith(".")]


def _folder(run: Path) -> Path:
    """Return the folder of measurements. Raise Mistake for a link: its target is not part of the run."""
    folder = run / MEASUREMENTS
    if folder.is_symlink():
        raise Mistake(f"{folder}: found a link, expected a folder of the run's own; remove it")
    return folder


def _parsed(fields: Mapping[str, Any]) -> Measurement:
    """Return the measurement of these fields. Raise ValueError for fields that are not one."""
    expected = {field.name for field in dataclasses.fields(Measurement)} | {"details"}
    if fields.keys() != expected:
        wrong = ", ".join(sorted(map(str, fields.keys() ^ expected))[:5])
        raise ValueError(f"no measurement: unknown or missing {wrong}")
    for name in ("snapshot_id", "player", "unit"):
        text = fields[name]
        if not isinstance(text, str) or not text or len(text) > MAX_ID or not text.isprintable():
            raise ValueError(f"no measurement: {name} is no line of text")
    for name in ("env_steps", "league_env_steps", "trained_env_steps"):
        if name == "trained_env_steps" and fields[name] is None:
            continue
        if type(fields[name]) is not int or not 0 <= fields[name] < 2**63:
            raise ValueError(f"no measurement: {name} is no count")
    for name in ("value", "low", "high", "created_at"):
        if type(fields[name]) not in (int, float) or not abs(fields[name]) <= LARGEST:  # nor NaN
            raise ValueError(f"no measurement: {name} is no number up to {LARGEST:g}")
    if fields["kind"] not in get_args(Kind):
        raise ValueError(f"no measurement: kind is not one of {', '.join(get_args(Kind))}")
    if not fields["low"] <= fields["value"] <= fields["high"]:
        raise ValueError("no measurement: the value is outside its interval")
    if not isinstance(fields["details"], dict):
        raise ValueError("no measurement: details are no table")
    own = {name: value for name, value in fields.items() if name != "details"}
    floats = {name: float(own[name]) for name in ("value", "low", "high", "created_at")}
    return Measurement(**own | floats)
