"""The terminal of a command: our messages go there, lines that libraries print by themselves go to a file.

Ray's libraries print on file descriptor 2 past Python, in several lines a second where a cluster is lost.
Within `ours_alone` Python prints on a copy of that descriptor, so `rest_to_file` can point it elsewhere.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

STDOUT, STDERR = 1, 2  # file descriptors
_ours = STDERR  # the one that our messages go to


def write(message: bytes) -> None:
    """Write a message, also where printing is not allowed: in a handler of a signal."""
    with contextlib.suppress(OSError):
        os.write(_ours, message)


def leave() -> None:
    """Send to nowhere what this process prints on a terminal that is gone: printing there is an error."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for handle in {STDOUT, STDERR, _ours}:
        if stat.S_ISCHR(os.fstat(handle).st_mode):
            os.dup2(nowhere, handle)
    os.close(nowhere)


@contextlib.contextmanager
def ours_alone() -> Iterator[None]:
    """Let Python print on a copy of standard error within, unless that is not the process's own."""
    global _ours
    before = sys.stderr
    try:
        own = before.fileno() == STDERR
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something that is no file
        own = False
    if not own:
        yield
        return
    _ours = os.dup(STDERR)
    try:
        with open(_ours, "w", buffering=1, encoding=before.encoding, errors=before.errors) as sys.stderr:
            yield
    finally:
        sys.stderr, _ours = before, STDERR


@contextlib.contextmanager
def rest_to_file() -> Iterator[Callable[[Path], None]]:
    """Keep from the terminal what is printed on descriptor 2 within; all is as it was outside `ours_alone`.

    Yield a function that moves it to a file of this name.
    """
    if _ours == STDERR:
        yield lambda path: None
        return
    with tempfile.TemporaryFile() as first:
        os.dup2(first.fileno(), STDERR)

        def move(path: Path) -> None:
            first.seek(0)
            with contextlib.suppress(OSError), path.open("ab", buffering=0) as file:
                file.write(first.read())
                os.dup2(file.fileno(), STDERR)

        try:
            yield move
        finally:
            os.dup2(_ours, STDERR)
