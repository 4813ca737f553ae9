"""PolicyMap: the policies that a process keeps, loaded on first use, dropped least recent first.

    with policies.lease(key) as policy: ...      at hand until the block is left

What is loaded never changes, so an eviction is a drop; nothing is ever written back.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class TierInfo:
    """The counters of one tier of a cache since it was made, and what it holds now."""

    tier: str  # device, mapped, disk, remote
    hits: int
    misses: int
    resident: int
    bytes: int  # of what is resident; remote: fetched so far
    evictions: Mapping[str, int]  # by cause


@dataclass(slots=True)
class _Entry(Generic[Value]):
    value: Value
    bytes: int
    leases: int = 0


class PolicyMap(Generic[Key, Value]):
    """A map whose `map[key]` is `load(key)`, kept for the `capacity` keys used last.

    With `max_bytes`, the values also hold at most that many bytes, as `size(value)` counts them. Two kinds of
    values stay even beyond the budgets: the value used last, and leased values; the excess leaves when their
    leases end. `release(value)` is called on each value that leaves: where it matters, take values by `lease`
    only.

    Only `map[key]` and `lease` load: `in`, `get`, iteration and `values` read what is resident and do not
    count as use. The map is safe among threads: a key that several threads need is loaded once, different
    keys side by side.
    """

    def __init__(
        self,
        capacity: int,
        load: Callable[[Key], Value],
        max_bytes: int | None = None,
        size: Callable[[Value], int] | None = None,
        release: Callable[[Value], object] | None = None,
    ) -> None:
        if capacity < 1:
            raise ValueError(f"capacity is {capacity}, expected at least 1")
        if max_bytes is not None and size is None:
            raise ValueError("max_bytes is given without size: nothing can be counted")
        self.capacity = capacity
        self.max_bytes = max_bytes
        self._load = load
        self._size = size
        self._release = release
        self._lock = threading.Lock()
        self._resident: OrderedDict[Key, _Entry[Value]] = OrderedDict()
        self._loading: dict[Key, threading.Event] = {}  # set when the load has ended, well or not
        self._bytes = self._hits = self._misses = 0
        self._evictions = {"count": 0, "bytes": 0, "dropped": 0}  # dropped: asked for, by `drop`

    def __getitem__(self, key: Key) -> Value:
        return self._use(key, leases=0).value

    @contextlib.contextmanager
    def lease(self, key: Key) -> Iterator[Value]:
        """Yield the value of `key`, which stays resident until the block is left."""
        entry = self._use(key, leases=1)
        try:
            yield entry.value
        finally:
            with self._lock:
                entry.leases -= 1
                left = self._shrink()
            self._let_go(left)

    def _use(self, key: Key, leases: int) -> _Entry[Value]:
        while True:
            with self._lock:
                entry = self._resident.get(key)
                if entry is not None:
                    self._hits += 1
                    entry.leases += leases
                    self._resident.move_to_end(key)
                    return entry
                ended = self._loading.get(key)
                if ended is None:
                    self._loading[key] = threading.Event()
                    self._misses += 1
                    break
            ended.wait()  # and look again: if that load failed, this thread tries
        try:
            value = self._load(key)
            entry = _Entry(value, 0 if self._size is None else self._size(value), leases)
            with self._lock:
                self._resident[key] = entry
                self._bytes += entry.bytes
                left = self._shrink()
        finally:
            self._loading.pop(key).set()
        self._let_go(left)
        return entry

    def __contains__(self, key: object) -> bool:
        return key in self._resident

    def __len__(self) -> int:
        return len(self._resident)

    def __iter__(self) -> Iterator[Key]:
        """Iterate over resident keys, least recently used first."""
        with self._lock:
            return iter(tuple(self._resident))

    def get(self, key: Key) -> Value | None:
        """Return the resident value, or `None`."""
        entry = self._resident.get(key)
        return None if entry is None else entry.value

    def values(self) -> tuple[Value, ...]:
        """Return resident values, least recently used first."""
        with self._lock:
            return tuple(entry.value for entry in self._resident.values())

    def drop(self, key: Key) -> bool:
        """Forget `key`; return False if it is not resident, or leased."""
        with self._lock:
            entry = self._resident.get(key)
            if entry is None or entry.leases:
                return False
            self._evict(key, "dropped")
        self._let_go([entry.value])
        return True

    def info(self, tier: str = "mapped") -> TierInfo:
        """Return the counters now, as those of the tier of that name.

        Evictions are by count, bytes, dropped.
        """
        with self._lock:
            return TierInfo(
                tier, self._hits, self._misses, len(self._resident), self._bytes, dict(self._evictions)
            )

    def _shrink(self) -> list[Value]:
        """Evict the excess that may leave, and return it."""
        left = []
        for key in list(self._resident)[:-1] if self._excess() else ():
            cause = self._excess()
            if cause is None:
                break
            if not self._resident[key].leases:
                left.append(self._evict(key, cause))
        return left

    def _excess(self) -> str | None:
        if len(self._resident) > self.capacity:
            return "count"
        return "bytes" if self.max_bytes is not None and self._bytes > self.max_bytes else None

    def _evict(self, key: Key, cause: str) -> Value:
        entry = self._resident.pop(key)
        self._bytes -= entry.bytes
        self._evictions[cause] += 1
        return entry.value

    def _let_go(self, left: list[Value]) -> None:
        if self._release is not None:
            for value in left:
                self._release(value)
