"""Files with the sums of closed segments, which views read in place of their rows.

    sums/00000007.<table>.parquet    the sums of segment 7 of the ledger (storage/retention/sums.py)
    sums/00000007.json               their sizes and hashes, and the hashes of the rows that they are sums of

The first 250,000 matches of a run have none: reading their rows takes no time, and all is exact by batch.

They are derived: what is missing, damaged or of other rows is made again, and the folder may be removed. The
writer of a run makes them behind each compaction, in that thread. A reader makes what is missing, as in a run
of an older version, unless the run is being written, or its folder cannot be: then views read the rows.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from storage.disk import disk, make_folder, write_whole
from storage.errors import CorruptLedger
from storage.layout import SUMS
from storage.ledger.ledger import Ledger
from storage.ledger.parquet import File, rows_writer
from storage.ledger.segments import Segment, entry_of, file_of, verify_file
from storage.retention.segment_rows import BOUNDS
from storage.retention.sums import SUMMED, sum_up
from storage.snapshots import manifests

VERSION = 1  # of what they are
LEAST_SEQ = 250_000  # of the last match in a segment that is summed up


def found(ledger: Path, segment: Segment) -> dict[str, File] | None:
    """Return the files with the sums of `segment` by table, verified; `None` if they are not all there."""
    try:
        fields = manifests.read(_manifest(ledger, segment))
        if fields["version"] != VERSION or fields["of"] != _rows_of(segment):
            return None
        files = {
            name: file_of([_file(ledger, segment, name)], entry) for name, entry in fields["tables"].items()
        }
        for file in files.values():
            verify_file(file)
    except (manifests.CorruptManifest, CorruptLedger, KeyError, TypeError, ValueError, AttributeError):
        return None
    return files


def pays(segment: Segment) -> bool:
    """Return whether `segment` is worth its sums: the run is long by then."""
    return (segment.highest("matches", "seq") or 0) >= LEAST_SEQ


def make(ledger: Path, segment: Segment, origin: float | None) -> dict[str, File]:
    """Write the sums of `segment` and return their files by table; `origin` as for `sum_up`.

    Raise DiskFailed, CorruptLedger.
    """
    make_folder(ledger.parent / SUMS)
    files = {}
    for name, (rows, _) in sum_up(segment, origin=origin).tables.items():
        with rows_writer(_file(ledger, segment, name), rows.schema) as writer:
            for batch in rows.to_batches():
                writer.add(batch)
        files[name] = writer.file()
    fields = {
        "version": VERSION,
        "of": _rows_of(segment),
        "tables": {name: entry_of(file) for name, file in files.items()},
    }
    write_whole(_manifest(ledger, segment), [manifests.seal(fields)], mode=0o444)
    return files


def beginning(segments: Iterable[Segment]) -> float | None:
    """Return when a run's first match began, by its first segment with matches; `None` if there is none."""
    for segment in segments:
        times = [
            np.min(segment.table(name, columns=["started_at"])["started_at"].to_numpy())
            for name in ("matches", "summed_matches")
            if segment.rows(name)
        ]
        if times:
            return float(min(times))
    return None


class SegmentSums:
    """The sums of one run's closed segments, made by its writer."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._done: set[int] = set()  # numbers of segments
        self._origin: float | None = None

    def step(self) -> bool:
        """Make the sums of a segment that has none yet, and return whether there was one.

        Raise StorageError.
        """
        for segment in self._ledger.compacted:
            if segment.number in self._done:
                continue
            self._done.add(segment.number)
            if segment.summed is None and pays(segment) and found(self._ledger.folder, segment) is None:
                self._ledger.require_own()
                self._origin = self._origin or beginning(self._ledger.compacted)
                make(self._ledger.folder, segment, self._origin)
                return True
        return False


def clear(ledger: Path, segment: Segment) -> None:
    """Remove the sums of a segment, if there are any."""
    with contextlib.suppress(OSError):
        for path in sorted((ledger.parent / SUMS).glob(f"{segment.number:08d}.*")):
            disk().unlink(path)


def _rows_of(segment: Segment) -> dict[str, str]:
    """Return the hashes of the files that sums are made of."""
    names = [name for name in (*SUMMED, *BOUNDS) if name in segment.tables]
    return {name: segment.tables[name].hash for name in names} | {"frames": segment.index.hash}


def _file(ledger: Path, segment: Segment, table: str) -> Path:
    return ledger.parent / SUMS / f"{segment.number:08d}.{table}.parquet"


def _manifest(ledger: Path, segment: Segment) -> Path:
    return ledger.parent / SUMS / f"{segment.number:08d}.json"
