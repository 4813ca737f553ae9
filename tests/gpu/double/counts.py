"""Counts of what a program asks of a card: launches, copies and waits of the host, each by line of code."""

from __future__ import annotations

import collections
import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field

PARTS = ("/league/", "/storage/", "/tests/")  # whose lines are counted
SELF = "/tests/gpu/double/"


@dataclass
class Counts:
    """Numbers by (line of code, what it was); without `lines`, the line is empty."""

    lines: bool = False  # looking for the line takes longer than most operators
    launches: collections.Counter = field(default_factory=collections.Counter)
    waits: collections.Counter = field(default_factory=collections.Counter)
    copies: collections.Counter = field(default_factory=collections.Counter)
    copied_bytes: collections.Counter = field(default_factory=collections.Counter)

    def pageable(self) -> int:
        """Return the number of copies to a card from memory that is not pinned."""
        return sum(count for (_, kind), count in self.copies.items() if kind.startswith("pageable"))

    def sent(self) -> int:
        """Return the number of copies to a card."""
        return sum(count for (_, kind), count in self.copies.items() if "h2d" in kind)

    def report(self) -> str:
        """Return everything as lines of text, the most frequent places first."""
        by_place: collections.Counter = collections.Counter()
        for (place, _), count in self.launches.items():
            by_place[place] += count
        found = [f"launches {by_place.total()}"]
        found += [f"{count:>10}  {place}" for place, count in by_place.most_common(12)]
        found.append(f"waits {self.waits.total()}")
        found += [f"{count:>10}  {place}  {why}" for (place, why), count in self.waits.most_common(20)]
        found.append(f"copies {self.copies.total()}")
        for (place, kind), count in self.copies.most_common(20):
            found.append(f"{count:>10}  {place}  {kind}, {self.copied_bytes[place, kind]:,} bytes")
        return "\n".join(found)


_now = Counts()


@contextlib.contextmanager
def counted(*, lines: bool = False) -> Iterator[Counts]:
    """Count what all threads of this process ask of cards until the end of the block."""
    global _now
    before, _now = _now, Counts(lines)
    try:
        yield _now
    finally:
        _now = before


def launched(operator: str) -> None:
    """Count a kernel."""
    _now.launches[_place(), operator] += 1


def waited(why: str) -> None:
    """Count a wait of the host for a card."""
    _now.waits[_place(), why] += 1


def copied(kind: str, num_bytes: int) -> None:
    """Count a copy between the host and a card, or into pinned memory."""
    place = _place()
    _now.copies[place, kind] += 1
    _now.copied_bytes[place, kind] += num_bytes


def _place() -> str:
    if not _now.lines:
        return ""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if any(part in name for part in PARTS) and SELF not in name:
            short = name.rpartition("/league/")[2] if "/league/" in name else name.rpartition("/")[2]
            return f"{short}:{frame.f_lineno}"
        frame = frame.f_back
    return "backward"  # autograd's threads have no frames of the program
