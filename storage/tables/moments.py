"""Moments in a run's past: the last frame of its ledger at that time.

A moment is an int, the league's env_steps, or a time. A run that is stopped at N env steps
(`stop.env_steps`) has the batch of results that reaches N, and what is decided, reported and saved
after it. So its last frame is the one before the next batch, or before the next session if that comes
first: what an end of training writes is the run's own if the run was stopped there, and is not if it
went on. The state at a time has the frames before the first one of which something is younger.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from storage.errors import Mistake
from storage.layout import LEDGER
from storage.ledger.follower import last_frame, walk
from storage.ledger.frames import FrameOffset, decode
from storage.ledger.segments import Segment

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
    summed: list[Segment] = []
    for part in walk(ledger):
        if not isinstance(part, Segment) or part.summed is None:
            break
        summed.append(part)
    if isinstance(wanted, int):
        steps = sum(int(_segment_results(part).env_steps.sum()) for part in summed)
    else:
        time = max((float(_segment_times(part)[1].max()) for part in summed[-1:]), default=-np.inf)
    if isinstance(wanted, int) and wanted < steps:
        raise Mistake(
            f"as of {wanted:,}: matches up to env step {steps:,} were summed up, so the run can be shown as "
            f"of {steps:,} or later (storage.retention sets how much stays whole)"
        )
    if isinstance(wanted, float) and wanted < time:
        asked, when = (datetime.fromtimestamp(at, UTC).isoformat(timespec="seconds") for at in (wanted, time))
        raise Mistake(
            f"as of {asked}: matches up to {when} "
            "were summed up, so the run can be shown as of then or later (storage.retention sets how "
            "much stays whole)"
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
    youngest = -np.inf
    for part in walk(run / LEDGER):
        first, times = _segment_times(part) if isinstance(part, Segment) else _frame_time(*part)
        youngest = max([youngest, *times[: max(0, until - first + 1)]])
    return float(youngest)


def _last_by_env_steps(ledger: Path, env_steps: int) -> int:
    played, last = 0, 0
    reached = 1 if env_steps == 0 else None  # the frame that reached it; the first one begins the run
    for part in walk(ledger):
        found = _segment_results(part) if isinstance(part, Segment) else _frame_results(*part)
        last = found.last
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


class _Results(NamedTuple):
    """Results and sessions in a part of the ledger."""

    sequences: _Ints  # of the frames with results [B]
    env_steps: _Ints  # of each of them [B]
    begun: _Ints  # sequences of the frames that begin a session
    last: int  # the part's last sequence


def _segment_results(segment: Segment) -> _Results:
    frames = _frames_of(segment)
    begun = frames["runs"][0] if "runs" in frames else _NONE
    if segment.summed is not None:
        sums = [_counted(segment, name).sum() for name in _STEPS if name in frames]
        whole = np.array([int(sum(sums))])
        return _Results(np.array([segment.last]), whole, begun, segment.last)
    if "matches" not in frames:
        return _Results(_NONE, _NONE, begun, segment.last)
    sequences, starts = frames["matches"]
    steps = np.add.reduceat(_counted(segment, "matches"), starts)
    return _Results(sequences[steps > 0], steps[steps > 0], begun, segment.last)


def _frame_results(place: FrameOffset, payload: bytes) -> _Results:
    here = np.array([place.sequence])
    begun = here if "runs" in place.names else _NONE
    if "matches" not in place.names:
        return _Results(_NONE, _NONE, begun, place.sequence)
    steps = _steps_of(decode(place, payload, ("matches",)).tables["matches"]).sum()
    if not steps:  # placing games, which do not move the clock on
        return _Results(_NONE, _NONE, begun, place.sequence)
    return _Results(here, np.array([steps]), begun, place.sequence)


def _counted(segment: Segment, table: str) -> _Ints:
    return _steps_of(pq.read_table(segment.tables[table].path, columns=_COUNTED))


def _steps_of(matches: pa.Table) -> _Ints:
    """Return the env steps of each row on the league's clock: placing games count none."""
    purpose, match_type = (matches[name].cast(pa.string()) for name in _COUNTED[1:])
    placing = pc.and_(pc.equal(purpose, "evaluation"), pc.equal(match_type, "round_robin"))
    return pc.if_else(placing, 0, matches["env_steps"]).to_numpy().astype(np.int64)


def _last_by_time(ledger: Path, seconds: float) -> int:
    last = 0
    for part in walk(ledger):
        first, times = _segment_times(part) if isinstance(part, Segment) else _frame_time(*part)
        late = np.flatnonzero(times > seconds)
        if len(late):
            return first + int(late[0]) - 1
        last = first + len(times) - 1
    return last


def _segment_times(segment: Segment) -> tuple[int, _Floats]:
    """Return the first sequence, and the time of each frame's youngest fact, -inf if it has none."""
    times = np.full(segment.last - segment.first + 1, -np.inf)
    for table, (sequences, starts) in _frames_of(segment).items():
        named = pq.read_schema(segment.tables[table].path).names
        for at in (name for name in named if name.endswith("_at")):
            moments, *seconds = _columns(segment, table, [at, *_lasting(table, at)])
            whole = np.nan_to_num(sum(seconds, moments), nan=-np.inf)
            np.maximum.at(times, sequences - segment.first, np.maximum.reduceat(whole, starts))
    return segment.first, times


def _frame_time(place: FrameOffset, payload: bytes) -> tuple[int, _Floats]:
    youngest = -np.inf
    for name, rows in decode(place, payload).tables.items():
        for at in (column for column in rows.column_names if column.endswith("_at") and len(rows)):
            moments, *seconds = (rows[column].to_numpy() for column in (at, *_lasting(name, at)))
            youngest = max(youngest, float(np.nan_to_num(sum(seconds, moments), nan=-np.inf).max()))
    return place.sequence, np.array([youngest])


def _lasting(table: str, at: str) -> list[str]:
    """Return the column with the seconds that pass between `at` and the recording."""
    return ["seconds"] if (table, at) == ("matches", "started_at") else []


def _frames_of(segment: Segment) -> dict[str, tuple[_Ints, _Ints]]:
    """Return for each table with rows: the sequences of its frames, in order, and the first row of each."""
    counts = segment.counts()
    tables = np.array(counts["table"].to_pylist(), dtype=object)
    sequences, rows = counts["sequence"].to_numpy(), counts["rows"].to_numpy()
    found = {}
    for table in segment.tables:
        mine = (tables == table) & (rows > 0)
        if mine.any():
            first_row = np.append(0, np.cumsum(rows[mine])[:-1])
            whole, at = np.unique(sequences[mine], return_index=True)
            found[table] = (whole, first_row[at])
    return found


def _columns(segment: Segment, table: str, names: list[str]) -> list[_Floats]:
    rows = pq.read_table(segment.tables[table].path, columns=names)
    return [rows[name].to_numpy() for name in names]
