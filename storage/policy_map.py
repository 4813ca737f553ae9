"""PolicyMap: the policies a process keeps at hand, loaded when first asked for, dropped least recent first.

What is loaded never changes, so an eviction is a drop; nothing is ever written back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class PolicyMapInfo:
    """Counters since the map was made, and what it holds now."""

    hits: int
    misses: int
    evictions: Mapping[str, int]  # by cause: "count", "bytes", "dropped" (asked for, by `drop`)
    resident: int
    bytes: int  # by the map's `size`; 0 without one


class PolicyMap(Generic[Key, Value]):
    """`map[key]` is `load(key)`, remembered for the `capacity` keys used last.

    With `max_bytes`, also no more than that many bytes as `size(value)` counts them; the value just
    loaded stays even when it alone exceeds them. Only `map[key]` ever loads: `in`, `get`, iteration
    and `values` look at what is resident and do not count as use. For one thread.
    """

    def __init__(
        self,
        capacity: int,
        load: Callable[[Key], Value],
        max_bytes: int | None = None,
        size: Callable[[Value], int] | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}, expected at least 1")
        if max_bytes is not None and size is None:
            raise ValueError("max_bytes is given without size: nothing can be counted")
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._load = load
        self._size = size
        self._resident: OrderedDict[Key, tuple[Value, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = 0
        self._evictions = {"count": 0, "bytes": 0, "dropped": 0}

    def __getitem__(self, key: Key) -> Value:
        found = self._resident.get(key)
        if found is not None:
            self._hits += 1
            self._resident.move_to_end(key)
            return found[0]
        self._misses += 1
        value = self._load(key)
        size = 0 if self._size is None else self._size(value)
        self._resident[key] = (value, size)
        self._bytes += size
        while len(self._resident) > self.capacity:
            self._evict(next(iter(self._resident)), "count")
        while self.max_bytes is not None and self._bytes > self.max_bytes and len(self._resident) > 1:
            self._evict(next(iter(self._resident)), "bytes")
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._resident

    def __len__(self) -> int:
        return len(self._resident)

    def __iter__(self) -> Iterator[Key]:
        """Resident keys, least recently used first."""
        return iter(tuple(self._resident))

    def get(self, key: Key) -> Value | None:
        """The resident value, or None."""
        found = self._resident.get(key)
        return None if found is None else found[0]

    def values(self) -> tuple[Value, ...]:
        """Resident values, least recently used first."""
        return tuple(value for value, _ in self._resident.values())

    def drop(self, key: Key) -> bool:
        """Forget `key`; False when it was not resident."""
        if key not in self._resident:
            return False
        self._evict(key, "dropped")
        return True

    def info(self) -> PolicyMapInfo:
        """The counters now."""
        return PolicyMapInfo(
            self._hits, self._misses, dict(self._evictions), len(self._resident), self._bytes
        )

    def _evict(self, key: Key, cause: str) -> None:
        _, size = self._resident.pop(key)
        self._bytes -= size
        self._evictions[cause] += 1
