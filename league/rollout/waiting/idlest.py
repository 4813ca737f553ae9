"""The least loaded of many runners, found without a look at all of them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence


class Idlest:
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
