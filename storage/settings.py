"""Settings that are passed on without opening what they are of: a node's cache, and retention."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

FETCHED_BYTES = 20 * 2**30


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The place of fetched blobs on a node, and when blobs are hashed."""

    folder: str | None = None  # None: the user's cache folder
    max_bytes: int = FETCHED_BYTES  # of what is kept there, fetched or computed
    verify: str = "admission"  # admission: once on each node; always: at each lease; never


class Keep(NamedTuple):
    """What stays whole of a run's matches.

    Limits from which they are summed up; `None`: no limit. What exceeds either is summed up.
    """

    hours: float | None = None  # since their segment was closed
    bytes: int | None = None  # of the newest closed segments
    share: float = 0.0  # of older matches that stay as rows
