"""Dispatch: which runner the next request goes to, and which answers have come.

Both cost the same for ten runners or ten thousand calls: no turn of the loop looks at all of them. Each
result announces itself; a look at all of them follows now and then, so that none can be missed.
"""

from __future__ import annotations

import contextlib
import heapq
import time
from collections.abc import Callable, Iterable, Sequence
from queue import Empty, SimpleQueue
from typing import Any

LOOK_SECONDS = 5.0  # between two looks at all calls under way


class Arrivals:
    """References to results of remote calls, each once its result or its error is there."""

    def __init__(self, ray: Any) -> None:
        self._ray = ray
        self._come: SimpleQueue[Any] = SimpleQueue()
        self._looked = time.monotonic()

    def expect(self, reference: Any) -> None:
        """Have the reference announced when its result is there."""
        reference.future().add_done_callback(lambda _: self._come.put(reference))

    def take(self, timeout_seconds: float, under_way: Callable[[], Iterable[Any]]) -> list[Any]:
        """Return the references that have come since the last call, each once.

        If there are none, wait up to `timeout_seconds` for one. `under_way` returns all that are expected;
        references that the caller has dropped may be returned too.
        """
        found: dict[Any, None] = {}
        with contextlib.suppress(Empty):
            while True:
                found[self._come.get_nowait()] = None
        if not found and timeout_seconds > 0.0:
            with contextlib.suppress(Empty):
                found[self._come.get(timeout=timeout_seconds)] = None
        if time.monotonic() - self._looked >= LOOK_SECONDS:
            if waiting := list(under_way()):
                done, _ = self._ray.wait(waiting, num_returns=len(waiting), timeout=0)
                found |= dict.fromkeys(done)
            self._looked = time.monotonic()
        return list(found)


class LeastLoaded:
    """Numbers of runners in order of their loads.

    Entries whose runner has another load by now, or is not here, are dropped when they come to the front.
    """

    def __init__(self, load: Sequence[int], here: Callable[[int], bool]) -> None:
        """`load`: of each runner, at any time; `here` returns whether a runner may get requests now."""
        self._load, self._here = load, here
        self._heap: list[tuple[int, int]] = []

    def note(self, runner: int) -> None:
        """Note that the load of a runner has changed, or that it may get requests now."""
        heapq.heappush(self._heap, (self._load[runner], runner))
        if len(self._heap) > 8 * len(self._load) + 64:
            self._heap = [(load, runner) for runner, load in enumerate(self._load) if self._here(runner)]
            heapq.heapify(self._heap)

    def first(self) -> int | None:
        """Return the runner with the least load, the first by number; `None` if none is here."""
        while self._heap:
            load, runner = self._heap[0]
            if load == self._load[runner] and self._here(runner):
                return runner
            heapq.heappop(self._heap)
        return None
