"""Arrivals: what remote calls have returned, in the order in which it came.

Waiting costs the same whether ten calls are under way or ten thousand: each result announces itself. A look
at all of them, whose time grows with their number, follows now and then, so that none can be missed.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable
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
