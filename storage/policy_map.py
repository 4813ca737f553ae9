"""PolicyMap: what is used often stays loaded, within a budget; what is evicted is simply dropped.

    policies = PolicyMap(capacity=64, load=load_policy)
    policies[snapshot]                  loaded on first use, the least recently used one leaves

Values are immutable as far as the map is concerned, so nothing is ever written back.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True, slots=True)
class PolicyMapInfo:
    """Counts since the map was made, and what it holds now."""

    hits: int
    misses: int
    evicted_by_count: int
    evicted_by_bytes: int
    dropped: int
    resident: int
    bytes: int


class PolicyMap(Generic[K, V]):
    """LRU map over `load`, with at most `capacity` values and `max_bytes` bytes of `size`.

    Looking at what is there (`in`, `len`, iteration, `values`) never loads anything.
    """

    def __init__(
        self,
        capacity: int,
        load: Callable[[K], V],
        *,
        max_bytes: int | None = None,
        size: Callable[[V], int] | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"PolicyMap: capacity is {capacity}, expected at least 1")
        if max_bytes is not None and size is None:
            raise ValueError("PolicyMap: max_bytes needs size, a function of a value")
        self._capacity = capacity
        self._load = load
        self._max_bytes = max_bytes
        self._size = size
        self._resident: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._bytes = self._hits = self._misses = self._by_count = self._by_bytes = self._dropped = 0

    def __getitem__(self, key: K) -> V:
        found = self._resident.get(key)
        if found is not None:
            self._hits += 1
            self._resident.move_to_end(key)
            return found[0]
        self._misses += 1
        value = self._load(key)
        size = self._size(value) if self._size is not None else 0
        self._resident[key] = value, size
        self._bytes += size
        self._evict()
        return value

    def __contains__(self, key: object) -> bool:
        return key in self._resident

    def __len__(self) -> int:
        return len(self._resident)

    def __iter__(self) -> Iterator[K]:
        """Keys of what is loaded, least recently used first."""
        return iter(list(self._resident))

    def values(self) -> list[V]:
        """What is loaded, least recently used first."""
        return [value for value, _ in self._resident.values()]

    def drop(self, key: K) -> bool:
        """Forget `key`, if it is loaded; says whether it was."""
        found = self._resident.pop(key, None)
        if found is None:
            return False
        self._bytes -= found[1]
        self._dropped += 1
        return True

    def info(self) -> PolicyMapInfo:
        return PolicyMapInfo(
            hits=self._hits,
            misses=self._misses,
            evicted_by_count=self._by_count,
            evicted_by_bytes=self._by_bytes,
            dropped=self._dropped,
            resident=len(self._resident),
            bytes=self._bytes,
        )

    def _evict(self) -> None:
        """Drop the least recently used until the budgets hold; the newest stays, however large."""
        while len(self._resident) > 1:
            if len(self._resident) > self._capacity:
                self._by_count += 1
            elif self._max_bytes is not None and self._bytes > self._max_bytes:
                self._by_bytes += 1
            else:
                return
            _, (_, size) = self._resident.popitem(last=False)
            self._bytes -= size
