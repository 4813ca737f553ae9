"""Hard limits on time and memory, for work that cannot be interrupted from within."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from collections.abc import Iterator


@contextlib.contextmanager
def hard_limits(seconds: float, max_bytes: int) -> Iterator[None]:
    """End this process with exit code 2 if the block takes longer, or more memory.

    DuckDB checks its own limits only between two blocks of rows, and a single value may be gigantic.
    """
    import psutil  # this module is imported by all commands

    done, process = threading.Event(), psutil.Process()

    def watch() -> None:
        end = time.monotonic() + seconds
        while not done.wait(0.1):
            if time.monotonic() > end or process.memory_info().rss > max_bytes:
                limits = f"{seconds:g} seconds or {max_bytes >> 30} GiB"
                print(f"league: sql: the statement took more than {limits}; ask for less", file=sys.stderr)
                sys.stderr.flush()
                os._exit(2)

    threading.Thread(target=watch, name="hard limits", daemon=True).start()
    try:
        yield
    finally:
        done.set()
