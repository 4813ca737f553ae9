"""Settings of the cache of a node, which are passed on without opening it."""

from __future__ import annotations

from dataclasses import dataclass

FETCHED_BYTES = 20 * 2**30


@dataclass(frozen=True, slots=True)
class CacheSettings:
    """The place of fetched blobs on a node, and when blobs are hashed."""

    folder: str | None = None  # None: the user's cache folder
    max_bytes: int = FETCHED_BYTES  # of what is kept there, fetched or computed
    verify: str = "admission"  # admission: once on each node; always: at each lease; never
