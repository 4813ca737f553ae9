"""Ends of the process: Ctrl-C stops it cleanly, a second one at once; a sudden end prints a sentence."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from typing import Any

_stopping = threading.Event()
_SAID = b"\nleague: stopping; what was learned is saved (if a step of a game does not end: Ctrl-C again)\n"


def stopping() -> bool:
    """Return whether Ctrl-C or SIGTERM has asked this process to end, so that every wait ends."""
    return _stopping.is_set()


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Yield an event that the first Ctrl-C or SIGTERM sets; the second ends the process.

    The second raises KeyboardInterrupt; if code of the user's own keeps that from ending the process, the
    third ends it without another word.
    """
    interrupted = threading.Event()
    second = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield interrupted
        return

    def stop(signum: int, frame: Any) -> None:
        if second.is_set():
            os._exit(128 + signum)
        if interrupted.is_set():
            second.set()
            raise KeyboardInterrupt
        interrupted.set()
        _stopping.set()
        with contextlib.suppress(OSError):  # not print: the signal may have come in the middle of one
            os.write(2, _SAID)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield interrupted
    finally:
        _stopping.clear()
        for number, handler in before.items():
            signal.signal(number, handler)


# waits for a word from the process that started it; the pipe that brings it ends with that process
_WATCH = 'read word; [ "$word" = done ] || printf "%s\\n" "$1" >&2'


@contextlib.contextmanager
def last_words(sentence: str) -> Iterator[None]:
    """Print `sentence` on stderr if this process ends within, without a chance to print anything itself.

    A kill, the system when memory runs out, and Ray when its head node is lost end a process at once. A shell
    that waits at a pipe outlives it. Errors and Ctrl-C are no such ends. Without a shell nothing is watched.
    """
    shell = shutil.which("sh")
    if shell is None:
        yield
        return
    watcher = subprocess.Popen(
        [shell, "-c", _WATCH, "sh", sentence],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        start_new_session=True,  # Ctrl-C is not for it
    )
    try:
        yield
    finally:
        assert watcher.stdin is not None
        with contextlib.suppress(OSError):  # it may have been killed first
            watcher.stdin.write(b"done\n")
            watcher.stdin.close()
        watcher.wait()
