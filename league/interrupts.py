"""Ends of the process: a signal stops it cleanly, a second Ctrl-C at once; a sudden end prints a sentence.

SIGTERM (of `timeout`, systemd, SLURM) and SIGHUP (of a terminal that is closed) are as good as Ctrl-C. The
exit code is then 143 or 129. Where SIGHUP is ignored, as under `nohup`, it stays so.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from league import terminal

REPEAT_SECONDS = 1.0  # `timeout` sends its signal twice, and so does a terminal that is closed

_asked: list[tuple[int, float]] = []  # signals that have asked this process to end, and when
_stopping = threading.Event()
_SAID = b"\nleague: stopping; what was learned is saved (if a step of a game does not end: Ctrl-C again)\n"


def stopping() -> bool:
    """Return whether a signal has asked this process to end, so that every wait ends."""
    return _stopping.is_set()


def terminated() -> int:
    """Return the exit code of a process that SIGTERM or SIGHUP has asked to end; 0 if neither has."""
    return next((128 + number for number, _ in _asked if number != signal.SIGINT), 0)


@contextlib.contextmanager
def signals_end() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt within, as Ctrl-C does."""

    def end(signum: int, frame: Any) -> None:
        if not _is_repeated(signum):
            raise KeyboardInterrupt

    _asked.clear()
    with _handled(end, signal.SIGTERM, signal.SIGHUP):
        yield


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """Yield an event that the first signal sets; the second ends the process.

    The second raises KeyboardInterrupt; if code of the user's own keeps that from ending the process, the
    third ends it without another word.
    """
    interrupted = threading.Event()
    second = threading.Event()

    def stop(signum: int, frame: Any) -> None:
        if _is_repeated(signum):
            return
        if second.is_set():
            os._exit(128 + signum)
        if interrupted.is_set():
            second.set()
            raise KeyboardInterrupt
        interrupted.set()
        _stopping.set()
        terminal.write(_SAID)

    try:
        with _handled(stop, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            yield interrupted
    finally:
        if interrupted.is_set():
            _stopping.clear()


@contextlib.contextmanager
def _handled(handler: Callable[[int, Any], None], *numbers: signal.Signals) -> Iterator[None]:
    """Set the handler of signals, in the main thread only; those that are ignored stay so, but for Ctrl-C."""
    if not _is_main_thread():
        yield
        return
    own = [n for n in numbers if n == signal.SIGINT or signal.getsignal(n) != signal.SIG_IGN]
    before = {number: signal.signal(number, handler) for number in own}
    try:
        yield
    finally:
        for number, former in before.items():
            signal.signal(number, former)


def _is_repeated(signum: int) -> bool:
    """Note a signal; return whether it repeats another one, and is no Ctrl-C."""
    now = time.monotonic()
    repeated = signum != signal.SIGINT and any(now - at < REPEAT_SECONDS for _, at in _asked)
    _asked.append((signum, now))
    if signum == signal.SIGHUP:
        terminal.leave()
    return repeated


@contextlib.contextmanager
def signals_blocked() -> Iterator[None]:
    """Block SIGTERM and SIGHUP: processes that are started within never get them, nor do those of theirs.

    A signal to the whole process group, or to each of its processes, then ends this process alone. Handlers
    of SIGTERM that are set within are forgotten.
    """
    former = signal.getsignal(signal.SIGTERM)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGHUP))
    try:
        yield
    finally:
        if _is_main_thread():  # others cannot have set one
            signal.signal(signal.SIGTERM, former)
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def outlive_sigterm() -> None:
    """Take no notice of SIGTERM in this process, if it was started with that blocked; what it starts does.

    A game may end processes of its own by SIGTERM, which must not inherit that it is blocked.
    """
    if signal.SIGTERM in signal.pthread_sigmask(signal.SIG_BLOCK, ()) and _is_main_thread():
        signal.signal(signal.SIGTERM, lambda signum, frame: None)
        os.register_at_fork(after_in_child=lambda: signal.signal(signal.SIGTERM, signal.SIG_DFL))
        signal.pthread_sigmask(signal.SIG_UNBLOCK, (signal.SIGTERM,))


def _is_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


# waits for a word from the process that started it; the pipe that brings it ends with that process
_WATCH = 'trap "" HUP TERM; read word; [ "$word" = done ] || printf "%s\\n" "$1" >&2'


@contextlib.contextmanager
def last_words(sentence: str) -> Iterator[None]:
    """Print `sentence` on stderr if this process ends within, without a chance to print anything itself.

    A kill, the system when memory runs out, and Ray when its head node is lost end a process at once. A shell
    that waits at a pipe outlives it. Errors and signals that ask for an end are no such ends. Without a shell
    nothing is watched.
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
