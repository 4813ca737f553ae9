"""Programs as bots: processes that are asked in lines of JSON, as league/PROGRAMS.md has it.

A program has a process for each seat, from the first decision of a match to its end, and then for another
match. If it says that one process plays many matches, there is one. A process that fails is ended; a match
that goes on without one gets another.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import json
import select
import shlex
import shutil
import tempfile
import time
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from league.cluster.runtime import available_cpus
from league.envs.base import BatchedGame
from league.envs.spaces import ActionSpec, ObservationSpec
from league.models.actor import Actor, BadChoice, Chosen, Failed, Look
from league.models.bots.bot import UnknownBot, choices
from league.models.bots.kinds.line_process import LineFailed, LineProcess, new_log, sandboxed
from league.models.bots.settings import ProgramSettings
from storage.records import EndReason

PROTOCOL = 1
START_SECONDS = 30.0  # for the answer to `hello`
MOST_SHOWN = 80  # characters of a line in a message

_Ids = npt.NDArray[np.int32]


class ProgramBot(Actor):
    """Bot of a program. The memory of a seat holds the number of its match, from 1."""

    memory_size = 1  # the bits of a 32-bit integer
    wants_game = wants_end = True

    def __init__(
        self,
        name: str,
        env_id: str,
        settings: ProgramSettings,
        observation: ObservationSpec,
        action: ActionSpec,
    ) -> None:
        """Start it once. Raise UnknownBot if it does not start, or speaks another protocol."""
        self._where = f"bot '{name}'"
        self._settings, self._observation, self._action = settings, observation, action
        self._dtype = np.dtype(action.dtype)
        self._hello = {"type": "hello", "protocol": PROTOCOL, "game": env_id}
        self._log = new_log(name)
        self._words = shlex.split(settings.command)
        self._folder = tempfile.mkdtemp(prefix="league-program-") if settings.sandbox else None
        weakref.finalize(self, _clear, self._log, self._folder)
        self._processes = settings.processes or available_cpus()
        self._ids = itertools.count(1)
        self._busy: dict[int, tuple[int, LineProcess]] = {}  # by match; its seat. Oldest use first
        self._idle: dict[int, list[LineProcess]] = {}  # by seat
        self._shared: LineProcess | None = None
        self._many = self._text = False
        self._num_seats = 1
        try:
            if self._folder is not None:
                self._words = sandboxed(self._words, settings.memory_mib, settings.cpu_seconds)
            first = self._started(0)
        except LineFailed as error:
            raise UnknownBot(f"{self._where}: {settings.command}: {error}; its log: {self._log}") from None
        if self._many:
            self._shared = first
        else:
            self._idle[0] = [first]
            self.most_matches = self._processes

    def decide(self, look: Look, rng: np.random.Generator, temperature: float = 1.0) -> Chosen:
        """Decide as seat 0 of matches that nothing is known of."""
        return self._decide(None, np.zeros(len(look), np.int64), np.zeros(len(look), np.int64), look)

    def decide_at(
        self,
        game: BatchedGame,
        slot: npt.NDArray[np.int64],
        seat: npt.NDArray[np.int64],
        look: Look,
        rng: np.random.Generator,
        temperature: float = 1.0,
    ) -> Chosen:
        self._num_seats = game.num_seats
        return self._decide(game, slot, seat, look)

    def over(
        self,
        memory: npt.NDArray[np.float32],
        seat: npt.NDArray[np.int64],
        score: npt.NDArray[np.float64],
        reason: npt.NDArray[np.int8],
    ) -> None:
        """Tell the program the results, and free its processes for other matches."""
        for match, own, scores, ended in zip(_ids(memory), seat.tolist(), score, reason, strict=True):
            process = self._shared if self._many else self._busy.pop(int(match), (0, None))[1]
            if process is None or not match:
                continue
            end = {"type": "end", "match": int(match), "seat": own, "score": float(scores[own])}
            end |= {"scores": scores.tolist(), "reason": EndReason(ended).name.lower()}
            try:
                process.send(_line(end))
            except LineFailed:  # it is not needed any more
                self._drop(process)
            else:
                if not self._many:
                    self._idle.setdefault(own, []).append(process)

    # ------------------------------------------------------------------ decisions

    def _decide(
        self,
        game: BatchedGame | None,
        slot: npt.NDArray[np.int64],
        seat: npt.NDArray[np.int64],
        look: Look,
    ) -> Chosen:
        n, width = len(look), self._action.shape
        memory = np.zeros((n, 1), dtype=np.float32) if look.memory is None else look.memory
        ids = _ids(memory)
        for row in np.flatnonzero(ids == 0).tolist():
            ids[row] = next(self._ids) % 2**31
        memory[:] = ids.view(np.float32)[:, None]
        asked = [
            self._question(game, int(slot[row]), int(seat[row]), look.row(row), int(ids[row]))
            for row in range(n)
        ]
        action = np.zeros((n, *width), dtype=self._dtype)
        failed: dict[int, Failed] = {}
        seconds = np.zeros(n)
        left = np.full(n, np.inf) if look.seconds is None else look.seconds
        if self._many:
            self._ask_one(ids, asked, action, left, seconds)
        else:
            self._ask_each(ids, seat, asked, action, left, seconds, failed)
        log_prob, certain = np.zeros(n, dtype=np.float32), np.zeros(n, dtype=np.bool_)
        return Chosen(action, log_prob, look.observation, action, certain, failed, seconds)

    def _question(self, game: BatchedGame | None, slot: int, seat: int, look: Look, match: int) -> str:
        legal: Any = None
        if self._action.kind != "continuous":
            legal = [np.flatnonzero(look.mask[0, start:end]).tolist() for start, end in choices(self._action)]
            legal = legal[0] if self._action.kind == "discrete" else legal
        left = None if look.seconds is None or np.isinf(look.seconds[0]) else round(float(look.seconds[0]), 3)
        asked: dict[str, Any] = {"type": "act", "match": match, "seat": seat, "legal": legal, "seconds": left}
        if self._text:
            return _line(asked | {"text": "" if game is None else game.render(slot, seat)})
        return _line(asked | {"observation": look.observation[0].ravel().tolist()})

    def _ask_one(
        self,
        ids: _Ids,
        asked: list[str],
        action: npt.NDArray,
        left: npt.NDArray[np.float64],
        seconds: npt.NDArray[np.float64],
    ) -> None:
        """Ask the process that plays all matches. Raise BadChoice if it fails at any of them."""
        row_of = {int(match): row for row, match in enumerate(ids)}
        try:
            if self._shared is None or not self._shared.lives:
                self._shared = self._started(None)
            for line in asked:
                self._shared.send(line)
            before = time.monotonic()
            while row_of:
                answer = self._shared.line(min(left[row] for row in row_of.values()))
                match, chosen = self._read(answer, row_of)
                row, now = row_of.pop(match), time.monotonic()
                action[row], seconds[row], before = chosen, now - before, now
        except LineFailed as error:
            self._drop(self._shared)
            self._shared = None
            raise BadChoice(self._told(error), error.reason, costly=True) from None

    def _ask_each(
        self,
        ids: _Ids,
        seat: npt.NDArray[np.int64],
        asked: list[str],
        action: npt.NDArray,
        left: npt.NDArray[np.float64],
        seconds: npt.NDArray[np.float64],
        failed: dict[int, Failed],
    ) -> None:
        """Ask a process for each row, all at once."""
        waits: dict[int, tuple[LineProcess, float]] = {}  # by row; since when

        def fail(row: int, error: LineFailed) -> None:
            failed[row] = Failed(error.reason, self._told(error))
            self._drop(self._busy.pop(int(ids[row]), (0, None))[1])

        for row, line in enumerate(asked):
            try:
                process = self._process_of(int(ids[row]), int(seat[row]))
                process.send(line)
                waits[row] = process, time.monotonic()
            except LineFailed as error:
                fail(row, error)
        while waits:
            now = time.monotonic()
            for row, (process, since) in list(waits.items()):
                seconds[row] = now - since
                try:
                    if (answer := process.take()) is not None:
                        _, action[row] = self._read(answer, {int(ids[row]): row})
                        del waits[row]
                    elif seconds[row] > left[row]:
                        raise LineFailed("did not answer in time", EndReason.TIME)
                except LineFailed as error:
                    del waits[row]
                    fail(row, error)
            if waits:
                rest = min(left[row] - (now - since) for row, (_, since) in waits.items())
                poll = select.poll()  # unlike `select`, of any number of files
                for process, _ in waits.values():
                    poll.register(process.out, select.POLLIN)
                poll.poll(max(1.0, min(rest, 1.0) * 1e3))

    def _read(self, line: str, row_of: dict[int, int]) -> tuple[int, npt.NDArray]:
        """Return match and action of an answer. Raise LineFailed if it is not of one of these matches."""
        try:
            found = json.loads(line)
            kind, match = found["type"], found.get("match", next(iter(row_of)))
            if kind == "act" and match in row_of:
                action = np.array(found["action"])
                if action.shape == self._action.shape and np.can_cast(action.dtype, self._dtype, "same_kind"):
                    return match, action.astype(self._dtype)
                line = f"the action {json.dumps(found['action'])}"
            elif kind == "act":
                line = "a match that it was not asked for"
        except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
            pass
        raise LineFailed(
            f"it answered: {line[:MOST_SHOWN]}; expected a line such as "
            '{"type": "act", "match": 1, "action": 3}',
            EndReason.ILLEGAL_ACTION,
        )

    # ------------------------------------------------------------------ processes

    def _process_of(self, match: int, seat: int) -> LineProcess:
        """Return the process that plays this match in this seat. Raise LineFailed if none can be started."""
        own = self._busy.pop(match, (seat, None))[1]
        idle = self._idle.setdefault(seat, [])
        while own is None and idle:
            process = idle.pop()
            own = process if process.lives else None
        self._busy[match] = seat, own or self._started(seat)
        while len(self._busy) > self._processes * self._num_seats:  # of matches that were left
            self._drop(self._busy.pop(next(iter(self._busy)))[1])
        return self._busy[match][1]

    def _started(self, seat: int | None) -> LineProcess:
        """Start a process for this seat, or for all. Raise LineFailed if it does not start, or UnknownBot."""
        process = LineProcess(self._words, self._log, self._folder)
        shown = dataclasses.asdict(self._observation)
        action = dataclasses.asdict(self._action)
        with contextlib.suppress(LineFailed):  # it may have ended with a word
            process.send(_line(self._hello | {"seat": seat, "observation": shown, "action": action}))
        line = process.line(START_SECONDS)
        try:
            found = json.loads(line)
            kind, protocol = found["type"], found["protocol"]
        except (ValueError, TypeError, KeyError, RecursionError):
            kind, protocol = "", None
        if kind != "hello" or protocol != PROTOCOL:
            process.end()
            said = f"protocol {protocol}" if kind == "hello" else repr(line[:MOST_SHOWN])
            raise LineFailed(f'found {said}, expected {{"type": "hello", "protocol": {PROTOCOL}}}')
        self._many, self._text = found.get("many") is True, found.get("observation") == "text"
        return process

    def _drop(self, process: LineProcess | None) -> None:
        if process is not None:
            process.end()

    def _told(self, error: LineFailed) -> str:
        return f"{self._where}: {error} (its log: {self._log})"


def _clear(log: Path, folder: str | None) -> None:
    """Remove a log that is empty, and the folder of a sandbox."""
    with contextlib.suppress(OSError):
        if not log.stat().st_size:
            log.unlink()
    if folder is not None:
        shutil.rmtree(folder, ignore_errors=True)


def _ids(memory: npt.NDArray[np.float32]) -> _Ids:
    """Return the numbers of matches [n] in the first column of memories [n, 1]."""
    return np.ascontiguousarray(memory[:, 0]).view(np.int32).copy()


def _line(fields: dict[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))
