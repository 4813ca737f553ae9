"""Bots that are processes: one for each seat, from a match's first decision to its end, then for others.

A process of any program is asked and answers in lines of text, with deadlines. Its standard error is appended
to a log. It ends with this process, and what it started ends with it. One that fails is ended; a match that
goes on without one gets another.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.cluster.runtime import available_cpus
from league.envs.spaces import ActionSpec
from league.forked import end_with, in_words
from league.models.actor import Actor, Chosen, Failed, Look
from league.models.bots.bot import UnknownBot, silent, waited_for
from storage.arrays import Floats, Floats32, Indices
from storage.incidents import SILENT
from storage.records import EndReason

START_SECONDS = 30.0  # for the first answer of a process
MOST_BYTES = 2**20  # of a line
WRITE_SECONDS = 10.0  # for a process to take what it is sent
LOOK_SECONDS = 1.0  # between two looks at the clock

# (lines to send, what reads each line of the answer and returns the action, or None before the last line)
Asked = tuple[str, Callable[[str], npt.NDArray | None]]


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


class ProcessBot(Actor):
    """Bot of processes. The memory of a seat holds the number of its match, from 1."""

    memory_size = 1  # the bits of a 32-bit integer
    wants_game = wants_end = True

    def __init__(
        self, name: str, words: Sequence[str], processes: int | None, action: ActionSpec, folder: str | None
    ) -> None:
        """Start one of `processes` for matches side by side. Raise UnknownBot if it does not start."""
        self._where, self._words, self._action, self._folder = f"bot '{name}'", words, action, folder
        self._dtype = np.dtype(action.dtype)
        self._log = new_log(name)
        weakref.finalize(self, _clear, self._log)
        self._processes = processes or available_cpus()
        self._num_seats = 1
        self._ids = itertools.count(1)
        self._busy: dict[int, LineProcess] = {}  # by match; the oldest use first
        self._idle: dict[int, list[LineProcess]] = {}  # by seat
        self.most_matches = self._processes
        try:
            self._idle[0] = [self._started(0)]
        except LineFailed as error:
            raise UnknownBot(self._told(error)) from None

    @abstractmethod
    def _greet(self, process: LineProcess, seat: int) -> None:
        """Prepare a process that has started, for matches in this seat. Raise LineFailed."""

    @abstractmethod
    def _question(self, look: Look, match: int) -> Asked:
        """Return what to ask for one decision, the only row of `look`."""

    def over(self, memory: Floats32, seat: Indices, score: Floats, reason: npt.NDArray[np.int8]) -> None:
        """Free the processes for other matches."""
        for match, own in zip(ids_in(memory).tolist(), seat.tolist(), strict=True):
            if match in self._busy:
                self._idle.setdefault(own, []).append(self._busy.pop(match))

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Decide for each row; in matches that are unknown, as seat 0."""
        n, seats = len(look), [0] * len(look)
        if look.places is not None:
            self._num_seats, seats = look.places.game.num_seats, look.places.seat.tolist()
        memory = np.zeros((n, 1), dtype=np.float32) if look.memory is None else look.memory
        ids = ids_in(memory)
        for row in np.flatnonzero(ids == 0).tolist():
            ids[row] = next(self._ids) % 2**31
        memory[:] = ids.view(np.float32)[:, None]
        asked = [self._question(look.row(row), match) for row, match in enumerate(ids.tolist())]
        chosen = Chosen(
            np.zeros((n, *self._action.shape), dtype=self._dtype),
            np.zeros(n, dtype=np.float32),
            look.observation,
            np.zeros((n, *self._action.shape), dtype=self._dtype),
            np.zeros(n, dtype=np.bool_),
            {},
            np.zeros(n),
        )
        self._ask(ids.tolist(), seats, asked, waited_for(look), chosen, silent(look))
        return chosen._replace(raw=chosen.action)

    def _ask(
        self, ids: list[int], seat: list[int], asked: list[Asked], left: Floats, chosen: Chosen, late: str
    ) -> None:
        """Ask a process for each row, all at once; write action, seconds and failures of `chosen`.

        `left` [n]: the seconds for each; `late`: what one did that took longer.
        """
        waits: dict[int, tuple[LineProcess, float]] = {}  # by row; since when
        failed: dict[int, LineFailed] = {}
        assert chosen.seconds is not None
        for row, (lines, _) in enumerate(asked):
            try:
                process = self._process_of(ids[row], seat[row])
                process.send(lines)
                waits[row] = process, time.monotonic()
            except LineFailed as error:
                failed[row] = error
        while waits:
            now = time.monotonic()
            for row, (process, since) in list(waits.items()):
                chosen.seconds[row] = now - since
                try:
                    action = None
                    while action is None and (line := process.take()) is not None:
                        action = asked[row][1](line)
                    if action is not None:
                        chosen.action[row] = action
                        del waits[row]
                    elif now - since > left[row]:
                        raise LineFailed(late, EndReason.TIME)
                except LineFailed as error:
                    del waits[row]
                    failed[row] = error
            if waits:
                rest = min(left[row] - (now - since) for row, (_, since) in waits.items())
                poll = select.poll()  # unlike `select`, of any number of files
                for process, _ in waits.values():
                    poll.register(process.out, select.POLLIN)
                poll.poll(max(1.0, min(rest, 1.0) * 1e3))
        for row, why in failed.items():
            chosen.failed[row] = Failed(why.reason, self._told(why))  # type: ignore[index]  # a dict
            if ids[row] in self._busy:
                self._busy.pop(ids[row]).end()

    def _process_of(self, match: int, seat: int) -> LineProcess:
        """Return the process that plays this match in this seat. Raise LineFailed if none can be started."""
        own = self._busy.pop(match, None)
        idle = self._idle.setdefault(seat, [])
        while own is None and idle:
            process = idle.pop()
            own = process if process.lives else None
        self._busy[match] = own = own or self._started(seat)
        while len(self._busy) > self._processes * self._num_seats:  # of matches that were left
            self._busy.pop(next(iter(self._busy))).end()
        return own

    def _started(self, seat: int) -> LineProcess:
        """Start a process for this seat. Raise LineFailed if it does not start as it should."""
        process = LineProcess(self._words, self._log, self._folder)
        try:
            self._greet(process, seat)
        except LineFailed:
            process.end()
            raise
        return process

    def _told(self, error: LineFailed) -> str:
        return f"{self._where}: {error} (its log: {self._log})"


def ids_in(memory: Floats32) -> npt.NDArray[np.int32]:
    """Return the numbers of matches [n] in the first column of memories [n, 1]."""
    return np.ascontiguousarray(memory[:, 0]).view(np.int32).copy()


def _clear(log: Path) -> None:
    """Remove a log that is empty."""
    with contextlib.suppress(OSError):
        if not log.stat().st_size:
            log.unlink()
