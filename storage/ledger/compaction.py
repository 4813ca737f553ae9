"""Compaction beside the writer: a thread that turns closed journal segments into Parquet."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from storage.errors import RunTaken
from storage.ledger.ledger import Ledger

RETRY_SECONDS = 60.0  # a disk that was full may have room again
_log = logging.getLogger(__name__)


class Compaction:
    """A thread that first compacts what an earlier writer left, then waits for segments to be closed."""

    def __init__(self, ledger: Ledger, step: Callable[[], bool] = lambda: False) -> None:
        """`step` is called behind each segment, until it returns False: sums and retention."""
        self._ledger, self._step = ledger, step
        self._wake, self._closing, self._finishing = (threading.Event() for _ in range(3))
        self._told = ""
        self._thread = threading.Thread(target=self._work, name="compaction", daemon=True)
        self._thread.start()
        self.look()

    def wake(self) -> None:
        """Wake the thread: something may be due."""
        self._wake.set()

    def look(self) -> None:
        """Wake the thread if there is a closed segment, at almost no cost."""
        if self._ledger.num_closed:
            self._wake.set()

    def close(self, *, finish: bool = False) -> None:
        """Wait for the segment under way; the next writer compacts the others, unless all are to `finish`."""
        if finish:
            self._finishing.set()
        self._closing.set()
        self._wake.set()
        self._thread.join()

    def _work(self) -> None:
        closing = False
        while not closing:
            self._wake.wait()
            self._wake.clear()
            closing = self._closing.is_set()
            try:
                more = True
                while more and (not self._closing.is_set() or self._finishing.is_set()):
                    compacted = self._ledger.compact(most=1)
                    more = self._step() or bool(compacted)  # both: neither may starve the other
            except RunTaken:
                return  # another process compacts now
            except Exception as error:  # a journal serves as well, only slower: never a reason to stop
                self._tell(" ".join(str(error).split()))
                self._closing.wait(RETRY_SECONDS)
                self._wake.set()

    def _tell(self, reason: str) -> None:
        if reason != self._told:
            self._told = reason
            _log.warning("%s: not compacted for now: %s", self._ledger.folder, reason)
