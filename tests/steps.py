"""Steps that many tests take: damage a file, wait for something to be so."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def flip_bit(path: Path, at: float = -1, bit: int = 0) -> None:
    """Flip a bit of the byte `at`: its place, or as a float its share of the file, which may be read-only."""
    data = bytearray(path.read_bytes())
    data[at if isinstance(at, int) else int(at * len(data))] ^= 1 << bit
    path.chmod(0o644)
    path.write_bytes(data)


def wait_for(condition: Callable[[], Any], seconds: float = 60.0, every: float = 0.02) -> None:
    """Return as soon as `condition` holds; fail if it does not within so many seconds."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(every)
