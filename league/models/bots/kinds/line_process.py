"""LineProcess: a process of any program that is asked and answers in lines of text, with deadlines.

Its standard error is appended to a log. It ends with this process, and what it started ends with it.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from league.forked import end_with, in_words
from storage.incidents import SILENT
from storage.records import EndReason

MOST_BYTES = 2**20  # of a line
WRITE_SECONDS = 10.0  # for a process to take what it is sent
LOOK_SECONDS = 1.0  # between two looks at the clock


class LineFailed(Exception):
    """The process gave no line: it ended, or it is late (`reason`), or its line has no end."""

    def __init__(self, cause: str, reason: EndReason = EndReason.ERROR) -> None:
        super().__init__(cause)
        self.reason = reason


class LineProcess:
    """A program that runs, until `end`."""

    def __init__(self, words: Sequence[str], log: Path, folder: str | None = None) -> None:
        """Start it with these words, in `folder` or in the present one. Raise LineFailed."""
        parent = os.getpid()
        variables: Mapping[str, str] | None = None
        if folder is not None:
            variables = {"PATH": os.environ.get("PATH", ""), "HOME": folder, "TMPDIR": folder}
        try:
            with log.open("ab") as errors:
                self._process = subprocess.Popen(
                    words,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=errors,
                    cwd=folder,
                    env=variables,
                    bufsize=0,
                    start_new_session=True,  # Ctrl-C is for the process that plays
                    preexec_fn=lambda: end_with(parent),
                )
        except OSError as error:
            raise LineFailed(f"it cannot be started ({error.strerror or error})") from None
        self._in, self.out = (
            s.fileno() for s in (self._process.stdin, self._process.stdout) if s is not None
        )
        os.set_blocking(self._in, False)
        os.set_blocking(self.out, False)
        self._read = b""

    @property
    def lives(self) -> bool:
        """Whether the process has not ended."""
        return self._process.poll() is None

    def send(self, line: str) -> None:
        """Send a line. Raise LineFailed if the process does not take it."""
        left, until = line.encode() + b"\n", time.monotonic() + WRITE_SECONDS
        while left:
            try:
                left = left[os.write(self._in, left) :]
            except BlockingIOError:
                if not select.select((), (self._in,), (), max(0.0, until - time.monotonic()))[1]:
                    raise LineFailed("it does not read what it is sent", EndReason.TIME) from None
            except OSError:
                raise self._ended() from None

    def line(self, seconds: float) -> str:
        """Return the next line, which must come within so many seconds. Raise LineFailed."""
        until = time.monotonic() + seconds
        while (found := self.take()) is None:
            left = until - time.monotonic()
            if left <= 0.0:
                raise LineFailed(f"{SILENT} in time", EndReason.TIME)
            select.select((self.out,), (), (), min(left, LOOK_SECONDS))
        return found

    def take(self) -> str | None:
        """Return a line if a whole one is there, without waiting. Raise LineFailed."""
        if b"\n" not in self._read:
            try:
                fresh = os.read(self.out, 2**16)
            except BlockingIOError:
                return None
            if not fresh:
                raise self._ended()
            self._read += fresh
        line, found, rest = self._read.partition(b"\n")
        if not found:
            if len(self._read) > MOST_BYTES:
                raise LineFailed("it gave a line without an end", EndReason.ILLEGAL_ACTION)
            return None
        self._read = rest
        return line.decode(errors="replace").strip()

    def end(self) -> None:
        """End the process, and all that it has started in its session."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()

    def __del__(self) -> None:
        with contextlib.suppress(Exception):  # it was never started
            self.end()

    def _ended(self) -> LineFailed:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(1.0)
        return LineFailed(in_words(self._process.returncode))


def new_log(name: str) -> Path:
    """Return a new file for what the processes of a bot print on standard error."""
    folder = Path(tempfile.gettempdir()) / f"league-programs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    plain = "".join(letter if letter.isalnum() else "-" for letter in name)[:40]
    handle, path = tempfile.mkstemp(".log", f"{plain}-", folder)
    os.close(handle)
    return Path(path)


def sandboxed(words: Sequence[str], memory_mib: int, cpu_seconds: int) -> list[str]:
    """Return the words that start a program without network, with these limits. Raise LineFailed."""
    unshare, prlimit = shutil.which("unshare"), shutil.which("prlimit")
    if unshare is None or prlimit is None:
        raise LineFailed("a sandbox needs unshare and prlimit of Linux")
    kinds = ["--net", "--pid", "--fork", "--kill-child", "--mount-proc"]
    for options in (["--user", "--map-root-user", *kinds], kinds):
        apart = [unshare, *options, "--"]
        tried = subprocess.run([*apart, "true"], capture_output=True, text=True, check=False)
        if not tried.returncode:
            limits = [f"--as={memory_mib * 2**20}", f"--cpu={cpu_seconds}", "--core=0"]
            return [*apart, prlimit, *limits, "--", *words]
    raise LineFailed(f"this machine allows no namespaces for a sandbox ({' '.join(tried.stderr.split())})")
