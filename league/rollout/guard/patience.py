"""Patience: how long a request is played on once this process is asked to end."""

from __future__ import annotations

import time
from collections.abc import Callable

from league.interrupts import stopping

GRACE_SECONDS = 2.0  # for a request to be finished after Ctrl-C, or after the end of the run


class PlayStopped(Exception):
    """A request was left unfinished, because the process was asked to end; its matches are dropped."""


class Patience:
    """Look at Ctrl-C and at the end of the run while matches are played, at every step.

    `overdue(steps)`: whether the run has ended, after so many steps of this request.
    """

    def __init__(self, overdue: Callable[[int], bool] | None = None) -> None:
        self._overdue = overdue
        self._since: float | None = None
        self._steps = 0

    def look(self) -> None:
        """Raise PlayStopped if this request must be left."""
        self._steps += 1
        if not (stopping() or (self._overdue is not None and self._overdue(self._steps))):
            return
        now = time.monotonic()
        self._since = now if self._since is None else self._since
        if now - self._since > GRACE_SECONDS:
            raise PlayStopped
