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

from storage.layout import require_run
from storage.snapshots import sealed_files

MEASUREMENTS = "measurements"
LARGEST = 1e12  # of values and times: no measurement is beyond, and no axis fits it
MAX_ID = 1000  # characters of a snapshot's id, or of a mixture's name

Kind = Literal["exact", "lower_bound"]
Worth = Literal["nothing_learned", "may_rise", "settled"]


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


def add(run: str | Path, measurement: Measurement, details: Mapping[str, Any] | None = None) -> Path:
    """Keep a measurement in the run folder `run`, durably, beside all others; return its path.

    `details` (JSON) describes the measuring for people only. Raise ValueError for a measurement that could
    not be read again, NotARun, DiskFailed.
    """
    fields = dataclasses.asdict(measurement) | {"details": dict(details or {})}
    _parsed(fields)
    return sealed_files.add(run, MEASUREMENTS, measurement.snapshot_id, fields, measurement.kind)


def prepare(run: str | Path) -> Path:
    """Make and return the folder for measurements, so that a read-only run fails before hours of work.

    Raise NotARun, Mistake, DiskFailed.
    """
    return sealed_files.prepare(run, MEASUREMENTS)


def read(run: str | Path, tell: Callable[[str], None] = lambda problem: None) -> list[Measurement]:
    """Return all measurements in the run folder `run`, the newest first.

    Files that are not measurements are left out; `tell` gets one sentence about each. Raise NotARun.
    """
    read_all = (sealed_files.read_file(path, _parsed, tell) for path in files(run))
    found = [measurement for measurement in read_all if measurement is not None]
    return sorted(found, key=lambda one: (-one.created_at, one.snapshot_id, one.kind))


def files(run: str | Path) -> list[Path]:
    """Return the paths of measurements of the run folder `run`, if their files are whole. Raise NotARun."""
    require_run(Path(run))
    return sealed_files.files(run, MEASUREMENTS)


def _parsed(fields: Mapping[str, Any]) -> Measurement:
    """Return the measurement of these fields. Raise ValueError for fields that are not one."""
    expected = {field.name for field in dataclasses.fields(Measurement)} | {"details"}
    given = fields.keys() | {"worth"}  # which measurements of older versions lack
    if given != expected:
        wrong = ", ".join(sorted(map(str, given ^ expected))[:5])
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
    if fields.get("worth") not in (None, *get_args(Worth)):
        raise ValueError(f"no measurement: worth is not one of {', '.join(get_args(Worth))}")
    if not fields["low"] <= fields["value"] <= fields["high"]:
        raise ValueError("no measurement: the value is outside its interval")
    if not isinstance(fields["details"], dict):
        raise ValueError("no measurement: details are no table")
    own = {name: value for name, value in fields.items() if name != "details"}
    floats = {name: float(own[name]) for name in ("value", "low", "high", "created_at")}
    return Measurement(**own | floats)
