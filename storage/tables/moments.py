"""Moments in a run's past: the last frame of its ledger at that time.

A moment is an int, the league's env_steps, or a time. A run that is stopped at N env steps
(`stop.env_steps`) has the batch of results that reaches N, and what is decided, reported and saved
after it. So its last frame is the one before the next batch, or before the next session if that comes
first: what an end of training writes is the run's own if the run was stopped there, and is not if it
went on. The state at a time has the frames before the first one of which something is younger.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from storage.errors import Mistake
from storage.layout import LEDGER
from storage.ledger.follower import last_frame, walk
from storage.ledger.frames import FrameOffset, decode
from storage.ledger.segments import Segment
from storage.tables import schema

Moment = int | str | datetime
"""Env steps of the league, or a time; text is either. Times without a zone are UTC."""

_Ints = npt.NDArray[np.int64]
_Floats = npt.NDArray[np.float64]
_NONE = np.zeros(0, np.int64)
_STEPS = ("matches", "summed_matches")  # tables with env steps of matches
_COUNTED = ["env_steps", "purpose", "match_type"]


def parse_moment(moment: Moment) -> int | float:
    """Return env steps as an int, a time as seconds since the epoch. Raise Mistake."""
    expected = (
        "expected env steps of the league, such as 2_000_000, or a time (UTC), such as 2025-01-31T12:00:00"
    )
    if isinstance(moment, str):
        text = moment.strip()
        try:
            moment = (
                int(text) if text.lstrip("-").replace("_", "").isdecimal() else datetime.fromisoformat(text)
            )
        except ValueError:
            raise Mistake(f"as of '{text}': found neither a number nor a time, {expected}") from None
    if isinstance(moment, datetime):
        return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
    if isinstance(moment, bool) or not isinstance(moment, (int, np.integer)):
        raise Mistake(f"as of {moment!r}: found {type(moment).__name__}, {expected}")
    if moment < 0:
        raise Mistake(f"as of {moment}: found a negative number, {expected}")
    return int(moment)


def last_frame_at(run: Path, moment: Moment) -> int:
    """Return the sequence of the last frame that the run had at that moment; 0 if there is none.

    A moment in the future means now. Raise Mistake, CorruptLedger.
    """
    wanted = parse_moment(moment)
    _require_whole(run / LEDGER, wanted)
    if isinstance(wanted, int):
        return _last_by_env_steps(run / LEDGER, wanted)
    return _last_by_time(run / LEDGER, wanted)


def _require_whole(ledger: Path, wanted: int | float) -> None:
    """Raise Mistake for a moment whose matches were summed up (storage.retention)."""
    summed = list(itertools.takewhile(lambda part: part.summed is not None, _parts(ledger)))
    if not summed:
        return
    if isinstance(wanted, int):
        first: float = sum(int(_results(part).env_steps.sum()) for part in summed)
        asked, until, then = f"{wanted:,}", f"env step {first:,}", f"{first:,}"
    else:
        first, then = float(_times(summed[-1]).max()), "then"
        asked, until = (
            datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") for at in (wanted, first)
        )
    if wanted < first:
        raise Mistake(
            f"as of {asked}: matches up to {until} were summed up, so the run can be shown as of {then} or "
            "later (storage.retention sets how much stays whole)"
        )


def last_time(run: Path, moment: Moment) -> float:
    """Return the time of that moment, in seconds since the epoch.

    For env steps it is the time of the youngest fact that the run had then; for now it is infinite. Raise
    Mistake, CorruptLedger.
    """
    wanted = parse_moment(moment)
    if isinstance(wanted, float):
        return wanted
    until = last_frame_at(run, wanted)
    if until == last_frame(run / LEDGER)[0]:
        return np.inf
    parts = itertools.takewhile(lambda part: part.first <= until, _parts(run / LEDGER))
    return float(max((_times(part)[: until - part.first + 1].max() for part in parts), default=-np.inf))


def _last_by_env_steps(ledger: Path, env_steps: int) -> int:
    played, last = 0, 0
    reached = 1 if env_steps == 0 else None  # the frame that reached it; the first one begins the run
    for part in _parts(ledger):
        found, last = _results(part), part.last
        if reached is None:
            total = played + np.cumsum(found.env_steps)
            at = int(np.searchsorted(total, env_steps))
            played += int(found.env_steps.sum())
            if at == len(total):
                continue
            reached = int(found.sequences[at])
        later = [*found.sequences[found.sequences > reached][:1], *found.begun[found.begun > reached][:1]]
        if later:
            return int(min(later)) - 1
    return last


def _last_by_time(ledger: Path, seconds: float) -> int:
    last = 0
    for part in _parts(ledger):
        late = np.flatnonzero(_times(part) > seconds)
        if len(late):
            return part.first + int(late[0]) - 1
        last = part.last
    return last


class _OneFrame:
    """A frame behind the compacted segments, to be read as one of them."""

    summed = None

    def __init__(self, place: FrameOffset, payload: bytes) -> None:
        self.first = self.last = place.sequence
        self.tables = decode(place, payload).tables

    def counts(self) -> pa.Table:
        rows = [len(rows) for rows in self.tables.values()]
        return pa.table({"sequence": [self.first] * len(rows), "table": list(self.tables), "rows": rows})

    def table(self, name: str, *, columns: list[str]) -> pa.Table:
        there = self.tables[name].column_names
        return self.tables[name].select([column for column in columns if column in there])


def _parts(ledger: Path) -> Iterator[Segment | _OneFrame]:
    return (part if isinstance(part, Segment) else _OneFrame(*part) for part in walk(ledger))


class _Results(NamedTuple):
    """Results and sessions in a part of the ledger."""

    sequences: _Ints  # of the frames with results [B]
    env_steps: _Ints  # of each of them [B]
    begun: _Ints  # sequences of the frames that begin a session


def _steps_of(matches: pa.Table) -> _Ints:
    """Return the env steps of each row on the league's clock: placing games count none."""
    purpose, match_type = (matches[name].cast(pa.string()) for name in _COUNTED[1:])
    placing = pc.and_(pc.equal(purpose, "evaluation"), pc.equal(match_type, "round_robin"))
    return pc.if_else(placing, 0, matches["env_steps"]).to_numpy().astype(np.int64)


def _results(part: Segment | _OneFrame) -> _Results:
    frames = _frames_of(part)
    begun, _ = frames.get("runs", (_NONE, _NONE))
    steps = {name: _steps_of(part.table(name, columns=_COUNTED)) for name in _STEPS if name in frames}
    if part.summed is not None:
        return _Results(np.array([part.last]), np.array([sum(each.sum() for each in steps.values())]), begun)
    if "matches" not in steps:
        return _Results(_NONE, _NONE, begun)
    sequences, starts = frames["matches"]
    counted = np.add.reduceat(steps["matches"], starts)
    return _Results(sequences[counted > 0], counted[counted > 0], begun)  # others do not move the clock on


def _times(part: Segment | _OneFrame) -> _Floats:
    """Return the time of each frame's youngest fact, -inf if it has none."""
    times = np.full(part.last - part.first + 1, -np.inf)
    for table, (sequences, starts) in _frames_of(part).items():
        known = [column for column in schema.TABLES.get(table, ()) if column.endswith("_at")]
        rows = part.table(table, columns=[*known, "seconds"] if table == "matches" else known)
        for at in set(known).intersection(rows.column_names):
            moments = rows[at].to_numpy()
            if table == "matches":  # which are recorded when they are over
                moments = moments + rows["seconds"].to_numpy()
            whole = np.nan_to_num(moments, nan=-np.inf)
            np.maximum.at(times, sequences - part.first, np.maximum.reduceat(whole, starts))
    return times


def _frames_of(part: Segment | _OneFrame) -> dict[str, tuple[_Ints, _Ints]]:
    """Return for each table with rows: the sequences of its frames, in order, and the first row of each."""
    counts = part.counts()
    tables = np.array(counts["table"].to_pylist(), dtype=object)
    sequences, rows = counts["sequence"].to_numpy(), counts["rows"].to_numpy()
    found = {}
    for table in part.tables:
        mine = (tables == table) & (rows > 0)
        if mine.any():
            first_row = np.append(0, np.cumsum(rows[mine])[:-1])
            whole, at = np.unique(sequences[mine], return_index=True)
            found[table] = (whole, first_row[at])
    return found
