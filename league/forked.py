"""Forked: a process that answers questions one by one. One that ends it, or has no end, costs little.

It is forked from this one, has all that is there, and ends with it. It never calls Ray, whose threads it does
not have.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import math
import os
import pickle
import signal
import stat
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, NoReturn

from storage.incidents import SILENT

CAN_FORK = sys.platform == "linux"
PR_SET_PDEATHSIG = 1  # of Linux: the signal that a process gets when the one that started it has died
LOOK_SECONDS, MOST_SECONDS = 1.0, 2.0  # between two looks for an answer, and those that count of longer
TRACE_SECONDS = 0.2  # for a process that has hung to write where it is
# whose handlers are Ray's or this package's: they end Python late, or print stacks of C++ for a second
UNHANDLED = (signal.SIGTERM, signal.SIGSEGV, signal.SIGBUS, signal.SIGABRT, signal.SIGFPE, signal.SIGILL)


class Died(Exception):
    """The process died, or did not answer and was ended. `trace`: where it was, if it could write that."""

    hung = False
    trace = ""


class Hung(Died):
    """The process did not answer in time."""

    hung = True


class Forked:
    """A process that was forked from this one. `make` is called there, and returns what answers questions."""

    def __init__(self, make: Callable[[], Callable[[Any], Any]]) -> None:
        """Start the process. Its first answer is `None`, or what `make` raised: call `receive`."""
        self._connection, other = Pipe()
        self._trace = tempfile.TemporaryFile()  # noqa: SIM115  # closed by `end`
        self._ended: int | None = None  # exit code; negative: the signal
        parent = os.getpid()
        with contextlib.suppress(OSError, ValueError, AttributeError):  # else it is written by both
            sys.stdout.flush()
            sys.stderr.flush()
        with warnings.catch_warnings():  # Python and JAX warn of threads, which the fork does not need
            warnings.simplefilter("ignore", DeprecationWarning)
            warnings.simplefilter("ignore", RuntimeWarning)
            self.pid = os.fork()
        if not self.pid:
            self._connection.close()
            _serve(make, other, parent, self._trace.fileno())
        other.close()

    def lives(self) -> bool:
        """Return whether the process has not ended."""
        if self._ended is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._ended = os.waitstatus_to_exitcode(status) if pid else None
        return self._ended is None

    def ask(self, question: Any, limit: float = math.inf) -> tuple[Any, float]:
        """Return the answer, and its seconds. Raise Died, or what was raised there."""
        with contextlib.suppress(OSError):  # it has just died
            self._connection.send(question)
        return self.receive(limit)

    def receive(self, limit: float = math.inf) -> tuple[Any, float]:
        """Return what comes within `limit` seconds, and after how many.

        Seconds in which this process itself was stopped do not count. Raise Died, or what was raised there.
        """
        seconds = 0.0
        clock = time.monotonic()
        while not self._connection.poll(min(LOOK_SECONDS, max(0.0, limit - seconds))):
            before, clock = clock, time.monotonic()
            seconds += min(clock - before, MOST_SECONDS)
            if seconds >= limit:
                raise self._died(Hung(f"{SILENT} for {limit:.3g} s"))
        seconds += time.monotonic() - clock
        try:
            answer = self._connection.recv()
        except (EOFError, OSError):
            until = time.monotonic() + LOOK_SECONDS
            while self.lives() and time.monotonic() < until:
                time.sleep(0.001)
            raise self._died(Died(in_words(self._ended))) from None
        if isinstance(answer, BaseException):
            raise answer
        return answer, seconds

    def end(self) -> None:
        """End the process, if it has not ended."""
        if self.lives():
            os.kill(self.pid, signal.SIGKILL)
            self._ended = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        self._connection.close()
        self._trace.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # it is not this process's own, or was ended
            self.end()

    def _died(self, died: Died) -> Died:
        """End the process, and return the error with the place where it was."""
        if self.lives():  # it hangs: faulthandler writes where
            os.kill(self.pid, signal.SIGUSR2)
            time.sleep(TRACE_SECONDS)
        self._trace.seek(0)
        died.trace = self._trace.read().decode(errors="replace")
        self.end()
        return died


def in_words(code: int | None) -> str:
    """Return how a process ended, by its exit code."""
    if code is None or code >= 0:
        return f"it ended itself with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"


def end_with(parent: int) -> None:
    """Have the system end this process with its parent, also while it is in a loop without an end."""
    with contextlib.suppress(AttributeError, OSError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def _serve(
    make: Callable[[], Callable[[Any], Any]], connection: Connection, parent: int, trace: int
) -> NoReturn:
    """Answer what comes in this process until the other one ends."""
    try:
        end_with(parent)
        _close_others(connection.fileno())
        faulthandler.disable()  # else its handlers are not set again
        for number in UNHANDLED:
            signal.signal(number, signal.SIG_DFL)
        faulthandler.enable(trace)
        faulthandler.register(signal.SIGUSR2, trace)
        _answer(make, connection)
    finally:
        os._exit(0)


def _close_others(own: int) -> None:
    """Let go of inherited pipes, sockets and locks, for whose end others wait; their numbers stay taken."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for name in os.listdir("/proc/self/fd"):
        number = int(name)
        with contextlib.suppress(OSError):
            mode, path = os.fstat(number).st_mode, os.path.basename(os.readlink(f"/proc/self/fd/{name}"))
            shared = stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or "lock" in path
            if number > 2 and number != own and shared:
                os.dup2(nothing, number)


def _answer(make: Callable[[], Callable[[Any], Any]], connection: Connection) -> None:
    try:
        answer = make()
    except Exception as error:
        _send(connection, error)
        return
    _send(connection, None)
    while True:
        try:
            question = connection.recv()
        except (EOFError, OSError):
            return
        try:
            found = answer(question)
        except Exception as error:
            found = error
        _send(connection, found)


def _send(connection: Connection, answer: Any) -> None:
    try:
        if isinstance(answer, Exception):
            pickle.loads(pickle.dumps(answer))  # an error of a user's own may be of any shape
        connection.send(answer)
    except OSError:  # the other process is gone, which the next look finds
        pass
    except Exception as error:
        cause = answer if isinstance(answer, Exception) else error
        connection.send(RuntimeError(f"{type(cause).__name__}: {cause}"))
