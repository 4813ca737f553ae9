"""A ledger up to one of its frames, copied for a branch of the run.

Compacted segments are immutable, so they are linked. What is behind the last whole one is written as
journals again, frame by frame: sequences, batch ids and tables are those of the original.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

from storage.disk import link_or_copy, sync_folder, whole
from storage.errors import Mistake
from storage.ledger.follower import numbers_of, open_segment
from storage.ledger.frames import Frame, decode, encode, scan
from storage.ledger.journal import journal_path
from storage.ledger.segments import Segment


def copy_until(source: Path, target: Path, last: int) -> None:
    """Copy the frames of the ledger `source` up to sequence `last` into the empty folder `target`.

    This works beside a writer of `source`. Raise CorruptLedger, DiskFailed, and Mistake if frames around
    `last` were summed up.
    """
    before = 0  # sequence of the last frame that is copied
    numbers = numbers_of(source)
    journal = None
    for number in numbers:
        found = open_segment(source, number)
        if isinstance(found, Segment) and found.last <= last:
            for path, _ in found.files():
                link_or_copy(path, target / path.name, mode=0o444)
            before, journal = found.last, None
            continue
        if isinstance(found, Segment) and found.summed is not None:
            raise Mistake(
                f"{source}: matches around frame {last} were summed up meanwhile (storage.retention), "
                "expected a later moment"
            )
        journal = journal_path(target, number)
        open_end = number == numbers[-1]
        with whole(journal) as file:
            for frame in _frames(found, journal_path(source, number), before, open_end):
                if frame.sequence > last:
                    break
                for part in encode(frame.sequence, frame.batch_id, frame.tables):
                    file.write(part)
                before = frame.sequence
        if before >= last:
            break
    if journal is None:  # a ledger ends with a journal
        with whole(journal_path(target, len(list(target.glob("*.json"))) + 1)):
            pass
    sync_folder(target)


def _frames(found: Segment | BinaryIO, path: Path, before: int, open_end: bool) -> Iterator[Frame]:
    if isinstance(found, Segment):
        yield from found.frames()
        return
    with found as file:
        for place, payload in scan(file, path, previous=before, last=open_end):
            yield decode(place, payload)
