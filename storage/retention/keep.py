"""What stays whole of a run's matches."""

from __future__ import annotations

from typing import NamedTuple


class Keep(NamedTuple):
    """Limits from which matches are summed up; `None`: no limit. What exceeds either is summed up."""

    hours: float | None = None  # since their segment was closed
    bytes: int | None = None  # of the newest closed segments
    share: float = 0.0  # of older matches that stay as rows
