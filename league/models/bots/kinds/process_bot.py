"""Bots that are processes: one for each seat, from a match's first decision to its end, then for others.

A process that fails is ended; a match that goes on without one gets another.
"""

from __future__ import annotations

import contextlib
import itertools
import select
import time
import weakref
from abc import abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from league.cluster.runtime import available_cpus
from league.envs.spaces import ActionSpec
from league.models.actor import Actor, Chosen, Failed, Look
from league.models.bots.bot import UnknownBot, silent, waited_for
from league.models.bots.kinds.line_process import LineFailed, LineProcess, new_log
from storage.arrays import Floats, Floats32, Indices
from storage.records import EndReason

START_SECONDS = 30.0  # for the first answer of a process

# (lines to send, what reads each line of the answer and returns the action, or None before the last line)
Asked = tuple[str, Callable[[str], npt.NDArray | None]]


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
